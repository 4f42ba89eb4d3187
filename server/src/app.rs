//! The composition root: the one place that builds the server, starts it and stops it.
//!
//! Listeners open before models load, so that probes and waiting clients are answered from the first moment.

use std::{
    io,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use graphmill_engine::Registry;
use tokio::{
    net::TcpListener,
    sync::watch,
    task::{JoinHandle, JoinSet},
    time::{sleep, timeout},
};

use crate::{
    config::Config,
    http::{Side, api::Document, bodies::Bodies},
    listen::{self, Hall, Limits},
    observe::{files, metrics::Metrics},
    servable::{LOOK_EVERY, Servables},
    site::Site,
    stack::stack,
};

/// What a server is started with.
#[derive(Clone, Debug)]
pub struct Options {
    /// What to serve.
    pub config: Config,
    /// Where to listen; port 0 takes a free one.
    pub addresses: Vec<SocketAddr>,
    /// The longest silence in a stream of events, which a comment then breaks.
    pub keep_alive: Duration,
    /// How long the server goes on to serve when it is told to stop, while it says that it is not ready.
    pub drain_delay: Duration,
    /// How long running requests may take to end when the server stops.
    pub grace: Duration,
    /// The longest body of a request, in bytes.
    pub max_body_bytes: usize,
    /// The most bytes of all bodies that are in memory at once, at least those of one.
    pub max_bodies_bytes: usize,
    /// Where to listen for probes, scrapers and operators, apart from clients. Where this is empty, they ask at [`Options::addresses`].
    pub management: Vec<SocketAddr>,
    /// How many connections there may be, and how long clients may take.
    pub limits: Limits,
    /// Names under which the server is asked, besides those that it has anyway; `*` is any, `*.name` any that ends so.
    pub allowed_hosts: Vec<String>,
    /// Origins whose pages may send requests and read answers; `*` is any, `scheme://host:*` one with any port.
    pub allowed_origins: Vec<String>,
    /// Whether graphs whose model is missing are loaded once it is there.
    pub wait_for_models: bool,
}

/// The usual [`Options::max_body_bytes`]: room for a prompt that fills a context of a million tokens.
const MAX_BODY_BYTES: usize = 8 << 20;

/// The usual [`Options::max_bodies_bytes`].
const MAX_BODIES_BYTES: usize = 64 << 20;

impl Options {
    /// Serves `config` at `address`, with the usual times.
    pub fn new(config: Config, address: SocketAddr) -> Self {
        Self {
            config,
            addresses: vec![address],
            keep_alive: Duration::from_secs(15),
            drain_delay: Duration::ZERO,
            grace: Duration::from_secs(5),
            max_body_bytes: MAX_BODY_BYTES,
            max_bodies_bytes: MAX_BODIES_BYTES,
            management: Vec::new(),
            limits: Limits::default(),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            wait_for_models: false,
        }
    }
}

/// Why a server could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why, such as that another program has it.
        #[source]
        source: io::Error,
    },
}

/// How far the server is from its end.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// It serves.
    Running,
    /// It serves, but says that it is not ready, so that no more requests are sent here.
    Leaving,
    /// It takes no new request and lets the running ones end.
    Draining,
    /// It ends the running ones.
    Cut,
}

/// Waits until the server ends running requests, or is gone.
pub(crate) async fn cut(stage: &mut watch::Receiver<Stage>) {
    // Fails when the server was dropped without a stop, which ends requests too.
    let _ = stage.wait_for(|stage| *stage == Stage::Cut).await;
}

/// What handlers share.
pub(crate) struct App {
    pub(crate) options: Options,
    pub(crate) servables: Arc<Servables>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) bodies: Arc<Bodies>,
    pub(crate) document: Document,
    pub(crate) started: Instant,
    pub(crate) stage: watch::Receiver<Stage>,
}

impl App {
    /// Why requests would not be served now; `None` when they would.
    pub(crate) fn unready(&self) -> Option<String> {
        self.stopping().or_else(|| self.servables.unready())
    }

    /// Why no request would be served now, whatever it is for.
    pub(crate) fn stopping(&self) -> Option<String> {
        let stopping = *self.stage.borrow() != Stage::Running;
        stopping.then(|| "the server is stopping".to_owned())
    }
}

/// A running server. Dropping it aborts it; [`Server::stop`] ends it well.
pub struct Server {
    app: Arc<App>,
    addresses: Vec<SocketAddr>,
    management_addresses: Vec<SocketAddr>,
    stage: watch::Sender<Stage>,
    clients: Arc<Hall>,
    operators: Arc<Hall>,
    /// Accepts connections of clients.
    serving: JoinSet<()>,
    /// Accepts those of operators, and watches all.
    _managing: JoinSet<()>,
    loading: JoinHandle<()>,
    /// Looks for files that graphs wait for, for as long as the server runs.
    _looking: JoinSet<()>,
}

/// Loads graphs once the files that they wait for are there.
async fn look_for_models(app: Arc<App>) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let app = Arc::clone(&app);
        let looked = tokio::task::spawn_blocking(move || app.servables.look_again());
        // Panics of a load are caught.
        let _ = looked.await;
    }
}

/// How long requests that were told to end may take to do so.
pub(crate) const CUT_GRACE: Duration = Duration::from_secs(1);

impl Server {
    /// Opens the listeners and starts to load the graphs. To be called in a Tokio runtime.
    pub fn start(options: Options, registry: Registry) -> Result<Self, StartError> {
        let (listeners, addresses) = listen_at(&options.addresses)?;
        let (management_listeners, management_addresses) = listen_at(&options.management)?;
        let hosts = &options.allowed_hosts;
        let site_at = |addresses, origins| Site::new(addresses, hosts, origins);
        let public_site = site_at(&addresses, &options.allowed_origins);
        let management_site = site_at(&management_addresses, &[]);
        let clients = Arc::new(Hall::new(options.limits.clone()));
        let operators = Arc::new(Hall::new(options.limits.of_management()));
        let halls = [
            ("clients", Arc::clone(&clients)),
            ("operators", Arc::clone(&operators)),
        ];
        let (stage, stage_now) = watch::channel(Stage::Running);
        let servables = Arc::new(Servables::new(
            &options.config,
            registry,
            options.wait_for_models,
        ));
        let app = Arc::new(App {
            bodies: Bodies::new(options.max_body_bytes, options.max_bodies_bytes),
            document: Document::default(),
            options,
            metrics: Arc::new(Metrics::new(&servables, halls)),
            servables,
            started: Instant::now(),
            stage: stage_now,
        });
        let audience = if management_listeners.is_empty() {
            Side::Both
        } else {
            Side::Public
        };
        let public = stack(&app, audience, public_site);
        let mut serving = JoinSet::new();
        for listener in listeners {
            serving.spawn(listen::accept(
                listener,
                Arc::clone(&clients),
                public.clone(),
            ));
        }
        let management = stack(&app, Side::Management, management_site);
        let mut managing = JoinSet::new();
        for listener in management_listeners {
            managing.spawn(listen::accept(
                listener,
                Arc::clone(&operators),
                management.clone(),
            ));
        }
        for hall in [&clients, &operators] {
            managing.spawn(Arc::clone(hall).watch());
        }
        tokio::spawn(files::watch(Arc::downgrade(&app.servables)));
        let loader = Arc::clone(&app);
        let loading = tokio::task::spawn_blocking(move || loader.servables.load());
        let mut looking = JoinSet::new();
        if app.options.wait_for_models {
            looking.spawn(look_for_models(Arc::clone(&app)));
        }
        Ok(Self {
            _looking: looking,
            app,
            addresses,
            management_addresses,
            stage,
            clients,
            operators,
            serving,
            _managing: managing,
            loading,
        })
    }

    /// Where it listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Where it listens for operators, if apart.
    pub fn management_addresses(&self) -> &[SocketAddr] {
        &self.management_addresses
    }

    /// Why no graph will ever answer, if so: none is listed, or none could be loaded.
    pub fn nothing_to_serve(&self) -> Option<String> {
        self.app.servables.nothing_to_serve()
    }

    /// Waits until each graph has been loaded or has failed; tells why the server is not ready, if it is not.
    pub async fn loaded(&mut self) -> Option<String> {
        if !self.loading.is_finished() {
            // Panics of a load are caught and kept as the state of the graph.
            let _ = (&mut self.loading).await;
        }
        self.app.unready()
    }

    /// Says for [`Options::drain_delay`] that it is not ready, takes no new requests then, waits for the running ones for
    /// [`Options::grace`], and ends them: each learns that the server stops. A graph that is being loaded is left to the end of the
    /// process.
    pub async fn stop(mut self) {
        self.end().await;
    }

    /// As [`Server::stop`], for a process that ends without waiting for what the graphs own.
    pub(crate) async fn end(&mut self) {
        let Options {
            drain_delay, grace, ..
        } = self.app.options;
        self.stage.send_replace(Stage::Leaving);
        sleep(drain_delay).await;
        self.stage.send_replace(Stage::Draining);
        self.serving.shutdown().await;
        self.clients.finish();
        if timeout(grace, self.clients.empty()).await.is_err() {
            tracing::info!("requests are still running after {} s", grace.as_secs());
            self.stage.send_replace(Stage::Cut);
            if timeout(CUT_GRACE, self.clients.empty()).await.is_err() {
                tracing::warn!("requests do not end");
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.clients.cut();
        self.operators.cut();
    }
}

/// Listens at each address; says where, as port 0 is any.
fn listen_at(addresses: &[SocketAddr]) -> Result<(Vec<TcpListener>, Vec<SocketAddr>), StartError> {
    let listen = |address| {
        let opened = listen::listen(address).and_then(|it| Ok((it.local_addr()?, it)));
        let (at, listener) = opened.map_err(|source| StartError::Listen { address, source })?;
        Ok((listener, at))
    };
    addresses.iter().copied().map(listen).collect()
}
