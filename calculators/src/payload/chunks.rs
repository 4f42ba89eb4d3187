//! Chunks of generated output: tokens, and their text.

use std::fmt;
use std::sync::Arc;

use graphmill_engine::{Timestamp, register_payload};
use serde::{Deserialize, Serialize};

use super::forms::{
    ToolCallForm, is_zero, read_as, read_logprobs, write_logprobs, write_time, write_tokens,
};
use super::{EchoedText, EchoedTokens, TextLogprob, Token, TokenLogprob, Tokens, Usage};

/// The reason why a choice ended.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// The model ended the text, or a stop token came.
    Stop,
    /// A stop string came. The number is its index in
    /// [`GenerationParams::stop`](super::GenerationParams::stop).
    #[serde(skip_deserializing)]
    StopString(u16),
    /// `max_tokens` or the end of the context was reached.
    Length,
    /// The model ended its turn with tool calls.
    ToolCalls,
}

impl Finish {
    /// Returns the reason as OpenAI's `finish_reason`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stop | Self::StopString(_) => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
        }
    }

    /// Returns the reason for clients that know only `stop` and `length`.
    pub(crate) fn without_calls(self) -> &'static str {
        match self {
            Self::ToolCalls => "stop",
            other => other.as_str(),
        }
    }
}

/// Tokens of one choice from one step of the engine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TokenChunk {
    /// Number of the choice: prompt `index / n`, generation `index % n`.
    pub index: u32,
    /// New tokens; the token that ended the text is not one of them.
    #[serde(
        serialize_with = "write_tokens",
        deserialize_with = "read_as::<Vec<Token>, _, _>"
    )]
    pub tokens: Tokens,
    /// Set on the last chunk of the choice.
    pub finish: Option<Finish>,
    /// The choice's counts so far.
    pub usage: Usage,
    /// Timestamp of the prompts that it belongs to.
    #[serde(
        skip_serializing_if = "is_zero",
        serialize_with = "write_time",
        deserialize_with = "read_as::<i64, _, _>"
    )]
    pub prompt: Timestamp,
    /// The prompt, on the first chunk of a choice. Absent unless the request asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub echo: Option<Box<EchoedTokens>>,
    /// Log probabilities: one for each new token, and one more for the token that ended the text,
    /// if a token did. Empty unless the request asks for them.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        serialize_with = "write_logprobs",
        deserialize_with = "read_logprobs"
    )]
    pub logprobs: Vec<TokenLogprob>,
    /// Ids of the new tokens and of the one that ended the text. Empty unless the request asks for
    /// them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<Token>,
    /// Signal that ends the generation of this choice.
    #[serde(skip)]
    pub stop: StopSignal,
}
register_payload!(TokenChunk as "token_chunk");

/// Text of one choice. Chunks follow tokens. Text that is held back (part of a character, of a stop
/// string or of a tool call) comes in a later chunk, so a chunk's text can be empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TextChunk {
    /// Number of the choice: prompt `index / n`, generation `index % n`.
    pub index: u32,
    /// New text, in whole characters. Behind the parsers it has neither reasoning nor tool calls.
    pub text: String,
    /// Set on the last chunk of the choice.
    pub finish: Option<Finish>,
    /// The choice's counts so far.
    pub usage: Usage,
    /// Timestamp of the prompts that it belongs to.
    #[serde(
        skip_serializing_if = "is_zero",
        serialize_with = "write_time",
        deserialize_with = "read_as::<i64, _, _>"
    )]
    pub prompt: Timestamp,
    /// Reasoning of the model before the answer, from the reasoning parser. It comes before `text`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reasoning: String,
    /// Tool calls, or pieces of them, from the tool parser. They come after `text`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCallDelta>,
    /// The prompt, on the first chunk of a choice. Absent unless the request asks for it.
    #[serde(skip)]
    pub echo: Option<Box<EchoedText>>,
    /// The generated tokens, and the one that ended the text. Empty unless the request asks for
    /// their ids. They are not held back with text.
    #[serde(skip)]
    pub ids: Vec<Token>,
    /// Tokens whose text begins in this chunk, with their log probabilities. Empty unless the
    /// request asks for them. A node that holds text back holds these back with it, as
    /// [`HeldLogprobs`](super::HeldLogprobs) does. A node that parses text passes them on
    /// unchanged.
    #[serde(skip)]
    pub logprobs: Vec<TextLogprob>,
    /// Signal that ends the generation of this choice.
    #[serde(skip)]
    pub stop: StopSignal,
}
register_payload!(TextChunk as "text_chunk");

/// A piece of a tool call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "ToolCallForm")]
pub struct ToolCallDelta {
    /// Number of the call, counted from 0 in its choice.
    pub index: u32,
    /// Next piece of the arguments. All pieces of a call, joined, are a JSON object, unless the
    /// choice ended inside of it.
    pub arguments: String,
    /// Set on the first piece of a call.
    #[serde(flatten)]
    pub start: Option<ToolCallStart>,
}

/// The beginning of a tool call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ToolCallStart {
    /// Id of the call. The message with the call's result repeats it.
    pub id: Arc<str>,
    /// Name of the called tool.
    pub name: String,
}

/// A signal that ends the generation of one choice. It travels with the choice's tokens and text,
/// so that any later node can stop the generation.
#[derive(Clone, Default)]
pub struct StopSignal(Option<Arc<dyn Fn() + Send + Sync>>);

impl StopSignal {
    /// Creates a signal that calls `stop`. The default signal does nothing.
    pub fn new(stop: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(stop)))
    }

    /// Ends the generation of this choice: no more of its tokens are needed.
    pub fn stop(&self) {
        if let Some(stop) = &self.0 {
            stop();
        }
    }
}

impl fmt::Debug for StopSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StopSignal")
    }
}

/// Signals are ignored when chunks are compared: all of them are equal.
impl PartialEq for StopSignal {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
