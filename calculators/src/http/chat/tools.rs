//! Tools: what a chat offers, which of them the model has to use, and calls of the past.

use std::sync::Arc;

use graphmill_dialects::bodies::tools::Tools;
use graphmill_engine::Result;
use serde_json::{Map, Value, json};

use super::functions;
use crate::http::fields::{invalid, missing, shown};
use crate::payload::{
    ToolChoice,
    json::{Allowance, INVALID_JSON},
};

/// What a request says about tools.
pub(super) struct ToolUse {
    /// The tools, unless the request forbids their use.
    pub(super) offered: Option<Vec<Value>>,
    pub(super) choice: ToolChoice,
    /// Whether a message may have one call only.
    pub(super) one_call: bool,
    /// True if calls are told as `function_call`.
    pub(super) function_call: bool,
}

/// Reads the fields of tools, or those that came before them.
pub(super) fn read(said: &mut Tools) -> Result<ToolUse> {
    let function_call = said.functions.is_some() || said.function_call.is_some();
    for (old, new, both) in [
        (
            "functions",
            "tools",
            said.functions.is_some() && said.tools.is_some(),
        ),
        (
            "function_call",
            "tool_choice",
            said.function_call.is_some() && said.tool_choice.is_some(),
        ),
    ] {
        if both {
            return Err(invalid(
                old,
                format!("cannot be used together with `{new}`"),
            ));
        }
    }
    let tools = said.tools.take();
    let functions = said.functions.take().map(functions::as_tools);
    let tools = tools.or(functions).filter(|tools| !tools.is_empty());
    let list = tools.as_deref().unwrap_or_default();
    let choice = match said.function_call.take() {
        Some(choice) => choice_of("function_call", "functions", &choice, list)?,
        None => match said.tool_choice.take() {
            Some(choice) => choice_of("tool_choice", "tools", &choice, list)?,
            None => Some(ToolChoice::Auto),
        },
    };
    // An answer has one call in the form of functions.
    let parallel = said.parallel_tool_calls.unwrap_or(true);
    let parallel = parallel && !(function_call && tools.is_some());
    Ok(ToolUse {
        offered: tools.filter(|_| choice.is_some()),
        one_call: !parallel || matches!(choice, Some(ToolChoice::Named(_))),
        choice: choice.unwrap_or_default(),
        function_call,
    })
}

/// Reads a choice among tools; none where it forbids calls.
fn choice_of(
    field: &str,
    list: &str,
    choice: &Value,
    tools: &[Value],
) -> Result<Option<ToolChoice>> {
    let is_function_call = field == "function_call";
    let named = match choice {
        Value::String(choice) => match choice.as_str() {
            "none" => return Ok(None),
            "required" => None,
            _ => return Ok(Some(ToolChoice::Auto)),
        },
        _ if is_function_call => Some((format!("{field}.name"), &choice["name"])),
        _ => Some(match &choice["function"] {
            Value::Null => (format!("{field}.name"), &choice["name"]),
            function => (format!("{field}.function.name"), &function["name"]),
        }),
    };
    let needs_tools = tools.is_empty() && (named.is_none() || is_function_call);
    if needs_tools {
        return Err(invalid(field, format!("needs `{list}`")));
    }
    let Some((field, name)) = named else {
        return Ok(Some(ToolChoice::Required));
    };
    let Value::String(name) = name else {
        return Err(missing(field));
    };
    let known = tools.iter().any(|tool| tool["function"]["name"] == **name);
    if !known {
        let message = format!("is `{}`, which is none of `{list}`", shown(name));
        return Err(invalid(field, message));
    }
    Ok(Some(ToolChoice::Named(Arc::from(name.as_str()))))
}

/// Tools whose functions are not in objects of their own, as templates expect them. The schema of
/// their arguments has this name.
pub(in crate::http) fn tools_of(tools: Vec<Map<String, Value>>, parameters: &str) -> Vec<Value> {
    let names = ["name", "description", "parameters", "strict"];
    let tool = |mut tool: Map<String, Value>| {
        let field = |name: &str| {
            let own = if name == "parameters" {
                parameters
            } else {
                name
            };
            let value = tool.remove(own).filter(|value| !value.is_null())?;
            Some((name.to_owned(), value))
        };
        let function: Map<String, Value> = names.into_iter().filter_map(field).collect();
        json!({ "type": "function", "function": function })
    };
    tools.into_iter().map(tool).collect()
}

/// The arguments of a call as a string has them.
pub(in crate::http) fn arguments(
    text: &str,
    path: &str,
    allowance: &Allowance,
) -> Result<Map<String, Value>> {
    match allowance.parse(text.as_bytes(), path) {
        Ok(Value::Object(arguments)) => Ok(arguments),
        Err(error) if error.code.as_deref() != Some(INVALID_JSON) => Err(error),
        _ => Err(invalid(path, "must be a JSON object, as a string")),
    }
}

/// Turns the arguments of a past call, which travel as a string of JSON, into the object that
/// templates expect.
pub(super) fn past_call(call: &mut Value, path: &str, allowance: &Allowance) -> Result<()> {
    let function = &mut call["function"];
    let read = match &function["arguments"] {
        Value::String(text) if !text.trim().is_empty() => {
            arguments(text, &format!("{path}.function.arguments"), allowance)?
        }
        Value::Object(_) => return Ok(()),
        _ => Map::new(),
    };
    function["arguments"] = read.into();
    Ok(())
}
