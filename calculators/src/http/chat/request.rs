//! The content of a chat request: its messages, tools and template variables.

use std::sync::Arc;

use graphmill_engine::Result;
use serde_json::{Map, Value};

use super::{functions, reasoning, tools};
use crate::http::{
    fields::{Fields, at_most, code, invalid, missing, shown, written, wrong_type},
    limits::MAX_MESSAGES,
};
use crate::payload::{ChatInput, MediaKind, MediaSource, json::Allowance, media_marker};

/// Reads a conversation.
pub(in crate::http) fn chat(body: Fields<'_>) -> Result<ChatInput> {
    let messages = body.array("messages")?.ok_or_else(|| missing("messages"))?;
    if messages.is_empty() {
        return Err(invalid("messages", "must have at least one message"));
    }
    at_most("messages", messages.len(), MAX_MESSAGES, "messages")?;
    let allowance = body.allowance();
    let mut call = None;
    let mut media = Vec::new();
    let messages = messages
        .iter()
        .enumerate()
        .map(|(index, message)| self::message(message, index, &mut call, &mut media, &allowance))
        .collect::<Result<_>>()?;
    let tools = tools::read(body)?;
    let mut template_kwargs = template_kwargs(body)?;
    reasoning::read(body, &mut template_kwargs)?;
    Ok(ChatInput {
        messages: Arc::new(messages),
        tools: tools.offered.map(Arc::new),
        tool_choice: tools.choice,
        one_tool_call: tools.one_call,
        template_kwargs: Arc::new(template_kwargs),
        continues: continues(body)?,
        partner: None,
        media: media.into(),
    })
}

/// A message as templates expect it: with text content, in which [`media_marker`] stands for images
/// and sounds, and past tool calls whose arguments are objects. `call` is the id of the last call
/// that came as a `function_call`.
fn message(
    message: &Value,
    index: usize,
    call: &mut Option<String>,
    media: &mut Vec<MediaSource>,
    allowance: &Allowance,
) -> Result<Value> {
    let path = &*format!("messages[{index}]");
    let Value::Object(message) = message else {
        return Err(wrong_type(path, "an object", message));
    };
    let mut message = message.clone();
    match message.get("role") {
        Some(Value::String(role)) if role == "developer" => {
            message.insert("role".into(), "system".into());
        }
        Some(Value::String(role)) if !role.is_empty() => {}
        Some(Value::String(_)) => return Err(invalid(format!("{path}.role"), "must not be empty")),
        Some(other) => return Err(wrong_type(format!("{path}.role"), "a string", other)),
        None => return Err(missing(format!("{path}.role"))),
    }
    functions::of_message(&mut message, path, index, call)?;
    for field in ["name", "tool_call_id"] {
        match message.get(field) {
            None | Some(Value::String(_)) => {}
            Some(Value::Null) => {
                message.remove(field);
            }
            Some(other) => return Err(wrong_type(format!("{path}.{field}"), "a string", other)),
        }
    }
    let content = match message.get("content") {
        Some(Value::String(_)) => None,
        None | Some(Value::Null) => Some(String::new()),
        Some(Value::Array(parts)) => Some(joined(parts, &format!("{path}.content"), media)?),
        Some(other) => {
            return Err(wrong_type(
                format!("{path}.content"),
                "a string or an array of parts",
                other,
            ));
        }
    };
    if let Some(content) = content {
        message.insert("content".into(), content.into());
    }
    reasoning::of_message(&mut message, path)?;
    match message.get_mut("tool_calls") {
        None => {}
        Some(Value::Null) => {
            message.remove("tool_calls");
        }
        Some(Value::Array(calls)) if calls.is_empty() => {
            message.remove("tool_calls");
        }
        Some(Value::Array(calls)) => {
            for (index, call) in calls.iter_mut().enumerate() {
                tools::past_call(call, &format!("{path}.tool_calls[{index}]"), allowance)?;
            }
        }
        Some(other) => return Err(wrong_type(format!("{path}.tool_calls"), "an array", other)),
    }
    Ok(Value::Object(message))
}

/// The text of a message's parts: a line each, and a marker where an image or a sound is.
fn joined(parts: &[Value], path: &str, media: &mut Vec<MediaSource>) -> Result<String> {
    let mut joined = String::new();
    let mut was_text = false;
    for (index, part) in parts.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let Value::Object(part) = part else {
            return Err(wrong_type(path, "an object", part));
        };
        let kind = match part.get("type") {
            Some(Value::String(kind)) => kind.as_str(),
            Some(other) => return Err(wrong_type(format!("{path}.type"), "a string", other)),
            None => return Err(missing(format!("{path}.type"))),
        };
        let field = match kind {
            "text" | "input_text" => "text",
            "refusal" => "refusal",
            "image_url" | "input_audio" => {
                media.push(match kind {
                    "image_url" => image(part, path)?,
                    _ => sound(part, path)?,
                });
                joined.push_str(media_marker());
                was_text = false;
                continue;
            }
            _ => {
                let kind = shown(kind);
                let message =
                    format!("`{kind}` is not supported: messages are text, images and sounds");
                return Err(invalid(format!("{path}.type"), message).with_code(code::UNSUPPORTED));
            }
        };
        match part.get(field) {
            Some(Value::String(text)) => {
                if std::mem::replace(&mut was_text, true) {
                    joined.push('\n');
                }
                joined.push_str(text);
            }
            Some(other) => return Err(wrong_type(format!("{path}.{field}"), "a string", other)),
            None => return Err(missing(format!("{path}.{field}"))),
        }
    }
    Ok(joined)
}

/// An image, at `path`. How detailed it is to be looked at is for models that can choose.
fn image(part: &Map<String, Value>, path: String) -> Result<MediaSource> {
    let field = format!("{path}.image_url");
    let image = match part.get("image_url") {
        Some(Value::Object(image)) => image,
        Some(other) => return Err(wrong_type(field, "an object", other)),
        None => return Err(missing(field)),
    };
    check_detail(image.get("detail"), &field)?;
    match image.get("url") {
        Some(Value::String(url)) => Ok(MediaSource {
            field: path.into(),
            kind: MediaKind::Image,
            data: url.as_str().into(),
        }),
        Some(other) => Err(wrong_type(format!("{field}.url"), "a string", other)),
        None => Err(missing(format!("{field}.url"))),
    }
}

/// A sound, at `path`.
fn sound(part: &Map<String, Value>, path: String) -> Result<MediaSource> {
    let field = format!("{path}.input_audio");
    let sound = match part.get("input_audio") {
        Some(Value::Object(sound)) => sound,
        Some(other) => return Err(wrong_type(field, "an object", other)),
        None => return Err(missing(field)),
    };
    check_format(sound.get("format"), &field)?;
    match sound.get("data") {
        Some(Value::String(data)) => Ok(MediaSource {
            field: path.into(),
            kind: MediaKind::Sound,
            data: data.as_str().into(),
        }),
        Some(other) => Err(wrong_type(format!("{field}.data"), "a string", other)),
        None => Err(missing(format!("{field}.data"))),
    }
}

/// Refuses a `format` of a sound that is not read. Which of them a file has, the file itself says.
pub(in crate::http) fn check_format(format: Option<&Value>, path: &str) -> Result<()> {
    match format {
        None | Some(Value::Null) => Ok(()),
        Some(Value::String(format)) if ["wav", "mp3", "flac"].contains(&format.as_str()) => Ok(()),
        Some(other) => {
            let message = format!("must be `wav`, `mp3` or `flac`, not {}", written(other));
            Err(invalid(format!("{path}.format"), message))
        }
    }
}

/// Refuses a `detail` of an image that nobody knows. Those that are known change nothing: each model
/// looks at images in its own resolution.
pub(in crate::http) fn check_detail(detail: Option<&Value>, path: &str) -> Result<()> {
    match detail {
        None | Some(Value::Null) => Ok(()),
        Some(Value::String(detail))
            if ["auto", "low", "high", "original"].contains(&detail.as_str()) =>
        {
            Ok(())
        }
        Some(other) => {
            let expected = "must be `auto`, `low`, `high` or `original`";
            let message = format!("{expected}, not {}", written(other));
            Err(invalid(format!("{path}.detail"), message))
        }
    }
}

/// Whether the answer goes on with the last message.
fn continues(body: Fields<'_>) -> Result<bool> {
    let continues = body.bool("continue_final_message")?.unwrap_or(false);
    if continues && body.bool("add_generation_prompt")? == Some(true) {
        return Err(invalid(
            "continue_final_message",
            "cannot be used together with `add_generation_prompt`",
        ));
    }
    Ok(continues)
}

/// The request's own template variables: `chat_template_kwargs`, and a field that is spelled
/// outside it.
fn template_kwargs(body: Fields<'_>) -> Result<Map<String, Value>> {
    let mut kwargs = body
        .object("chat_template_kwargs")?
        .cloned()
        .unwrap_or_default();
    if let Some(generate) = body.bool("add_generation_prompt")? {
        kwargs.insert("add_generation_prompt".into(), generate.into());
    }
    if let Some(generate) = kwargs.get("add_generation_prompt")
        && !generate.is_boolean()
    {
        return Err(wrong_type(
            "chat_template_kwargs.add_generation_prompt",
            "a boolean",
            generate,
        ));
    }
    if let Some(documents) = body.array("documents")? {
        for (index, document) in documents.iter().enumerate() {
            if !(document.is_string() || document.is_object()) {
                let field = format!("documents[{index}]");
                return Err(wrong_type(field, "a string or an object", document));
            }
        }
        kwargs.insert("documents".into(), documents.clone().into());
    }
    Ok(kwargs)
}
