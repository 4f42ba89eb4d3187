//! The generations of a request. Some are in the engine and the others follow, so that no request
//! fills the engine's queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use graphmill_engine::{Error, EventSender, Result, Timestamp};
use graphmill_llm::{
    BadWords, CompiledConstraint, Encoding, Entry, GenerationError, GenerationRequest, LlmEngine,
    PlacedTile, RequestId, SequenceHandle, SpeculationParams, StepOutput, SubmitError, Token,
    Usage,
};

use super::{not_tokenized, out_of_memory};
use crate::payload::{GenerationParams, Quota, RememberedPrompt, StopSignal, TokenPrompt};

/// Number of step outputs of one choice that may be on their way through the graph before the
/// engine waits for credit. The engine delivers the outputs of 15 ms together, up to a hundred of
/// the shortest steps, and continues meanwhile. After a client stops reading, its generation stops
/// when these are used up.
const CREDITS: u32 = 128;

/// An event from outside of the graph, or from a node that ends a choice.
#[derive(Debug)]
pub(super) struct GenerationEvent {
    /// Timestamp of the prompts that it concerns.
    pub(super) prompt: Timestamp,
    pub(super) kind: EventKind,
}

#[derive(Debug)]
pub(super) enum EventKind {
    Step {
        index: u32,
        output: StepOutput,
    },
    Stop {
        index: u32,
    },
    /// The images and sounds of the prompts are encoded, or the encoder failed.
    Encoded(Result<(), GenerationError>),
}

/// A choice that has not ended. Dropping it cancels its generation.
pub(super) struct RunningChoice {
    pub(super) sequence: SequenceHandle,
    pub(super) stop: StopSignal,
    /// True once its stop signal was given. The event for it may wait behind earlier outputs.
    pub(super) stopped: Arc<AtomicBool>,
    /// Number of outputs that may come before more credit is needed.
    pub(super) credits: u32,
    /// True once its first output has come, so that it no longer waits.
    pub(super) began: bool,
    /// Usage already added to the tally.
    pub(super) tallied: Usage,
    /// The prompt and tokens of the reply, if it is to be remembered.
    pub(super) reply: Option<UnfinishedReply>,
    /// The prompt, if it is to be reported and was not yet.
    pub(super) echo: Option<Vec<Token>>,
    /// True if the ids of its tokens are reported.
    pub(super) tells_ids: bool,
}

/// A reply that is remembered once it is complete.
pub(super) struct UnfinishedReply {
    pub(super) asked: Arc<RememberedPrompt>,
    pub(super) prompt: Vec<Token>,
    pub(super) tokens: Vec<Token>,
}

/// All generations of a request: their shared parameters, and the number of the next one.
pub(super) struct Generations {
    /// Timestamp of the prompts.
    prompt: Timestamp,
    /// Engine of all of them, even if the model gets another one meanwhile.
    engine: Arc<LlmEngine>,
    request: RequestId,
    prompts: Vec<TokenPrompt>,
    params: GenerationParams,
    max_tokens: Option<u32>,
    speculation: Option<SpeculationParams>,
    constraint: Option<CompiledConstraint>,
    bad_words: BadWords,
    events: EventSender<GenerationEvent>,
    /// Limits of the key, notified when the first generation is admitted.
    quota: Option<Arc<dyn Quota>>,
    next: usize,
}

impl Generations {
    /// Checks all generations without submitting any. Fails if one of the prompts can never run.
    pub(super) fn new(
        engine: Arc<LlmEngine>,
        (prompt, prompts): (Timestamp, Vec<TokenPrompt>),
        params: &GenerationParams,
        (max_tokens, speculation): (Option<u32>, Option<SpeculationParams>),
        constraint: Option<CompiledConstraint>,
        (events, quota): (EventSender<GenerationEvent>, Option<Arc<dyn Quota>>),
    ) -> Result<Self> {
        // The last ones may be submitted after the answer has begun. Then it is too late to refuse
        // them.
        for prompt in &prompts {
            let checked = engine.check_prompt(&prompt.tokens, &prompt.tiles, max_tokens);
            checked.map_err(refused)?;
        }
        let bad_words = BadWords::new(&params.bad_words, &*engine.vocab());
        let bad_words =
            bad_words.map_err(|error| not_tokenized(error, Some("bad_words".to_owned())))?;
        Ok(Self {
            prompt,
            engine,
            request: RequestId::new(),
            prompts,
            params: params.clone(),
            max_tokens,
            speculation,
            constraint,
            bad_words,
            events,
            quota,
            next: 0,
        })
    }

    /// Starts to encode the images and sounds of the prompts that no other request has encoded.
    /// Returns `None` if there is nothing to wait for.
    pub(super) fn encode(&self) -> Result<Option<Encoding>> {
        let tiles = self.prompts.iter().flat_map(|prompt| prompt.tiles.iter());
        let tiles = tiles.map(PlacedTile::tile);
        let tiles: Vec<_> = tiles.filter(|tile| !tile.is_encoded()).cloned().collect();
        let Some(vision) = self.engine.vision().filter(|_| !tiles.is_empty()) else {
            return Ok(None);
        };
        let (events, prompt) = (self.events.clone(), self.prompt);
        let answer = move |encoded| {
            let kind = EventKind::Encoded(encoded);
            // Fails if the session has ended: it waits for nothing.
            events.send(GenerationEvent { prompt, kind }).ok();
        };
        vision.encode(tiles, answer).map(Some).map_err(refused)
    }

    /// Returns the number of generations.
    pub(super) fn count(&self) -> usize {
        self.prompts.len() * self.params.n as usize
    }

    /// Submits as many as a request may have in the queue, and at least one. `follows` is true if
    /// generations for other prompts of the session were admitted before.
    pub(super) fn begin(&mut self, follows: bool) -> Result<Vec<Option<RunningChoice>>> {
        let most = self.engine.places_of_a_request();
        let mut choices = Vec::with_capacity(self.count().min(most));
        let mut entry = match self.params.place.take() {
            Some(place) => Entry::Reserved(place),
            None if follows => Entry::Follows,
            None => Entry::Open,
        };
        while choices.len() < most {
            match self.submit(entry) {
                Ok(Some(choice)) => choices.push(Some(choice)),
                Ok(None) => break,
                // The others follow those that were submitted.
                Err(error) if is_full(&error) && !choices.is_empty() => break,
                Err(error) => return Err(refused(error)),
            }
            entry = Entry::Open;
        }
        Ok(choices)
    }

    /// Submits one more, for one that has left the queue. Returns `None` if all are submitted.
    pub(super) fn follow(&mut self) -> Result<Option<RunningChoice>> {
        self.submit(Entry::Follows).map_err(refused)
    }

    fn submit(&mut self, entry: Entry) -> Result<Option<RunningChoice>, SubmitError> {
        let params = &self.params;
        let n = params.n as usize;
        if self.next >= self.count() {
            return Ok(None);
        }
        let prompt = &self.prompts[self.next / n];
        let generation = self.next % n;
        let index = self.next as u32;
        let at = self.prompt;
        let event = move |kind| GenerationEvent { prompt: at, kind };
        let sink = self.events.clone();
        let mut request = GenerationRequest::new(prompt.tokens.clone(), move |output| {
            // Fails if the session has ended: its sequences were dropped, and nobody waits.
            sink.send(event(EventKind::Step { index, output })).ok();
        });
        request.request = self.request;
        request.tiles = Arc::clone(&prompt.tiles);
        request.last_turn = prompt.last_turn;
        request.entry = entry;
        if self.next == 0
            && let Some(quota) = self.quota.clone()
        {
            request.on_admission = Some(Box::new(move || quota.admitted()));
        }
        request.sampling = params.sampling.clone();
        let seed = params.sampling.seed;
        request.sampling.seed = seed.map(|seed| seed.wrapping_add(generation as u64));
        let echoed = params.sampling.logprobs.filter(|_| params.echo);
        request.prompt_logprobs = params.prompt_logprobs.max(echoed);
        request.max_tokens = self.max_tokens;
        request.min_tokens = params.min_tokens;
        request.stop_tokens = params.stop_tokens.clone();
        request.ignore_eos = params.ignore_eos;
        request.bad_words = self.bad_words.clone();
        request.speculation = self.speculation;
        request.cache_salt = Arc::clone(&params.cache_salt);
        request.adapters.clone_from(&params.adapters);
        request.priority = params.priority;
        request.tenant = params.tenant;
        request.constraint.clone_from(&self.constraint);
        request.reasoning_limit.clone_from(&params.reasoning_limit);
        request.credits = CREDITS;
        let sequence = self.engine.submit(request)?;
        let signals = self.events.clone();
        let stopped = Arc::new(AtomicBool::new(false));
        let to_stop = Arc::clone(&stopped);
        let stop = StopSignal::new(move || {
            to_stop.store(true, Ordering::Relaxed);
            // Fails if the session has ended, as above.
            signals.send(event(EventKind::Stop { index })).ok();
        });
        let reply = prompt.asked.clone().map(|asked| UnfinishedReply {
            asked,
            prompt: prompt.tokens.clone(),
            tokens: Vec::new(),
        });
        let tells_prompt = params.echo || params.token_ids || params.prompt_logprobs.is_some();
        let echo = tells_prompt.then(|| prompt.shown_tokens());
        self.next += 1;
        Ok(Some(RunningChoice {
            sequence,
            stop,
            stopped,
            credits: CREDITS,
            began: false,
            tallied: Usage::default(),
            reply,
            echo,
            tells_ids: params.token_ids,
        }))
    }
}

/// Returns true if the queue had no room.
fn is_full(error: &SubmitError) -> bool {
    matches!(
        error,
        SubmitError::QueueFull { .. }
            | SubmitError::QueuedTokens { .. }
            | SubmitError::ShareTaken { .. }
    )
}

/// Converts an engine's refusal of a prompt to an error for the client.
pub(crate) fn refused(error: SubmitError) -> Error {
    let message = error.to_string();
    let invalid = |field: &'static str| {
        let refusal = Error::invalid(error.to_string()).with_field(field);
        refusal.with_code("invalid_value")
    };
    let refusal = match &error {
        SubmitError::PromptTooLong { .. } | SubmitError::PromptExceedsBatch { .. } => {
            Error::invalid(message).with_code("context_length_exceeded")
        }
        SubmitError::InvalidParameter { field, .. } => invalid(field),
        SubmitError::InvalidToken { .. } | SubmitError::EmptyPrompt => invalid("prompt"),
        SubmitError::EndsWithMedium => invalid("messages"),
        SubmitError::UnknownAdapter { .. } => Error::not_found(message)
            .with_field("model")
            .with_code("model_not_found"),
        SubmitError::QueueFull { .. } | SubmitError::QueuedTokens { .. } => {
            Error::exhausted(message)
        }
        // Other tenants still find room.
        SubmitError::ShareTaken { .. } => {
            Error::exhausted(message).with_code("rate_limit_exceeded")
        }
        SubmitError::OutOfMemory(error) => return out_of_memory(*error),
        SubmitError::Stopped | SubmitError::Failed(_) => Error::unavailable(message),
    };
    refusal.with_source(error)
}
