//! Answers in Triton's form.

use graphmill_llm::Usage;
use serde_json::{Value, json};

use crate::payload::{Finish, TextRequest};

/// Version in the answers of a graph without versions.
const VERSION: &str = "1";

/// Writes the object of a text, or of a piece of it.
pub(super) fn written(
    request: &TextRequest,
    text: &str,
    _: &Usage,
    finish: Option<Finish>,
) -> Value {
    let echoed = |name: &str| request.echo.get(name).filter(|value| !value.is_null());
    let mut answer = json!({});
    if let Some(id) = echoed("id") {
        answer["id"] = id.clone();
    }
    for (name, usual) in [("model_name", &*request.model), ("model_version", VERSION)] {
        answer[name] = echoed(name).map_or_else(|| usual.into(), Value::clone);
    }
    answer["text_output"] = text.into();
    if let Some(finish) = finish.filter(|_| echoed("details") == Some(&json!(true))) {
        answer["details"] = json!({ "finish_reason": reason(finish) });
    }
    answer
}

/// Returns the name of a finish reason.
pub(in crate::http) fn reason(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop | Finish::ToolCalls => "eos_token",
        Finish::StopString(_) => "stop_sequence",
        Finish::Length => "length",
    }
}
