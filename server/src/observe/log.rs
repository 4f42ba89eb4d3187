//! The log on standard error.

use std::{io::IsTerminal as _, str::FromStr};

use tracing_subscriber::EnvFilter;

/// How much is said. The names are those of OpenVINO Model Server, in either case.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// Everything, packet by packet.
    Trace,
    /// What helps to find a fault.
    Debug,
    /// One line for each request, and what happens to graphs.
    Info,
    /// What needs attention.
    Warning,
    /// What failed.
    Error,
}

impl FromStr for Level {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name.to_ascii_lowercase().as_str() {
            "trace" => Ok(Self::Trace),
            "debug" => Ok(Self::Debug),
            "info" => Ok(Self::Info),
            "warning" | "warn" => Ok(Self::Warning),
            "error" => Ok(Self::Error),
            _ => Err("expected TRACE, DEBUG, INFO, WARNING or ERROR".to_owned()),
        }
    }
}

impl Level {
    const fn directive(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            // The HTTP library's own chatter helps nobody who runs graphs.
            Self::Debug => "debug,hyper=info,hyper_util=info,h2=info,tower=info",
            Self::Info => "info",
            Self::Warning => "warn",
            Self::Error => "error",
        }
    }
}

/// Starts the log; in a process that has one already, that one stays.
pub(crate) fn start(level: Level) {
    let log = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(level.directive()))
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .finish();
    // Fails when a program that embeds the server has set up its own log, which is the one to use.
    let _ = tracing::subscriber::set_global_default(log);
}
