//! Chunks of generated output: tokens, and their text.

use std::fmt;
use std::sync::Arc;

use graphmill_engine::Timestamp;

use super::{EchoedText, EchoedTokens, TextLogprob, Token, TokenLogprob, Tokens, Usage};

/// The reason why a choice ended.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The model ended the text, or a stop token came.
    Stop,
    /// A stop string came. The number is its index in
    /// [`GenerationParams::stop`](super::GenerationParams::stop).
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
}

/// Tokens of one choice from one step of the engine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TokenChunk {
    /// Timestamp of the prompts that it belongs to.
    pub prompt: Timestamp,
    /// Number of the choice: prompt `index / n`, generation `index % n`.
    pub index: u32,
    /// The prompt, on the first chunk of a choice. Absent unless the request asks for it.
    pub echo: Option<Box<EchoedTokens>>,
    /// New tokens; the token that ended the text is not one of them.
    pub tokens: Tokens,
    /// Ids of the new tokens and of the one that ended the text. Empty unless the request asks for
    /// them.
    pub ids: Vec<Token>,
    /// Log probabilities: one for each new token, and one more for the token that ended the text,
    /// if a token did. Empty unless the request asks for them.
    pub logprobs: Vec<TokenLogprob>,
    /// Set on the last chunk of the choice.
    pub finish: Option<Finish>,
    /// The choice's counts so far.
    pub usage: Usage,
    /// Signal that ends the generation of this choice.
    pub stop: StopSignal,
}

/// Text of one choice. Chunks follow tokens. Text that is held back (part of a character, of a stop
/// string or of a tool call) comes in a later chunk, so a chunk's text can be empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TextChunk {
    /// Timestamp of the prompts that it belongs to.
    pub prompt: Timestamp,
    /// Number of the choice: prompt `index / n`, generation `index % n`.
    pub index: u32,
    /// The prompt, on the first chunk of a choice. Absent unless the request asks for it.
    pub echo: Option<Box<EchoedText>>,
    /// New text, in whole characters. Behind the parsers it has neither reasoning nor tool calls.
    pub text: String,
    /// The generated tokens, and the one that ended the text. Empty unless the request asks for
    /// their ids. They are not held back with text.
    pub ids: Vec<Token>,
    /// Reasoning of the model before the answer, from the reasoning parser. It comes before `text`.
    pub reasoning: String,
    /// Tool calls, or pieces of them, from the tool parser. They come after `text`.
    pub tool_calls: Vec<ToolCallDelta>,
    /// Tokens whose text begins in this chunk, with their log probabilities. Empty unless the
    /// request asks for them. A node that holds text back holds these back with it, as
    /// [`HeldLogprobs`](super::HeldLogprobs) does. A node that parses text passes them on
    /// unchanged.
    pub logprobs: Vec<TextLogprob>,
    /// Set on the last chunk of the choice.
    pub finish: Option<Finish>,
    /// The choice's counts so far.
    pub usage: Usage,
    /// Signal that ends the generation of this choice.
    pub stop: StopSignal,
}

/// A piece of a tool call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolCallDelta {
    /// Number of the call, counted from 0 in its choice.
    pub index: u32,
    /// Set on the first piece of a call.
    pub start: Option<ToolCallStart>,
    /// Next piece of the arguments. All pieces of a call, joined, are a JSON object, unless the
    /// choice ended inside of it.
    pub arguments: String,
}

/// The beginning of a tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
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
