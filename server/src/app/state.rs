//! What handlers share, and the options that a server is started with.

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;
use serde_json::Value;

use crate::{
    bodies::Bodies,
    config::{Config, Lister, ModelReader},
    conversations::Conversations,
    errors::Failure,
    http::media::{Media, MediaHost},
    keys::{JwtOptions, KeySource, Keys},
    kserve::{SequenceLimits, Sequences, Statistics},
    listen::{Limits, TlsFiles},
    metrics::Metrics,
    observe::trace::{TraceOptions, Traces},
    run::Runner,
    servable::{Keeper, ReloadPolicy, Servables, Settings},
    stage::Stage,
};

/// The options of a server. [`Options::new`] has the usual times; by default there are none.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What to serve.
    pub config: Config,
    /// The file that [`Options::config`] was read from. It is read again when the server reloads;
    /// without it only graphs and models are.
    pub config_path: Option<PathBuf>,
    /// Lists the graphs anew when the server reloads, where no file does.
    pub lister: Option<Lister>,
    /// Reads a model again that a client loads by its name, where models lie in a repository.
    pub model_reader: Option<ModelReader>,
    /// True if requests for generation and the like may name no graph, or none that is served.
    pub any_model: bool,
    /// The graph that answers them, where several could.
    pub default_model: Option<String>,
    /// Maximum number of graphs in memory of those that are loaded on demand.
    pub models_max: Option<usize>,
    /// How often files are polled for changes that the system does not report. Zero: files are not
    /// watched, and the server reloads only on request.
    pub poll: Duration,
    /// Where to listen; port 0 takes a free one.
    pub addresses: Vec<SocketAddr>,
    /// A path in the file system to listen at, too.
    pub unix_socket: Option<PathBuf>,
    /// A beginning of paths that requests may have before those of the server: `/llm`.
    pub api_prefix: Option<String>,
    /// Where to listen for gRPC; nowhere if empty.
    pub grpc: Vec<SocketAddr>,
    /// The token that ends the texts of predictions, which then come in pieces unless a request
    /// says otherwise.
    pub end_of_stream_token: Option<String>,
    /// The longest silence in a stream of events, which a comment then breaks.
    pub keep_alive: Duration,
    /// How long the server goes on to serve when it is told to stop, while it says that it is not
    /// ready.
    pub drain_delay: Duration,
    /// How long running requests may take to end when the server stops.
    pub grace: Duration,
    /// The longest body of a request, in bytes.
    pub max_body_bytes: usize,
    /// The most bytes of all bodies that are in memory at once, at least those of one.
    pub max_bodies_bytes: usize,
    /// Where to listen for probes, scrapers and operators, apart from clients. Where this is empty,
    /// they ask at [`Options::addresses`].
    pub management: Vec<SocketAddr>,
    /// Addresses for scrapers alone; none if empty.
    pub metrics: Vec<SocketAddr>,
    /// Addresses for gRPC of operators, apart from clients; none if empty.
    pub grpc_management: Vec<SocketAddr>,
    /// How many connections there may be, and how long clients may take.
    pub limits: Limits,
    /// How many sequences of requests there may be.
    pub sequences: SequenceLimits,
    /// Names under which the server is asked, besides those that it has anyway; `*` is any,
    /// `*.name` any that ends so.
    pub allowed_hosts: Vec<String>,
    /// Origins whose pages may send requests and read answers; `*` is any, `scheme://host:*` one
    /// with any port.
    pub allowed_origins: Vec<String>,
    /// Whether there is a page at `/`.
    pub web: bool,
    /// Whether there are metrics at `/metrics`.
    pub serves_metrics: bool,
    /// The longest whole answer of TorchServe's API, in bytes; without it, any.
    pub max_response_bytes: Option<usize>,
    /// Whether operators may write the files of graphs.
    pub graph_edits: bool,
    /// Whether requests may bring chat templates of their own.
    pub trust_request_chat_template: bool,
    /// The folder whose folders operators may register as graphs; without it, none.
    pub registration: Option<PathBuf>,
    /// The folder that operators may load adapters from while the server runs; without it, none.
    pub runtime_lora: Option<PathBuf>,
    /// Whether graphs whose model is missing are loaded once it is there.
    pub wait_for_models: bool,
    /// How long a request for a graph that is not available waits for it to be loaded.
    pub load_wait: Duration,
    /// After which time without a request a graph is unloaded that does not say so itself.
    pub idle_unload: Option<Duration>,
    /// What is done where there is no memory for old and new models at once.
    pub reload_policy: ReloadPolicy,
    /// The folder in which the last good configuration is kept; without it, none is.
    pub state_dir: Option<PathBuf>,
    /// Whether [`Options::config`] is what was kept there.
    pub rolled_back: bool,
    /// Where spans go; without it there are none.
    pub traces: Option<TraceOptions>,
    /// The accepted keys; without, requests need none.
    pub keys: Option<KeySource>,
    /// The issuer whose tokens are accepted like keys; without, no tokens are.
    pub jwt: Option<JwtOptions>,
    /// The certificate of the server; without, it speaks plain HTTP.
    pub tls: Option<TlsFiles>,
    /// Hosts that images of requests are fetched from. Their names have to stand for public
    /// addresses; what is an address itself may be any.
    pub media_hosts: Vec<MediaHost>,
    /// The folder whose images requests may name by their paths, without symbolic links; without it,
    /// none.
    pub media_folder: Option<PathBuf>,
}

/// The usual [`Options::max_body_bytes`]: room for a prompt that fills a context of a million
/// tokens.
const MAX_BODY_BYTES: usize = 8 << 20;

/// The usual [`Options::max_bodies_bytes`].
const MAX_BODIES_BYTES: usize = 64 << 20;

impl Options {
    /// Serves `config` at `address`, with the usual times.
    pub fn new(config: Config, address: SocketAddr) -> Self {
        Self {
            config,
            poll: Duration::from_secs(5),
            addresses: vec![address],
            keep_alive: Duration::from_secs(15),
            grace: Duration::from_secs(5),
            max_body_bytes: MAX_BODY_BYTES,
            max_bodies_bytes: MAX_BODIES_BYTES,
            web: true,
            serves_metrics: true,
            load_wait: Duration::from_secs(10),
            ..Self::default()
        }
    }

    /// The options that are about graphs.
    pub(crate) fn graph_settings(&self) -> Settings {
        Settings {
            config: self.config.clone(),
            config_path: self.config_path.clone(),
            lister: self.lister.clone(),
            model_reader: self.model_reader.clone(),
            models_max: self.models_max,
            waits: self.wait_for_models,
            idle_unload: self.idle_unload,
            policy: self.reload_policy,
            keeper: self.keeper(),
            rolled_back: self.rolled_back,
        }
    }

    /// What keeps the configuration, where there is one in a file, and a place.
    fn keeper(&self) -> Option<Keeper> {
        let (folder, source) = (self.state_dir.as_ref()?, self.config_path.as_ref()?);
        let keeper = Keeper::new(folder, source).inspect_err(|error| {
            let folder = folder.display();
            tracing::info!("good configurations are not kept: cannot use `{folder}`: {error}");
        });
        keeper.ok()
    }
}

/// What handlers share.
pub(crate) struct App {
    pub(crate) options: Options,
    pub(crate) runner: Arc<Runner>,
    /// `None` if requests need no key.
    pub(crate) keys: Option<Arc<Keys>>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) statistics: Statistics,
    pub(crate) sequences: Arc<Sequences>,
    pub(crate) conversations: Arc<Conversations>,
    /// What sends spans, where they are collected.
    pub(crate) traces: Option<Traces>,
    pub(crate) bodies: Arc<Bodies>,
    /// What fetches images, if there are hosts that it may fetch from.
    pub(crate) media: Option<Media>,
    pub(crate) document: Document,
    /// Held by the operator who changes the configuration.
    pub(crate) changing: Arc<tokio::sync::Mutex<()>>,
    pub(crate) started: Instant,
}

impl App {
    /// The graphs that are served now. A request asks once, so that it sees one configuration.
    pub(crate) fn servables(&self) -> Arc<Servables> {
        self.runner.served.now()
    }

    /// Why requests would not be served now; `None` when they would.
    pub(crate) fn unready(&self) -> Option<String> {
        self.stopping().or_else(|| self.servables().unready())
    }

    /// Why no request would be served now, whatever it is for.
    pub(crate) fn stopping(&self) -> Option<String> {
        let stopping = *self.runner.stage.borrow() != Stage::Running;
        stopping.then(|| Failure::stopping().message)
    }
}

/// The `OpenAPI` document as it was last made, of these graphs and vocabularies.
#[derive(Default)]
pub(crate) struct Document(Mutex<Option<(Described, Bytes)>>);

impl Document {
    /// The document of what is described: the kept one, or what `make` makes.
    pub(crate) fn of(&self, described: &Described, make: impl FnOnce() -> Vec<u8>) -> Bytes {
        // Concurrent requests wait for the document instead of making one each.
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*kept {
            Some((of, document)) if of == described => document.clone(),
            _ => {
                let document = Bytes::from(make());
                *kept = Some((described.clone(), document.clone()));
                document
            }
        }
    }
}

/// What a document depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Described {
    /// The names of the graphs, and the endpoints of each.
    pub(crate) models: Vec<(String, Vec<&'static str>)>,
    /// A graph of tensors, and the body of a run of it.
    pub(crate) run: Option<(String, Value)>,
    /// The media that all models for chat read beside text: `image`, `audio`.
    pub(crate) reads: Vec<&'static str>,
    /// Sizes of the smallest vocabularies, of models that generate and of those that embed.
    pub(crate) vocabularies: [usize; 2],
}
