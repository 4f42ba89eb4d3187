//! Answers of `chat/interactive`.

use graphmill_llm::Usage;
use serde_json::{Value, json};

use super::HISTORY_TOKENS;
use crate::payload::{Finish, TextRequest};

/// Writes the object of a text, or of a piece of it.
pub(super) fn written(
    request: &TextRequest,
    text: &str,
    usage: &Usage,
    finish: Option<Finish>,
) -> Value {
    let before = request.echo.get(HISTORY_TOKENS).and_then(Value::as_u64);
    let before = before.unwrap_or_default();
    json!({
        "text": text,
        "tokens": usage.generated_tokens,
        "input_tokens": u64::from(usage.prompt_tokens).saturating_sub(before),
        "history_tokens": before,
        "finish_reason": finish.map(Finish::as_str),
    })
}
