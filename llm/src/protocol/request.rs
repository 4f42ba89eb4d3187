//! A generation to run.

use std::fmt;
use std::sync::Arc;

use super::{RequestId, SamplingParams, StepSink, SubmitError, Token, TokenSet};
use crate::constrain::CompiledConstraint;
use crate::reasoning::ReasoningLimit;
use crate::worker::QueuePlace;

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
    /// prompt is computed for it: nothing is reused from other sequences.
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

/// How tokens are drafted. The engine drafts fewer, or none, where that would not save time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpeculationParams {
    /// Most tokens drafted in a step, 1 to [`MAX_DRAFTS`](Self::MAX_DRAFTS).
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
    pub const MAX_DRAFTS: u32 = 32;
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
            Self::MAX_DRAFTS,
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
