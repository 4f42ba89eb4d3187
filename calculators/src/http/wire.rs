//! The JSON of answers, field by field in OpenAI's order.

use graphmill_llm::Usage as Counts;
use serde::Serialize;

use crate::payload::TextRequest;

/// Names the software in every answer; changes where a change of it can change answers.
const SYSTEM_FINGERPRINT: &str = concat!("graphmill-", env!("CARGO_PKG_VERSION"));

/// An answer, or a chunk of one; `C` is the kind of its choices.
#[derive(Serialize)]
pub(super) struct Answer<'a, C> {
    pub(super) id: &'a str,
    pub(super) object: &'static str,
    pub(super) created: u64,
    pub(super) model: &'a str,
    system_fingerprint: &'static str,
    pub(super) choices: C,
    #[serde(skip_serializing_if = "UsageField::is_absent")]
    pub(super) usage: UsageField,
}

impl<'a, C> Answer<'a, C> {
    pub(super) fn new(head: &'a TextRequest, object: &'static str, choices: C) -> Self {
        Self {
            id: &head.id,
            object,
            created: head.created,
            model: &head.model,
            system_fingerprint: SYSTEM_FINGERPRINT,
            choices,
            usage: UsageField::Absent,
        }
    }
}

/// The `usage` of an answer.
#[derive(Copy, Clone, Debug, Serialize)]
#[serde(untagged)]
pub(super) enum UsageField {
    /// No such field: in chunks of streams that do not ask for it, as clients add up what they see.
    Absent,
    /// Null: in the chunks but the last of streams that do.
    Null,
    /// In whole answers, and in the last chunk.
    Counts(Usage),
}

impl UsageField {
    fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }
}

/// Token counts of a request.
#[derive(Copy, Clone, Debug, Default, Serialize)]
pub(super) struct Usage {
    pub(super) prompt_tokens: u32,
    pub(super) completion_tokens: u32,
    pub(super) total_tokens: u32,
    pub(super) prompt_tokens_details: PromptTokensDetails,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) completion_tokens_details: Option<CompletionTokensDetails>,
}

impl From<&Counts> for Usage {
    fn from(counts: &Counts) -> Self {
        Self {
            prompt_tokens: counts.prompt_tokens,
            completion_tokens: counts.generated_tokens,
            total_tokens: counts.prompt_tokens + counts.generated_tokens,
            prompt_tokens_details: PromptTokensDetails {
                cached_tokens: counts.cached_tokens,
                audio_tokens: counts.sound_tokens,
            },
            completion_tokens_details: counts.drafts.map(|drafts| CompletionTokensDetails {
                accepted_prediction_tokens: drafts.accepted,
                rejected_prediction_tokens: drafts.rejected,
            }),
        }
    }
}

#[derive(Copy, Clone, Debug, Default, Serialize)]
pub(super) struct PromptTokensDetails {
    pub(super) cached_tokens: u32,
    /// Present where the prompt has sounds.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) audio_tokens: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde calls")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Present where tokens were drafted.
#[derive(Copy, Clone, Debug, Default, Serialize)]
pub(super) struct CompletionTokensDetails {
    pub(super) accepted_prediction_tokens: u32,
    pub(super) rejected_prediction_tokens: u32,
}

/// A number with the digits it was given with, not those that its nearest 64-bit neighbor has.
pub(super) fn number(value: f32) -> serde_json::Value {
    value
        .to_string()
        .parse::<f64>()
        .map_or(serde_json::Value::Null, serde_json::Value::from)
}
