//! Reasoning in chats: the fields that enable and limit it, and earlier reasoning in a
//! conversation.

use graphmill_dialects::bodies::tools::{ThinkingKind, Tools};
use serde_json::{Map, Value};

/// Sets the template variables `reasoning_effort` and `enable_thinking` from the fields. Values in
/// `chat_template_kwargs` have precedence.
pub(super) fn read(said: &Tools, kwargs: &mut Map<String, Value>) {
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
pub(super) fn budget(said: &Tools) -> Option<u32> {
    let thinking = said.thinking.as_ref();
    let thinking = thinking.and_then(|thinking| thinking.budget_tokens);
    match said.thinking_token_budget {
        Some(tokens) => u32::try_from(tokens).ok(),
        None => thinking,
    }
}

/// Renames an assistant's reasoning to the names that templates know: `reasoning_content`, and
/// `thinking` for harmony.
pub(super) fn rename_in(message: &mut Map<String, Value>) {
    let given = ["reasoning_content", "reasoning"].map(|name| message.remove(name));
    let mut texts = given.into_iter().flatten();
    if let Some(reasoning) = texts.find(Value::is_string) {
        message.insert("reasoning_content".to_owned(), reasoning.clone());
        message.insert("thinking".to_owned(), reasoning);
    }
}
