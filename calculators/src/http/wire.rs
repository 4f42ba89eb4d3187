//! The JSON of answers, field by field in OpenAI's order.

use serde::Serialize;

use super::logprobs::{ChatLogprobs, TextLogprobs};
use crate::payload::{Finish, TextRequest, ToolCallDelta};

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

#[derive(Copy, Clone, Debug, Default, Serialize)]
pub(super) struct PromptTokensDetails {
    pub(super) cached_tokens: u32,
}

/// Present where tokens were drafted.
#[derive(Copy, Clone, Debug, Default, Serialize)]
pub(super) struct CompletionTokensDetails {
    pub(super) accepted_prediction_tokens: u32,
    pub(super) rejected_prediction_tokens: u32,
}

/// A choice of a whole chat answer.
#[derive(Serialize)]
pub(super) struct ChatChoice<'a> {
    pub(super) index: u32,
    pub(super) message: Message<'a>,
    pub(super) logprobs: Option<ChatLogprobs<'a>>,
    pub(super) finish_reason: &'static str,
}

#[derive(Serialize)]
pub(super) struct Message<'a> {
    pub(super) role: &'static str,
    /// Null where the message is nothing but tool calls.
    pub(super) content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_content: Option<&'a str>,
    pub(super) refusal: (),
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tool_calls: Vec<ToolCall<'a>>,
    /// In the place of calls, where the request has functions instead of tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) function_call: Option<Function<'a>>,
}

/// A call of a tool in a whole answer.
#[derive(Serialize)]
pub(super) struct ToolCall<'a> {
    pub(super) id: &'a str,
    pub(super) r#type: &'static str,
    pub(super) function: Function<'a>,
}

#[derive(Serialize)]
pub(super) struct Function<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<&'a str>,
    pub(super) arguments: &'a str,
}

/// A choice of a chat chunk.
#[derive(Serialize)]
pub(super) struct ChatDelta<'a> {
    pub(super) index: u32,
    pub(super) delta: Delta<'a>,
    pub(super) logprobs: Option<ChatLogprobs<'a>>,
    pub(super) finish_reason: Option<&'static str>,
}

/// What a chunk adds to a message. Clients concatenate every string they see, so the role comes once.
#[derive(Default, Serialize)]
pub(super) struct Delta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tool_calls: Vec<ToolCallPiece<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) function_call: Option<Function<'a>>,
}

/// A piece of a tool call: id, type and name stand in the first one only.
#[derive(Serialize)]
pub(super) struct ToolCallPiece<'a> {
    pub(super) index: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) r#type: Option<&'static str>,
    pub(super) function: Function<'a>,
}

impl<'a> From<&'a ToolCallDelta> for Function<'a> {
    fn from(delta: &'a ToolCallDelta) -> Self {
        Self {
            name: delta.start.as_ref().map(|start| start.name.as_str()),
            arguments: &delta.arguments,
        }
    }
}

impl<'a> From<&'a ToolCallDelta> for ToolCallPiece<'a> {
    fn from(delta: &'a ToolCallDelta) -> Self {
        let start = delta.start.as_ref();
        Self {
            index: delta.index,
            id: start.map(|start| &*start.id),
            r#type: start.map(|_| "function"),
            function: delta.into(),
        }
    }
}

/// A choice of a text completion, whole or chunk.
#[derive(Serialize)]
pub(super) struct TextChoice<'a> {
    pub(super) text: &'a str,
    pub(super) index: u32,
    pub(super) logprobs: Option<TextLogprobs<'a>>,
    pub(super) finish_reason: Option<&'static str>,
}

/// Why a choice ended, in the form of the request.
pub(super) fn finish_reason(request: &TextRequest, finish: Finish) -> &'static str {
    match finish {
        Finish::ToolCalls if request.function_call => "function_call",
        finish => finish.as_str(),
    }
}

/// A number with the digits it was given with, not those that its nearest 64-bit neighbour has.
pub(super) fn number(value: f32) -> serde_json::Value {
    value
        .to_string()
        .parse::<f64>()
        .map_or(serde_json::Value::Null, serde_json::Value::from)
}
