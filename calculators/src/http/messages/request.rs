//! The request, field by field.

use graphmill_engine::Result;
use serde_json::{Map, Value, json};

use super::blocks;
use crate::http::fields::{Fields, at_most, invalid, missing, shown};
use crate::http::limits::MAX_MESSAGES;
use crate::http::translate::{
    Names, Translated, Turns, function, object, optional_str, required_str, unsupported,
};
use crate::payload::JsonBody;

/// What `messages` calls the fields of chat.
const NAMES: &Names = &Names {
    fields: &[
        ("max_completion_tokens", "max_tokens"),
        ("stop", "stop_sequences"),
        ("tool_choice.function.name", "tool_choice.name"),
        (
            "response_format.json_schema.schema",
            "output_config.format.schema",
        ),
        ("response_format", "output_config.format"),
        ("reasoning_effort", "output_config.effort"),
        (
            "parallel_tool_calls",
            "tool_choice.disable_parallel_tool_use",
        ),
        ("continue_final_message", "messages"),
    ],
    parameters: "input_schema",
};

/// A request for `messages` as one for chat.
pub(super) fn to_chat(json: &JsonBody) -> Result<Translated> {
    let body = Fields::from(json);
    let mut chat = json.without(READ);
    let mut echo = Map::new();

    let mut turns = Turns::default();
    if let Some(system) = body.get("system")? {
        turns.say("system", blocks::text(system, "system")?);
    }
    let messages = body.array("messages")?.ok_or_else(|| missing("messages"))?;
    if messages.is_empty() {
        return Err(invalid("messages", "must have at least one message"));
    }
    at_most("messages", messages.len(), MAX_MESSAGES, "messages")?;
    for (index, message) in messages.iter().enumerate() {
        blocks::message(message, &format!("messages[{index}]"), &mut turns)?;
    }
    if turns.ends_with_assistant() {
        chat.insert("continue_final_message", true.into());
        chat.insert("add_generation_prompt", false.into());
    }
    let media = turns.take_media();
    chat.insert("messages", turns.into_messages().into());

    if let Some(tools) = tools(body)? {
        chat.insert("tools", tools.into());
    }
    tool_choice(body, &mut chat)?;
    if let Some(stops) = body.array("stop_sequences")? {
        echo.insert("stop_sequences".to_owned(), json!(stops));
        chat.insert("stop", json!(stops));
    }
    output_config(body, &mut chat)?;
    Ok(Translated {
        echo,
        names: NAMES,
        media,
        ..Translated::new(chat)
    })
}

/// Fields that are read here, or that change nothing.
const READ: &[&str] = &[
    "messages",
    "tools",
    "tool_choice",
    "system",
    "stop_sequences",
    "output_config",
    "output_format",
    "metadata",
    "service_tier",
];

fn tools(body: Fields<'_>) -> Result<Option<Vec<Value>>> {
    let Some(tools) = body.array("tools")? else {
        return Ok(None);
    };
    let tool = |(index, tool): (usize, &Value)| {
        let path = format!("tools[{index}]");
        let tool = object(tool, &path)?;
        if let Some(kind) = optional_str(tool, &path, "type")?.filter(|kind| *kind != "custom") {
            let kind = shown(kind);
            let why = format!("`{kind}` is not supported: tools are the client's");
            return Err(unsupported(format!("{path}.type"), &why));
        }
        let schema = tool
            .get("input_schema")?
            .ok_or_else(|| missing(format!("{path}.input_schema")))?;
        object(schema, &format!("{path}.input_schema"))?;
        Ok(function(
            required_str(tool, &path, "name")?,
            optional_str(tool, &path, "description")?,
            Some(schema),
            tool.get("strict")?.and_then(Value::as_bool),
        ))
    };
    let tools = tools.iter().enumerate().map(tool);
    tools.collect::<Result<_>>().map(Some)
}

fn tool_choice(body: Fields<'_>, chat: &mut JsonBody) -> Result<()> {
    let Some(choice) = body.get("tool_choice")? else {
        return Ok(());
    };
    let choice = object(choice, "tool_choice")?;
    let own = match required_str(choice, "tool_choice", "type")? {
        "auto" => json!("auto"),
        "any" => json!("required"),
        "tool" => {
            let name = required_str(choice, "tool_choice", "name")?;
            json!({ "type": "function", "function": { "name": name } })
        }
        _ => json!("none"),
    };
    chat.insert("tool_choice", own);
    if choice.get("disable_parallel_tool_use")? == Some(&Value::Bool(true)) {
        chat.insert("parallel_tool_calls", false.into());
    }
    Ok(())
}

/// The form of the answer, which clients send as `output_config.format` or, earlier, as
/// `output_format`; and the effort.
fn output_config(body: Fields<'_>, chat: &mut JsonBody) -> Result<()> {
    let config = match body.get("output_config")? {
        None => None,
        Some(config) => Some(object(config, "output_config")?),
    };
    let own = match config {
        Some(config) => config.get("format")?,
        None => None,
    };
    let (path, format) = match (own, body.get("output_format")?) {
        (Some(format), _) => ("output_config.format", format),
        (None, Some(format)) => ("output_format", format),
        (None, None) => ("", &Value::Null),
    };
    if !format.is_null() {
        let format = object(format, path)?;
        match required_str(format, path, "type")? {
            "json_schema" => {}
            other => {
                let message = format!("must be `json_schema`, not `{}`", shown(other));
                return Err(invalid(format!("{path}.type"), message));
            }
        }
        let schema = format
            .get("schema")?
            .ok_or_else(|| missing(format!("{path}.schema")))?;
        let json_schema = json!({ "name": "answer", "schema": schema, "strict": true });
        let response_format = json!({ "type": "json_schema", "json_schema": json_schema });
        chat.insert("response_format", response_format);
    }
    if let Some(config) = config
        && let Some(effort) = optional_str(config, "output_config", "effort")?
    {
        chat.insert("reasoning_effort", effort.into());
    }
    Ok(())
}
