//! Payloads of the streams of a chat graph.
//!
//! ```text
//! HttpRequestPayload ─► TextRequest + GenerationParams ─► Prompts ─► TokenPrompts ─► TokenChunk… ─► TextChunk… ─► HttpResponse…
//! ```
//!
//! None of these is a wire format; their forms in JSON are for tools that run a graph from a file. The request node reads one, the response node writes one, and
//! the nodes in between serve every dialect.

mod account;
pub(crate) mod base64;
mod chunks;
pub mod dialect;
mod embedding;
mod forms;
mod generation;
mod http;
mod http_form;
mod logprobs;
mod question;
mod tally;
mod vectors;

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::{Arc, LazyLock};

use graphmill_engine::register_payload;
pub use graphmill_llm::{
    CompiledConstraint, Constraint, NamedAdapter, NamedText, PlacedTile, QueuePlace,
    ReasoningLimit, ReasoningMarks, SamplingParams, Tenant, Token, TokenLogprob, TokenSet, Tokens,
    Usage,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use dialect::TextDialect;

pub(crate) use account::batch_priority_of;
pub use account::{Account, GenerationBounds, Quota, Terms};
pub use chunks::{Finish, StopSignal, TextChunk, TokenChunk, ToolCallDelta, ToolCallStart};
pub use embedding::{
    Classes, Embeddings, EmbeddingsRequest, Relevance, RerankForm, RerankRequest, VectorForm,
};
pub use generation::{GenerationParams, SpecialTokens, TextConstraint, Truncation};
pub use graphmill_dialects::json::{JsonBody, MAX_DEPTH, MAX_FIELDS, MAX_VALUES, without_mark};
pub use http::{HttpRequestPayload, HttpResponse};
pub use logprobs::{EchoedText, EchoedTokens, HeldLogprobs, LikelyToken, TextLogprob};
pub use question::{EffectiveValues, PromptQuestion, PromptReport, QuestionKind};
pub(crate) use tally::OpenWait;
pub use tally::{Tally, TallyCounts};
pub use vectors::PromptVectors;

/// A checked request: everything the answer needs, apart from the parameters of generation.
#[derive(Clone, Debug)]
pub struct TextRequest {
    /// Id of the answer, such as `chatcmpl-1f3a…`.
    pub id: Arc<str>,
    /// Time when the request was read, in seconds since 1970.
    pub created: u64,
    /// The model as the request names it.
    pub model: Arc<str>,
    /// The dialect of the request and of its answer.
    pub dialect: &'static dyn TextDialect,
    /// The conversation or the prompts.
    pub input: RequestInput,
    /// Number of choices for each prompt.
    pub n: u32,
    /// True if the answer streams.
    pub stream: bool,
    /// True if a stream ends with a chunk of token counts.
    pub include_usage: bool,
    /// True if every chunk of a stream has the token counts so far.
    pub continuous_usage: bool,
    /// True if the answer has the log probabilities of its tokens.
    pub logprobs: bool,
    /// Other details about tokens that the answer has.
    pub told: ToldTokens,
    /// Names of unknown fields of the request.
    pub ignored: Arc<[String]>,
    /// Fields of the request that its answer repeats or follows, in dialects whose answers do.
    pub echo: Arc<Map<String, Value>>,
    /// True if its answer writes a tool call as `function_call`, the older form of OpenAI's API.
    pub function_call: bool,
}

/// Details about tokens that an answer has.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct ToldTokens {
    /// True if the text of the prompt comes before the answer.
    pub prompt: bool,
    /// True if the answer has the ids of tokens.
    pub ids: bool,
    /// True if log probabilities name tokens by their ids.
    pub by_id: bool,
    /// Number of the likeliest tokens to report at each place of the prompt.
    pub prompt_logprobs: Option<u8>,
}

impl TextRequest {
    /// Returns the number of choices of the answer: `n` for each prompt.
    pub fn choices(&self) -> usize {
        let prompts = match &self.input {
            RequestInput::Chat(_) => 1,
            RequestInput::Prompts(prompts) => prompts.len(),
        };
        prompts * self.n as usize
    }

    /// Returns the text of the first prompt; empty if it is not plain text.
    pub(crate) fn prompt_text(&self) -> &str {
        match &self.input {
            RequestInput::Prompts(prompts) => match prompts.first() {
                Some(Prompt::Text(text)) => text,
                _ => "",
            },
            RequestInput::Chat(_) => "",
        }
    }
}

/// The input of a request.
#[derive(Clone, Debug)]
pub enum RequestInput {
    /// A conversation, for a chat template.
    Chat(ChatInput),
    /// Prompts, used as they are. They are shared, because they can be large.
    Prompts(Arc<[Prompt]>),
}

/// The variables of a chat template.
#[derive(Clone, Debug, Default)]
pub struct ChatInput {
    /// The messages, each an object with at least `role` and `content`. The text parts of the
    /// content are joined. The arguments of past tool calls are objects, or texts if they are not
    /// valid objects.
    pub messages: Arc<Vec<Value>>,
    /// The tools as the request lists them, unless it forbids their use.
    pub tools: Option<Arc<Vec<Value>>>,
    /// The tools that the model has to call.
    pub tool_choice: ToolChoice,
    /// True if an answer may have at most one tool call.
    pub one_tool_call: bool,
    /// The tools as the request names them, by the names that the model sees. Only for dialects in
    /// which they differ.
    pub tool_origins: Arc<BTreeMap<String, ToolOrigin>>,
    /// More variables of the template, from `chat_template_kwargs`.
    pub template_kwargs: Arc<Map<String, Value>>,
    /// Template from the request, used instead of the model's.
    pub template: Option<Arc<str>>,
    /// True if the answer continues the last message instead of beginning a new one.
    pub continues: bool,
    /// The partner whose replies its messages may repeat; `None` if messages are only text.
    pub partner: Option<Partner>,
    /// Images and sounds of the conversation, in order. [`media_marker`] stands for each in the
    /// content of messages.
    pub media: Arc<[MediaSource]>,
}

/// A tool as a request names it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolOrigin {
    /// Namespace of the tool; `None` if it has none.
    pub namespace: Option<String>,
    /// Name of the tool within its namespace.
    pub name: String,
    /// True if it takes a text. The model's calls have this text as their only argument.
    pub takes_text: bool,
}

/// The kinds of media that a request has in addition to text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaKind {
    /// A picture, to be encoded by the model's projector.
    Image,
    /// A sound, to be encoded by the model's projector.
    Sound,
}

/// An image or a sound of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaSource {
    /// Path in the request, for errors: `messages[0].content[1]`.
    pub field: Arc<str>,
    /// Kind of the medium: an image or a sound.
    pub kind: MediaKind,
    /// True if it is in the result of a tool call. A model that does not take this kind gets a note
    /// instead.
    pub in_result: bool,
    /// The data from the request. For an image it is a URL, such as `data:image/png;base64,...`;
    /// for a sound it is the file as Base64.
    pub data: Arc<str>,
}

/// Returns the marker of an image or a sound in the text of a conversation. No client can know it,
/// so no text contains it by chance or on purpose.
pub fn media_marker() -> &'static str {
    static MARKER: LazyLock<String> = LazyLock::new(|| {
        let number = RandomState::new().build_hasher().finish();
        format!("<__media_{number:016x}__>")
    });
    &MARKER
}

/// The partner in a conversation: the model's adapters and the clients that share its prompts. Only
/// conversations with the same partner find replies again.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partner {
    /// Salt of the request, as [`GenerationParams::cache_salt`].
    pub salt: Arc<str>,
    /// Adapters of the request, as [`GenerationParams::adapters`].
    pub adapters: Arc<[NamedAdapter]>,
}

/// The tools that a model has to call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// Any tools, or none: the model decides.
    #[default]
    Auto,
    /// At least one tool, of the model's choice.
    Required,
    /// The tool of this name.
    Named(Arc<str>),
}

/// One prompt, before it is tokenized.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Prompt {
    /// Text as a user wrote it. The spelling of special tokens in it is plain text. The model's
    /// begin token is added.
    Text(String),
    /// Text from a chat template. The spelling of special tokens means these tokens, and no token
    /// is added.
    Templated(TemplatedPrompt),
    /// A text with a gap to fill, as a user wrote it.
    Gap {
        /// The text before the gap.
        before: String,
        /// The text after the gap, which may be empty.
        after: String,
        /// The field of the request that has this text.
        #[serde(skip, default = "suffix")]
        field: &'static str,
        /// Texts that the model sees as context, such as other files.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        context: Vec<NamedText>,
    },
    /// Text with explicit treatment of special tokens.
    Spelled {
        /// Text of the prompt, as the request has it.
        text: String,
        /// True if the tokens that the model wants around a text are added.
        add_special: bool,
        /// True if the spelling of special tokens means these tokens.
        parse_special: bool,
    },
    /// Tokens, used as they are.
    Tokens(Vec<Token>),
    /// Vectors in place of tokens.
    #[serde(skip_deserializing)]
    Vectors(PromptVectors),
}

fn suffix() -> &'static str {
    "suffix"
}

/// The prompt that a chat template made of a conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TemplatedPrompt {
    /// Text, with the spelling of special tokens.
    pub text: String,
    /// The partner whose replies it may repeat; `None` if its tokens come only from the text.
    #[serde(skip)]
    pub partner: Option<Partner>,
    /// True if it ends where a reply begins in this template, so that its reply can be found again.
    #[serde(skip)]
    pub awaits_reply: bool,
    /// Images and sounds for which [`media_marker`] stands in the text, in the conversation's
    /// order.
    #[serde(skip)]
    pub media: Arc<[MediaSource]>,
    /// Byte at which the content of the last user message begins, if it was found. The part before
    /// it is likely to come again with another question.
    #[serde(skip)]
    pub last_turn: Option<usize>,
}

/// A prompt whose reply is to be remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RememberedPrompt {
    pub(crate) text: String,
    pub(crate) partner: Partner,
    /// Byte and token of each special token in the text.
    pub(crate) specials: Vec<(usize, Token)>,
}

/// The prompts of one request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prompts(pub Arc<[Prompt]>);
register_payload!(Prompts as "prompts");

/// The prompts of one request as tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenPrompts(pub Vec<TokenPrompt>);
register_payload!(TokenPrompts as "token_prompts");

/// A prompt as tokens, with its images and sounds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TokenPrompt {
    /// The tokens, and the placeholders of images, sounds and vectors: numbers below 0.
    pub tokens: Vec<Token>,
    /// The tiles of images, sounds and vectors for which placeholders stand, in order.
    #[serde(skip)]
    pub tiles: Arc<[PlacedTile]>,
    /// The text that the tokens were made of, if the reply to them is to be found again.
    #[serde(skip)]
    pub asked: Option<Arc<RememberedPrompt>>,
    /// Number of tokens before the last turn, if it is known.
    #[serde(skip)]
    pub last_turn: Option<u32>,
    /// True if the tokens are only a part of the text's.
    #[serde(skip)]
    pub is_cut: bool,
}

impl TokenPrompt {
    /// Returns the tokens for an answer, with -1 for each position of a medium. Placeholders would
    /// count the media of all requests.
    pub fn shown_tokens(&self) -> Vec<Token> {
        self.tokens.iter().map(|token| (*token).max(-1)).collect()
    }
}

impl From<Vec<Token>> for TokenPrompt {
    /// Creates a prompt whose text is unknown, so that its reply is not remembered.
    fn from(tokens: Vec<Token>) -> Self {
        Self {
            tokens,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests;
