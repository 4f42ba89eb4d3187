//! `graphmill serve`.

use std::{
    net::{SocketAddr, ToSocketAddrs as _},
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::{Args, value_parser};
use graphmill_engine::Registry;
use graphmill_llm::{backend, trial};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{Switch, report};
use crate::{
    app::{Options, Server},
    config,
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
    /// Where the REST API listens: addresses or host names, separated by commas. The default is every interface of the machine;
    /// 127.0.0.1 keeps to the machine.
    #[arg(
        long,
        value_name = "ADDRESS",
        value_delimiter = ',',
        default_value = "0.0.0.0"
    )]
    rest_bind_address: Vec<String>,
    /// The port of the gRPC API. Accepted so that existing command lines work; gRPC is not built.
    #[arg(long, value_name = "PORT")]
    pub(super) port: Option<u16>,
    /// How much is logged: TRACE, DEBUG, INFO, WARNING or ERROR.
    #[arg(long, value_name = "LEVEL", default_value = "INFO")]
    log_level: Level,
    /// How lines of the log are written: text for people, json for programs, an object a line.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log_format: Format,
    /// How long running requests may take to end when the server stops, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    shutdown_grace_seconds: u64,
    /// Whether each model is tried in a process of its own before it is loaded, so that a damaged file fails its graph and not the
    /// server.
    #[arg(long, value_name = "SWITCH", default_value = "on")]
    model_trial: Switch,
    /// The longest body of a request: bytes, or a number with KiB, MiB or GiB behind it.
    #[arg(long, value_name = "SIZE", default_value = "8MiB", value_parser = size)]
    max_body_bytes: usize,
    /// The most of all bodies that are in memory at once; a request that finds no room is answered with status 503.
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = size)]
    max_bodies_bytes: usize,
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
    log::start(arguments.log_level, arguments.log_format);
    let loaded = config::load(&arguments.config_path);
    report::show(&loaded.sources, &loaded.diagnostics);
    let Some(config) = loaded.config else {
        return ExitCode::FAILURE;
    };
    let addresses = match resolve(&arguments.rest_bind_address, arguments.rest_port) {
        Ok(addresses) => addresses,
        Err(message) => return fail(&message),
    };
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
    let grace = Duration::from_secs(arguments.shutdown_grace_seconds);
    let options = Options {
        addresses,
        grace,
        max_body_bytes: arguments.max_body_bytes,
        max_bodies_bytes: arguments.max_bodies_bytes,
        ..Options::new(config, ([0, 0, 0, 0], 0).into())
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("cannot start threads: {error}")),
    };
    let ended = runtime.block_on(serve(options, started));
    // A graph that is still being loaded does not keep the process.
    runtime.shutdown_timeout(Duration::from_secs(1));
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

/// The socket addresses of hosts, each once.
fn resolve(hosts: &[String], port: u16) -> Result<Vec<SocketAddr>, String> {
    let mut addresses = Vec::new();
    for host in hosts.iter().map(|host| host.trim()) {
        let found = (host, port).to_socket_addrs();
        addresses.extend(
            found.map_err(|error| {
                format!("cannot resolve `{host}` (--rest_bind_address): {error}")
            })?,
        );
    }
    addresses.sort();
    addresses.dedup();
    Ok(addresses)
}

/// Serves until a signal says to stop.
async fn serve(options: Options, started: Instant) -> Result<(), String> {
    let install =
        |kind| signal(kind).map_err(|error| format!("cannot listen for signals: {error}"));
    let (mut interrupt, mut terminate) = (
        install(SignalKind::interrupt())?,
        install(SignalKind::terminate())?,
    );
    let mut server =
        Server::start(options, Registry::global()).map_err(|error| error.to_string())?;
    for address in server.addresses() {
        tracing::info!("listening on http://{address}");
    }
    tokio::select! {
        unready = server.loaded() => match unready {
            None => tracing::info!("ready after {:.2} s", started.elapsed().as_secs_f64()),
            Some(reason) => tracing::error!("not ready: {reason}"),
        },
        () = stop_signal(&mut interrupt, &mut terminate) => return Ok(()),
    }
    stop_signal(&mut interrupt, &mut terminate).await;
    tracing::info!("stopping; a second signal does not wait for running requests");
    tokio::select! {
        () = server.stop() => {}
        () = stop_signal(&mut interrupt, &mut terminate) => tracing::warn!("running requests are cut off"),
    }
    Ok(())
}

async fn stop_signal(interrupt: &mut Signal, terminate: &mut Signal) {
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}
