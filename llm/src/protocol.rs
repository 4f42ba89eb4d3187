//! What crosses the border of the engine thread: requests in, step outputs out, and the errors of both directions.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use smallvec::SmallVec;

use crate::constrain::CompiledConstraint;
use crate::engine::QueuePlace;
use crate::reasoning::ReasoningLimit;
use crate::room::OutOfMemory;
mod samplers;
mod tokens;

pub use samplers::{DryParams, MirostatParams, MirostatVersion};
pub use tokens::{LogitBias, TokenSet};

/// A token's id in the model's vocabulary.
pub type Token = i32;

/// Tokens of one step of one sequence: one without speculation, so kept inline.
pub type Tokens = SmallVec<[Token; 4]>;

/// A sequence's number: increases in order of submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SequenceId(pub u64);

impl fmt::Display for SequenceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A request's number: all sequences of a request have the same, and requests take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub(crate) u64);

impl RequestId {
    /// A number that no other request of this process has.
    #[expect(clippy::new_without_default, reason = "each is different")]
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Receives what a sequence produces. It is called on the engine's delivery thread, in order, once per step that produced
/// something; the call that carries a [`StepOutput::finish`] is the last.
///
/// `deliver` must not block: all sequences of the engine share the thread that calls it.
pub trait StepSink: Send + Sync + 'static {
    /// Takes the output of one step.
    fn deliver(&self, output: StepOutput);
}

impl<F: Fn(StepOutput) + Send + Sync + 'static> StepSink for F {
    fn deliver(&self, output: StepOutput) {
        self(output);
    }
}

/// How a generation comes by its place in the queue.
#[derive(Clone, Debug, Default)]
pub enum Entry {
    /// It takes one, if one is left.
    #[default]
    Open,
    /// It has one.
    Reserved(Arc<QueuePlace>),
    /// It follows another one of its request that has left the queue, in the place of that one. Needs none that is left: whoever has
    /// begun is not refused.
    Follows,
}

/// One generation to run: a prompt, how to sample, when to end and where to send the tokens.
pub struct GenerationRequest {
    /// The request that it is a part of.
    pub request: RequestId,
    /// How it comes by a place in the queue.
    pub entry: Entry,
    /// Prompt tokens, at least one. Nothing is added to them.
    pub prompt: Vec<Token>,
    /// How tokens are chosen.
    pub sampling: SamplingParams,
    /// Reports the log probability of each prompt token but the first, and of this many most likely ones at its place. The whole
    /// prompt is computed for it: nothing is taken over from other sequences.
    pub prompt_logprobs: Option<u8>,
    /// Most tokens to generate, 0 to compute the prompt alone; `None` generates until the model ends the text or the context is full.
    pub max_tokens: Option<u32>,
    /// Tokens to generate before one of the model's end tokens or of `stop_tokens` may be chosen.
    pub min_tokens: u32,
    /// Tokens that end the generation besides the model's own end tokens. They are not part of the text.
    pub stop_tokens: TokenSet,
    /// Goes on after the model's end token, which then counts as an ordinary token.
    pub ignore_eos: bool,
    /// How many step outputs may be delivered before [`SequenceHandle::grant`](crate::SequenceHandle::grant) allows more;
    /// `u32::MAX` means without limit. A sequence without credit sits out the batches.
    pub credits: u32,
    /// How long the model may think before it answers; `None` is without limit.
    pub reasoning_limit: Option<ReasoningLimit>,
    /// Drafts tokens by prompt lookup and checks several in one step. What is generated is the same without; `None` drafts nothing.
    pub speculation: Option<SpeculationParams>,
    /// Cells are shared only between requests with the same salt: a client that must not learn from the time to the first token
    /// what others asked gets a salt of its own. Empty for everybody else.
    pub cache_salt: Arc<str>,
    /// The adapter, by its name in the spec, that changes the model's weights for this generation; `None` for the model as it is.
    pub adapter: Option<Arc<str>>,
    /// Who goes first when not all can: the higher. Each point is worth `priority_aging_ms` of waiting, so nobody waits for ever. From
    /// `min_priority` to `max_priority` of the spec.
    pub priority: i32,
    /// What the text has to match, compiled by the same engine; `None` if it is free.
    pub constraint: Option<CompiledConstraint>,
    /// Where the outputs go.
    pub sink: Box<dyn StepSink>,
}

impl GenerationRequest {
    /// A greedy request without limits that sends its outputs to `sink`.
    pub fn new(prompt: Vec<Token>, sink: impl StepSink) -> Self {
        Self {
            request: RequestId::new(),
            entry: Entry::Open,
            prompt,
            sampling: SamplingParams::greedy(),
            prompt_logprobs: None,
            max_tokens: None,
            min_tokens: 0,
            stop_tokens: TokenSet::default(),
            ignore_eos: false,
            credits: u32::MAX,
            reasoning_limit: None,
            speculation: None,
            cache_salt: Arc::from(""),
            adapter: None,
            priority: 0,
            constraint: None,
            sink: Box::new(sink),
        }
    }
}

impl fmt::Debug for GenerationRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GenerationRequest")
            .field("prompt_tokens", &self.prompt.len())
            .field("sampling", &self.sampling)
            .field("max_tokens", &self.max_tokens)
            .field("credits", &self.credits)
            .field("speculation", &self.speculation)
            .field("priority", &self.priority)
            .field("constraint", &self.constraint)
            .finish_non_exhaustive()
    }
}

/// How a token is chosen from the model's logits.
///
/// The steps, in order: `logit_bias`; the penalties; `dry`; then with a temperature of 0 the highest logit, else the temperature,
/// `top_k`, `top_p` (over what `top_k` left), `min_p`, `typical_p` and XTC (each over what those before it left), and a draw from
/// what is left. `mirostat` takes the place of all steps between the temperature and the draw.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplingParams {
    /// Divides the logits; 0 always takes the most likely token.
    pub temperature: f32,
    /// Keeps the `top_k` most likely tokens; 0 or -1 keeps all.
    pub top_k: i32,
    /// Keeps the smallest set of most likely tokens whose probabilities sum to at least this; 1 keeps all.
    pub top_p: f32,
    /// Drops tokens less likely than this share of the most likely one; 0 drops none.
    pub min_p: f32,
    /// Keeps the smallest set of tokens whose probabilities are nearest to what is expected of a token and sum to more than this; 1
    /// keeps all.
    pub typical_p: f32,
    /// How often XTC is applied: the probability, for each token.
    pub xtc_probability: f32,
    /// XTC drops the tokens that are at least so likely, but for the least likely of them.
    pub xtc_threshold: f32,
    /// The temperature varies by this in both directions: low where the model is sure of the next token, high where it is not.
    pub dynatemp_range: f32,
    /// How: 1 in proportion to the entropy, higher values keep it low for longer.
    pub dynatemp_exponent: f32,
    /// Keeps the surprise near a target.
    pub mirostat: Option<MirostatParams>,
    /// Makes repetitions less likely.
    pub dry: Option<DryParams>,
    /// Subtracted from the logit of every token that was generated before. The prompt does not count.
    pub presence_penalty: f32,
    /// Subtracted from a token's logit as often as it was generated before. The prompt does not count.
    pub frequency_penalty: f32,
    /// Divides positive and multiplies negative logits of every token in the prompt or generated before; 1 changes nothing.
    pub repetition_penalty: f32,
    /// Seed of the draw; `None` takes a random one. The same seed on the same model and prompt gives the same tokens, as far as
    /// the logits are the same: kernels add floats in an order that depends on what else is in the batch, so a busy engine can
    /// differ in their last bits, and then in a draw that falls between two tokens.
    pub seed: Option<u64>,
    /// Added to the logits of single tokens.
    pub logit_bias: LogitBias,
    /// Reports the log probability of each chosen token and of this many most likely ones, before any of the steps above.
    pub logprobs: Option<u8>,
}

impl SamplingParams {
    /// Always the most likely token, nothing else applied.
    pub fn greedy() -> Self {
        Self {
            temperature: 0.0,
            ..Self::default()
        }
    }

    /// Checks every field's range.
    ///
    /// # Errors
    /// [`SubmitError::InvalidParameter`] names the first field that is out of its range, and the range.
    pub fn validate(&self, n_vocab: usize) -> Result<(), SubmitError> {
        let invalid =
            |field, message: String| Err(SubmitError::InvalidParameter { field, message });
        if !(self.temperature.is_finite() && self.temperature >= 0.0) {
            return invalid(
                "temperature",
                format!("must be a number of at least 0, not {}", self.temperature),
            );
        }
        if self.top_k < -1 {
            return invalid(
                "top_k",
                format!(
                    "must be -1 (all tokens), 0 (all tokens) or positive, not {}",
                    self.top_k
                ),
            );
        }
        for (field, value) in [
            ("top_p", self.top_p),
            ("min_p", self.min_p),
            ("typical_p", self.typical_p),
            ("xtc_probability", self.xtc_probability),
            ("xtc_threshold", self.xtc_threshold),
        ] {
            if !(0.0..=1.0).contains(&value) {
                return invalid(field, format!("must be in [0, 1], not {value}"));
            }
        }
        let mirostat = self.mirostat.as_ref();
        let dry = self.dry.as_ref();
        for (field, value, least) in [
            ("dynatemp_range", self.dynatemp_range, 0.0),
            ("dynatemp_exponent", self.dynatemp_exponent, 0.0),
            (
                "mirostat_tau",
                mirostat.map_or(0.0, |mirostat| mirostat.tau),
                0.0,
            ),
            (
                "mirostat_eta",
                mirostat.map_or(0.0, |mirostat| mirostat.eta),
                0.0,
            ),
            ("dry_multiplier", dry.map_or(0.0, |dry| dry.multiplier), 0.0),
            ("dry_base", dry.map_or(1.0, |dry| dry.base), 1.0),
        ] {
            if !(value.is_finite() && value >= least) {
                return invalid(
                    field,
                    format!("must be a number of at least {least}, not {value}"),
                );
            }
        }
        for (field, value) in [
            ("presence_penalty", self.presence_penalty),
            ("frequency_penalty", self.frequency_penalty),
        ] {
            if !value.is_finite() {
                return invalid(field, format!("must be a finite number, not {value}"));
            }
        }
        if !(self.repetition_penalty.is_finite() && self.repetition_penalty > 0.0) {
            return invalid(
                "repetition_penalty",
                format!("must be a number above 0, not {}", self.repetition_penalty),
            );
        }
        for (token, bias) in self.logit_bias.iter() {
            if usize::try_from(*token).is_ok_and(|token| token < n_vocab) {
                if bias.is_nan() {
                    return invalid(
                        "logit_bias",
                        format!("the bias of token {token} is not a number"),
                    );
                }
            } else {
                return invalid(
                    "logit_bias",
                    format!("token {token} is not in the vocabulary of {n_vocab} tokens"),
                );
            }
        }
        Ok(())
    }
}

impl Default for SamplingParams {
    /// Draws from the model's own distribution: temperature 1, nothing cut, nothing penalised, a random seed.
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            typical_p: 1.0,
            xtc_probability: 0.0,
            xtc_threshold: 0.1,
            dynatemp_range: 0.0,
            dynatemp_exponent: 1.0,
            mirostat: None,
            dry: None,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            repetition_penalty: 1.0,
            seed: None,
            logit_bias: LogitBias::default(),
            logprobs: None,
        }
    }
}

/// How tokens are drafted. The engine drafts fewer, or none, where that would not save time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpeculationParams {
    /// Most tokens drafted in a step, 1 to [`MOST_DRAFTS`](Self::MOST_DRAFTS).
    pub num_assistant_tokens: u32,
    /// Where drafts come from.
    pub source: DraftSource,
}

/// Where drafted tokens come from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DraftSource {
    /// The text itself: it is searched for an earlier place that ends as it does now, and what followed there is the draft.
    Text {
        /// Longest run of tokens searched for, 1 to [`LONGEST_NGRAM`](SpeculationParams::LONGEST_NGRAM); shorter ones are tried
        /// where it has not occurred.
        max_ngram_size: u32,
    },
    /// The engine's draft model.
    Model {
        /// A token that the draft model gives a lower probability ends the draft before it; 0 to 1.
        confidence_threshold: f32,
    },
}

impl SpeculationParams {
    /// The most that `num_assistant_tokens` can be: beyond that, a draft is hardly ever right to its end.
    pub const MOST_DRAFTS: u32 = 32;
    /// The most that `max_ngram_size` can be: where so many tokens agree, more of them change nothing.
    pub const LONGEST_NGRAM: u32 = 8;

    /// Checks the fields' ranges.
    ///
    /// # Errors
    /// [`SubmitError::InvalidParameter`] names the first field that is out of its range, and the range.
    pub fn validate(&self) -> Result<(), SubmitError> {
        let within = |field, value: u32, most: u32| {
            if (1..=most).contains(&value) {
                return Ok(());
            }
            let message = format!("must be between 1 and {most}, not {value}");
            Err(SubmitError::InvalidParameter { field, message })
        };
        within(
            "num_assistant_tokens",
            self.num_assistant_tokens,
            Self::MOST_DRAFTS,
        )?;
        match self.source {
            DraftSource::Text { max_ngram_size } => {
                within("max_ngram_size", max_ngram_size, Self::LONGEST_NGRAM)
            }
            DraftSource::Model {
                confidence_threshold,
            } if !(0.0..=1.0).contains(&confidence_threshold) => {
                let message = format!("must be between 0 and 1, not {confidence_threshold}");
                Err(SubmitError::InvalidParameter {
                    field: "assistant_confidence_threshold",
                    message,
                })
            }
            DraftSource::Model { .. } => Ok(()),
        }
    }
}

impl Default for SpeculationParams {
    /// Five tokens from the text, after a run of at most three.
    fn default() -> Self {
        Self {
            num_assistant_tokens: 5,
            source: DraftSource::Text { max_ngram_size: 3 },
        }
    }
}

/// What one step produced for one sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct StepOutput {
    /// New tokens of the text, in order. Empty when the step only ended the sequence.
    pub tokens: Tokens,
    /// The end token that finished the sequence; it is not part of the text.
    pub end_token: Option<Token>,
    /// One entry per token of `tokens` when log probabilities were asked for, and one for `end_token`; else empty.
    pub logprobs: Vec<TokenLogprob>,
    /// On the first output, one entry per prompt token but the first, if these were asked for.
    pub prompt_logprobs: Option<Vec<TokenLogprob>>,
    /// Set on the last output of a sequence.
    pub finish: Option<FinishReason>,
    /// Counts so far.
    pub usage: Usage,
}

/// The log probability of a chosen token and of the likeliest ones at its place.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenLogprob {
    /// The chosen token.
    pub token: Token,
    /// Its natural log probability under the model.
    pub logprob: f32,
    /// The most likely tokens with theirs, likeliest first.
    pub top: Vec<(Token, f32)>,
}

/// How many tokens a sequence has taken and made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Prompt tokens whose KV cells were taken over from another sequence instead of computed.
    pub cached_tokens: u32,
    /// Tokens generated, the end token included.
    pub generated_tokens: u32,
    /// What became of the drafted tokens, if the request asked for speculation.
    pub drafts: Option<DraftCounts>,
}

impl Usage {
    /// Drafted tokens that became part of the text; 0 without speculation.
    pub(crate) fn accepted_drafts(&self) -> u32 {
        self.drafts.map_or(0, |drafts| drafts.accepted)
    }
}

/// Drafted tokens that were computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DraftCounts {
    /// Those that became part of the text.
    pub accepted: u32,
    /// Those that did not.
    pub rejected: u32,
}

/// Why a sequence ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// The model ended the text, or a stop token came.
    Stop,
    /// `max_tokens` or the end of the context was reached.
    Length,
    /// The engine could not go on with this sequence.
    Error(GenerationError),
}

/// Why the engine gave up a sequence it had accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct GenerationError {
    /// Whose fault it is, and whether trying again can help.
    pub kind: ErrorKind,
    /// What went wrong.
    pub message: String,
}

/// The kinds of [`GenerationError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// A step failed or panicked.
    Internal,
    /// The KV cache could not hold the sequence, or no place came free in time.
    ResourceExhausted,
    /// The engine is shutting down or lost its backend.
    Unavailable,
    /// The text could not be held to its constraint, which is too complex.
    Constraint,
}

/// What there is instead, for an error about a name.
fn listed(known: &[String]) -> String {
    if known.is_empty() {
        return String::new();
    }
    format!("; there are `{}`", known.join("`, `"))
}

/// Why a request was not accepted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SubmitError {
    /// The prompt has no token.
    #[error("the prompt has no tokens")]
    EmptyPrompt,
    /// No adapter has that name.
    #[error("the model has no adapter `{name}`{}", listed(known))]
    UnknownAdapter {
        /// What was asked for.
        name: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// The prompt leaves no room for a single generated token.
    #[error(
        "the prompt has {n_prompt_tokens} tokens, and the context of {n_ctx} tokens must also hold at least one generated token"
    )]
    PromptTooLong {
        /// Tokens of the prompt.
        n_prompt_tokens: usize,
        /// Tokens a sequence can have: prompt and generated together.
        n_ctx: usize,
    },
    /// Prompts are not split (`dynamic_split_fuse: false`) and this one is longer than a batch.
    #[error(
        "the prompt has {n_prompt_tokens} tokens, more than max_num_batched_tokens ({max_num_batched_tokens}), and dynamic_split_fuse is off"
    )]
    PromptExceedsBatch {
        /// Tokens of the prompt.
        n_prompt_tokens: usize,
        /// Tokens a batch can have.
        max_num_batched_tokens: usize,
    },
    /// A prompt token is not in the vocabulary.
    #[error(
        "token {token} at position {position} of the prompt is not in the vocabulary of {n_vocab} tokens"
    )]
    InvalidToken {
        /// The token.
        token: Token,
        /// Its index in the prompt.
        position: usize,
        /// Tokens in the vocabulary.
        n_vocab: usize,
    },
    /// A parameter is out of its range.
    #[error("`{field}` {message}")]
    InvalidParameter {
        /// The parameter's name.
        field: &'static str,
        /// What was expected.
        message: String,
    },
    /// Too many requests wait already; trying again later can help.
    #[error("{waiting} requests are waiting, and the queue holds {limit}")]
    QueueFull {
        /// Requests that wait.
        waiting: usize,
        /// The queue's bound.
        limit: usize,
    },
    /// Memory is short; trying again later can help.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// The engine's thread has ended.
    #[error("the engine has stopped")]
    Stopped,
    /// The engine was given up; another one may be there soon.
    #[error(transparent)]
    Failed(GenerationError),
}

/// Why a model could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("cannot read `{}`: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The script of a scripted model is wrong.
    #[error("`{}` is not a model script: {message}", path.display())]
    Script {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// The backend refused the model file.
    #[error("cannot load model `{}`: {message}", path.display())]
    Model {
        /// The file.
        path: PathBuf,
        /// What the backend said.
        message: String,
    },
    /// The model does not fit in the memory there is.
    #[error("not enough memory for `{}`: {message}", path.display())]
    Memory {
        /// The file.
        path: PathBuf,
        /// The arithmetic, and what to lower.
        message: String,
    },
    /// A value of the spec cannot work on this machine or with this model.
    #[error("`{field}` {message}")]
    Spec {
        /// The option's name.
        field: &'static str,
        /// What was expected.
        message: String,
    },
    /// This build has no backend for the model file.
    #[error("`{}` needs the {backend} backend, which this build does not have (cargo feature `{feature}`)", path.display())]
    BackendMissing {
        /// The file.
        path: PathBuf,
        /// The backend's name.
        backend: &'static str,
        /// The cargo feature that adds it.
        feature: &'static str,
    },
    /// The system refused a thread.
    #[error("cannot start a thread for the engine")]
    Thread {
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Loading panicked.
    #[error("loading panicked: {message}")]
    Panicked {
        /// The panic's message.
        message: String,
    },
}
