//! Numbers in the JSON of answers.

use graphmill_llm::Usage;
use serde_json::{Value, json};

/// Returns the token counts of an answer.
pub(super) fn usage(counts: &Usage) -> Value {
    let mut usage = json!({
        "prompt_tokens": counts.prompt_tokens,
        "completion_tokens": counts.generated_tokens,
        "total_tokens": counts.prompt_tokens + counts.generated_tokens,
        "prompt_tokens_details": { "cached_tokens": counts.cached_tokens },
    });
    if counts.sound_tokens > 0 {
        usage["prompt_tokens_details"]["audio_tokens"] = counts.sound_tokens.into();
    }
    if let Some(drafts) = counts.drafts {
        usage["completion_tokens_details"] = json!({
            "accepted_prediction_tokens": drafts.accepted,
            "rejected_prediction_tokens": drafts.rejected,
        });
    }
    usage
}

/// Returns a number with its own shortest digits, not those of its nearest 64-bit neighbor.
pub(super) fn number(value: f32) -> Value {
    let number = value.to_string().parse::<f64>();
    number.map_or(Value::Null, Value::from)
}
