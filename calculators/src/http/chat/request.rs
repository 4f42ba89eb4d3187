//! The content of a chat request: its messages, tools and template variables.

use std::sync::Arc;

use graphmill_dialects::{
    Fields,
    bodies::{chat::Chat, tools::Tools},
    json::Allowance,
};
use graphmill_engine::Result;
use serde_json::{Map, Value};

use super::{functions, reasoning, tools};
use crate::http::{
    fields::{invalid, missing},
    params::OwnParams,
};
use crate::payload::{ChatInput, MediaKind, MediaSource, media_marker};

/// Reads a conversation.
pub(in crate::http) fn chat(
    fields: &mut Fields,
    allowance: &Allowance,
) -> Result<(ChatInput, OwnParams)> {
    let chat: Chat = fields.take()?;
    let mut said: Tools = fields.take()?;
    let logprobs = chat.logprobs.then(|| chat.top_logprobs.unwrap_or(0));
    if logprobs.is_none() && chat.top_logprobs.is_some_and(|top| top > 0) {
        return Err(invalid("top_logprobs", "needs `logprobs: true`"));
    }
    if chat.continue_final_message && chat.add_generation_prompt == Some(true) {
        return Err(invalid(
            "continue_final_message",
            "cannot be used together with `add_generation_prompt`",
        ));
    }
    let mut call = None;
    let mut media = Vec::new();
    let messages = chat.messages.ok_or_else(|| missing("messages"))?;
    let messages = messages.into_iter().enumerate();
    let messages = messages
        .map(|(index, message)| self::message(message, index, &mut call, &mut media, allowance))
        .collect::<Result<_>>()?;
    let tools = tools::read(&mut said)?;
    let mut variables = chat.chat_template_kwargs;
    if let Some(generate) = chat.add_generation_prompt {
        variables.insert("add_generation_prompt".into(), generate.into());
    }
    if let Some(documents) = chat.documents {
        variables.insert("documents".into(), documents.into());
    }
    reasoning::read(&said, &mut variables);
    let own = OwnParams {
        max_tokens: chat.max_tokens,
        logprobs,
        reasoning_budget: reasoning::budget(&said),
        function_call: tools.function_call,
        ..OwnParams::default()
    };
    let chat = ChatInput {
        messages: Arc::new(messages),
        tools: tools.offered.map(Arc::new),
        tool_choice: tools.choice,
        one_tool_call: tools.one_call,
        template_kwargs: Arc::new(variables),
        continues: chat.continue_final_message,
        partner: None,
        media: media.into(),
    };
    Ok((chat, own))
}

/// A message as templates expect it: with text content, in which [`media_marker`] stands for images
/// and sounds, and past tool calls whose arguments are objects. `call` is the id of the last call
/// that came as a `function_call`.
fn message(
    mut message: Map<String, Value>,
    index: usize,
    call: &mut Option<String>,
    media: &mut Vec<MediaSource>,
    allowance: &Allowance,
) -> Result<Value> {
    let path = format!("messages[{index}]");
    if message.get("role").is_some_and(|role| role == "developer") {
        message.insert("role".into(), "system".into());
    }
    functions::of_message(&mut message, index, call)?;
    for field in ["name", "tool_call_id"] {
        if message.get(field).is_some_and(Value::is_null) {
            message.remove(field);
        }
    }
    let content = match message.get("content") {
        Some(Value::String(_)) => None,
        Some(Value::Array(parts)) => Some(joined(parts, &format!("{path}.content"), media)),
        _ => Some(String::new()),
    };
    if let Some(content) = content {
        message.insert("content".into(), content.into());
    }
    reasoning::of_message(&mut message);
    match message.get_mut("tool_calls") {
        Some(Value::Array(calls)) if !calls.is_empty() => {
            for (index, call) in calls.iter_mut().enumerate() {
                tools::past_call(call, &format!("{path}.tool_calls[{index}]"), allowance)?;
            }
        }
        _ => {
            message.remove("tool_calls");
        }
    }
    Ok(Value::Object(message))
}

/// The text of a message's parts: a line each, and a marker where an image or a sound is.
fn joined(parts: &[Value], path: &str, media: &mut Vec<MediaSource>) -> String {
    let mut joined = String::new();
    let mut was_text = false;
    for (index, part) in parts.iter().enumerate() {
        let medium = match part["type"].as_str() {
            // How detailed it is to be looked at is for models that can choose.
            Some("image_url") => Some((MediaKind::Image, &part["image_url"]["url"])),
            Some("input_audio") => Some((MediaKind::Sound, &part["input_audio"]["data"])),
            _ => None,
        };
        if let Some((kind, data)) = medium {
            media.push(MediaSource {
                field: format!("{path}[{index}]").into(),
                kind,
                data: data.as_str().unwrap_or_default().into(),
            });
            joined.push_str(media_marker());
            was_text = false;
            continue;
        }
        if std::mem::replace(&mut was_text, true) {
            joined.push('\n');
        }
        let text = part["text"].as_str().or(part["refusal"].as_str());
        joined.push_str(text.unwrap_or_default());
    }
    joined
}
