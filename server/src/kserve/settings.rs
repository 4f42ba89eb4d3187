//! Log and trace settings for Triton's clients. Only the log level can change while the server
//! runs; the other settings are those of the command line.

use std::collections::BTreeMap;

use graphmill_engine::shortened;

use super::{
    ParameterMap, SHOWN_BYTES,
    proto::{
        InferParameter, LogSettingsResponse, TraceSettingResponse, infer_parameter,
        log_settings_request,
        log_settings_response::{self, setting_value::ParameterChoice},
        trace_setting_response::SettingValue,
    },
    unsupported, wrong,
};
use crate::{
    errors::{Cause, Failure, Result},
    run::RequestContext,
    telemetry::{
        log::{self, Level},
        trace::TraceOptions,
    },
};

/// Returns the verbosity above information: 1 for debugging, 2 for everything.
fn verbosity(level: Level) -> u32 {
    match level {
        Level::Trace => 2,
        Level::Debug => 1,
        _ => 0,
    }
}

/// Returns the log settings in the form of Triton.
pub(crate) fn log_settings() -> LogSettingsResponse {
    use ParameterChoice::{BoolParam, StringParam, Uint32Param};

    let level = log::level();
    let settings = [
        ("log_error", BoolParam(true)),
        ("log_warning", BoolParam(level <= Level::Warning)),
        ("log_info", BoolParam(level <= Level::Info)),
        ("log_verbose_level", Uint32Param(verbosity(level))),
        ("log_format", StringParam("default".to_owned())),
    ];
    let settings = settings.map(|(name, value)| {
        let parameter_choice = Some(value);
        let value = log_settings_response::SettingValue { parameter_choice };
        (name.to_owned(), value)
    });
    let settings = settings.into();
    LogSettingsResponse { settings }
}

/// Converts the settings of a gRPC request to those of REST.
pub(crate) fn log_parameters(
    given: BTreeMap<String, log_settings_request::SettingValue>,
) -> ParameterMap {
    use infer_parameter::ParameterChoice as Read;
    use log_settings_request::setting_value::ParameterChoice::{
        BoolParam, StringParam, Uint32Param,
    };

    let read = |value| match value {
        BoolParam(value) => Read::BoolParam(value),
        Uint32Param(value) => Read::Int64Param(value.into()),
        StringParam(value) => Read::StringParam(value),
    };
    let read = |(name, value): (String, log_settings_request::SettingValue)| {
        let parameter_choice = value.parameter_choice.map(read);
        (name, InferParameter { parameter_choice })
    };
    given.into_iter().map(read).collect()
}

/// Sets the log level, and returns the log settings.
pub(crate) fn set_log(who: &RequestContext, given: &ParameterMap) -> Result<LogSettingsResponse> {
    if given.is_empty() {
        return Ok(log_settings());
    }
    if who.caller.as_ref().is_some_and(|it| !it.administers()) {
        let why = "changes of log settings need a key with the scope `admin`";
        return Err(Failure::new(Cause::Forbidden, why));
    }
    let level = wanted_level(given)?;
    if !log::set_level(level) {
        let why = "the log belongs to the program that embeds the server, which sets the log level";
        return Err(Failure::new(Cause::Unsupported, why));
    }
    let subject = format!("log level {level:?}");
    who.audit("set", &subject, "done", None);
    Ok(log_settings())
}

/// Returns the log level after applying the settings of a request to the current ones.
fn wanted_level(given: &ParameterMap) -> Result<Level> {
    use infer_parameter::ParameterChoice::{BoolParam, Int64Param, StringParam};

    let now = log::level();
    let (mut warning, mut info) = (now <= Level::Warning, now <= Level::Info);
    let mut verbose = i64::from(verbosity(now));
    for (name, value) in given {
        let refused = |why: &str| Err(unsupported(name, why));
        match (&**name, &value.parameter_choice) {
            ("log_error", Some(BoolParam(true))) => {}
            ("log_error", Some(BoolParam(false))) => return refused("errors are always logged"),
            ("log_warning", Some(BoolParam(on))) => warning = *on,
            ("log_info", Some(BoolParam(on))) => info = *on,
            ("log_error" | "log_warning" | "log_info", _) => {
                return Err(wrong(name, "expected true or false"));
            }
            ("log_verbose_level", Some(Int64Param(level @ 0..=2))) => verbose = *level,
            ("log_verbose_level", _) => {
                return Err(wrong(name, "expected 0, 1 for DEBUG, or 2 for TRACE"));
            }
            ("log_format", Some(StringParam(format))) if format == "default" => {}
            ("log_format", _) => return refused("it is set by --log_format and cannot be changed"),
            ("log_file", _) => return refused("it is set by --log_path and cannot be changed"),
            _ => {
                let name = shortened(name, SHOWN_BYTES);
                return Err(wrong(&*name, "unknown setting"));
            }
        }
    }
    let why = "a log includes all levels above its lowest: `log_verbose_level` above 0 needs \
               `log_info`, which needs `log_warning`";
    match (verbose, info, warning) {
        (1.., false, _) => Err(wrong("log_info", why)),
        (_, true, false) => Err(wrong("log_warning", why)),
        (2.., ..) => Ok(Level::Trace),
        (1, ..) => Ok(Level::Debug),
        (_, true, _) => Ok(Level::Info),
        (_, false, true) => Ok(Level::Warning),
        (_, false, false) => Ok(Level::Error),
    }
}

/// Returns the trace settings: level, mode, rate and destination of spans.
pub(crate) fn trace_settings(traces: Option<&TraceOptions>) -> TraceSettingResponse {
    let level = traces.map_or("OFF", |_| "TIMESTAMPS");
    let settings = [("trace_level", level), ("trace_mode", "opentelemetry")];
    let url = traces.map(|traces| ("url", traces.endpoint.as_str()));
    let settings = settings.into_iter().chain(url).map(|(name, value)| {
        let value = vec![value.to_owned()];
        (name.to_owned(), SettingValue { value })
    });
    let settings = settings.collect();
    TraceSettingResponse { settings }
}

/// Refuses trace settings that differ from the current ones. A setting without a value, which
/// clients send to keep it, is ignored.
pub(crate) fn check_traces<'a>(
    traces: Option<&TraceOptions>,
    given: impl IntoIterator<Item = (&'a String, &'a Vec<String>)>,
) -> Result<TraceSettingResponse> {
    let now = trace_settings(traces);
    let is_other = |(name, wanted): &(&String, &Vec<String>)| {
        let set = now.settings.get(*name);
        !wanted.is_empty() && set.is_none_or(|set| set.value != **wanted)
    };
    let Some((name, _)) = given.into_iter().find(is_other) else {
        return Ok(now);
    };
    let why = "traces are set by --otlp_endpoint, --trace_sample_ratio and the environment, and \
               cannot be changed";
    Err(unsupported(shortened(name, SHOWN_BYTES), why))
}
