//! Messages and their content blocks, as turns of a chat.

use graphmill_engine::Result;
use serde_json::{Value, json};

use crate::http::fields::{Fields, invalid, missing, shown, wrong_type};
use crate::http::translate::{Content, Turns, object, required_str, unsupported};

/// Adds a message to the conversation.
pub(super) fn message(message: &Value, path: &str, turns: &mut Turns) -> Result<()> {
    let message = object(message, path)?;
    let role = match required_str(message, path, "role")? {
        role @ ("user" | "assistant" | "system") => role,
        other => {
            let expected = "must be `user` or `assistant`";
            let message = format!("{expected}, not `{}`", shown(other));
            return Err(invalid(format!("{path}.role"), message));
        }
    };
    let path = format!("{path}.content");
    let blocks = match message.get("content")? {
        None => return Err(missing(path)),
        Some(Value::String(text)) => {
            turns.say(role, text.as_str());
            return Ok(());
        }
        Some(Value::Array(blocks)) => blocks,
        Some(other) => return Err(wrong_type(path, "a string or an array of blocks", other)),
    };
    let mut content = Content::default();
    for (index, block) in blocks.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let block = object(block, &path)?;
        match (required_str(block, &path, "type")?, role) {
            ("text", _) => content.text(required_str(block, &path, "text")?),
            ("image", "user") => content.image(&image(block, &path)?, path),
            ("thinking", "assistant") => turns.think(required_str(block, &path, "thinking")?),
            // Somebody else's thoughts, in a form that only they can read.
            ("redacted_thinking", "assistant") => {}
            ("tool_use", "assistant") => {
                say(role, &mut content, turns);
                call(block, &path, turns)?;
            }
            ("tool_result", "user") => {
                say(role, &mut content, turns);
                result(block, &path, turns)?;
            }
            (kind, _) => {
                let kind = shown(kind);
                let why = format!("`{kind}` is not supported in a message of `{role}`");
                return Err(unsupported(format!("{path}.type"), &why));
            }
        }
    }
    if blocks.is_empty() {
        turns.say(role, "");
    }
    say(role, &mut content, turns);
    Ok(())
}

/// Adds texts and images of the blocks since the last one of another kind.
fn say(role: &str, content: &mut Content, turns: &mut Turns) {
    if !content.is_empty() {
        turns.say_content(role, std::mem::take(content));
    }
}

/// The URL of an image block.
fn image(block: Fields<'_>, path: &str) -> Result<String> {
    let path = format!("{path}.source");
    let source = block.get("source")?.ok_or_else(|| missing(&*path))?;
    let source = object(source, &path)?;
    match required_str(source, &path, "type")? {
        "base64" => {
            let media_type = required_str(source, &path, "media_type")?;
            let data = required_str(source, &path, "data")?;
            Ok(format!("data:{media_type};base64,{data}"))
        }
        "url" => required_str(source, &path, "url").map(str::to_owned),
        kind => {
            let why = format!("`{}` is not supported; `base64` is", shown(kind));
            Err(unsupported(format!("{path}.type"), &why))
        }
    }
}

fn call(block: Fields<'_>, path: &str, turns: &mut Turns) -> Result<()> {
    let input = match block.get("input")? {
        None => json!({}),
        Some(input @ Value::Object(_)) => input.clone(),
        Some(other) => return Err(wrong_type(format!("{path}.input"), "an object", other)),
    };
    let id = required_str(block, path, "id")?;
    turns.call(id, required_str(block, path, "name")?, input);
    Ok(())
}

fn result(block: Fields<'_>, path: &str, turns: &mut Turns) -> Result<()> {
    let path_of_content = format!("{path}.content");
    let content = match block.get("content")? {
        None => Content::of(""),
        Some(Value::Array(blocks)) => shown_result(blocks, &path_of_content)?,
        Some(content) => Content::of(&text(content, &path_of_content)?),
    };
    turns.result(required_str(block, path, "tool_use_id")?, content);
    Ok(())
}

/// The texts and images of a result's blocks.
fn shown_result(blocks: &[Value], path: &str) -> Result<Content> {
    let mut content = Content::default();
    for (index, block) in blocks.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let block = object(block, &path)?;
        match required_str(block, &path, "type")? {
            "text" => content.text(required_str(block, &path, "text")?),
            "image" => content.image(&image(block, &path)?, path),
            kind => {
                let kind = shown(kind);
                let why = format!("`{kind}` is not supported: results are text and images");
                return Err(unsupported(format!("{path}.type"), &why));
            }
        }
    }
    Ok(content)
}

/// Text, or the text of text blocks, a line each.
pub(super) fn text(content: &Value, path: &str) -> Result<String> {
    match content {
        Value::String(text) => Ok(text.clone()),
        Value::Array(blocks) => {
            let texts = blocks.iter().enumerate().map(|(index, block)| {
                let path = format!("{path}[{index}]");
                let block = object(block, &path)?;
                match required_str(block, &path, "type")? {
                    "text" => required_str(block, &path, "text"),
                    kind => {
                        let kind = shown(kind);
                        let why = format!("`{kind}` is not supported: messages are text");
                        Err(unsupported(format!("{path}.type"), &why))
                    }
                }
            });
            Ok(texts.collect::<Result<Vec<&str>>>()?.join("\n"))
        }
        other => Err(wrong_type(path, "a string or an array of blocks", other)),
    }
}
