//! The content of a chat request: its messages, tools and template variables.

use std::sync::Arc;

use graphmill_dialects::{
    Fields,
    bodies::{
        chat::{Chat, Conversation},
        tools::{ThinkingKind, Tools},
    },
    error::wrong_type,
    json::Allowance,
};
use graphmill_engine::Result;
use serde_json::{Map, Value};

use super::tools;
use crate::http::{
    OwnParams,
    fields::{conflicting, invalid, missing},
    turns::{Content, Turns},
};
use crate::payload::{ChatInput, MediaKind};

/// Field that LMDeploy's client sends in all requests. It has no effect in chats.
const SESSION: &str = "session_id";

/// Reads the conversation, tools and own parameters of a request.
pub(in crate::http) fn read(
    fields: &mut Fields,
    allowance: &Allowance,
) -> Result<(ChatInput, OwnParams)> {
    let mut chat: Chat = fields.take()?;
    let messages = chat.messages.take().ok_or_else(|| missing("messages"))?;
    if let Conversation::Said(text) = &messages
        && !fields.unknown.iter().any(|name| name == SESSION)
    {
        let text = text.as_str().into();
        return Err(wrong_type("messages", "an array", &text));
    }
    let turns = turns(messages, "messages", allowance)?;
    conversation(chat, fields.take()?, turns)
}

/// Returns the turns of a conversation in this field.
pub(in crate::http) fn turns(
    conversation: Conversation,
    field: &str,
    allowance: &Allowance,
) -> Result<Turns> {
    let mut turns = Turns::default();
    let mut call = None;
    for (index, message) in Vec::from(conversation).into_iter().enumerate() {
        let place = (field, index);
        let message = self::message(message, place, &mut call, &mut turns, allowance)?;
        turns.messages.push(message);
    }
    Ok(turns)
}

/// Returns the input of a conversation with these turns, and its own parameters.
pub(in crate::http) fn conversation(
    chat: Chat,
    mut said: Tools,
    turns: Turns,
) -> Result<(ChatInput, OwnParams)> {
    let logprobs = chat.logprobs.then(|| chat.top_logprobs.unwrap_or(0));
    if logprobs.is_none() && chat.top_logprobs.is_some_and(|top| top > 0) {
        return Err(invalid("top_logprobs", "needs `logprobs: true`"));
    }
    if chat.continue_final_message && chat.add_generation_prompt == Some(true) {
        return Err(conflicting(
            "continue_final_message",
            "add_generation_prompt",
        ));
    }
    let tools = tools::read(&mut said)?;
    let mut variables = chat.chat_template_kwargs;
    if let Some(generate) = chat.add_generation_prompt {
        variables.insert("add_generation_prompt".into(), generate.into());
    }
    if let Some(documents) = chat.documents {
        variables.insert("documents".into(), documents.into());
    }
    read_reasoning(&said, &mut variables);
    let own = OwnParams {
        max_tokens: chat.max_tokens,
        logprobs,
        reasoning_budget: reasoning_budget(&said),
        function_call: tools.function_call,
        ..OwnParams::default()
    };
    let chat = ChatInput {
        messages: Arc::new(turns.messages),
        tools: tools.offered.map(Arc::new),
        tool_choice: tools.choice,
        one_tool_call: tools.one_call,
        tool_origins: Arc::default(),
        template_kwargs: Arc::new(variables),
        template: chat.chat_template.map(Arc::from),
        continues: chat.continue_final_message,
        partner: None,
        media: turns.media.into(),
    };
    Ok((chat, own))
}

/// Converts a message to the form that templates expect. Its content is text, in which
/// [`media_marker`](crate::payload::media_marker) stands for images and sounds. The arguments of
/// past tool calls are objects, if they are valid. `call` is the id of the last call that came as a
/// `function_call`.
fn message(
    mut message: Map<String, Value>,
    (field, index): (&str, usize),
    call: &mut Option<String>,
    turns: &mut Turns,
    allowance: &Allowance,
) -> Result<Value> {
    let path = format!("{field}[{index}]");
    if message.get("role").is_some_and(|role| role == "developer") {
        message.insert("role".into(), "system".into());
    }
    tools::rewrite_message(&mut message, index, call)?;
    for field in ["name", "tool_call_id"] {
        if message.get(field).is_some_and(Value::is_null) {
            message.remove(field);
        }
    }
    let content = match message.get("content") {
        Some(Value::String(_)) => None,
        Some(Value::Array(parts)) => {
            let content = joined(parts, &format!("{path}.content"));
            let is_result = message.get("role").is_some_and(|role| role == "tool");
            Some(turns.take(if is_result {
                content.into_result()
            } else {
                content
            }))
        }
        _ => Some("".into()),
    };
    if let Some(content) = content {
        message.insert("content".into(), content);
    }
    rename_reasoning(&mut message);
    match message.get_mut("tool_calls") {
        Some(Value::Array(calls)) if !calls.is_empty() => {
            for (index, call) in calls.iter_mut().enumerate() {
                tools::past_call(call, &format!("{path}.tool_calls[{index}]"), allowance);
            }
        }
        _ => {
            message.remove("tool_calls");
        }
    }
    Ok(Value::Object(message))
}

/// Joins the parts of a message's content.
fn joined(parts: &[Value], path: &str) -> Content {
    let mut content = Content::default();
    for (index, part) in parts.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let text = |name: &str, inner: &str| part[name][inner].as_str().unwrap_or_default();
        match part["type"].as_str() {
            // The level of detail is ignored: it is for models that can choose it.
            Some("image_url") => content.medium(MediaKind::Image, text("image_url", "url"), &path),
            Some("input_audio") => {
                content.medium(MediaKind::Sound, text("input_audio", "data"), &path);
            }
            _ => {
                let text = part["text"].as_str().or(part["refusal"].as_str());
                content.text(text.unwrap_or_default());
            }
        }
    }
    content
}

/// Sets the template variables `reasoning_effort` and `enable_thinking` from the fields. Values in
/// `chat_template_kwargs` have precedence.
fn read_reasoning(said: &Tools, kwargs: &mut Map<String, Value>) {
    let mut enabled = said.enable_thinking;
    if let Some(effort) = said.reasoning_effort.as_deref() {
        kwargs.entry("reasoning_effort").or_insert(effort.into());
        enabled = enabled.or(Some(effort != "none"));
    }
    match said.thinking.as_ref().map(|thinking| &thinking.kind) {
        Some(ThinkingKind::Enabled) => enabled = Some(true),
        Some(ThinkingKind::Disabled) => enabled = Some(false),
        Some(ThinkingKind::Adaptive) | None => {}
    }
    if let Some(enabled) = enabled {
        kwargs.entry("enable_thinking").or_insert(enabled.into());
    }
}

/// Returns the maximum number of tokens of reasoning; `None` if the request sets none. -1 is no
/// limit, and 0 is no reasoning.
fn reasoning_budget(said: &Tools) -> Option<u32> {
    let thinking = said.thinking.as_ref();
    let thinking = thinking.and_then(|thinking| thinking.budget_tokens);
    match said.thinking_token_budget {
        Some(tokens) => u32::try_from(tokens).ok(),
        None => thinking,
    }
}

/// Renames an assistant's reasoning to the names that templates know: `reasoning_content`, and
/// `thinking` for harmony.
fn rename_reasoning(message: &mut Map<String, Value>) {
    let given = ["reasoning_content", "reasoning"].map(|name| message.remove(name));
    let mut texts = given.into_iter().flatten();
    if let Some(reasoning) = texts.find(Value::is_string) {
        message.insert("reasoning_content".to_owned(), reasoning.clone());
        message.insert("thinking".to_owned(), reasoning);
    }
}
