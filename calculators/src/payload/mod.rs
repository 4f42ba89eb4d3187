//! Payloads of the streams of a chat graph.
//!
//! ```text
//! HttpRequestPayload ─► TextRequest + GenerationParams ─► Prompts ─► TokenPrompts ─► TokenChunk… ─► TextChunk… ─► HttpResponse…
//! ```
//!
//! None of these is a wire format: the request node reads one, the response node writes one, and
//! the nodes in between serve every dialect.

mod account;
pub(crate) mod base64;
mod chunks;
pub mod dialect;
mod embedding;
mod generation;
mod http;
mod logprobs;
mod question;
mod tally;

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::{Arc, LazyLock};

pub use graphmill_llm::{
    CompiledConstraint, Constraint, NamedAdapter, NamedText, PlacedTile, QueuePlace,
    ReasoningLimit, ReasoningMarks, SamplingParams, Tenant, Token, TokenLogprob, TokenSet, Tokens,
    Usage,
};
use serde_json::{Map, Value};

use dialect::TextDialect;

pub(crate) use account::batch_priority_of;
pub use account::{Account, Need, Quota, Terms};
pub use chunks::{Finish, StopSignal, TextChunk, TokenChunk, ToolCallDelta, ToolCallStart};
pub use embedding::{
    Classes, Embeddings, EmbeddingsRequest, Relevance, RerankForm, RerankRequest, VectorForm,
};
pub use generation::{GenerationParams, SpecialTokens, TextConstraint, Truncation};
pub(crate) use graphmill_dialects::json;
pub use graphmill_dialects::json::{JsonBody, MAX_DEPTH, MAX_FIELDS, MAX_VALUES, without_mark};
pub use http::{HttpRequestPayload, HttpResponse};
pub use logprobs::{EchoedText, EchoedTokens, HeldLogprobs, LikelyToken, TextLogprob};
pub use question::{EffectiveValues, PromptQuestion, PromptReport, QuestionKind};
pub(crate) use tally::OpenWait;
pub use tally::{Tallied, Tally};

/// A request that was checked: everything the answer needs apart from how tokens are generated.
#[derive(Clone, Debug)]
pub struct TextRequest {
    /// The answer's id, such as `chatcmpl-1f3a…`.
    pub id: Arc<str>,
    /// Seconds since 1970, when the request was read.
    pub created: u64,
    /// The model as the request names it.
    pub model: Arc<str>,
    /// The dialect of the request and of its answer.
    pub dialect: &'static dyn TextDialect,
    /// The conversation or the prompts.
    pub input: RequestInput,
    /// Generations of each prompt.
    pub n: u32,
    /// True if the answer streams.
    pub stream: bool,
    /// True if a stream ends with a chunk of token counts.
    pub include_usage: bool,
    /// True if every chunk of a stream has the token counts so far.
    pub continuous_usage: bool,
    /// True if the answer tells the log probabilities of its tokens.
    pub logprobs: bool,
    /// The tokens of which the answer tells beside these.
    pub told: ToldTokens,
    /// Names of fields that the request has and nobody knows.
    pub ignored: Arc<[String]>,
    /// Fields of the request that its answer repeats or follows, in dialects whose answers do.
    pub echo: Arc<Map<String, Value>>,
    /// True if its answer tells a call as `function_call`, the form that tools had before there
    /// were tools.
    pub function_call: bool,
}

/// Parts of an answer that tell of tokens.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct ToldTokens {
    /// True if the text of the prompt comes before the answer.
    pub prompt: bool,
    /// True if the ids of tokens are told.
    pub ids: bool,
    /// True if log probabilities name tokens by their ids.
    pub by_id: bool,
    /// Number of the likeliest tokens that are told of at each place of the prompt.
    pub prompt_logprobs: Option<u8>,
}

impl TextRequest {
    /// The number of choices of the answer: `n` for each prompt.
    pub fn choices(&self) -> usize {
        let prompts = match &self.input {
            RequestInput::Chat(_) => 1,
            RequestInput::Prompts(prompts) => prompts.len(),
        };
        prompts * self.n as usize
    }
}

/// The input of a request.
#[derive(Clone, Debug)]
pub enum RequestInput {
    /// A conversation, for a chat template.
    Chat(ChatInput),
    /// Prompts as they are. Shared, because they can be large.
    Prompts(Arc<[Prompt]>),
}

/// The variables of a chat template.
#[derive(Clone, Debug, Default)]
pub struct ChatInput {
    /// The messages, each an object with at least `role` and `content`; the content's text parts
    /// are joined, and the arguments of past tool calls are objects, or texts that are none.
    pub messages: Arc<Vec<Value>>,
    /// The tools as the request lists them, unless it forbids their use.
    pub tools: Option<Arc<Vec<Value>>>,
    /// The tools that the model has to call.
    pub tool_choice: ToolChoice,
    /// True if an answer may have one call at most.
    pub one_tool_call: bool,
    /// The tools in the words of the request, by the names that the model knows, where the dialect
    /// has others.
    pub tool_origins: Arc<BTreeMap<String, ToolOrigin>>,
    /// `chat_template_kwargs`: more variables.
    pub template_kwargs: Arc<Map<String, Value>>,
    /// The template that the request brings, in the place of the model's.
    pub template: Option<Arc<str>>,
    /// True if the answer goes on with the last message, instead of beginning one.
    pub continues: bool,
    /// Whose replies its messages may repeat; none if they are text and nothing else.
    pub partner: Option<Partner>,
    /// The images and sounds in it, in order. In the content of messages, [`media_marker`] stands
    /// for each.
    pub media: Arc<[MediaSource]>,
}

/// A tool in the words of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolOrigin {
    /// The namespace that it is in.
    pub namespace: Option<String>,
    /// Its name there.
    pub name: String,
    /// True if it takes a text, which is the one argument of the model's calls.
    pub takes_text: bool,
}

/// The kinds of media that a request has beside text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaKind {
    /// An image.
    Image,
    /// A sound.
    Sound,
}

/// An image or a sound as a request has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaSource {
    /// Its place in the request, for errors: `messages[0].content[1]`.
    pub field: Arc<str>,
    /// Its kind.
    pub kind: MediaKind,
    /// True if it is in the result of a call: a model that does not take it is told of it instead.
    pub in_result: bool,
    /// The data that the request has: of an image a URL, such as `data:image/png;base64,...`, of a
    /// sound its file as Base64.
    pub data: Arc<str>,
}

/// The marker of an image or a sound in the text of a conversation. No client can know it, so no
/// text has it by chance or by intent.
pub fn media_marker() -> &'static str {
    static MARKER: LazyLock<String> = LazyLock::new(|| {
        let number = RandomState::new().build_hasher().finish();
        format!("<__media_{number:016x}__>")
    });
    &MARKER
}

/// Who answers in a conversation, and for whom: replies are only found again by those that have
/// both in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partner {
    /// [`GenerationParams::cache_salt`].
    pub salt: Arc<str>,
    /// [`GenerationParams::adapters`].
    pub adapters: Arc<[NamedAdapter]>,
}

/// A choice of the tools that a model has to call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// Any or none.
    #[default]
    Auto,
    /// At least one.
    Required,
    /// This one.
    Named(Arc<str>),
}

/// One prompt, before it is tokenized.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prompt {
    /// Text as a user wrote it. The spelling of special tokens in it is text; the model's begin
    /// token is added.
    Text(String),
    /// Text as a chat template made it: special tokens are spelled out, and nothing is added.
    Templated(TemplatedPrompt),
    /// A text with a gap that is to be filled, as a user wrote it.
    Gap {
        /// The text before the gap.
        before: String,
        /// The text after it.
        after: String,
        /// The field of the request that has this text.
        field: &'static str,
        /// Texts that the model sees beside.
        context: Vec<NamedText>,
    },
    /// Text to be read as its sender says.
    Spelled {
        /// The text.
        text: String,
        /// True if the tokens that the model wants around a text are added.
        add_special: bool,
        /// True if the spelling of special tokens means these tokens.
        parse_special: bool,
    },
    /// Tokens.
    Tokens(Vec<Token>),
}

/// The prompt that a chat template made of a conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemplatedPrompt {
    /// The text.
    pub text: String,
    /// Whose replies it may repeat; none if its tokens are those of the text and nothing else.
    pub partner: Option<Partner>,
    /// True if it ends where the template has a reply begin, so that the reply to it is known
    /// again.
    pub awaits_reply: bool,
    /// The images and sounds for which [`media_marker`] stands in the text, in the conversation's
    /// order.
    pub media: Arc<[MediaSource]>,
    /// The byte where the content of its last message of a user begins, if that is found: what
    /// comes before it may come again, with another question.
    pub last_turn: Option<usize>,
}

/// A prompt that awaits a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    pub(crate) text: String,
    pub(crate) partner: Partner,
    /// The places of special tokens in the text.
    pub(crate) specials: Vec<(usize, Token)>,
}

/// The prompts of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompts(pub Arc<[Prompt]>);

/// The prompts of one request as tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenPrompts(pub Vec<TokenPrompt>);

/// A prompt as tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenPrompt {
    /// The tokens, and the placeholders of images and sounds: numbers below 0.
    pub tokens: Vec<Token>,
    /// The tiles of images and sounds for which placeholders stand, in order.
    pub tiles: Arc<[PlacedTile]>,
    /// The text that they were made of, if the reply to them is to be known again.
    pub asked: Option<Arc<Asked>>,
    /// Tokens before the last turn, if it is known.
    pub last_turn: Option<u32>,
    /// True if it is a part of what its text is.
    pub is_cut: bool,
}

impl From<Vec<Token>> for TokenPrompt {
    /// Tokens whose origin is unknown, so that nothing is remembered of what follows them.
    fn from(tokens: Vec<Token>) -> Self {
        Self {
            tokens,
            ..Self::default()
        }
    }
}
