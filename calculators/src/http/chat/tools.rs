//! Tools: what a chat offers, which of them the model has to use, and calls of the past.

use std::sync::Arc;

use graphmill_engine::Result;
use serde_json::{Map, Value, json};

use crate::http::fields::{Fields, invalid, missing, shown, wrong_type};
use crate::payload::{
    ToolChoice,
    json::{Allowance, INVALID_JSON},
};

/// What a request says about tools.
pub(in crate::http) struct ToolUse {
    /// The tools, unless the request forbids their use.
    pub(in crate::http) offered: Option<Vec<Value>>,
    pub(in crate::http) choice: ToolChoice,
    /// Whether a message may have one call only.
    pub(in crate::http) one_call: bool,
}

/// Reads `tools`, `tool_choice` and `parallel_tool_calls`.
pub(in crate::http) fn read(body: Fields<'_>) -> Result<ToolUse> {
    let tools = body.array("tools")?.filter(|tools| !tools.is_empty());
    for (index, tool) in tools.into_iter().flatten().enumerate() {
        check(tool, &format!("tools[{index}]"))?;
    }
    let choice = choice(body, tools.map_or(&[], Vec::as_slice))?;
    let parallel = body.bool("parallel_tool_calls")?.unwrap_or(true);
    Ok(ToolUse {
        offered: tools.filter(|_| choice.is_some()).cloned(),
        one_call: !parallel || matches!(choice, Some(ToolChoice::Named(_))),
        choice: choice.unwrap_or_default(),
    })
}

/// Reads `tool_choice`; none where it forbids calls.
fn choice(body: Fields<'_>, tools: &[Value]) -> Result<Option<ToolChoice>> {
    let choice = match body.get("tool_choice")? {
        None => return Ok(Some(ToolChoice::Auto)),
        Some(Value::String(choice)) => match choice.as_str() {
            "auto" => return Ok(Some(ToolChoice::Auto)),
            "none" => return Ok(None),
            "required" => ToolChoice::Required,
            other => {
                let expected = "must be `none`, `auto`, `required` or a function";
                return Err(invalid(
                    "tool_choice",
                    format!("{expected}, not `{}`", shown(other)),
                ));
            }
        },
        Some(choice @ Value::Object(_)) => named(choice, tools)?,
        Some(other) => return Err(wrong_type("tool_choice", "a string or an object", other)),
    };
    if tools.is_empty() {
        return Err(invalid("tool_choice", "needs `tools`"));
    }
    Ok(Some(choice))
}

/// `{"type": "function", "function": {"name": ...}}`, or the name beside the type.
fn named(choice: &Value, tools: &[Value]) -> Result<ToolChoice> {
    match &choice["type"] {
        Value::String(kind) if kind == "function" => {}
        Value::Null => return Err(missing("tool_choice.type")),
        Value::String(kind) => {
            return Err(invalid(
                "tool_choice.type",
                format!("must be `function`, not `{}`", shown(kind)),
            ));
        }
        other => return Err(wrong_type("tool_choice.type", "a string", other)),
    }
    let (field, name) = match &choice["function"] {
        Value::Null => ("tool_choice.name", &choice["name"]),
        function @ Value::Object(_) => ("tool_choice.function.name", &function["name"]),
        other => return Err(wrong_type("tool_choice.function", "an object", other)),
    };
    let name = match name {
        Value::String(name) => name,
        Value::Null => return Err(missing("tool_choice.function.name")),
        other => return Err(wrong_type(field, "a string", other)),
    };
    let known = tools.iter().any(|tool| tool["function"]["name"] == **name);
    if !known {
        return Err(invalid(
            field,
            format!("is `{}`, which is none of `tools`", shown(name)),
        ));
    }
    Ok(ToolChoice::Named(Arc::from(name.as_str())))
}

fn check(tool: &Value, path: &str) -> Result<()> {
    if !tool.is_object() {
        return Err(wrong_type(path, "an object", tool));
    }
    match tool.get("type") {
        Some(Value::String(kind)) if kind == "function" => {}
        Some(Value::String(kind)) => {
            return Err(invalid(
                format!("{path}.type"),
                format!("must be `function`, not `{}`", shown(kind)),
            ));
        }
        Some(other) => return Err(wrong_type(format!("{path}.type"), "a string", other)),
        None => return Err(missing(format!("{path}.type"))),
    }
    let path = format!("{path}.function");
    match tool.get("function") {
        Some(Value::Object(function)) => {
            match function.get("name") {
                Some(Value::String(name)) if name.is_empty() => {
                    return Err(invalid(format!("{path}.name"), "must not be empty"));
                }
                Some(Value::String(_)) => {}
                None | Some(Value::Null) => return Err(missing(format!("{path}.name"))),
                Some(other) => {
                    return Err(wrong_type(format!("{path}.name"), "a string", other));
                }
            }
            match function.get("parameters") {
                None | Some(Value::Null) => Ok(()),
                Some(Value::Object(schema)) => takes_object(schema, &path),
                Some(other) => Err(wrong_type(format!("{path}.parameters"), "an object", other)),
            }
        }
        Some(other) => Err(wrong_type(path, "an object", other)),
        None => Err(missing(path)),
    }
}

/// Refuses a schema that no arguments match, because they are an object.
fn takes_object(schema: &Map<String, Value>, path: &str) -> Result<()> {
    let kind = match schema.get("type") {
        Some(Value::String(kind)) if kind != "object" => kind,
        _ => return Ok(()),
    };
    Err(invalid(
        format!("{path}.parameters.type"),
        format!(
            "must be `object`, as arguments are one, not `{}`",
            shown(kind)
        ),
    ))
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

/// Turns a past call's arguments, which travel as a string of JSON, into the object that templates
/// expect.
pub(in crate::http) fn past_call(
    call: &mut Value,
    path: &str,
    allowance: &Allowance,
) -> Result<()> {
    let Value::Object(call) = call else {
        return Err(wrong_type(path, "an object", call));
    };
    let path = format!("{path}.function");
    let function = match call.get_mut("function") {
        Some(Value::Object(function)) => function,
        Some(other) => return Err(wrong_type(path, "an object", other)),
        None => return Err(missing(path)),
    };
    if !function.get("name").is_some_and(Value::is_string) {
        return Err(missing(format!("{path}.name")));
    }
    let arguments = match function.get("arguments") {
        None | Some(Value::Null) => json!({}),
        Some(Value::String(text)) if text.trim().is_empty() => json!({}),
        Some(Value::String(text)) => {
            arguments(text, &format!("{path}.arguments"), allowance)?.into()
        }
        Some(object @ Value::Object(_)) => object.clone(),
        Some(other) => return Err(wrong_type(format!("{path}.arguments"), "a string", other)),
    };
    function.insert("arguments".into(), arguments);
    Ok(())
}
