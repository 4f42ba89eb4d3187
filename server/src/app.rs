//! The composition root: the one place that builds the server, starts it and stops it.
//!
//! Listeners open before models load, so that probes and waiting clients are answered from the first moment.

use std::{
    io,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::serve::ListenerExt as _;
use graphmill_engine::Registry;
use tokio::{
    net::{TcpListener, TcpSocket},
    sync::watch,
    task::{JoinHandle, JoinSet},
};

use crate::{
    config::Config,
    http::bodies::Bodies,
    observe::{files, metrics::Metrics},
    servable::Servables,
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
    /// How long running requests may take to end when the server stops.
    pub grace: Duration,
    /// The longest body of a request, in bytes.
    pub max_body_bytes: usize,
    /// The most bytes of all bodies that are in memory at once, at least those of one.
    pub max_bodies_bytes: usize,
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
            grace: Duration::from_secs(5),
            max_body_bytes: MAX_BODY_BYTES,
            max_bodies_bytes: MAX_BODIES_BYTES,
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
    /// It takes no new request and lets the running ones end.
    Draining,
    /// It ends the running ones.
    Cut,
}

/// What handlers share.
pub(crate) struct App {
    pub(crate) options: Options,
    pub(crate) servables: Arc<Servables>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) bodies: Arc<Bodies>,
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

/// Connections that may wait to be accepted, if the system allows as many (`net.core.somaxconn`). One that finds no place tries
/// again after a second.
const BACKLOG: u32 = 4_096;

/// As [`TcpListener::bind`], which has room for 128 that wait.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    // A server can be started again while connections of the last one end. Elsewhere this means that two may listen.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// A running server. Dropping it aborts it; [`Server::stop`] ends it well.
pub struct Server {
    app: Arc<App>,
    addresses: Vec<SocketAddr>,
    stage: watch::Sender<Stage>,
    serving: JoinSet<()>,
    loading: JoinHandle<()>,
}

/// How long requests that were told to end may take to do so.
const CUT_GRACE: Duration = Duration::from_secs(1);

impl Server {
    /// Opens the listeners and starts to load the graphs. To be called in a Tokio runtime.
    pub fn start(options: Options, registry: Registry) -> Result<Self, StartError> {
        let mut listeners = Vec::new();
        for &address in &options.addresses {
            let listener = listen(address);
            listeners.push(listener.map_err(|source| StartError::Listen { address, source })?);
        }
        let addresses = listeners
            .iter()
            .filter_map(|listener| listener.local_addr().ok())
            .collect();
        let (stage, stage_now) = watch::channel(Stage::Running);
        let servables = Arc::new(Servables::new(&options.config, registry));
        let app = Arc::new(App {
            bodies: Bodies::new(options.max_body_bytes, options.max_bodies_bytes),
            options,
            metrics: Arc::new(Metrics::new(&servables)),
            servables,
            started: Instant::now(),
            stage: stage_now,
        });
        let mut serving = JoinSet::new();
        for listener in listeners {
            // Tokens are small writes: waiting to fill a segment would hold each back.
            let listener = listener.tap_io(|stream| {
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!("TCP_NODELAY: {error}");
                }
            });
            let mut stage = app.stage.clone();
            let draining = async move {
                // Fails when the sender is gone, and the server with it.
                let _ = stage.wait_for(|stage| *stage >= Stage::Draining).await;
            };
            let service =
                axum::serve(listener, stack(Arc::clone(&app))).with_graceful_shutdown(draining);
            serving.spawn(async move {
                if let Err(error) = service.await {
                    tracing::error!("the listener failed: {error}");
                }
            });
        }
        tokio::spawn(files::watch(Arc::downgrade(&app.servables)));
        let loader = Arc::clone(&app);
        let loading = tokio::task::spawn_blocking(move || loader.servables.load());
        Ok(Self {
            app,
            addresses,
            stage,
            serving,
            loading,
        })
    }

    /// Where it listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Waits until each graph has been loaded or has failed; tells why the server is not ready, if it is not.
    pub async fn loaded(&mut self) -> Option<String> {
        if !self.loading.is_finished() {
            // Panics of a load are caught and kept as the state of the graph.
            let _ = (&mut self.loading).await;
        }
        self.app.unready()
    }

    /// Takes no new requests, waits for the running ones for [`Options::grace`], then ends them: each learns that the server
    /// stops. A graph that is being loaded is left to the end of the process.
    pub async fn stop(mut self) {
        let grace = self.app.options.grace;
        for (stage, patience) in [(Stage::Draining, grace), (Stage::Cut, CUT_GRACE)] {
            self.stage.send_replace(stage);
            let ended = async { while self.serving.join_next().await.is_some() {} };
            if tokio::time::timeout(patience, ended).await.is_ok() {
                return;
            }
            tracing::info!("requests are still running after {} s", patience.as_secs());
        }
        self.serving.abort_all();
    }
}
