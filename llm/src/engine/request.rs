//! A request for one generation.

use std::sync::Arc;

use crate::constrain::{CompiledConstraint, ReasoningLimit};
use crate::debug::show_fields;
use crate::protocol::{
    NamedAdapter, RequestId, SamplingParams, SpeculationParams, StepSink, Tenant, Token, TokenSet,
};
use crate::sampler::BadWords;
use crate::vision::PlacedTile;
use crate::worker::QueuePlace;

/// Way in which a generation gets its place in the queue.
#[derive(Clone, Debug, Default)]
pub enum Entry {
    /// Takes a place, if one is left.
    #[default]
    Open,
    /// Uses a place that was reserved before.
    Reserved(Arc<QueuePlace>),
    /// Follows another generation of its request that has left the queue, in its place. It needs no
    /// free place: a request that has begun is not refused.
    Follows,
}

/// Callback for the end of a generation's wait. It must not block: the engine's thread calls it.
pub type OnAdmission = Box<dyn FnOnce() + Send>;

/// One generation: prompt, sampling, limits, and the receiver of the tokens.
pub struct GenerationRequest {
    /// The request that the generation belongs to.
    pub request: RequestId,
    /// Tenant of the request, if tenants are distinguished; `None` takes turns by request.
    pub tenant: Option<Tenant>,
    /// Way in which it gets a place in the queue.
    pub entry: Entry,
    /// Called when it gets its first slot, or ends without one.
    pub on_admission: Option<OnAdmission>,
    /// Prompt tokens, at least one. Nothing is added to them.
    pub prompt: Vec<Token>,
    /// The tiles of media and of given vectors in the prompt, in order, all of them encoded. Nothing
    /// is drafted for a prompt with tiles.
    pub tiles: Arc<[PlacedTile]>,
    /// Number of tokens before the last turn of a conversation, if known: other requests may
    /// continue from there. A model that needs checkpoints makes one there.
    pub last_turn: Option<u32>,
    /// Parameters of the choice of tokens.
    pub sampling: SamplingParams,
    /// Reports the log probability of each prompt token but the first, and of this many most likely
    /// ones at its place. The whole prompt is computed for it: nothing is reused from other
    /// sequences.
    pub prompt_logprobs: Option<u8>,
    /// Maximum number of tokens to generate; 0 only computes the prompt. `None` generates until the
    /// model ends the text or the context is full.
    pub max_tokens: Option<u32>,
    /// Tokens to generate before one of the model's end tokens or of `stop_tokens` may be chosen.
    pub min_tokens: u32,
    /// Tokens that end the generation besides the model's own end tokens. They are not part of the
    /// text.
    pub stop_tokens: TokenSet,
    /// Continues after the model's end token, which then counts as an ordinary token.
    pub ignore_eos: bool,
    /// Words that the text must not contain.
    pub bad_words: BadWords,
    /// Number of step outputs that may be delivered before
    /// [`SequenceHandle::grant`](crate::SequenceHandle::grant) allows more; `u32::MAX` for no
    /// limit. A sequence without credit sits out the batches.
    pub credits: u32,
    /// Limit on the model's reasoning before it answers; `None` for no limit.
    pub reasoning_limit: Option<ReasoningLimit>,
    /// Drafts tokens and checks several in one step. It does not change the generated text; `None`
    /// drafts nothing.
    pub speculation: Option<SpeculationParams>,
    /// Salt of the prefix cache: cells are shared only between requests with the same salt. A
    /// client that must not learn other clients' prompts from the time to the first token gets its
    /// own salt. Empty by default.
    pub cache_salt: Arc<str>,
    /// LoRA adapters applied to the model's weights for this generation; none for the plain model.
    pub adapters: Arc<[NamedAdapter]>,
    /// Priority in the queue: higher goes first. Each point is worth `priority_aging_ms` of
    /// waiting, so no request waits forever. Allowed are `min_priority` to `max_priority` of the
    /// spec.
    pub priority: i32,
    /// Constraint on the text, compiled by the same engine; `None` for free text.
    pub constraint: Option<CompiledConstraint>,
    /// Receiver of the outputs, called on the delivery thread of the engine.
    pub sink: Arc<dyn StepSink>,
}

impl GenerationRequest {
    /// Creates a greedy request without limits that sends its outputs to `sink`.
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
            sink: Arc::new(sink),
        }
    }
}

show_fields!(GenerationRequest { sampling, priority });
