//! What the rest of the program asks of an engine: generations, and questions about prompts.

use std::sync::{Arc, mpsc};

use super::handle::LlmEngine;
use super::order::{Order, Waiting};
use super::preview::{PromptPreview, Question};
use super::request::{Entry, GenerationRequest};
use super::sequence::Sequence;
use super::standing::Standing;
use super::status::Shared;
use crate::backend::{Adapter, Adapters};
use crate::cache::ShareGroup;
use crate::constrain::{self, CompileError, CompiledConstraint, Compiling, Constraint};
use crate::measure::SlotWait;
use crate::protocol::{
    DraftSource, GenerationError, NamedAdapter, SequenceId, SubmitError, Tenant, Token,
};
use crate::room;
use crate::vision::{self, PlacedTile};
use crate::worker::{Ticket, Waiter};

/// About what a token of a prompt takes, in its sequence and where prefixes are looked up.
const BYTES_OF_TOKEN: u64 = 32;

impl LlmEngine {
    /// Compiles what a text has to match, for [`GenerationRequest::constraint`]. The last ones are
    /// remembered. It takes up to a second, more the first time, so it is not for a thread that
    /// others wait for; [`start_compile`](Self::start_compile) is.
    ///
    /// # Errors
    /// [`CompileError`] says what is wrong with the constraint, or why no text can be held to it,
    /// or what is short.
    pub fn compile(&self, constraint: &Constraint) -> Result<CompiledConstraint, CompileError> {
        let (tell, told) = mpsc::channel();
        let tell = move |outcome| drop(tell.send(outcome));
        let _compiling = self.start_compile(constraint, None, tell)?;
        told.recv()
            .unwrap_or_else(|_| Err(CompileError::Busy("its thread has ended".to_owned())))
    }

    /// Begins to [compile](Self::compile) a constraint for a tenant. The outcome is told, at once
    /// if the constraint was compiled before, which `None` says. Dropping what is returned before
    /// its turn has come takes it back, and nobody is told.
    ///
    /// # Errors
    /// As those of [`compile`](Self::compile), as far as they are known at once.
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
    /// [`SubmitError`] for a request that cannot be run, or not now because too many wait.
    pub fn submit(&self, request: GenerationRequest) -> Result<SequenceHandle, SubmitError> {
        self.check(&request)?;
        let group = self.group(&request.adapters, &request.cache_salt)?;
        // Those that follow were let in with the first.
        if !matches!(request.entry, Entry::Follows) {
            let constraint = request.constraint.as_ref();
            let constraint = constraint.map_or(0, CompiledConstraint::bytes);
            room::ensure(constraint + BYTES_OF_TOKEN * request.prompt.len() as u64)?;
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

    /// By how many microseconds a request ranks before others of its time: a point of priority is
    /// worth some time of waiting.
    fn head_start(&self, priority: i32) -> i64 {
        let point = i64::from(self.spec.priority_aging_ms) * 1_000;
        point.saturating_mul(i64::from(priority))
    }

    fn check(&self, request: &GenerationRequest) -> Result<(), SubmitError> {
        let n_vocab = self.vocab.n_vocab();
        self.check_priority(request.priority)?;
        request.sampling.validate(n_vocab)?;
        if let Some(speculation) = &request.speculation {
            speculation.validate()?;
            if matches!(speculation.source, DraftSource::Model { .. }) && self.info.draft.is_none()
            {
                return Err(SubmitError::InvalidParameter {
                    field: "draft_models_path",
                    message: "is not set: the engine has no model that drafts".to_owned(),
                });
            }
        }
        if let Some(constraint) = &request.constraint {
            let compiler = self.compiler.get().and_then(|made| made.as_ref().ok());
            if !compiler.is_some_and(|compiler| compiler.made(constraint)) {
                return Err(SubmitError::InvalidParameter {
                    field: "constraint",
                    message: "was compiled by another engine".to_owned(),
                });
            }
        }
        let stops = &request.stop_tokens;
        if let Some(token) = stops.iter().find(|token| !self.vocab.contains(**token)) {
            return Err(SubmitError::InvalidParameter {
                field: "stop_token_ids",
                message: format!("has {token}, which is not in the vocabulary of {n_vocab} tokens"),
            });
        }
        if request.tiles.iter().any(|tile| !tile.tile().is_encoded()) {
            return Err(SubmitError::InvalidParameter {
                field: "tiles",
                message: "has a tile that is not encoded".to_owned(),
            });
        }
        if request.prompt_logprobs.is_some() && !request.tiles.is_empty() {
            return Err(SubmitError::InvalidParameter {
                field: "prompt_logprobs",
                message: "cannot be asked for with images or sounds, whose positions have none"
                    .to_owned(),
            });
        }
        self.check_prompt(&request.prompt, &request.tiles, request.max_tokens)
    }

    /// Whether a prompt with these tiles can run, with this limit of its generation.
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
                None => "has embeddings, and the model takes tokens alone".to_owned(),
            };
            return Err(SubmitError::InvalidParameter {
                field: "tiles",
                message,
            });
        }
        let is_token = |token| self.vocab.contains(token);
        vision::check_prompt(prompt, tiles, self.vocab.n_vocab(), is_token)
    }

    /// Returns the group of requests with these adapters and this salt.
    pub(super) fn group(
        &self,
        adapters: &[NamedAdapter],
        salt: &Arc<str>,
    ) -> Result<ShareGroup, SubmitError> {
        let found = adapters.iter().map(|named| self.adapter(named));
        let found = found.collect::<Result<Vec<_>, _>>()?;
        let adapters = Adapters::new(found).map_err(|message| SubmitError::InvalidParameter {
            field: "adapters",
            message,
        })?;
        Ok(ShareGroup {
            adapters,
            salt: Arc::clone(salt),
        })
    }

    fn adapter(&self, named: &NamedAdapter) -> Result<Adapter, SubmitError> {
        let adapters = &self.spec.adapters;
        let mut numbered = (0..).zip(adapters);
        let found = numbered.find(|(_, adapter)| *adapter.name == *named.name);
        found
            .map(|(number, adapter)| Adapter {
                number,
                scale: named.scale.unwrap_or(adapter.scale),
            })
            .ok_or_else(|| SubmitError::UnknownAdapter {
                name: named.name.to_string(),
                known: adapters
                    .iter()
                    .map(|adapter| adapter.name.clone())
                    .collect(),
            })
    }

    /// Asks what a prompt with these tiles of images would take if it were admitted now, with this
    /// cache salt and these adapters.
    /// `answer` is called on the engine's thread, between two steps; with an error, on any thread,
    /// if the engine fails first.
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
    shared: Arc<Shared>,
    slot_wait: Arc<SlotWait>,
}

impl SequenceHandle {
    /// The sequence's number.
    pub fn id(&self) -> SequenceId {
        SequenceId(self.ticket.number())
    }

    /// Allows this many more outputs.
    pub fn grant(&self, credits: u32) {
        self.ticket.say(Order::Grant(self.id(), credits));
    }

    /// Returns the sequence's standing as of the engine's last step; `None` once it has ended and
    /// its last output is on its way.
    pub fn standing(&self) -> Option<Standing> {
        self.shared.standings.of(self.id())
    }

    /// Returns the time that the sequence is without a slot, which can be read after its end, too.
    pub fn slot_wait(&self) -> &Arc<SlotWait> {
        &self.slot_wait
    }
}
