//! Pieces of generated text: tokens, and the text they are.

use std::fmt;
use std::sync::Arc;

use graphmill_engine::Timestamp;

use super::{EchoedText, EchoedTokens, TextLogprob, Token, TokenLogprob, Tokens, Usage};

/// The reason why a choice ended.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The model ended the text, or a stop token came.
    Stop,
    /// A stop string came: its place in [`GenerationParams::stop`](super::GenerationParams::stop).
    StopString(u16),
    /// `max_tokens` or the end of the context was reached.
    Length,
    /// The model ended its turn with calls of tools.
    ToolCalls,
}

impl Finish {
    /// OpenAI's `finish_reason`.
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
    /// The timestamp of the prompts that it belongs to.
    pub prompt: Timestamp,
    /// The choice: prompt `index / n`, generation `index % n`.
    pub index: u32,
    /// The prompt, on the first chunk of a choice whose request wants to be told of it.
    pub echo: Option<Box<EchoedTokens>>,
    /// The new tokens.
    pub tokens: Tokens,
    /// The new tokens and the one that ended the text, where the request asks for their ids.
    pub ids: Vec<Token>,
    /// One for each of the new tokens, and one more for the token that ended the text, where a
    /// token did; empty unless the request asks for them.
    pub logprobs: Vec<TokenLogprob>,
    /// Set on the last chunk of the choice.
    pub finish: Option<Finish>,
    /// The choice's counts so far.
    pub usage: Usage,
    /// Ends the choice's generation.
    pub stop: StopSignal,
}

/// Text of one choice. Chunks follow tokens, but what is held back (part of a character, of a stop
/// string, of a tool call) comes later, so a chunk's text can be empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TextChunk {
    /// The timestamp of the prompts that it belongs to.
    pub prompt: Timestamp,
    /// The choice.
    pub index: u32,
    /// The prompt, on the first chunk of a choice whose request wants to be told of it.
    pub echo: Option<Box<EchoedText>>,
    /// The new text: whole characters. Behind the parsers, what is neither reasoning nor a tool
    /// call.
    pub text: String,
    /// The tokens that were generated, with the one that ended the text; empty unless the request
    /// asks for their ids. They are not held back with text.
    pub ids: Vec<Token>,
    /// Thoughts of the model on its way to the answer: filled in by the reasoning parser. Comes
    /// before `text`.
    pub reasoning: String,
    /// Calls of tools, or pieces of them: filled in by the tool parser. They come after `text`.
    pub tool_calls: Vec<ToolCallDelta>,
    /// The tokens whose text begins in this chunk, with their log probabilities; empty unless the
    /// request asks for them. A node that holds text back holds these back with it, as
    /// [`HeldLogprobs`](super::HeldLogprobs) does; a node that parses text passes them on as they are.
    pub logprobs: Vec<TextLogprob>,
    /// Set on the last chunk of the choice.
    pub finish: Option<Finish>,
    /// The choice's counts so far.
    pub usage: Usage,
    /// Ends the choice's generation.
    pub stop: StopSignal,
}

/// A piece of a call of a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolCallDelta {
    /// The call, counted from 0 in its choice.
    pub index: u32,
    /// Set on the first piece of a call.
    pub start: Option<ToolCallStart>,
    /// More of the arguments. All pieces of a call, joined, are a JSON object, unless the choice
    /// ended inside of it.
    pub arguments: String,
}

/// The beginning of a call of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCallStart {
    /// Names the call, for the message that brings its result.
    pub id: Arc<str>,
    /// The tool.
    pub name: String,
}

/// Ends the generation of one choice, wherever downstream that is decided: travels with the
/// choice's tokens and text.
#[derive(Clone, Default)]
pub struct StopSignal(Option<Arc<dyn Fn() + Send + Sync>>);

impl StopSignal {
    /// A signal that calls `stop`. The default signal does nothing.
    pub fn new(stop: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(stop)))
    }

    /// No more tokens of this choice are wanted.
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

/// Signals are not part of what a chunk says, so they do not tell chunks apart.
impl PartialEq for StopSignal {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
