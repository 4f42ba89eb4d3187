//! `functions` and `function_call`: the predecessors of tools. Requests are read as if they used
//! tools, and answered in their own form.

use graphmill_engine::Result;
use serde_json::{Map, Value, json};

use crate::http::fields::{Fields, invalid, missing, shown, wrong_type};
use crate::http::translate::{Names, Translated, object, required_str};
use crate::payload::JsonBody;

/// What requests with functions call the fields of chat.
const NAMES: &Names = &Names {
    fields: &[
        ("tool_choice.function.name", "function_call.name"),
        ("tool_choice", "function_call"),
        ("tools", "functions"),
    ],
    parameters: "parameters",
};

/// The request with tools in the place of functions; none if it has none.
pub(in crate::http) fn to_tools(json: &JsonBody) -> Result<Option<Translated>> {
    let body = Fields::from(json);
    if !body.has("functions") && !body.has("function_call") {
        return Ok(None);
    }
    for (old, new) in [("functions", "tools"), ("function_call", "tool_choice")] {
        if body.has(old) && body.has(new) {
            let message = format!("cannot be used together with `{new}`");
            return Err(invalid(old, message));
        }
    }
    let functions = body.array("functions")?.map_or(&[][..], Vec::as_slice);
    let mut chat = json.without(&["functions", "function_call"]);
    if !functions.is_empty() {
        let tools = functions.iter().enumerate().map(tool);
        let tools: Vec<Value> = tools.collect::<Result<_>>()?;
        chat.insert("tools", tools.into());
        // An answer has one call in this form.
        chat.insert("parallel_tool_calls", false.into());
    }
    match body.get("function_call")? {
        None => {}
        // Without functions there is nothing to choose.
        Some(Value::String(choice)) if choice == "none" || choice == "auto" => {
            let choice = Some(choice.as_str()).filter(|_| !functions.is_empty());
            chat.insert("tool_choice", choice.into());
        }
        Some(Value::String(other)) => {
            let expected = "must be `none`, `auto` or an object that names a function";
            let message = format!("{expected}, not `{}`", shown(other));
            return Err(invalid("function_call", message));
        }
        Some(choice @ Value::Object(_)) => {
            let name = required_str(object(choice, "function_call")?, "function_call", "name")?;
            if functions.is_empty() {
                return Err(invalid("function_call", "needs `functions`"));
            }
            let choice = json!({ "type": "function", "function": { "name": name } });
            chat.insert("tool_choice", choice);
        }
        Some(other) => return Err(wrong_type("function_call", "a string or an object", other)),
    }
    Ok(Some(Translated {
        names: NAMES,
        function_call: true,
        ..Translated::new(chat)
    }))
}

fn tool((index, function): (usize, &Value)) -> Result<Value> {
    let path = format!("functions[{index}]");
    let fields = object(function, &path)?;
    required_str(fields, &path, "name")?;
    match fields.get("parameters")? {
        None | Some(Value::Object(_)) => {}
        Some(other) => return Err(wrong_type(format!("{path}.parameters"), "an object", other)),
    }
    Ok(json!({ "type": "function", "function": function }))
}

/// Brings calls of the past into the form that templates know: an assistant's `function_call`, and
/// the message of the role `function` behind it. `call` is the id of the last one.
pub(in crate::http) fn of_message(
    message: &mut Map<String, Value>,
    path: &str,
    index: usize,
    call: &mut Option<String>,
) -> Result<()> {
    match message.remove("function_call") {
        None | Some(Value::Null) => {}
        Some(function @ Value::Object(_)) => {
            if message
                .get("tool_calls")
                .is_some_and(|calls| !calls.is_null())
            {
                let message = "cannot be used together with `tool_calls`";
                return Err(invalid(format!("{path}.function_call"), message));
            }
            if !function["name"].is_string() {
                return Err(missing(format!("{path}.function_call.name")));
            }
            let id = format!("call_{index}");
            let tool_call = json!({ "id": id, "type": "function", "function": function });
            message.insert("tool_calls".to_owned(), json!([tool_call]));
            *call = Some(id);
        }
        Some(other) => {
            return Err(wrong_type(
                format!("{path}.function_call"),
                "an object",
                &other,
            ));
        }
    }
    if message.get("role").is_some_and(|role| role == "function")
        && let Some(id) = call.as_deref()
    {
        message.insert("role".to_owned(), "tool".into());
        message.insert("tool_call_id".to_owned(), id.into());
    }
    Ok(())
}
