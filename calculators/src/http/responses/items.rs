//! Items of the input, as turns of a chat.

use graphmill_engine::Result;
use serde_json::{Map, Value};

use crate::http::chat;
use crate::http::fields::{Fields, invalid, missing, shown, written, wrong_type};
use crate::http::translate::{Content, Turns, object, optional_str, required_str, unsupported};
use crate::payload::json::Allowance;

/// Adds an item to the conversation.
pub(super) fn add(
    item: &Value,
    path: &str,
    turns: &mut Turns,
    allowance: &Allowance,
) -> Result<()> {
    let item = object(item, path)?;
    match optional_str(item, path, "type")?.unwrap_or("message") {
        "message" => message(item, path, turns),
        "function_call" => {
            let id = required_str(item, path, "call_id")?;
            let name = required_str(item, path, "name")?;
            let arguments = required_str(item, path, "arguments")?;
            let arguments = match arguments.trim() {
                "" => Map::new(),
                text => chat::arguments(text, &format!("{path}.arguments"), allowance)?,
            };
            turns.call(id, name, arguments);
            Ok(())
        }
        "function_call_output" => {
            let id = required_str(item, path, "call_id")?;
            let output = match item.get("output")? {
                Some(output) => content(output, &format!("{path}.output"))?,
                None => return Err(missing(format!("{path}.output"))),
            };
            turns.result(id, output);
            Ok(())
        }
        "reasoning" => {
            let thought = thought(item, path)?;
            if !thought.is_empty() {
                turns.think(&thought);
            }
            Ok(())
        }
        kind => {
            let kind = shown(kind);
            let why = format!("`{kind}` is not supported");
            Err(unsupported(format!("{path}.type"), &why))
        }
    }
}

fn message(item: Fields<'_>, path: &str, turns: &mut Turns) -> Result<()> {
    let role = match required_str(item, path, "role")? {
        role @ ("user" | "assistant" | "system" | "developer") => role,
        other => {
            let expected = "must be `user`, `assistant`, `system` or `developer`";
            let message = format!("{expected}, not `{}`", shown(other));
            return Err(invalid(format!("{path}.role"), message));
        }
    };
    let content = item
        .get("content")?
        .ok_or_else(|| missing(format!("{path}.content")))?;
    turns.say_content(role, self::content(content, &format!("{path}.content"))?);
    Ok(())
}

/// Text, or the texts, images and sounds of parts.
fn content(content: &Value, path: &str) -> Result<Content> {
    let Value::Array(parts) = content else {
        return Ok(Content::of(&text(content, path)?));
    };
    let mut read = Content::default();
    for (index, part) in parts.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let fields = object(part, &path)?;
        match required_str(fields, &path, "type")? {
            "input_image" => {
                if fields.has("file_id") {
                    let why = "is not supported: send the image as `image_url`";
                    return Err(unsupported(format!("{path}.file_id"), why));
                }
                check_word(
                    fields,
                    &path,
                    "detail",
                    &["auto", "low", "high", "original"],
                )?;
                read.image(required_str(fields, &path, "image_url")?, path.clone());
            }
            "input_audio" => {
                let field = format!("{path}.input_audio");
                let sound = match fields.get("input_audio")? {
                    Some(sound) => object(sound, &field)?,
                    None => return Err(missing(field)),
                };
                let data = required_str(sound, &field, "data")?;
                check_word(sound, &field, "format", &["wav", "mp3", "flac"])?;
                read.sound(data, path);
            }
            _ => read.text(text_of(fields, &path)?),
        }
    }
    Ok(read)
}

/// Refuses a word that is none of these. Which of them it is changes nothing.
fn check_word(fields: Fields<'_>, path: &str, name: &str, words: &[&str]) -> Result<()> {
    match fields.get(name)? {
        Some(word) if !words.iter().any(|known| word == known) => {
            let message = format!(
                "must be one of `{}`, not {}",
                words.join("`, `"),
                written(word)
            );
            Err(invalid(format!("{path}.{name}"), message))
        }
        _ => Ok(()),
    }
}

/// Text, or the text of parts, a line each.
fn text(content: &Value, path: &str) -> Result<String> {
    match content {
        Value::String(text) => Ok(text.clone()),
        Value::Array(parts) => {
            let texts = parts.iter().enumerate().map(|(index, part)| {
                let path = format!("{path}[{index}]");
                text_of(object(part, &path)?, &path)
            });
            Ok(texts.collect::<Result<Vec<&str>>>()?.join("\n"))
        }
        other => Err(wrong_type(path, "a string or an array of parts", other)),
    }
}

/// The text of a part.
fn text_of<'a>(part: Fields<'a>, path: &str) -> Result<&'a str> {
    match required_str(part, path, "type")? {
        "input_text" | "output_text" | "text" => required_str(part, path, "text"),
        "refusal" => required_str(part, path, "refusal"),
        kind => {
            let kind = shown(kind);
            let why = format!("`{kind}` is not supported: messages are text, images and sounds");
            Err(unsupported(format!("{path}.type"), &why))
        }
    }
}

/// What was thought: the content of a reasoning item, or else its summary.
fn thought(item: Fields<'_>, path: &str) -> Result<String> {
    let mut texts: Vec<&str> = Vec::new();
    for field in ["content", "summary"] {
        let parts = match item.get(field)? {
            None => continue,
            Some(Value::Array(parts)) => parts,
            Some(other) => {
                return Err(wrong_type(format!("{path}.{field}"), "an array", other));
            }
        };
        for (index, part) in parts.iter().enumerate() {
            let path = format!("{path}.{field}[{index}]");
            texts.push(required_str(object(part, &path)?, &path, "text")?);
        }
        if !texts.is_empty() {
            break;
        }
    }
    Ok(texts.join("\n"))
}
