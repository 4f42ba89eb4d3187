//! The options of a server, and the state that its handlers share.

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use parking_lot::Mutex;
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
    run::Runner,
    servable::{Keeper, ReloadPolicy, Servables, Settings},
    shutdown::Stage,
    telemetry::trace::{TraceOptions, Traces},
};

/// The options of a server. [`Options::new`] sets the usual timeouts; `Options::default()` sets
/// none.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The graphs to serve, as a configuration file or the command line lists them.
    pub config: Config,
    /// File that [`Options::config`] was read from, read again on reload. Without it, a reload
    /// reads only the graph files and models again.
    pub config_path: Option<PathBuf>,
    /// Lists the graphs again on reload, for a server without a configuration file.
    pub lister: Option<Lister>,
    /// Reads a model of a repository again when a client loads it by its name.
    pub model_reader: Option<ModelReader>,
    /// True if requests may name no graph, or one that is not served, as long as one graph can
    /// answer.
    pub any_model: bool,
    /// Graph that answers such requests where several could.
    pub default_model: Option<String>,
    /// Maximum number of on-demand graphs in memory; no limit if `None`.
    pub models_max: Option<usize>,
    /// Interval for polling files whose changes the system does not report. With zero, files are
    /// not watched, and the server reloads only on request.
    pub poll: Duration,
    /// Addresses of the REST API. Port 0 chooses a free port.
    pub addresses: Vec<SocketAddr>,
    /// Path of a Unix socket that also serves the REST API.
    pub unix_socket: Option<PathBuf>,
    /// Prefix that paths of requests may have, such as `/llm`.
    pub api_prefix: Option<String>,
    /// Addresses of the gRPC API; off if empty.
    pub grpc: Vec<SocketAddr>,
    /// Token that ends the text of a prediction. With it, predictions are streamed unless a request
    /// has `stream=false`.
    pub end_of_stream_token: Option<String>,
    /// Maximum silence in an event stream. A comment is sent then.
    pub keep_alive: Duration,
    /// Time to keep serving after a signal to stop, while reporting not ready.
    pub drain_delay: Duration,
    /// Time for running requests to end when the server stops. They are aborted then.
    pub grace: Duration,
    /// Maximum size of a request body, in bytes.
    pub max_body_bytes: usize,
    /// Maximum size of all request bodies in memory, in bytes; at least
    /// [`Options::max_body_bytes`].
    pub max_bodies_bytes: usize,
    /// Separate addresses for probes, scrapers and operators. If empty, [`Options::addresses`]
    /// serves them.
    pub management: Vec<SocketAddr>,
    /// Addresses that serve `/metrics` alone; none if empty.
    pub metrics: Vec<SocketAddr>,
    /// Separate gRPC addresses for operators; none if empty.
    pub grpc_management: Vec<SocketAddr>,
    /// Maximum number of connections, and timeouts of clients.
    pub limits: Limits,
    /// Maximum number and idle time of sequences of requests.
    pub sequences: SequenceLimits,
    /// Additional host names that clients may use: `*` for any, `*.name` for any that ends so.
    pub allowed_hosts: Vec<String>,
    /// Origins whose pages may send requests and read answers: `*` for any, `scheme://host:*` for
    /// any port.
    pub allowed_origins: Vec<String>,
    /// True to serve the page at `/`.
    pub web: bool,
    /// True to serve metrics at `/metrics`.
    pub serves_metrics: bool,
    /// Maximum size of an unstreamed answer of TorchServe's API, in bytes; no limit if `None`.
    pub max_response_bytes: Option<usize>,
    /// True if operators may write graph files.
    pub graph_edits: bool,
    /// True if requests may contain chat templates.
    pub trust_request_chat_template: bool,
    /// Folder whose subfolders operators may register as graphs; `None` forbids it.
    pub registration: Option<PathBuf>,
    /// Folder from which operators may load adapters while the server runs; `None` forbids it.
    pub runtime_lora: Option<PathBuf>,
    /// True to load graphs whose model is missing as soon as it is there.
    pub wait_for_models: bool,
    /// Maximum time that a request waits for its graph to be loaded.
    pub load_wait: Duration,
    /// Idle time after which a graph without its own setting is unloaded; `None` keeps it.
    pub idle_unload: Option<Duration>,
    /// Behavior of a reload if there is no memory for old and new models at once.
    pub reload_policy: ReloadPolicy,
    /// Folder for the last good configuration; `None` keeps none.
    pub state_dir: Option<PathBuf>,
    /// True if [`Options::config`] was read from there.
    pub rolled_back: bool,
    /// Destination of spans; `None` sends none.
    pub traces: Option<TraceOptions>,
    /// Accepted keys. With `None`, requests need no key.
    pub keys: Option<KeySource>,
    /// Issuer whose tokens are accepted in place of keys; `None` accepts no tokens.
    pub jwt: Option<JwtOptions>,
    /// Certificate of the server; plain HTTP if `None`.
    pub tls: Option<TlsFiles>,
    /// Hosts from which images of requests may be fetched. Names must resolve to public addresses;
    /// IP addresses may be private.
    pub media_hosts: Vec<MediaHost>,
    /// Folder of images that requests may name by path. Symbolic links are not followed. `None`
    /// forbids paths.
    pub media_folder: Option<PathBuf>,
}

/// Default of [`Options::max_body_bytes`]: a prompt that fills a context of a million tokens.
const MAX_BODY_BYTES: usize = 8 << 20;

/// Default of [`Options::max_bodies_bytes`], eight bodies of maximum size.
const MAX_BODIES_BYTES: usize = 64 << 20;

impl Options {
    /// Serves `config` at `address`, with the usual timeouts.
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

    /// Returns the options for loading and replacing graphs.
    pub(crate) fn graph_settings(&self) -> Settings {
        Settings {
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

    /// Returns the keeper of good configurations, if there is a configuration file and a folder for
    /// them.
    fn keeper(&self) -> Option<Keeper> {
        let (folder, source) = (self.state_dir.as_ref()?, self.config_path.as_ref()?);
        let keeper = Keeper::new(folder, source).inspect_err(|error| {
            let folder = folder.display();
            tracing::info!("good configurations are not stored: cannot use `{folder}`: {error}");
        });
        keeper.ok()
    }
}

/// The state that all handlers share.
pub(crate) struct App {
    pub(crate) options: Options,
    pub(crate) runner: Arc<Runner>,
    /// Accepted keys; `None` if requests need no key.
    pub(crate) keys: Option<Arc<Keys>>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) statistics: Statistics,
    pub(crate) sequences: Arc<Sequences>,
    pub(crate) conversations: Arc<Conversations>,
    /// Sender of spans; `None` if they are not collected.
    pub(crate) traces: Option<Traces>,
    pub(crate) bodies: Arc<Bodies>,
    /// Fetcher of images; `None` if no host is allowed.
    pub(crate) media: Option<Media>,
    pub(crate) document: ApiDocument,
    /// Held by the operator that changes the configuration, so that changes do not overlap.
    pub(crate) changing: Arc<tokio::sync::Mutex<()>>,
    pub(crate) started: Instant,
}

impl App {
    /// Returns the graphs that are served now. A request calls it once and so sees one
    /// configuration.
    pub(crate) fn servables(&self) -> Arc<Servables> {
        self.runner.served.now()
    }

    /// Returns the reason why the server is not ready; `None` if it is.
    pub(crate) fn unready(&self) -> Option<String> {
        self.stopping().or_else(|| self.servables().unready())
    }

    /// Returns the reason why the server takes no requests any more: it is stopping. `None` while
    /// it runs.
    pub(crate) fn stopping(&self) -> Option<String> {
        let stopping = *self.runner.stage.borrow() != Stage::Running;
        stopping.then(|| Failure::stopping().message)
    }
}

/// The last generated `OpenAPI` document, and the data that it was made from.
#[derive(Default)]
pub(crate) struct ApiDocument(Mutex<Option<(DocumentInputs, Bytes)>>);

impl ApiDocument {
    /// Returns the stored document if it describes `described`, else the one that `make` generates.
    pub(crate) fn get_or_make(
        &self,
        described: &DocumentInputs,
        make: impl FnOnce() -> Vec<u8>,
    ) -> Bytes {
        // Concurrent requests wait for one document instead of generating one each.
        let mut kept = self.0.lock();
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

/// The data that an `OpenAPI` document depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DocumentInputs {
    /// Names of the graphs, each with its endpoints, which are empty if they are not known.
    pub(crate) models: Vec<(String, Vec<&'static str>)>,
    /// Name of a graph of tensors, and an example body for it.
    pub(crate) run: Option<(String, Value)>,
    /// Media that every chat model reads besides text: `image`, `audio`.
    pub(crate) reads: Vec<&'static str>,
    /// Sizes of the smallest vocabularies: of models that generate, and of models that embed.
    pub(crate) vocabularies: [usize; 2],
}
