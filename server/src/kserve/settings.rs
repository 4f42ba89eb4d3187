//! What Triton's clients ask about log and traces. Both are set when the server is started.

use serde::Serialize;
use tracing::level_filters::LevelFilter;

use crate::{
    errors::{Cause, Failure},
    observe::trace::TraceOptions,
};

/// The value of a setting of the log.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(crate) enum LogSetting {
    Bool(bool),
    Number(u32),
    Text(&'static str),
}

/// How much is logged.
pub(crate) fn log_settings() -> [(&'static str, LogSetting); 5] {
    let level = LevelFilter::current();
    let verbose = match level {
        LevelFilter::TRACE => 2,
        LevelFilter::DEBUG => 1,
        _ => 0,
    };
    [
        ("log_error", LogSetting::Bool(level >= LevelFilter::ERROR)),
        ("log_warning", LogSetting::Bool(level >= LevelFilter::WARN)),
        ("log_info", LogSetting::Bool(level >= LevelFilter::INFO)),
        ("log_verbose_level", LogSetting::Number(verbose)),
        ("log_format", LogSetting::Text("default")),
    ]
}

/// Whether requests are traced, and where spans go.
pub(crate) fn trace_settings(traces: Option<&TraceOptions>) -> Vec<(&'static str, Vec<String>)> {
    let level = traces.map_or("OFF", |_| "TIMESTAMPS");
    let settings = [("trace_level", level), ("trace_mode", "opentelemetry")];
    let url = traces.map(|traces| ("url", traces.endpoint.as_str()));
    let settings = settings.into_iter().chain(url);
    settings
        .map(|(name, value)| (name, vec![value.to_owned()]))
        .collect()
}

/// Why a setting is not changed.
pub(crate) fn refuse_settings(what: &str, flag: &str) -> Failure {
    let why = format!("{what} settings cannot be changed while the server runs: {flag} sets them");
    Failure::new(Cause::Unsupported, why)
}
