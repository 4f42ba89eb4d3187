//! Changed conversations, for chat templates that do not accept the original ones.

use serde_json::{Value, json};

use crate::payload::media_marker;

/// A function that changes messages, or returns `None` if there is nothing to change.
pub(super) type Amendment = fn(&[Value]) -> Option<Vec<Value>>;

/// Amendments for a template that refuses a conversation, in the order in which they are tried.
pub(super) const ALL: &[Amendment] = &[arguments_as_objects, thoughts_in_one, one_system_message];

/// Returns true if a prompt contains the text of all system messages after the first message. Most
/// templates that do not expect these leave them out.
pub(super) fn tells(prompt: &str, messages: &[Value]) -> bool {
    let mut rest = prompt;
    let mut others = messages.iter().skip(1).filter(|it| is_system(it));
    others.all(|message| {
        let text = message["content"].as_str().unwrap_or_default().trim();
        rest.find(text).is_some_and(|at| {
            rest = &rest[at + text.len()..];
            true
        })
    })
}

fn is_system(message: &Value) -> bool {
    message["role"] == "system"
}

/// Joins all system messages into one at the beginning.
pub(super) fn one_system_message(messages: &[Value]) -> Option<Vec<Value>> {
    let texts: Vec<&str> = (messages.iter().filter(|it| is_system(it)))
        .filter_map(|message| message["content"].as_str())
        .collect();
    // Images must stay in the order of the messages.
    let has_media = texts.iter().any(|text| text.contains(media_marker()));
    if has_media || !messages.iter().skip(1).any(is_system) {
        return None;
    }
    let first = json!({ "role": "system", "content": texts.join("\n\n") });
    let others = messages.iter().filter(|it| !is_system(it)).cloned();
    Some([first].into_iter().chain(others).collect())
}

/// Makes the arguments of each call an object. A text that is not a valid object becomes the member
/// `arguments` of one.
fn arguments_as_objects(messages: &[Value]) -> Option<Vec<Value>> {
    let mut messages = messages.to_vec();
    let mut has_changed = false;
    for message in &mut messages {
        let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
        for call in calls.into_iter().flatten() {
            let arguments = &mut call["function"]["arguments"];
            if arguments.is_string() {
                *arguments = json!({ "arguments": arguments.take() });
                has_changed = true;
            }
        }
    }
    has_changed.then_some(messages)
}

/// Moves an assistant's text before a call into its reasoning, because some templates have one
/// place for both.
fn thoughts_in_one(messages: &[Value]) -> Option<Vec<Value>> {
    let mut messages = messages.to_vec();
    let mut has_changed = false;
    for message in &mut messages {
        let said = message["content"].as_str().unwrap_or_default();
        let thought = message["thinking"].as_str().unwrap_or_default();
        if message["tool_calls"].is_null() || said.is_empty() || thought.is_empty() {
            continue;
        }
        let both = format!("{thought}\n{said}");
        message["thinking"] = both.clone().into();
        message["reasoning_content"] = both.into();
        message["content"] = "".into();
        has_changed = true;
    }
    has_changed.then_some(messages)
}
