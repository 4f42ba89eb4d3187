//! The run of a server, from its start to the signal that stops it.

use std::{
    io::{self, ErrorKind, Write as _},
    time::{Duration, Instant},
};

use graphmill_engine::Registry;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::{
    app::{CUT_GRACE, Reloader, SPANS_GRACE, Server, StartError, state::Options},
    cli::{ending, listening, progress, service},
    telemetry::{self, Audit, log},
};

/// Time for threads to notice that the runtime ends.
pub(super) const THREADS_GRACE: Duration = Duration::from_secs(1);

/// Additional time for an orderly shutdown on a busy machine, besides its delay and its grace.
const SLACK: Duration = Duration::from_secs(1);

/// Serves until a signal to stop.
pub(super) async fn serve(
    options: Options,
    started: Instant,
    prints_address: bool,
) -> Result<(), String> {
    let unheard = |error| format!("cannot listen for signals: {error}");
    let signals = Signals::new().map_err(unheard)?;
    let patience =
        options.drain_delay + options.grace + CUT_GRACE + SPANS_GRACE + THREADS_GRACE + SLACK;
    let waits = options.wait_for_models;
    let scheme = options.tls.as_ref().map_or("http", |_| "https");
    let has_keys = options.keys.is_some() || options.jwt.is_some();
    let tls = options.tls.as_ref();
    let asks_for_certificates = tls.is_some_and(|tls| tls.client_ca.is_some());
    let mut server = Server::start(options, Registry::global()).map_err(|error| {
        let hint = match &error {
            StartError::Listen { source, .. } if source.kind() == ErrorKind::AddrInUse => {
                "; choose other ports with `--rest_port`, `--port` and `--management_port`, or any \
                 free one with `--rest_port 0`"
            }
            _ => "",
        };
        format!("{error}{hint}")
    })?;
    tracing::info!("listening on {}", listening::told(&server, scheme));
    if prints_address {
        for address in server.addresses() {
            // Fails if the reader of standard output is gone.
            let _ = writeln!(io::stdout(), "{scheme}://{address}");
        }
    }
    if !has_keys && !asks_for_certificates {
        listening::warn_of_strangers(&server);
    }
    ending::orderly(patience).map_err(unheard)?;
    let _signs = service::watchdog();
    let reloader = server.reloader();
    let mut told = tokio::spawn(signals.until_stop(reloader));
    let shown = progress::show(&server);
    let loaded = tokio::select! {
        biased;
        signal = &mut told => Err(signal),
        unready = server.loaded() => {
            drop(shown);
            match &unready {
                None => tracing::info!("ready after {:.2} s", started.elapsed().as_secs_f64()),
                Some(reason) => {
                    if let (Some(nothing), false) = (server.nothing_to_serve(), waits) {
                        return Err(format!("there is nothing to serve: {nothing}"));
                    }
                    // The reason may contain text from a model file.
                    let is_odd = |it: char| it.is_control() || ('\u{202a}'..='\u{202e}').contains(&it);
                    tracing::error!("not ready: {}", reason.replace(is_odd, "\u{fffd}"));
                }
            }
            service::started(unready.as_deref());
            Ok(())
        }
    };
    let signal = match loaded {
        Ok(()) => told.await,
        Err(signal) => signal,
    };
    telemetry::audit(&Audit {
        action: "stop",
        actor: None,
        subject: "server",
        outcome: "done",
        // The task ends in no other way.
        reason: signal.ok(),
    });
    service::stopping();
    tracing::info!("stopping; a second signal does not wait for running requests");
    server.end().await;
    // Dropping the server would wait for the threads of engines, one of which may never finish its
    // step.
    std::mem::forget(server);
    tracing::info!("stopped");
    Ok(())
}

/// Signal that log rotation sends after moving the file.
const REOPENS_LOG: &str = "SIGUSR1";

/// The signals that the process handles.
struct Signals {
    stop: [Signal; 2],
    reload: Signal,
    ignored: [(&'static str, Signal); 2],
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            stop: [
                signal(SignalKind::interrupt())?,
                signal(SignalKind::terminate())?,
            ],
            reload: signal(SignalKind::hangup())?,
            ignored: [
                (REOPENS_LOG, signal(SignalKind::user_defined1())?),
                ("SIGUSR2", signal(SignalKind::user_defined2())?),
            ],
        })
    }

    /// Reloads at SIGHUP, and ignores other signals. Returns the name of the first signal to stop.
    async fn until_stop(self, reloader: Reloader) -> &'static str {
        let [mut interrupt, mut terminate] = self.stop;
        let mut reload = self.reload;
        tokio::spawn(async move {
            while reload.recv().await.is_some() {
                tracing::info!("SIGHUP: reading the configuration again");
                reloader.reload().await;
            }
        });
        for (name, mut signal) in self.ignored {
            tokio::spawn(async move {
                while signal.recv().await.is_some() {
                    match (name == REOPENS_LOG).then(log::reopen).flatten() {
                        None => tracing::info!("{name} is ignored"),
                        Some(Ok(())) => tracing::info!("reopened the log file"),
                        Some(Err(error)) => tracing::error!("{error}"),
                    }
                }
            });
        }
        tokio::select! {
            _ = interrupt.recv() => "SIGINT",
            _ = terminate.recv() => "SIGTERM",
        }
    }
}
