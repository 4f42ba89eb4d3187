//! Texts with which an answer begins in the prompts of a chat template.

use serde_json::{Value, json};

use crate::text::chat_template::ChatTemplate;

/// Text of the last message. Templates do not contain it themselves.
const CONTENT: &str = "last-message";

/// Finds these texts by rendering chats that end with a message of a user or of a tool, with
/// reasoning and without.
pub(super) fn find(template: &ChatTemplate) -> Vec<String> {
    let call = json!({ "id": "000000001", "type": "function", "function": { "name": "f", "arguments": {} } });
    let user = json!({ "role": "user", "content": CONTENT });
    let asked = json!({ "role": "user", "content": "question" });
    let called = json!({ "role": "assistant", "content": "", "tool_calls": [call] });
    let told =
        json!({ "role": "tool", "tool_call_id": "000000001", "name": "f", "content": CONTENT });
    let mut turns = Vec::new();
    for messages in [json!([user]), json!([asked, called, told])] {
        for thinks in [Value::Null, json!(true), json!(false)] {
            turns.extend(begun(template, &messages, &thinks));
        }
    }
    turns.sort();
    turns.dedup();
    turns
}

/// Returns the part of a prompt that the template adds for the answer, or else the part after the
/// last message.
fn begun(template: &ChatTemplate, messages: &Value, thinks: &Value) -> Option<String> {
    let render = |generates: bool| {
        let mut variables = json!({
            "messages": messages, "tools": null, "documents": null, "add_generation_prompt": generates,
            "bos_token": "", "eos_token": "<|im_end|>",
        });
        if !thinks.is_null() {
            variables["enable_thinking"] = thinks.clone();
        }
        template.render(&variables).ok()
    };
    let prompt = render(true)?;
    let added = render(false).and_then(|text| prompt.strip_prefix(&text).map(str::to_owned));
    let added = added.filter(|added| !added.is_empty());
    let after = || Some(prompt.rsplit_once(CONTENT)?.1.to_owned());
    added.or_else(after).filter(|turn| !turn.is_empty())
}
