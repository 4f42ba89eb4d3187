//! The composition root: the one place that builds the server, starts it and stops it.
//!
//! Listeners open before models load, so that probes and waiting clients are answered from the
//! first moment.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use axum::Router;
use graphmill_engine::Registry;
use tokio::{
    net::TcpListener,
    sync::watch,
    task::{JoinHandle, JoinSet},
    time::{sleep, timeout},
};

mod stack;
pub(crate) mod state;

use crate::{
    app::state::{ApiDocument, App, Options},
    bodies::Bodies,
    http::{Side, media::Media},
    http_client,
    keys::{self, KeyError, Keys},
    kserve::{Sequences, Statistics},
    listen::{self, Connections, Tls, TlsError, UnixSocket},
    metrics::Metrics,
    origin_checks::SitePolicy,
    run::Runner,
    servable::{self, ServedGraphs},
    sessions::Sessions,
    shutdown::Stage,
    telemetry::trace::Traces,
};

/// The error of a server that could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Address of the REST, gRPC, management or metrics API.
        address: SocketAddr,
        /// The reason, such as that another program has it.
        #[source]
        source: io::Error,
    },
    /// A Unix socket cannot be created.
    #[error("cannot listen at `{}` (--unix_socket): {source}", path.display())]
    UnixSocket {
        /// Path of the socket in the file system.
        path: PathBuf,
        /// The reason, such as that another program uses it.
        #[source]
        source: io::Error,
    },
    /// The options for spans cannot be used.
    #[error("cannot send traces: {0}")]
    Traces(String),
    /// The keys cannot be read.
    #[error(transparent)]
    Keys(#[from] KeyError),
    /// The certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Images cannot be fetched because the machine has no CA certificates.
    #[error("cannot fetch images (--allowed_media_domains): {}", http_client::reason(.0))]
    Media(#[source] reqwest::Error),
}

/// A running server. Dropping it aborts all requests; [`Server::stop`] ends it in order.
pub struct Server {
    app: Arc<App>,
    addresses: Vec<SocketAddr>,
    grpc_addresses: Vec<SocketAddr>,
    grpc_management_addresses: Vec<SocketAddr>,
    management_addresses: Vec<SocketAddr>,
    metrics_addresses: Vec<SocketAddr>,
    stage: watch::Sender<Stage>,
    clients: Arc<Connections>,
    operators: Arc<Connections>,
    /// Tasks that accept connections of clients, aborted when the server stops.
    serving: JoinSet<()>,
    /// Tasks that accept connections of operators, and watch connections and sequences.
    _managing: JoinSet<()>,
    loading: JoinHandle<()>,
    /// Tasks that reload changed files, and load graphs whose files were missing.
    _looking: JoinSet<()>,
}

/// Reloads the configuration of a server.
#[derive(Clone)]
pub struct Reloader(Arc<ServedGraphs>);

impl Reloader {
    /// Reads the configuration again, as SIGHUP demands, and replaces the present one if all of its
    /// graphs can be served. The result is in the log.
    pub async fn reload(&self) {
        let served = Arc::clone(&self.0);
        let reloaded =
            tokio::task::spawn_blocking(move || served.reload_for(None, Some("SIGHUP"))).await;
        if let Ok(Ok(changes)) = reloaded
            && changes.is_empty()
        {
            tracing::info!("no changes in the configuration");
        }
    }
}

/// Time for aborted requests to end.
pub(crate) const CUT_GRACE: Duration = Duration::from_secs(1);

/// Time for the collector to accept the last spans.
pub(crate) const SPANS_GRACE: Duration = Duration::from_secs(2);

impl Server {
    /// Opens the listeners and starts to load the graphs. Must be called in a Tokio runtime.
    pub fn start(options: Options, registry: Registry) -> Result<Self, StartError> {
        let traces = options.traces.as_ref().map(Traces::start).transpose();
        let traces = traces.map_err(StartError::Traces)?;
        let (keys, jwt) = (options.keys.clone(), options.jwt.clone());
        let keys = (keys.is_some() || jwt.is_some()).then(|| Keys::open(keys, jwt));
        let keys = keys.transpose()?.map(Arc::new);
        let tls = options.tls.clone().map(Tls::open).transpose()?;
        let tls = tls.map(Arc::new);
        let (listeners, addresses) = listen_at(&options.addresses)?;
        let unix_socket = options.unix_socket.as_deref().map(listen_at_path);
        let unix_socket = unix_socket.transpose()?;
        let (grpc_listeners, grpc_addresses) = listen_at(&options.grpc)?;
        let (management_listeners, management_addresses) = listen_at(&options.management)?;
        let (metrics_listeners, metrics_addresses) = listen_at(&options.metrics)?;
        let (operator_listeners, operator_addresses) = listen_at(&options.grpc_management)?;
        let clients = Arc::new(Connections::new(options.limits.clone()));
        let operators = Arc::new(Connections::new(options.limits.for_management()));
        let connections = [
            ("clients", Arc::clone(&clients)),
            ("operators", Arc::clone(&operators)),
        ];
        let (stage, stage_now) = watch::channel(Stage::Running);
        let (config, settings) = (options.config.clone(), options.graph_settings());
        let served = Arc::new(ServedGraphs::new(config, settings, registry));
        let sequences = Sequences::new(options.sequences.clone());
        let (hosts, folder) = (options.media_hosts.clone(), options.media_folder.clone());
        let has_media = !hosts.is_empty() || folder.is_some();
        let media = has_media.then(|| Media::new(hosts, folder));
        let runner = Arc::new(Runner {
            served: Arc::clone(&served),
            running: Arc::default(),
            sessions: Sessions::new(),
            stage: stage_now,
            load_wait: options.load_wait,
            is_open: keys.is_none() && options.management.is_empty(),
            trusts_templates: options.trust_request_chat_template,
        });
        let app = Arc::new(App {
            runner,
            bodies: Bodies::new(
                options.max_body_bytes,
                options.max_bodies_bytes,
                served.now().executors(),
            ),
            media: media.transpose().map_err(StartError::Media)?,
            document: ApiDocument::default(),
            changing: Arc::default(),
            options,
            metrics: Arc::new(Metrics::new(&served, connections, &sequences)),
            statistics: Statistics::default(),
            sequences: Arc::clone(&sequences),
            conversations: Arc::default(),
            keys,
            traces,
            started: Instant::now(),
        });
        let policy = |addresses: &[_], origins: &[_]| {
            SitePolicy::new(addresses, &app.options.allowed_hosts, origins)
        };
        let side = |is_alone| if is_alone { Side::Both } else { Side::Public };
        let audience = side(management_listeners.is_empty());
        let accept = |tasks: &mut JoinSet<()>, listeners: Vec<_>, by: &Arc<_>, routes: Router| {
            for listener in listeners {
                let (tls, by, routes) = (tls.clone(), Arc::clone(by), routes.clone());
                tasks.spawn(listen::accept(listener, tls, by, routes));
            }
        };
        let (mut serving, mut managing) = (JoinSet::new(), JoinSet::new());
        let origins = &app.options.allowed_origins;
        if let Some(socket) = unix_socket {
            // Clients of a Unix socket send any word as the host.
            let any_address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
            let routes = stack::rest(&app, audience, policy(&[any_address], origins));
            serving.spawn(listen::accept(socket, None, Arc::clone(&clients), routes));
        }
        let public = stack::rest(&app, audience, policy(&addresses, origins));
        accept(&mut serving, listeners, &clients, public);
        let rest_port = addresses.first().map_or(0, SocketAddr::port);
        let grpc_audience = side(management_listeners.is_empty() && operator_listeners.is_empty());
        let grpc = stack::grpc(&app, grpc_audience, policy(&grpc_addresses, &[]), rest_port);
        accept(&mut serving, grpc_listeners, &clients, grpc);
        let operator_site = policy(&operator_addresses, &[]);
        let operator_grpc = stack::grpc(&app, Side::Both, operator_site, rest_port);
        accept(&mut managing, operator_listeners, &operators, operator_grpc);
        let management_site = policy(&management_addresses, &[]);
        let management = stack::rest(&app, Side::Management, management_site);
        accept(&mut managing, management_listeners, &operators, management);
        let scrapes = stack::metrics(&app, policy(&metrics_addresses, &[]));
        accept(&mut managing, metrics_listeners, &operators, scrapes);
        for connections in [&clients, &operators] {
            managing.spawn(Arc::clone(connections).watch());
        }
        managing.spawn(sequences.watch(app.runner.stage.clone()));
        tokio::spawn(servable::watch_files(Arc::downgrade(&app.runner.served)));
        tokio::spawn(servable::unload_idle(Arc::downgrade(&app.runner.served)));
        if let Some(keys) = &app.keys {
            tokio::spawn(keys::watch(Arc::downgrade(keys)));
            tokio::spawn(keys::watch_issuer(Arc::downgrade(keys)));
        }
        if let Some(tls) = &tls {
            tokio::spawn(listen::watch_certificates(Arc::downgrade(tls)));
        }
        let loader = Arc::clone(&app);
        let loading = tokio::task::spawn_blocking(move || loader.runner.served.load());
        let mut looking = JoinSet::new();
        if !app.options.poll.is_zero() {
            let (served, poll) = (Arc::clone(&app.runner.served), app.options.poll);
            looking.spawn(async move {
                servable::reload_on_change(served, poll).await;
            });
        }
        if app.options.wait_for_models {
            looking.spawn(servable::look_for_models(Arc::clone(&app.runner.served)));
        }
        Ok(Self {
            _looking: looking,
            app,
            addresses,
            grpc_addresses,
            grpc_management_addresses: operator_addresses,
            management_addresses,
            metrics_addresses,
            stage,
            clients,
            operators,
            serving,
            _managing: managing,
            loading,
        })
    }

    /// Returns the addresses of the REST API, with the ports that were chosen for port 0.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Returns the path of the Unix socket of the REST API, if there is one.
    pub fn unix_socket(&self) -> Option<&Path> {
        self.app.options.unix_socket.as_deref()
    }

    /// Returns the addresses of the gRPC API; empty if it is off.
    pub fn grpc_addresses(&self) -> &[SocketAddr] {
        &self.grpc_addresses
    }

    /// Returns the separate gRPC addresses for operators; empty if there are none.
    pub fn grpc_management_addresses(&self) -> &[SocketAddr] {
        &self.grpc_management_addresses
    }

    /// Returns the separate addresses for operators; empty if there are none.
    pub fn management_addresses(&self) -> &[SocketAddr] {
        &self.management_addresses
    }

    /// Returns the addresses that serve `/metrics` alone; empty if there are none.
    pub fn metrics_addresses(&self) -> &[SocketAddr] {
        &self.metrics_addresses
    }

    /// Returns a handle that reloads the configuration of this server.
    pub fn reloader(&self) -> Reloader {
        Reloader(Arc::clone(&self.app.runner.served))
    }

    /// Returns the reason why no graph will ever answer: none is listed, or none could be loaded.
    /// `None` while one may.
    pub fn nothing_to_serve(&self) -> Option<String> {
        self.app.servables().nothing_to_serve()
    }

    /// Returns a function that describes the progress of the graph being loaded in one line; `None`
    /// once all have been loaded.
    pub(crate) fn loading(&self) -> impl Fn() -> Option<String> + Send + 'static {
        let served = Arc::clone(&self.app.runner.served);
        move || {
            let servables = served.now();
            let progress = |it: &servable::Servable| Some((it.name().to_owned(), it.progress()?));
            let all: Vec<_> = servables.iter().filter_map(progress).collect();
            let now = all.iter().find(|(_, progress)| progress.has_begun());
            let (name, progress) = now.or(all.first())?;
            Some(format!("loading `{name}`: {progress}"))
        }
    }

    /// Waits until each graph has been loaded or has failed. Returns the reason if the server is
    /// not ready then.
    pub async fn loaded(&mut self) -> Option<String> {
        if !self.loading.is_finished() {
            // A panic during a load is caught, and becomes the state of the graph.
            let _ = (&mut self.loading).await;
        }
        self.app.unready()
    }

    /// Reports not ready for [`Options::drain_delay`], then refuses new requests, waits for running
    /// ones for [`Options::grace`], and aborts the rest with the error that the server stops. A
    /// graph that is still being loaded ends with the process.
    pub async fn stop(mut self) {
        self.end().await;
    }

    /// Stops like [`Server::stop`], for a process that ends without waiting for resources of
    /// graphs.
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
            self.stage.send_replace(Stage::Aborting);
            if timeout(CUT_GRACE, self.clients.empty()).await.is_err() {
                tracing::warn!("aborted requests did not end in time");
            }
        }
        if let Some(traces) = &self.app.traces {
            traces.finish(SPANS_GRACE).await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.clients.cut();
        self.operators.cut();
    }
}

fn listen_at_path(path: &Path) -> Result<UnixSocket, StartError> {
    let path_of = |source| {
        let path = path.to_owned();
        StartError::UnixSocket { path, source }
    };
    UnixSocket::bind(path).map_err(path_of)
}

/// Listens at each address. Returns the listeners and their addresses with the chosen ports.
fn listen_at(addresses: &[SocketAddr]) -> Result<(Vec<TcpListener>, Vec<SocketAddr>), StartError> {
    let listen = |address| {
        let opened = listen::listen(address).and_then(|it| Ok((it.local_addr()?, it)));
        let (at, listener) = opened.map_err(|source| StartError::Listen { address, source })?;
        Ok((listener, at))
    };
    addresses.iter().copied().map(listen).collect()
}
