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
    sync::OnceLock,
    time::Duration,
};

use parking_lot::Mutex;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{
    EnvFilter, Layer as _, Registry, fmt, fmt::writer::BoxMakeWriter, layer::SubscriberExt as _,
    reload,
};

pub(crate) use panics::{payload, without_texts};
pub(crate) use reasons::without_values;
use writer::Writer;
pub(crate) use writer::dropped;

/// The log level, from the most to the least output. Names are those of OpenVINO Model Server, in
/// any case.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// All events, down to single packets.
    Trace,
    /// Events that help to find faults.
    Debug,
    /// One line for each request, and the events of graphs.
    Info,
    /// Events that need attention, but stop nothing.
    Warning,
    /// Errors that stopped something from working.
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

/// The format of log lines.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// Text for people to read.
    Text,
    /// A JSON object per line, for programs.
    Json,
}

impl FromStr for LogFormat {
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
    format: LogFormat,
    /// Path of the log file; `None` for standard error.
    file: Option<PathBuf>,
    level: Mutex<Level>,
    /// Handle for changing the level.
    filter: reload::Handle<EnvFilter, Registry>,
}

/// The log, after it was started.
static LOG: OnceLock<Log> = OnceLock::new();

/// Maximum time that the end of the process waits for the last lines to be written.
const FLUSH: Duration = Duration::from_secs(1);

/// Starts the log, in `file` if given. If the process already has a log, that one stays.
///
/// # Errors
/// If the file cannot be opened.
pub(crate) fn start(level: Level, format: LogFormat, file: Option<&Path>) -> Result<(), String> {
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
        LogFormat::Text => lines
            .with_ansi(file.is_none() && io::stderr().is_terminal())
            .boxed(),
        LogFormat::Json => lines
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(false)
            .boxed(),
    };
    let log = tracing_subscriber::registry().with(filter).with(lines);
    // Fails if a program that embeds the server has set up its own log, which is used then.
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

/// Reopens the log file after it was moved; `None` without a file. If it cannot be opened, lines
/// still go to the old file.
pub(crate) fn reopen() -> Option<Result<(), String>> {
    let log = LOG.get()?;
    let file = log.file.as_ref()?;
    Some(opened(file).map(|file| log.writer.go_on_in(file)))
}

/// Returns the current level. For a log of an embedding program, this is the level of tracing.
pub(crate) fn level() -> Level {
    if let Some(log) = LOG.get() {
        return *log.level.lock();
    }
    match LevelFilter::current() {
        LevelFilter::TRACE => Level::Trace,
        LevelFilter::DEBUG => Level::Debug,
        LevelFilter::INFO => Level::Info,
        LevelFilter::WARN => Level::Warning,
        _ => Level::Error,
    }
}

/// Sets the level of the server's own log. Returns false if there is none.
pub(crate) fn set_level(level: Level) -> bool {
    let Some(log) = LOG.get() else { return false };
    let mut now = log.level.lock();
    let is_set = log.filter.reload(EnvFilter::new(level.directive())).is_ok();
    if is_set {
        *now = level;
    }
    is_set
}

/// Prints a message of the command line, in order with the log. If the log is in a file, prints to
/// standard error, too. The message is lost if nobody reads it.
pub(crate) fn print(text: &str) {
    let log = LOG.get();
    match log {
        Some(log) if log.format == LogFormat::Json => tracing::error!("{text}"),
        Some(log) => log.writer.line(format!("{text}\n").as_bytes()),
        None => {}
    }
    if log.is_none_or(|log| log.file.is_some()) {
        drop(writeln!(io::stderr(), "{text}"));
    }
}

/// Shows a line on the terminal until the next line; an empty text removes it. Only for a text log
/// on standard error.
pub(crate) fn passing(text: &str) {
    if let Some(log) = LOG.get()
        && log.file.is_none()
        && log.format == LogFormat::Text
    {
        log.writer.passing(text);
    }
}

/// Waits until all lines are written, for a limited time. Called at the end of the process.
pub(crate) fn flush() {
    if let Some(log) = LOG.get() {
        log.writer.flush(FLUSH);
    }
}

/// Shortens and escapes a text of a client for the log.
pub(crate) fn shown(text: &str) -> String {
    /// Maximum length in characters; the rest would tell nothing more.
    const CHARACTERS: usize = 200;
    match text.char_indices().nth(CHARACTERS) {
        Some((end, _)) => format!("{}…", escaped(&text[..end])),
        None => escaped(text),
    }
}

/// Escapes the characters of a text that would disrupt the log.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if is_disruptive(character) {
            escaped.extend(character.escape_default());
        } else {
            escaped.push(character);
        }
    }
    escaped
}

/// Returns true for characters that end a line, control a terminal, or change the direction of
/// what follows.
pub(crate) fn is_disruptive(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_chose_is_short_and_on_one_line() {
        assert_eq!(shown("/v3/chat"), "/v3/chat");
        assert_eq!(shown("a\nb\x1b[31mc\r\0"), "a\\nb\\u{1b}[31mc\\r\\u{0}");
        assert_eq!(shown("a\u{202e}b\u{2066}"), "a\\u{202e}b\\u{2066}");
        let long = shown(&"é".repeat(1_000_000));
        assert_eq!(long.chars().count(), 201);
    }
}
