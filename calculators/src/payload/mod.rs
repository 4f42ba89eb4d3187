//! What the streams of a chat graph carry.
//!
//! ```text
//! HttpRequestPayload ─► TextRequest + GenerationParams ─► Prompts ─► TokenPrompts ─► TokenChunk… ─► TextChunk… ─► HttpResponse…
//! ```
//!
//! None of these is a wire format: the request node reads one, the response node writes one, and
//! the nodes in between serve every dialect.

mod account;
mod embedding;
pub(crate) mod json;
mod logprobs;
mod question;
mod tally;

use std::borrow::Cow;
use std::fmt;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
pub use graphmill_llm::{
    CompiledConstraint, Constraint, PlacedTile, QueuePlace, ReasoningLimit, ReasoningMarks,
    SamplingParams, Tenant, Token, TokenLogprob, TokenSet, Tokens, Usage,
};
use serde_json::{Map, Value};

pub(crate) use account::priority_of;
pub use account::{Account, Need, Quota, Terms};
pub use embedding::{Embeddings, EmbeddingsRequest, Relevance, RerankRequest, VectorForm};
pub use json::{JsonBody, MAX_DEPTH, MAX_FIELDS, MAX_VALUES};
pub use logprobs::{EchoedText, EchoedTokens, HeldLogprobs, TextLogprob};
pub use question::{
    Explained, PromptQuestion, PromptReport, QuestionKind, ResolvedValue, Tokenization, ValueSource,
};
pub use tally::{Tallied, Tally};

/// An HTTP request as it enters a graph, on the stream tagged `HTTP_REQUEST_PAYLOAD`.
#[derive(Clone, Debug, Default)]
pub struct HttpRequestPayload {
    /// `POST`, mostly.
    pub method: String,
    /// Path and query, such as `/v3/chat/completions`.
    pub uri: String,
    /// Names in lower case, with values that are text.
    pub headers: Vec<(String, String)>,
    /// The body as it came.
    pub body: Bytes,
    /// The fields of the body, where it is a JSON object.
    pub json: Option<Arc<JsonBody>>,
    /// The adapter that the request names beside the graph, or in its place.
    pub adapter: Option<Arc<str>>,
}

/// A piece of the answer as it leaves a graph, on the stream tagged `HTTP_RESPONSE_PAYLOAD`.
///
/// The first packet that is no `Header` decides: a `Body` is the whole answer, an `Event` begins a
/// stream of server-sent events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HttpResponse {
    /// A header of the answer. Comes before everything else, or has no effect.
    Header {
        /// Its name, in lower case.
        name: &'static str,
        /// Its value: visible ASCII.
        value: String,
    },
    /// The whole answer of a request that does not stream.
    Body {
        /// Its media type, such as `application/json`.
        content_type: &'static str,
        /// Its bytes.
        bytes: Bytes,
    },
    /// The data of one server-sent event: one line of JSON, without the framing.
    Event(String),
    /// A server-sent event of a dialect whose events have names.
    NamedEvent {
        /// Its name.
        name: &'static str,
        /// Its data: one line of JSON, without the framing.
        data: String,
    },
    /// The stream ended well.
    Done,
    /// The stream ended well, in a dialect whose last event says so itself.
    End,
}

/// A request that was checked: everything the answer needs apart from how tokens are generated.
#[derive(Clone, Debug)]
pub struct TextRequest {
    /// The answer's id, such as `chatcmpl-1f3a…`.
    pub id: Arc<str>,
    /// Seconds since 1970, when the request was read.
    pub created: u64,
    /// The model as the request names it.
    pub model: Arc<str>,
    /// Where it came to, and so the dialect of its answer: `chat/completions`, `completions`,
    /// `responses` or `messages`.
    pub endpoint: &'static str,
    /// What is asked.
    pub input: RequestInput,
    /// Generations of each prompt.
    pub n: u32,
    /// Whether the answer streams.
    pub stream: bool,
    /// Whether a stream ends with a chunk of token counts.
    pub include_usage: bool,
    /// Whether every chunk of a stream has the token counts so far.
    pub continuous_usage: bool,
    /// Whether the answer tells the log probabilities of its tokens.
    pub logprobs: bool,
    /// Names of fields that the request has and nobody knows.
    pub ignored: Arc<[String]>,
    /// Fields of the request that its answer repeats or follows, where the endpoint is `responses`
    /// or `messages`.
    pub echo: Arc<Map<String, Value>>,
    /// Whether its answer tells a call as `function_call`, the form that tools had before there
    /// were tools.
    pub function_call: bool,
}

impl TextRequest {
    /// How many choices the answer has: `n` for each prompt.
    pub fn choices(&self) -> usize {
        let prompts = match &self.input {
            RequestInput::Chat(_) => 1,
            RequestInput::Prompts(prompts) => prompts.len(),
        };
        prompts * self.n as usize
    }
}

/// What a request asks.
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
    /// are joined, and the arguments of past tool calls are objects.
    pub messages: Arc<Vec<Value>>,
    /// The tools as the request lists them, unless it forbids their use.
    pub tools: Option<Arc<Vec<Value>>>,
    /// Which of the tools the model has to call.
    pub tool_choice: ToolChoice,
    /// Whether an answer may have one call at most.
    pub one_tool_call: bool,
    /// `chat_template_kwargs`: more variables.
    pub template_kwargs: Arc<Map<String, Value>>,
    /// Whether the answer goes on with the last message, instead of beginning one.
    pub continues: bool,
    /// Whose replies its messages may repeat; none if they are text and nothing else.
    pub partner: Option<Partner>,
    /// The images in it, in order. In the content of messages, [`image_marker`] stands for each.
    pub images: Arc<[ImageSource]>,
}

/// An image as a request has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageSource {
    /// Where it is in the request, for errors: `messages[0].content[1]`.
    pub field: Arc<str>,
    /// What the request says of it, such as `data:image/png;base64,...`.
    pub url: Arc<str>,
}

/// What stands for an image in the text of a conversation. No client can know it, so no text has it
/// by chance or by intent.
pub fn image_marker() -> &'static str {
    static MARKER: LazyLock<String> = LazyLock::new(|| {
        let number = RandomState::new().build_hasher().finish();
        format!("<__image_{number:016x}__>")
    });
    &MARKER
}

/// Who answers in a conversation, and for whom: replies are only found again by those that have
/// both in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partner {
    /// [`GenerationParams::cache_salt`].
    pub salt: Arc<str>,
    /// [`GenerationParams::adapter`].
    pub adapter: Option<Arc<str>>,
}

/// Which tools a model has to call.
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

/// What becomes of tokens that steer the model, such as the marks around a tool call, in text.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum SpecialTokens {
    /// They are left out.
    #[default]
    Skip,
    /// Those are spelled out that the model's parsers look for.
    Markers,
    /// They are spelled out.
    Keep,
}

/// How the tokens of a request are generated.
#[derive(Clone, Debug, Default)]
pub struct GenerationParams {
    /// How a token is chosen.
    pub sampling: SamplingParams,
    /// Most tokens to generate for each choice; none when the request does not say.
    pub max_tokens: Option<u32>,
    /// Tokens to generate before the model may end the text.
    pub min_tokens: u32,
    /// Strings that end the text where they appear.
    pub stop: Vec<String>,
    /// Whether the string that ended the text is part of it.
    pub include_stop: bool,
    /// Tokens that end the text.
    pub stop_tokens: TokenSet,
    /// Whether generation goes on after the model's end token.
    pub ignore_eos: bool,
    /// Generations of each prompt.
    pub n: u32,
    /// Most tokens drafted in a step, 0 for none; none when the request does not say.
    pub num_assistant_tokens: Option<u32>,
    /// The probability below which a draft model's token is not drafted; none when the request does
    /// not say.
    pub assistant_confidence_threshold: Option<f32>,
    /// Longest run of tokens that prompt lookup searches for; none when the request does not say.
    pub max_ngram_size: Option<u32>,
    /// Computed prompts are shared only with requests that have the same salt; empty for those that
    /// have none.
    pub cache_salt: Arc<str>,
    /// The adapter that changes the model for this request.
    pub adapter: Option<Arc<str>>,
    /// Who goes first when not all can: the higher.
    pub priority: i32,
    /// Who it is scheduled for, where tenants are told apart.
    pub tenant: Option<Tenant>,
    /// Its place in the engine's queue, if it took one before its prompt was made.
    pub place: Option<Arc<QueuePlace>>,
    /// Whether the prompt is repeated before the answer.
    pub echo: bool,
    /// Special tokens in the text.
    pub special_tokens: SpecialTokens,
    /// Most tokens of reasoning, until the `OutputFormatCalculator` makes a limit of them; none
    /// when the request does not say.
    pub reasoning_budget: Option<u32>,
    /// The limit of reasoning, in the format of the model.
    pub reasoning_limit: Option<ReasoningLimit>,
    /// Whether the request demands a call of a tool and nothing holds the text to it yet.
    pub demands_call: bool,
    /// Whether calls of tools can only be right, because `constraint` says how they look.
    pub constrains_calls: bool,
    /// What the text has to match; none if it is free.
    pub constraint: Option<TextConstraint>,
}

/// What a text has to match, and who says so.
#[derive(Clone, Debug)]
pub struct TextConstraint {
    /// The field of the request that asks for it; errors name it.
    pub field: Cow<'static, str>,
    /// What it asks for.
    pub constraint: Constraint,
    /// The same, compiled for the model: filled in by the `ConstraintCalculator`.
    pub compiled: Option<CompiledConstraint>,
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
        /// What comes before the gap.
        before: String,
        /// What comes after it.
        after: String,
    },
    /// Text to be read as its sender says.
    Spelled {
        /// The text.
        text: String,
        /// Whether the tokens that the model wants around a text are added.
        add_special: bool,
        /// Whether the spelling of special tokens means these tokens.
        parse_special: bool,
    },
    /// Tokens.
    Tokens(Vec<Token>),
}

/// What a chat template made of a conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemplatedPrompt {
    /// The text.
    pub text: String,
    /// Whose replies it may repeat; none if its tokens are those of the text and nothing else.
    pub partner: Option<Partner>,
    /// Whether it ends where the template has a reply begin, so that the reply to it is known
    /// again.
    pub awaits_reply: bool,
    /// The images for which [`image_marker`] stands in the text, in the conversation's order.
    pub images: Arc<[ImageSource]>,
    /// The byte where the content of its last message of a user begins, if that is found: what
    /// comes before it may come again, with another question.
    pub last_turn: Option<usize>,
}

/// A prompt that awaits a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    pub(crate) text: String,
    pub(crate) partner: Partner,
    /// Where special tokens are in the text.
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
    /// The tokens, and the placeholders of images: numbers below 0.
    pub tokens: Vec<Token>,
    /// The tiles of images for which placeholders stand, in order.
    pub tiles: Arc<[PlacedTile]>,
    /// What they were made of, if the reply to them is to be known again.
    pub asked: Option<Arc<Asked>>,
    /// Tokens before the last turn, if it is known.
    pub last_turn: Option<u32>,
}

impl From<Vec<Token>> for TokenPrompt {
    /// Tokens whose origin is unknown, so that nothing is remembered of what follows them.
    fn from(tokens: Vec<Token>) -> Self {
        Self {
            tokens,
            tiles: Arc::default(),
            asked: None,
            last_turn: None,
        }
    }
}

/// Why a choice ended.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The model ended the text, or a stop token came.
    Stop,
    /// A stop string came: its place in [`GenerationParams::stop`].
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
    /// The choice: prompt `index / n`, generation `index % n`.
    pub index: u32,
    /// The prompt, on the first chunk of a choice whose request wants it repeated.
    pub echo: Option<Box<EchoedTokens>>,
    /// The new tokens.
    pub tokens: Tokens,
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
    /// The choice.
    pub index: u32,
    /// The prompt, on the first chunk of a choice whose request wants it repeated.
    pub echo: Option<Box<EchoedText>>,
    /// The new text: whole characters. Behind the parsers, what is neither reasoning nor a tool
    /// call.
    pub text: String,
    /// What the model thought on its way to the answer: filled in by the reasoning parser. Comes
    /// before `text`.
    pub reasoning: String,
    /// Calls of tools, or pieces of them: filled in by the tool parser. They come after `text`.
    pub tool_calls: Vec<ToolCallDelta>,
    /// The tokens whose text begins in this chunk, with their log probabilities; empty unless the
    /// request asks for them. A node that holds text back holds these back with it, as
    /// [`HeldLogprobs`] does; a node that parses text passes them on as they are.
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

/// What a call of a tool begins with.
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
