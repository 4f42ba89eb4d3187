//! `functions` and `function_call`: the predecessors of tools. Requests are read as if they used
//! tools, and answered in their own form.

use graphmill_engine::Result;
use serde_json::{Map, Value, json};

use crate::http::fields::conflicting;

/// Converts functions to tools.
pub(super) fn as_tools(functions: Vec<Value>) -> Vec<Value> {
    let functions = functions.into_iter();
    functions
        .map(|function| json!({ "type": "function", "function": function }))
        .collect()
}

/// Converts past calls to the form that templates know: an assistant's `function_call`, and the
/// message of the role `function` after it. `call` is the id of the last one.
pub(super) fn rewrite_message(
    message: &mut Map<String, Value>,
    index: usize,
    call: &mut Option<String>,
) -> Result<()> {
    if let Some(function @ Value::Object(_)) = message.remove("function_call") {
        if message.get("tool_calls").is_some_and(|it| !it.is_null()) {
            let field = format!("messages[{index}].function_call");
            return Err(conflicting(field, "tool_calls"));
        }
        let id = format!("call_{index}");
        let tool_call = json!({ "id": id, "type": "function", "function": function });
        message.insert("tool_calls".to_owned(), json!([tool_call]));
        *call = Some(id);
    }
    if message.get("role").is_some_and(|role| role == "function")
        && let Some(id) = call.as_deref()
    {
        message.insert("role".to_owned(), "tool".into());
        message.insert("tool_call_id".to_owned(), id.into());
    }
    Ok(())
}
