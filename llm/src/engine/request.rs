//! A generation to run.

use std::fmt;
use std::sync::Arc;

use crate::constrain::{CompiledConstraint, ReasoningLimit};
use crate::protocol::{
    NamedAdapter, RequestId, SamplingParams, SpeculationParams, StepSink, Tenant, Token, TokenSet,
};
use crate::sampler::BadWords;
use crate::vision::PlacedTile;
use crate::worker::QueuePlace;

/// How a generation comes by its place in the queue.
#[derive(Clone, Debug, Default)]
pub enum Entry {
    /// It takes one, if one is left.
    #[default]
    Open,
    /// It has one.
    Reserved(Arc<QueuePlace>),
    /// It follows another one of its request that has left the queue, in the place of that one.
    /// It needs no free place: a request that has begun is not refused.
    Follows,
}

/// Tells that a generation waits no longer. It must not wait itself: the engine's thread calls it.
pub type OnAdmission = Box<dyn FnOnce() + Send>;

/// One generation to run: a prompt, how to sample, when to end and where to send the tokens.
pub struct GenerationRequest {
    /// The request that it is a part of.
    pub request: RequestId,
    /// Who it is for, where tenants are told apart; `None` for one of its own.
    pub tenant: Option<Tenant>,
    /// How it comes by a place in the queue.
    pub entry: Entry,
    /// Called when it has its first slot, or ends without one.
    pub on_admission: Option<OnAdmission>,
    /// Prompt tokens, at least one. Nothing is added to them.
    pub prompt: Vec<Token>,
    /// The tiles of media in the prompt, in order, all of them encoded. A prompt with media drafts
    /// nothing.
    pub tiles: Arc<[PlacedTile]>,
    /// Tokens before the last turn of a conversation, if it is known: others may go on from there in
    /// their own way. A model whose sequences go on from checkpoints makes one there.
    pub last_turn: Option<u32>,
    /// How tokens are chosen.
    pub sampling: SamplingParams,
    /// Reports the log probability of each prompt token but the first, and of this many most likely
    /// ones at its place. The whole prompt is computed for it: nothing is reused from other
    /// sequences.
    pub prompt_logprobs: Option<u8>,
    /// Most tokens to generate, 0 to compute the prompt alone; `None` generates until the model
    /// ends the text or the context is full.
    pub max_tokens: Option<u32>,
    /// Tokens to generate before one of the model's end tokens or of `stop_tokens` may be chosen.
    pub min_tokens: u32,
    /// Tokens that end the generation besides the model's own end tokens. They are not part of the
    /// text.
    pub stop_tokens: TokenSet,
    /// Goes on after the model's end token, which then counts as an ordinary token.
    pub ignore_eos: bool,
    /// Words that the text does not have.
    pub bad_words: BadWords,
    /// How many step outputs may be delivered before
    /// [`SequenceHandle::grant`](crate::SequenceHandle::grant) allows more; `u32::MAX` means
    /// without limit. A sequence without credit sits out the batches.
    pub credits: u32,
    /// How long the model may think before it answers; `None` is without limit.
    pub reasoning_limit: Option<ReasoningLimit>,
    /// Drafts tokens by prompt lookup and checks several in one step. What is generated is the same
    /// without; `None` drafts nothing.
    pub speculation: Option<SpeculationParams>,
    /// Cells are shared only between requests with the same salt: a client that must not learn from
    /// the time to the first token what others asked gets a salt of its own. Empty for everybody
    /// else.
    pub cache_salt: Arc<str>,
    /// Adapters that change the model's weights for this generation; none for the model as it is.
    pub adapters: Arc<[NamedAdapter]>,
    /// Who goes first when not all can: the higher. Each point is worth `priority_aging_ms` of
    /// waiting, so nobody waits for ever. From `min_priority` to `max_priority` of the spec.
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
            tenant: None,
            entry: Entry::Open,
            on_admission: None,
            prompt,
            tiles: Arc::default(),
            last_turn: None,
            sampling: SamplingParams::greedy(),
            prompt_logprobs: None,
            max_tokens: None,
            min_tokens: 0,
            stop_tokens: TokenSet::default(),
            ignore_eos: false,
            bad_words: BadWords::default(),
            credits: u32::MAX,
            reasoning_limit: None,
            speculation: None,
            cache_salt: Arc::from(""),
            adapters: Arc::default(),
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
            .field("tiles", &self.tiles.len())
            .field("sampling", &self.sampling)
            .field("max_tokens", &self.max_tokens)
            .field("credits", &self.credits)
            .field("speculation", &self.speculation)
            .field("priority", &self.priority)
            .field("constraint", &self.constraint)
            .finish_non_exhaustive()
    }
}
