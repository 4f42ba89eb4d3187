//! What a request asks: the messages, tools and template variables of a chat, or the prompts of a completion.

use std::sync::Arc;

use graphmill_engine::Result;
use serde_json::{Map, Value, json};

use super::{
    fields::{Fields, invalid, missing, wrong_type},
    params::token_id,
};
use crate::payload::{ChatInput, Prompt, RequestInput};

/// Most prompts of one `completions` request.
pub(super) const MAX_PROMPTS: usize = 1024;

/// Reads a conversation.
pub(super) fn chat(body: Fields<'_>) -> Result<RequestInput> {
    let messages = body.array("messages")?.ok_or_else(|| missing("messages"))?;
    if messages.is_empty() {
        return Err(invalid("messages", "must have at least one message"));
    }
    let messages = messages
        .iter()
        .enumerate()
        .map(|(index, message)| self::message(message, &format!("messages[{index}]")))
        .collect::<Result<_>>()?;
    refuse_what_chats_cannot_do(body)?;
    Ok(RequestInput::Chat(ChatInput {
        messages: Arc::new(messages),
        tools: tools(body)?.map(Arc::new),
        template_kwargs: Arc::new(template_kwargs(body)?),
    }))
}

/// A message as templates expect it: with text content, and past tool calls whose arguments are objects.
fn message(message: &Value, path: &str) -> Result<Value> {
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
    let content = match message.get("content") {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => joined(parts, &format!("{path}.content"))?,
        Some(other) => {
            return Err(wrong_type(
                format!("{path}.content"),
                "a string or an array of parts",
                other,
            ));
        }
    };
    message.insert("content".into(), content.into());
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
                tool_call(call, &format!("{path}.tool_calls[{index}]"))?;
            }
        }
        Some(other) => return Err(wrong_type(format!("{path}.tool_calls"), "an array", other)),
    }
    Ok(Value::Object(message))
}

/// The text of a message's parts, a line each.
fn joined(parts: &[Value], path: &str) -> Result<String> {
    let mut texts = Vec::with_capacity(parts.len());
    for (index, part) in parts.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let Value::Object(part) = part else {
            return Err(wrong_type(path, "an object", part));
        };
        let field = match part.get("type").and_then(Value::as_str) {
            Some("text" | "input_text") => "text",
            Some("refusal") => "refusal",
            Some(kind) => {
                return Err(invalid(
                    format!("{path}.type"),
                    format!("`{kind}` is not supported: messages are text"),
                ));
            }
            None => return Err(missing(format!("{path}.type"))),
        };
        match part.get(field) {
            Some(Value::String(text)) => texts.push(text.as_str()),
            Some(other) => return Err(wrong_type(format!("{path}.{field}"), "a string", other)),
            None => return Err(missing(format!("{path}.{field}"))),
        }
    }
    Ok(texts.join("\n"))
}

/// Turns a past call's arguments, which travel as a string of JSON, into the object that templates expect.
fn tool_call(call: &mut Value, path: &str) -> Result<()> {
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
        Some(Value::String(text)) => match serde_json::from_str(text) {
            Ok(Value::Object(arguments)) => Value::Object(arguments),
            _ => {
                return Err(invalid(
                    format!("{path}.arguments"),
                    "must be a JSON object, as a string",
                ));
            }
        },
        Some(object @ Value::Object(_)) => object.clone(),
        Some(other) => return Err(wrong_type(format!("{path}.arguments"), "a string", other)),
    };
    function.insert("arguments".into(), arguments);
    Ok(())
}

/// The tools the template shows to the model: none where `tool_choice` forbids their use.
fn tools(body: Fields<'_>) -> Result<Option<Vec<Value>>> {
    let tools = body.array("tools")?.filter(|tools| !tools.is_empty());
    for (index, tool) in tools.into_iter().flatten().enumerate() {
        check_tool(tool, &format!("tools[{index}]"))?;
    }
    let usable = match body.get("tool_choice") {
        None => true,
        Some(Value::String(choice)) if choice == "auto" => true,
        Some(Value::String(choice)) if choice == "none" => false,
        Some(Value::String(choice)) if choice != "required" => {
            let expected = "must be `none`, `auto`, `required` or a function";
            return Err(invalid(
                "tool_choice",
                format!("{expected}, not `{choice}`"),
            ));
        }
        Some(Value::String(_) | Value::Object(_)) => {
            let message = "is not supported where it forces a call; `auto` and `none` are";
            return Err(invalid("tool_choice", message).with_code("unsupported_parameter"));
        }
        Some(other) => return Err(wrong_type("tool_choice", "a string or an object", other)),
    };
    let parallel = body.bool("parallel_tool_calls")?;
    if usable && tools.is_some() && parallel == Some(false) {
        return Err(invalid(
            "parallel_tool_calls",
            "is not supported with the value false",
        )
        .with_code("unsupported_parameter"));
    }
    Ok(tools.filter(|_| usable).cloned())
}

fn check_tool(tool: &Value, path: &str) -> Result<()> {
    if !tool.is_object() {
        return Err(wrong_type(path, "an object", tool));
    }
    match tool.get("type") {
        Some(Value::String(kind)) if kind == "function" => {}
        Some(Value::String(kind)) => {
            return Err(invalid(
                format!("{path}.type"),
                format!("must be `function`, not `{kind}`"),
            ));
        }
        Some(other) => return Err(wrong_type(format!("{path}.type"), "a string", other)),
        None => return Err(missing(format!("{path}.type"))),
    }
    let path = format!("{path}.function");
    match tool.get("function") {
        Some(Value::Object(function)) => {
            if !function.get("name").is_some_and(Value::is_string) {
                return Err(missing(format!("{path}.name")));
            }
            match function.get("parameters") {
                None | Some(Value::Null | Value::Object(_)) => Ok(()),
                Some(other) => Err(wrong_type(format!("{path}.parameters"), "an object", other)),
            }
        }
        Some(other) => Err(wrong_type(path, "an object", other)),
        None => Err(missing(path)),
    }
}

/// The request's own template variables: `chat_template_kwargs`, and the two fields that are spelled outside it.
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
    if let Some(effort) = body.str("reasoning_effort")? {
        kwargs.insert("reasoning_effort".into(), effort.into());
    }
    Ok(kwargs)
}

/// Fields that would change a chat's answer in ways these nodes do not know.
fn refuse_what_chats_cannot_do(body: Fields<'_>) -> Result<()> {
    let no = |value: &Value| value == &Value::Bool(false);
    let empty = |value: &Value| value.as_array().is_some_and(Vec::is_empty);
    body.unsupported("functions", empty)?;
    body.unsupported("function_call", |value| value == "none")?;
    body.unsupported("continue_final_message", no)?;
    body.unsupported("modalities", |value| value == &json!(["text"]))?;
    body.unsupported("audio", |_| false)?;
    body.unsupported("web_search_options", |_| false)?;
    body.unsupported("chat_template", |_| false)
}

/// Reads the prompts of a completion: a string, strings, token ids, or lists of token ids.
pub(super) fn prompts(body: Fields<'_>) -> Result<RequestInput> {
    body.unsupported("echo", |value| value == &Value::Bool(false))?;
    body.unsupported("suffix", |value| value == "")?;
    let prompts = match body.get("prompt") {
        None => return Err(missing("prompt")),
        Some(Value::String(text)) => vec![text_prompt(text, "prompt")?],
        Some(Value::Array(list)) => prompt_list(list)?,
        Some(other) => return Err(wrong_type("prompt", "a string or an array", other)),
    };
    Ok(RequestInput::Prompts(prompts.into()))
}

fn prompt_list(list: &[Value]) -> Result<Vec<Prompt>> {
    match list.first() {
        None => Err(invalid("prompt", "must not be an empty array")),
        Some(Value::Number(_)) => Ok(vec![token_prompt(list, "prompt")?]),
        Some(_) if list.len() > MAX_PROMPTS => Err(invalid(
            "prompt",
            format!(
                "must have at most {MAX_PROMPTS} prompts, not {}",
                list.len()
            ),
        )),
        Some(_) => list
            .iter()
            .enumerate()
            .map(|(index, prompt)| {
                let path = format!("prompt[{index}]");
                match prompt {
                    Value::String(text) => text_prompt(text, &path),
                    Value::Array(tokens) => token_prompt(tokens, &path),
                    other => Err(wrong_type(path, "a string or an array of token ids", other)),
                }
            })
            .collect(),
    }
}

fn text_prompt(text: &str, path: &str) -> Result<Prompt> {
    if text.is_empty() {
        return Err(invalid(path, "must not be empty"));
    }
    Ok(Prompt::Text(text.to_owned()))
}

fn token_prompt(tokens: &[Value], path: &str) -> Result<Prompt> {
    if tokens.is_empty() {
        return Err(invalid(path, "must have at least one token"));
    }
    let ids = tokens
        .iter()
        .enumerate()
        .map(|(index, token)| token_id(token, || format!("{path}[{index}]")));
    Ok(Prompt::Tokens(ids.collect::<Result<_>>()?))
}
