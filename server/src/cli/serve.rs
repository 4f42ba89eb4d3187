//! `graphmill serve`.

use std::{
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::{Args, value_parser};
use graphmill_engine::Registry;
use graphmill_llm::{backend, trial};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{
    Switch,
    access::Access,
    ending,
    listening::{self, Listening},
    report,
};
use crate::{
    app::{CUT_GRACE, Server},
    config,
    http::state::Options,
    observe::log::{self, Format, Level},
};

#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(super) struct Arguments {
    /// The config.json that lists the graphs.
    #[arg(long, value_name = "FILE")]
    config_path: PathBuf,
    /// The port of the REST API.
    #[arg(long, value_name = "PORT", value_parser = value_parser!(u16).range(1..))]
    pub(super) rest_port: u16,
    #[command(flatten)]
    listening: Listening,
    #[command(flatten)]
    access: Access,
    /// The port of the gRPC API. Accepted so that existing command lines work; gRPC is not built.
    #[arg(long, value_name = "PORT")]
    pub(super) port: Option<u16>,
    /// How much is logged: TRACE, DEBUG, INFO, WARNING or ERROR.
    #[arg(long, value_name = "LEVEL", default_value = "INFO")]
    log_level: Level,
    /// How lines of the log are written: text for people, json for programs, an object a line.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log_format: Format,
    /// How long the server goes on to serve when it is told to stop, in seconds, while its
    /// readiness is false: as long as what sends requests here needs to notice.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    drain_delay_seconds: u32,
    /// How long running requests may take to end when the server stops, in seconds, after that
    /// delay.
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    shutdown_grace_seconds: u32,
    /// Whether each model is tried in a process of its own before it is loaded, so that a damaged
    /// file fails its graph and not the server.
    #[arg(long, value_name = "SWITCH", default_value = "on")]
    model_trial: Switch,
    /// The longest body of a request: bytes, or a number with KiB, MiB or GiB behind it.
    #[arg(long, value_name = "SIZE", default_value = "8MiB", value_parser = size)]
    max_body_bytes: usize,
    /// The most of all bodies that are in memory at once; a request that finds no room is answered
    /// with status 503.
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = size)]
    max_bodies_bytes: usize,
    /// Keeps running where there is no graph that can be served, and loads graphs whose model is
    /// missing once it is there. Without it a server that has nothing to serve ends with exit
    /// status 1.
    #[arg(long)]
    wait_for_models: bool,
}

/// Reads a number of bytes such as `8388608` or `8MiB`.
fn size(text: &str) -> Result<usize, String> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
    let unit = match text[digits.len()..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        _ => return Err("expected a number of bytes, such as 8388608 or 8MiB".to_owned()),
    };
    let number: usize = digits
        .parse()
        .map_err(|_| "expected a number of bytes, such as 8388608 or 8MiB".to_owned())?;
    number
        .checked_mul(1 << unit)
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| "expected a number of bytes above 0 that this machine can count".to_owned())
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    let started = Instant::now();
    if let Err(error) = ending::prepare() {
        return fail(&format!("cannot listen for signals: {error}"));
    }
    log::start(arguments.log_level, arguments.log_format);
    let loaded = config::load(&arguments.config_path);
    report::show(&loaded.sources, &loaded.diagnostics);
    let Some(config) = loaded.config else {
        return ExitCode::FAILURE;
    };
    if config.graphs.is_empty() && !arguments.wait_for_models {
        let file = arguments.config_path.display();
        return fail(&format!(
            "there is nothing to serve: `{file}` lists no graph (--wait_for_models runs all the same)"
        ));
    }
    if arguments.max_bodies_bytes < arguments.max_body_bytes {
        return fail("--max_bodies_bytes is less than --max_body_bytes: no body would be let in");
    }
    tracing::info!("Graphmill {}", env!("CARGO_PKG_VERSION"));
    if arguments.model_trial == Switch::On {
        trial::begin();
    }
    if let Some(port) = arguments.port {
        tracing::warn!("gRPC is not built: nothing listens on port {port} (--port)");
    }
    let mut options = Options {
        drain_delay: Duration::from_secs(arguments.drain_delay_seconds.into()),
        grace: Duration::from_secs(arguments.shutdown_grace_seconds.into()),
        max_body_bytes: arguments.max_body_bytes,
        max_bodies_bytes: arguments.max_bodies_bytes,
        wait_for_models: arguments.wait_for_models,
        ..Options::new(config, ([127, 0, 0, 1], 0).into())
    };
    if let Err(message) = arguments.listening.apply(arguments.rest_port, &mut options) {
        return fail(&message);
    }
    arguments.access.apply(&mut options);
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("cannot start threads: {error}")),
    };
    let ended = runtime.block_on(serve(options, started));
    // What is still being loaded or computed does not keep the process.
    runtime.shutdown_timeout(THREADS_GRACE);
    if let Err(message) = &ended {
        report::error(message);
    }
    log::flush();
    backend::exit(ended.is_err().into())
}

fn fail(message: &str) -> ExitCode {
    report::error(message);
    ExitCode::FAILURE
}

/// How long threads may take to notice that the runtime ends.
const THREADS_GRACE: Duration = Duration::from_secs(1);

/// What an orderly end takes besides its delay and its grace, on a machine that is busy.
const SLACK: Duration = Duration::from_secs(1);

/// Serves until a signal says to stop.
async fn serve(options: Options, started: Instant) -> Result<(), String> {
    let unheard = |error| format!("cannot listen for signals: {error}");
    let signals = Signals::new().map_err(unheard)?;
    let patience = options.drain_delay + options.grace + CUT_GRACE + THREADS_GRACE + SLACK;
    let waits = options.wait_for_models;
    let scheme = options.tls.as_ref().map_or("http", |_| "https");
    let has_keys = options.keys.is_some();
    let tls = options.tls.as_ref();
    let asks_for_certificates = tls.is_some_and(|tls| tls.client_ca.is_some());
    let mut server =
        Server::start(options, Registry::global()).map_err(|error| error.to_string())?;
    for address in server.addresses() {
        tracing::info!("listening on {scheme}://{address}");
    }
    for address in server.management_addresses() {
        tracing::info!("listening on {scheme}://{address} for health, metrics, status and config");
    }
    if !has_keys && !asks_for_certificates {
        listening::warn_of_strangers(server.addresses());
        listening::warn_of_strangers(server.management_addresses());
    }
    ending::orderly(patience).map_err(unheard)?;
    let mut told = tokio::spawn(signals.until_stop());
    let loaded = tokio::select! {
        biased;
        _ = &mut told => false,
        unready = server.loaded() => {
            match unready {
                None => tracing::info!("ready after {:.2} s", started.elapsed().as_secs_f64()),
                Some(reason) => {
                    if let (Some(nothing), false) = (server.nothing_to_serve(), waits) {
                        return Err(format!("there is nothing to serve: {nothing}"));
                    }
                    tracing::error!("not ready: {reason}");
                }
            }
            true
        }
    };
    if loaded {
        // Ends in no other way than by being told.
        let _ = told.await;
    }
    tracing::info!("stopping; a second signal does not wait for running requests");
    server.end().await;
    // Dropping it would wait for the threads of engines, one of which may never be done with its
    // step.
    std::mem::forget(server);
    tracing::info!("stopped");
    Ok(())
}

/// What the process is told.
struct Signals {
    stop: [Signal; 2],
    news: [(&'static str, Signal); 3],
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            stop: [
                signal(SignalKind::interrupt())?,
                signal(SignalKind::terminate())?,
            ],
            news: [
                ("SIGHUP", signal(SignalKind::hangup())?),
                ("SIGUSR1", signal(SignalKind::user_defined1())?),
                ("SIGUSR2", signal(SignalKind::user_defined2())?),
            ],
        })
    }

    /// Ignores what does not say to stop.
    async fn until_stop(self) {
        let [mut interrupt, mut terminate] = self.stop;
        for (name, mut signal) in self.news {
            tokio::spawn(async move {
                while signal.recv().await.is_some() {
                    tracing::info!("{name} is ignored");
                }
            });
        }
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }
}
