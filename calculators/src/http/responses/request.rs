//! The request, field by field.

use graphmill_engine::Result;
use serde_json::{Map, Value, json};

use super::items;
use crate::http::fields::{Fields, at_most, invalid, missing, shown, wrong_type};
use crate::http::limits::MAX_MESSAGES;
use crate::http::translate::{
    Names, Translated, Turns, function, object, optional_str, required_str, unsupported,
};
use crate::http::wire::number;
use crate::payload::{GenerationParams, JsonBody};

/// What `responses` calls the fields of chat.
const NAMES: &Names = &Names {
    fields: &[
        ("messages", "input"),
        ("max_completion_tokens", "max_output_tokens"),
        ("max_tokens", "max_output_tokens"),
        ("tool_choice.function.name", "tool_choice.name"),
        ("response_format.json_schema", "text.format"),
        ("response_format", "text.format"),
        ("reasoning_effort", "reasoning.effort"),
    ],
    parameters: "parameters",
};

/// A request for `responses` as one for chat.
pub(super) fn to_chat(json: &JsonBody) -> Result<Translated> {
    let body = Fields::from(json);
    check_stream_options(body)?;
    let mut chat = json.without(READ);
    let mut turns = Turns::default();
    let instructions = body.str("instructions")?;
    if let Some(instructions) = instructions {
        turns.say("system", instructions);
    }
    match body.get("input")? {
        None => return Err(missing("input")),
        Some(Value::String(text)) => turns.say("user", text.as_str()),
        Some(Value::Array(list)) if list.is_empty() => {
            return Err(invalid("input", "must have at least one item"));
        }
        Some(Value::Array(list)) => {
            at_most("input", list.len(), MAX_MESSAGES, "items")?;
            let allowance = json.allowance();
            for (index, item) in list.iter().enumerate() {
                items::add(item, &format!("input[{index}]"), &mut turns, &allowance)?;
            }
        }
        Some(other) => return Err(wrong_type("input", "a string or an array of items", other)),
    }
    let media = turns.take_media();
    chat.insert("messages", turns.into_messages().into());

    let tools = tools(body)?;
    if !tools.is_empty() {
        chat.insert("tools", tools.into());
    }
    if let Some(choice) = tool_choice(body)? {
        chat.insert("tool_choice", choice);
    }
    if let Some(most) = body.get("max_output_tokens")? {
        chat.insert("max_completion_tokens", most.clone());
    }
    if let Some(format) = text_format(body)? {
        chat.insert("response_format", format);
    }
    if let Some(reasoning) = body.object("reasoning")?
        && let Some(effort) = optional_str(reasoning.into(), "reasoning", "effort")?
    {
        chat.insert("reasoning_effort", effort.into());
    }
    Ok(Translated {
        names: NAMES,
        media,
        echo: echo(body)?,
        ..Translated::new(chat)
    })
}

/// Fields that are read here, or that change nothing about an answer that is not stored.
const READ: &[&str] = &[
    "messages",
    "tools",
    "tool_choice",
    "input",
    "instructions",
    "max_output_tokens",
    "text",
    "reasoning",
    "store",
    "include",
    "truncation",
    "background",
    "previous_response_id",
    "conversation",
    "prompt",
    "max_tool_calls",
    "metadata",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "service_tier",
    "stream_options",
    "top_logprobs",
];

fn tools(body: Fields<'_>) -> Result<Vec<Value>> {
    let tools = body.array("tools")?.map_or(&[][..], Vec::as_slice);
    let tool = |(index, tool): (usize, &Value)| {
        let path = format!("tools[{index}]");
        let tool = object(tool, &path)?;
        match required_str(tool, &path, "type")? {
            "function" => {}
            kind => {
                let why = format!("`{}` is not supported; `function` is", shown(kind));
                return Err(unsupported(format!("{path}.type"), &why));
            }
        }
        let parameters = tool.get("parameters")?;
        if let Some(parameters) = parameters {
            object(parameters, &format!("{path}.parameters"))?;
        }
        Ok(function(
            required_str(tool, &path, "name")?,
            optional_str(tool, &path, "description")?,
            parameters,
            tool.get("strict")?.and_then(Value::as_bool),
        ))
    };
    tools.iter().enumerate().map(tool).collect()
}

fn tool_choice(body: Fields<'_>) -> Result<Option<Value>> {
    let choice = match body.get("tool_choice")? {
        Some(Value::Object(choice)) => Fields::from(choice),
        other => return Ok(other.cloned()),
    };
    match required_str(choice, "tool_choice", "type")? {
        "function" => {
            let name = required_str(choice, "tool_choice", "name")?;
            Ok(Some(
                json!({ "type": "function", "function": { "name": name } }),
            ))
        }
        kind => {
            let why = format!("`{}` is not supported; `function` is", shown(kind));
            Err(unsupported("tool_choice.type", &why))
        }
    }
}

/// `text.format` in the terms of chat.
fn text_format(body: Fields<'_>) -> Result<Option<Value>> {
    let Some(text) = body.object("text")? else {
        return Ok(None);
    };
    let Some(format) = Fields::from(text).get("format")? else {
        return Ok(None);
    };
    let path = "text.format";
    let Some(whole) = format.as_object() else {
        return Err(wrong_type(path, "an object", format));
    };
    let format = Fields::from(whole);
    match required_str(format, path, "type")? {
        kind @ ("text" | "json_object") => Ok(Some(json!({ "type": kind }))),
        "json_schema" => {
            required_str(format, path, "name")?;
            if !format.has("schema") {
                return Err(missing("text.format.schema"));
            }
            let mut json_schema = whole.clone();
            json_schema.remove("type");
            Ok(Some(
                json!({ "type": "json_schema", "json_schema": json_schema }),
            ))
        }
        other => Err(invalid(
            "text.format.type",
            format!(
                "must be `text`, `json_object` or `json_schema`, not `{}`",
                shown(other)
            ),
        )),
    }
}

/// Adds to what a response repeats the values that it was generated with.
pub(super) fn complete(echo: &mut Map<String, Value>, params: &GenerationParams) {
    let sampling = &params.sampling;
    echo.insert("temperature".to_owned(), number(sampling.temperature));
    echo.insert("top_p".to_owned(), number(sampling.top_p));
}

/// What a response repeats of its request.
fn echo(body: Fields<'_>) -> Result<Map<String, Value>> {
    let or = |name: &str, usual: Value| Ok(body.get(name)?.cloned().unwrap_or(usual));
    let mut text = or("text", json!({}))?;
    if text["format"].is_null() {
        text["format"] = json!({ "type": "text" });
    }
    let fields = [
        ("instructions", or("instructions", Value::Null)?),
        ("max_output_tokens", or("max_output_tokens", Value::Null)?),
        (
            "parallel_tool_calls",
            or("parallel_tool_calls", json!(true))?,
        ),
        ("previous_response_id", Value::Null),
        (
            "reasoning",
            or("reasoning", json!({ "effort": null, "summary": null }))?,
        ),
        ("background", json!(false)),
        ("store", json!(false)),
        ("text", text),
        ("tool_choice", or("tool_choice", json!("auto"))?),
        ("tools", or("tools", json!([]))?),
        ("top_logprobs", json!(0)),
        ("truncation", json!("disabled")),
        ("user", or("user", Value::Null)?),
        ("metadata", or("metadata", json!({}))?),
        ("service_tier", json!("default")),
    ];
    let owned = |(name, value): (&str, Value)| (name.to_owned(), value);
    Ok(fields.into_iter().map(owned).collect())
}

/// Refuses token counts of a stream.
fn check_stream_options(body: Fields<'_>) -> Result<()> {
    if let Some(options) = body.object("stream_options")? {
        let other = options
            .iter()
            .find(|(name, value)| *name != "include_obfuscation" && !value.is_null());
        if let Some((name, _)) = other {
            return Err(unsupported(
                format!("stream_options.{name}"),
                "is not supported: the last event has the counts",
            ));
        }
    }
    Ok(())
}
