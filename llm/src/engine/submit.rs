//! Requests of the rest of the program to an engine: generations, and questions about prompts.

use std::sync::{Arc, mpsc};

use super::handle::LlmEngine;
use super::order::{Order, Waiting};
use super::preview::{PromptPreview, Question};
use super::request::{Entry, GenerationRequest};
use super::sequence::Sequence;
use super::standing::Standing;
use super::status::EngineState;
use crate::backend::{Adapter, Adapters};
use crate::cache::ShareGroup;
use crate::constrain::{self, CompileError, CompiledConstraint, Compiling, Constraint};
use crate::measure::SlotWait;
use crate::memory_budget;
use crate::protocol::{
    DraftSource, GenerationError, NamedAdapter, SequenceId, SubmitError, Tenant, Token,
};
use crate::vision::{self, PlacedTile};
use crate::worker::{Ticket, Waiter};

/// Approximate memory per prompt token, in bytes, in its sequence and in the prefix tree.
const BYTES_OF_TOKEN: u64 = 32;

impl LlmEngine {
    /// Compiles a constraint for [`GenerationRequest::constraint`]. The latest results are cached.
    /// Compiling takes up to a second, and more the first time, so a thread that others wait for
    /// should call [`start_compile`](Self::start_compile) instead.
    ///
    /// # Errors
    /// [`CompileError`] if the constraint is invalid, if no text can be held to it, or if a
    /// resource is exhausted.
    pub fn compile(&self, constraint: &Constraint) -> Result<CompiledConstraint, CompileError> {
        let (tell, told) = mpsc::channel();
        let tell = move |outcome| drop(tell.send(outcome));
        let _compiling = self.start_compile(constraint, None, tell)?;
        told.recv()
            .unwrap_or_else(|_| Err(CompileError::Busy("its thread has ended".to_owned())))
    }

    /// Starts to [compile](Self::compile) a constraint for a tenant. `tell` receives the outcome.
    /// If the constraint was compiled before, that happens at once, and `None` is returned.
    /// Dropping the returned value before its turn cancels the compile, and `tell` is never called.
    ///
    /// # Errors
    /// Those errors of [`compile`](Self::compile) that are known at once.
    pub fn start_compile(
        &self,
        constraint: &Constraint,
        tenant: Option<Tenant>,
        tell: impl FnOnce(Result<CompiledConstraint, CompileError>) + Send + 'static,
    ) -> Result<Option<Compiling>, CompileError> {
        constrain::start(&self.compiler, &self.vocab, constraint, tenant, tell)
    }

    /// Adds a generation. Its outputs go to its sink until one with a finish reason; dropping the
    /// handle cancels it.
    ///
    /// # Errors
    /// [`SubmitError`] for a request that can never run, or if too many wait now.
    pub fn submit(&self, request: GenerationRequest) -> Result<SequenceHandle, SubmitError> {
        self.check(&request)?;
        let group = self.group(&request.adapters, &request.cache_salt)?;
        // Generations that follow were counted with the first.
        if !matches!(request.entry, Entry::Follows) {
            let constraint = request.constraint.as_ref();
            let constraint = constraint.map_or(0, CompiledConstraint::bytes);
            memory_budget::ensure(constraint + BYTES_OF_TOKEN * request.prompt.len() as u64)?;
        }
        let (tenant, tokens) = (request.tenant, request.prompt.len() as u64);
        self.enter(&request.entry, tenant, tokens)?;
        let id = SequenceId(self.worker.number());
        let head_start = self.head_start(request.priority);
        let rank = self.shared.now().saturating_sub(head_start);
        let context = self.capacity.cells_per_sequence;
        let sequence = Box::new(Sequence::new(
            id,
            (rank, head_start),
            request,
            group,
            context,
            &self.vocab,
        ));
        let receiver = Waiting::Sequence(Arc::clone(&sequence.sink));
        let slot_wait = Arc::clone(&sequence.moments.slot_wait);
        let ticket = self.worker.ticket(id.0, receiver).map_err(|why| {
            self.leave(tenant, tokens);
            SubmitError::Failed(why)
        })?;
        self.shared.standings.submitted(id);
        if !self.worker.order(Order::Generate(sequence)) {
            self.leave(tenant, tokens);
            return Err(SubmitError::Stopped);
        }
        Ok(SequenceHandle {
            ticket,
            shared: Arc::clone(&self.shared),
            slot_wait,
        })
    }

    /// Head start of a request in microseconds: each point of priority is worth some time of
    /// waiting.
    fn head_start(&self, priority: i32) -> i64 {
        let point = i64::from(self.spec.priority_aging_ms) * 1_000;
        point.saturating_mul(i64::from(priority))
    }

    fn check(&self, request: &GenerationRequest) -> Result<(), SubmitError> {
        let wrong = |field, message: &str| Err(SubmitError::parameter(field, message));
        let n_vocab = self.vocab.n_vocab();
        self.check_priority(request.priority)?;
        request.sampling.validate(n_vocab)?;
        if let Some(speculation) = &request.speculation {
            speculation.validate()?;
            if matches!(speculation.source, DraftSource::Model { .. }) && self.info.draft.is_none()
            {
                let message = "is not set: the engine has no model that drafts";
                return wrong("draft_models_path", message);
            }
        }
        if let Some(constraint) = &request.constraint {
            let compiler = self.compiler.get().and_then(|made| made.as_ref().ok());
            if !compiler.is_some_and(|compiler| compiler.made(constraint)) {
                return wrong("constraint", "was compiled by another engine");
            }
        }
        let stops = &request.stop_tokens;
        if let Some(token) = stops.iter().find(|token| !self.vocab.contains(**token)) {
            let message =
                format!("has {token}, which is not in the vocabulary of {n_vocab} tokens");
            return wrong("stop_token_ids", &message);
        }
        if request.tiles.iter().any(|tile| !tile.tile().is_encoded()) {
            return wrong("tiles", "has a tile that is not encoded");
        }
        if request.prompt_logprobs.is_some() && !request.tiles.is_empty() {
            return wrong(
                "prompt_logprobs",
                "is not supported with images, sounds or vectors, whose positions have no log probabilities",
            );
        }
        self.check_prompt(&request.prompt, &request.tiles, request.max_tokens)
    }

    /// Checks that a prompt with these tiles can run, with this limit on its generation.
    ///
    /// # Errors
    /// As [`submit`](Self::submit), for prompts that can never run.
    pub fn check_prompt(
        &self,
        prompt: &[Token],
        tiles: &[PlacedTile],
        max_tokens: Option<u32>,
    ) -> Result<(), SubmitError> {
        let generates = usize::from(max_tokens != Some(0));
        let n_prompt_tokens = prompt.len();
        if n_prompt_tokens == 0 {
            return Err(SubmitError::EmptyPrompt);
        }
        let n_ctx = self.capacity.cells_per_sequence as usize;
        if n_prompt_tokens + generates > n_ctx {
            return Err(SubmitError::PromptTooLong {
                n_prompt_tokens,
                n_ctx,
            });
        }
        let max_num_batched_tokens = self.capacity.max_batch_tokens as usize;
        if !self.spec.dynamic_split_fuse && n_prompt_tokens > max_num_batched_tokens {
            return Err(SubmitError::PromptExceedsBatch {
                n_prompt_tokens,
                max_num_batched_tokens,
            });
        }
        let width = self.capacity.embedding_width;
        let wrong = tiles.iter().filter_map(|placed| placed.tile().width());
        if let Some(found) = wrong.into_iter().find(|found| width != Some(*found)) {
            let message = match width {
                Some(width) => {
                    format!("has embeddings of {found} numbers, and the model's have {width}")
                }
                None => "has embeddings, but the model takes only tokens".to_owned(),
            };
            return Err(SubmitError::parameter("tiles", message));
        }
        let is_token = |token| self.vocab.contains(token);
        vision::check_prompt(prompt, tiles, self.vocab.n_vocab(), is_token)?;
        let takes_vectors = self.capacity.vector_width.is_some();
        let ends = |last: &&PlacedTile| last.end() as usize == prompt.len();
        match tiles.last().filter(ends) {
            Some(last) if !(takes_vectors && last.tile().is_given()) => {
                Err(SubmitError::EndsWithMedium)
            }
            _ => Ok(()),
        }
    }

    /// Returns the group of requests with these adapters and this salt.
    pub(super) fn group(
        &self,
        adapters: &[NamedAdapter],
        salt: &Arc<str>,
    ) -> Result<ShareGroup, SubmitError> {
        let found = adapters.iter().map(|named| self.adapter(named));
        let found = found.collect::<Result<Vec<_>, _>>()?;
        let adapters =
            Adapters::new(found).map_err(|message| SubmitError::parameter("adapters", message))?;
        Ok(ShareGroup {
            adapters,
            salt: Arc::clone(salt),
        })
    }

    fn adapter(&self, named: &NamedAdapter) -> Result<Adapter, SubmitError> {
        let adapters = &self.spec.adapters;
        let mut numbered = (0..).zip(adapters);
        let found = numbered.find(|(_, adapter)| *adapter.name == *named.name);
        let Some((number, adapter)) = found else {
            let known = adapters.iter().map(|adapter| adapter.name.clone());
            return Err(SubmitError::UnknownAdapter {
                name: named.name.to_string(),
                known: known.collect(),
            });
        };
        let scale = named.scale.unwrap_or(adapter.scale);
        Ok(Adapter { number, scale })
    }

    /// Estimates the cost of a prompt with these tiles, cache salt and adapters if it were admitted
    /// now. `answer` is called on the engine's thread, between two steps. If the engine fails
    /// first, it is called with an error, on any thread.
    ///
    /// # Errors
    /// As [`submit`](Self::submit), for prompts that can never run.
    pub fn preview(
        &self,
        prompt: Vec<Token>,
        tiles: &[PlacedTile],
        salt: &Arc<str>,
        adapters: &[NamedAdapter],
        answer: impl FnOnce(Result<PromptPreview, GenerationError>) + Send + 'static,
    ) -> Result<(), SubmitError> {
        self.check_prompt(&prompt, tiles, None)?;
        let group = self.group(adapters, salt)?;
        let answer = Arc::new(Waiter::new(Box::new(answer)));
        let waiting = Waiting::Question(Arc::clone(&answer));
        let seat = self.worker.seat(self.worker.number(), waiting);
        let question = Question {
            prompt,
            group,
            answer,
            _seat: seat.map_err(SubmitError::Failed)?,
        };
        if self.worker.order(Order::Preview(Box::new(question))) {
            Ok(())
        } else {
            Err(SubmitError::Stopped)
        }
    }
}

/// A generation in an engine. Dropping it cancels the generation: its cells are free after the step
/// that is being computed, and no finish is delivered. Outputs of that step may still arrive.
#[derive(Debug)]
pub struct SequenceHandle {
    ticket: Ticket<Order, Waiting>,
    shared: Arc<EngineState>,
    slot_wait: Arc<SlotWait>,
}

impl SequenceHandle {
    /// Number of the sequence, unique in the process.
    pub fn id(&self) -> SequenceId {
        SequenceId(self.ticket.number())
    }

    /// Allows this many more outputs to be delivered.
    pub fn grant(&self, credits: u32) {
        self.ticket.say(Order::Grant(self.id(), credits));
    }

    /// Returns the sequence's standing as of the engine's last step; `None` once it has ended and
    /// its last output is on its way.
    pub fn standing(&self) -> Option<Standing> {
        self.shared.standings.get(self.id())
    }

    /// Returns the time that the sequence has no slot. It can also be read after the sequence's
    /// end.
    pub fn slot_wait(&self) -> &Arc<SlotWait> {
        &self.slot_wait
    }
}
