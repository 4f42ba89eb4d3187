//! The log on standard error or in a file. Logging never waits for the reader: lines go to a
//! bounded buffer, and lines that do not fit are counted.
//!
//! It contains no prompts and no keys. Text that clients choose (paths, ids) is shortened and
//! escaped.

mod panics;
mod reasons;
mod writer;

use std::{
    fs::{File, OpenOptions},
    io::{self, IsTerminal as _, Write as _},
    path::{Path, PathBuf},
    str::FromStr,
    sync::{Mutex, OnceLock, PoisonError},
    time::Duration,
};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::{
    EnvFilter, Layer as _, Registry, fmt, fmt::writer::BoxMakeWriter, layer::SubscriberExt as _,
    reload,
};

pub(crate) use panics::{payload, without_texts};
pub(crate) use reasons::without_values;
use writer::Writer;
pub(crate) use writer::dropped;

/// How much is said, from the most. The names are those of OpenVINO Model Server, in either case.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
            // The HTTP library's own messages do not help operators, and contain clients' data.
            Self::Trace => {
                "trace,hyper=info,hyper_util=info,h2=info,tower=info,tonic=info,opentelemetry=warn,audit=info"
            }
            Self::Debug => {
                "debug,hyper=info,hyper_util=info,h2=info,tower=info,tonic=info,opentelemetry=warn,audit=info"
            }
            Self::Info => "info,opentelemetry=warn,audit=info",
            Self::Warning => "warn,audit=info",
            Self::Error => "error,audit=info",
        }
    }
}

/// How a line is written.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// For programs: a JSON object a line.
    Json,
}

impl FromStr for Format {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name.to_ascii_lowercase().as_str() {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err("expected text or json".to_owned()),
        }
    }
}

/// The log of this process.
struct Log {
    writer: Writer,
    format: Format,
    /// Where it is, if not on standard error.
    file: Option<PathBuf>,
    /// How much is said now.
    level: Mutex<Level>,
    /// Changes how much is said.
    filter: reload::Handle<EnvFilter, Registry>,
}

/// The log, once it was started.
static LOG: OnceLock<Log> = OnceLock::new();

/// How long the end of the process waits for its last lines to be written.
const FLUSH: Duration = Duration::from_secs(1);

/// Starts the log, in a file if one is named; in a process that has one already, that one stays.
/// The error is about the file.
pub(crate) fn start(level: Level, format: Format, file: Option<&Path>) -> Result<(), String> {
    let writer = match file {
        Some(file) => Writer::over(opened(file)?),
        None => Writer::to_standard_error(),
    };
    let writer = writer.ok();
    let to: BoxMakeWriter = match &writer {
        Some(writer) => BoxMakeWriter::new(writer.clone()),
        // Without a writer thread, a log that may block is better than none.
        None => BoxMakeWriter::new(io::stderr),
    };
    let (filter, handle) = reload::Layer::new(EnvFilter::new(level.directive()));
    let lines = fmt::layer().with_writer(to).with_target(false);
    let lines = match format {
        Format::Text => lines
            .with_ansi(file.is_none() && io::stderr().is_terminal())
            .boxed(),
        Format::Json => lines
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(false)
            .boxed(),
    };
    let log = tracing_subscriber::registry().with(filter).with(lines);
    // Fails when a program that embeds the server has set up its own log, which is the one to use.
    let started = tracing::subscriber::set_global_default(log);
    if started.is_ok() {
        panics::log_them();
        if let Some(writer) = writer {
            let file = file.map(Path::to_owned);
            LOG.get_or_init(|| Log {
                writer,
                format,
                file,
                level: Mutex::new(level),
                filter: handle,
            });
        }
    }
    Ok(())
}

fn opened(file: &Path) -> Result<File, String> {
    let opened = OpenOptions::new().create(true).append(true).open(file);
    opened.map_err(|error| format!("cannot write the log `{}`: {error}", file.display()))
}

/// Reopens the file of the log after it was moved away; does nothing without a file. If it cannot
/// be opened, lines still go to the old file.
pub(crate) fn reopen() -> Option<Result<(), String>> {
    let log = LOG.get()?;
    let file = log.file.as_ref()?;
    Some(opened(file).map(|file| log.writer.go_on_in(file)))
}

/// How much is said now; of a log that is not the server's own, as far as it can be told.
pub(crate) fn level() -> Level {
    if let Some(log) = LOG.get() {
        return *log.level.lock().unwrap_or_else(PoisonError::into_inner);
    }
    match LevelFilter::current() {
        LevelFilter::TRACE => Level::Trace,
        LevelFilter::DEBUG => Level::Debug,
        LevelFilter::INFO => Level::Info,
        LevelFilter::WARN => Level::Warning,
        _ => Level::Error,
    }
}

/// Changes how much the server's own log says; false without one.
pub(crate) fn set_level(level: Level) -> bool {
    let Some(log) = LOG.get() else { return false };
    let mut now = log.level.lock().unwrap_or_else(PoisonError::into_inner);
    let is_set = log.filter.reload(EnvFilter::new(level.directive())).is_ok();
    if is_set {
        *now = level;
    }
    is_set
}

/// Writes what the command line says to a person, in order with the log where there is one; on
/// standard error, too, where the log is in a file. Without anybody to read it, it is lost.
pub(crate) fn print(text: &str) {
    let log = LOG.get();
    match log {
        Some(log) if log.format == Format::Json => tracing::error!("{text}"),
        Some(log) => log.writer.line(format!("{text}\n").as_bytes()),
        None => {}
    }
    if log.is_none_or(|log| log.file.is_some()) {
        drop(writeln!(io::stderr(), "{text}"));
    }
}

/// Shows a line on the terminal that the next line takes the place of; an empty one takes it away.
/// Only for a log of text on standard error.
pub(crate) fn passing(text: &str) {
    let log = LOG
        .get()
        .filter(|log| log.file.is_none() && log.format == Format::Text);
    if let Some(log) = log {
        log.writer.passing(text);
    }
}

/// Waits for a bounded time until all lines are written: what the end of the process calls.
pub(crate) fn flush() {
    if let Some(log) = LOG.get() {
        log.writer.flush(FLUSH);
    }
}

/// Text that a client has chosen, as it may be in a log: short, and on one line.
pub(crate) fn shown(text: &str) -> String {
    /// Longer texts say nothing more.
    const CHARACTERS: usize = 200;
    let mut shown = String::new();
    for (index, character) in text.chars().enumerate() {
        if index == CHARACTERS {
            shown.push('…');
            break;
        }
        if character.is_control() || matches!(character, '\u{2028}' | '\u{2029}') {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_chose_is_short_and_on_one_line() {
        assert_eq!(shown("/v3/chat"), "/v3/chat");
        assert_eq!(shown("a\nb\x1b[31mc\r\0"), "a\\nb\\u{1b}[31mc\\r\\u{0}");
        let long = shown(&"é".repeat(1_000_000));
        assert_eq!(long.chars().count(), 201);
    }
}
