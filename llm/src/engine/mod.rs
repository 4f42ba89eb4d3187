//! The engine as the rest of the program sees it: load, submit, status. The work happens on its
//! thread, in [`step`].

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::{fmt, io, num::NonZero, thread};

use crossbeam_channel::Sender;

use crate::backend::{Backend, Capacity, Loaded, Reuse, Serve};
use crate::constrain::{CompileError, CompiledConstraint, Compiler, Constraint, ConstraintError};
use crate::load;
use crate::measure::Measurements;
use crate::model::files::ModelFiles;
use crate::model::info::{DraftInfo, LlmEngineInfo};
use crate::model::progress;
use crate::model::vocab::{self, Vocab};
use crate::protocol::{FinishReason, GenerationError, LoadError, SequenceId, SubmitError, Token};
use crate::room::{self, Cache};
use crate::spec::LlmEngineSpec;
use crate::speculate::DraftSource;
use crate::vision::{self, PlacedTile, Vision};
use crate::worker::{
    Command, Inbox, OutputReceiver, Pulse, Ready, Ticket, Waiter, Worker, stopped,
};

mod adapters;
mod admission;
mod batch;
mod commit;
mod delivery;
mod drain;
mod entry;
mod planner;
mod preview;
mod queue;
mod request;
mod sample;
mod sequence;
mod slots;
mod status;
mod step;
mod timing;
mod token_masks;

use delivery::Outbox;
pub use preview::PromptPreview;
use preview::Question;
pub use request::{Entry, GenerationRequest, OnAdmission};
use sequence::Sequence;
pub use status::LlmEngineStatus;
use status::Shared;
use step::Core;

/// A loaded model that generates for many requests at once. Dropping it stops its thread; sequences
/// that still run end with an error.
pub struct LlmEngine {
    spec: LlmEngineSpec,
    files: ModelFiles,
    vocab: Arc<dyn Vocab>,
    /// Made when the first constraint is compiled.
    compiler: Arc<OnceLock<Result<Compiler, ConstraintError>>>,
    capacity: Capacity,
    info: LlmEngineInfo,
    vision: Option<Vision>,
    shared: Arc<Shared>,
    worker: Worker<Order, Waiting>,
    /// Here for as long as the engine is.
    _prefixes: Arc<dyn Cache>,
}

/// A receiver that waits for the engine.
#[derive(Debug)]
enum Waiting {
    Sequence(Arc<OutputReceiver>),
    Question(Arc<Waiter<PromptPreview>>),
}

/// About what a token of a prompt takes, in its sequence and where prefixes are looked up.
const BYTES_OF_TOKEN: u64 = 32;

/// What sessions tell the engine thread. These are bounded: submissions by `max_waiting` and
/// `max_num_seqs`, grants by one for each delivered output, and a session asks about each of its
/// prompts once, and for memory a few times.
enum Order {
    Generate(Box<Sequence>),
    Grant(SequenceId, u32),
    Preview(Box<Question>),
    /// Memory is short: what finished sequences left goes.
    Shrink,
}

/// The prefix cache of an engine, as what asks for memory sees it.
struct SavedPrefixes(Sender<Command<Order>>);

impl Cache for SavedPrefixes {
    fn shrink(&self) {
        // Fails only when the engine has stopped, and its cache with it.
        self.0.send(Command::Order(Order::Shrink)).ok();
    }
}

impl LlmEngine {
    /// Loads the model of a spec and starts its thread. Blocks until the model is ready.
    ///
    /// # Errors
    /// [`LoadError`] says which file or option is wrong, and why.
    pub fn load(spec: LlmEngineSpec) -> Result<Self, LoadError> {
        spec.validate()?;
        let _told = progress::Told::of(&spec.model);
        let files = load::prepare(&spec)?;
        let to_open = spec.clone();
        Self::start(spec, files, move |serve| load::open(&to_open, serve))
    }

    /// Starts an engine on a backend of the caller's own, which `open` creates on the engine
    /// thread.
    ///
    /// # Errors
    /// Whatever `open` returns, and [`LoadError::Spec`] for values out of range.
    pub fn with_backend<B, F>(spec: LlmEngineSpec, open: F) -> Result<Self, LoadError>
    where
        B: Backend,
        F: FnOnce() -> Result<(B, Arc<dyn Vocab>), LoadError> + Send + 'static,
    {
        Self::start(spec, ModelFiles::default(), move |serve| {
            let (mut backend, vocab) = open()?;
            serve(Loaded {
                backend: &mut backend,
                draft: None,
                vocab,
                projector: None,
            });
            Ok(())
        })
    }

    /// As [`with_backend`](Self::with_backend), with a second backend that drafts. Its vocabulary
    /// has to be that of the first.
    ///
    /// # Errors
    /// Those of [`with_backend`](Self::with_backend).
    pub fn with_draft_backend<B, D, F>(spec: LlmEngineSpec, open: F) -> Result<Self, LoadError>
    where
        B: Backend,
        D: Backend,
        F: FnOnce() -> Result<(B, D, Arc<dyn Vocab>), LoadError> + Send + 'static,
    {
        Self::start(spec, ModelFiles::default(), move |serve| {
            let (mut backend, mut draft, vocab) = open()?;
            serve(Loaded {
                backend: &mut backend,
                draft: Some(&mut draft),
                vocab,
                projector: None,
            });
            Ok(())
        })
    }

    fn start<F>(spec: LlmEngineSpec, files: ModelFiles, open: F) -> Result<Self, LoadError>
    where
        F: FnOnce(&mut Serve<'_>) -> Result<(), LoadError> + Send + 'static,
    {
        spec.validate()?;
        let shared = Arc::<Shared>::default();
        let name = spec.model.file_stem().unwrap_or_default().to_string_lossy();
        let start = |source| LoadError::Thread { source };
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        let pause = move |outputs| delivery::pause(outputs, processors);
        let mut outbox = Outbox::start(&name, pause).map_err(start)?;
        let serve = {
            let (spec, shared) = (spec.clone(), Arc::clone(&shared));
            let model = name.clone().into_owned();
            move |ready: Ready<_>, inbox: Inbox<_>| {
                let masking = token_masks::threads(&model);
                let _masking = masking.map_err(|error| start(io::Error::other(error)))?;
                open(&mut |loaded: Loaded<'_>| {
                    let Loaded {
                        backend,
                        draft,
                        vocab,
                        projector,
                    } = loaded;
                    let (to_sessions, shared) = (Arc::clone(&vocab), Arc::clone(&shared));
                    let capacity = backend.capacity();
                    let backend_info = backend.info();
                    let draft_info = draft.as_deref().map(|draft| draft_info(&spec, draft));
                    // As long as this call, not as long as the backend.
                    let draft = draft.map(|draft| -> &mut dyn Backend { draft });
                    let mut core = Core::new(&spec, backend, draft, vocab, shared, &mut outbox);
                    ready.is((to_sessions, capacity, backend_info, draft_info, projector));
                    inbox.serve(&mut core);
                })
            }
        };
        let pulse = Arc::clone(&shared.pulse);
        let (worker, opened) = Worker::start(format!("engine {name}"), pulse, serve)?;
        let (vocab, capacity, backend, draft, projector) = opened;
        let cache_size = spec.vision.as_ref().map_or(0, |vision| vision.cache_size);
        let vision = projector.map(|projector| Vision::start(projector, &name, cache_size));
        let vision = vision.transpose()?;
        let info = LlmEngineInfo {
            model: vocab.model_name().to_owned(),
            path: spec.model.clone(),
            context_length: capacity.cells_per_sequence,
            max_num_seqs: capacity.max_sequences,
            max_num_batched_tokens: capacity.max_batch_tokens,
            dynamic_split_fuse: spec.dynamic_split_fuse,
            max_waiting: spec.max_waiting,
            kv_cells: capacity.total_cells,
            prefix_cache_bytes: if spec.prefix_caching && capacity.reuse != Reuse::Never {
                spec.prefix_cache_size.unwrap_or(capacity.host_cache_bytes)
            } else {
                0
            },
            checkpoint_cache_bytes: if spec.prefix_caching && capacity.reuse == Reuse::Checkpoints {
                spec.checkpoint_cache_size
                    .unwrap_or(capacity.host_cache_bytes)
            } else {
                0
            },
            backend,
            draft,
            adapters: spec.adapters.clone(),
            vision: spec.vision.clone().filter(|_| vision.is_some()),
        };
        tracing::info!("engine\n{info}");
        let prefixes: Arc<dyn Cache> = Arc::new(SavedPrefixes(worker.commands().clone()));
        room::enroll(Arc::downgrade(&prefixes));
        Ok(Self {
            spec,
            files,
            info,
            vocab,
            compiler: Arc::default(),
            capacity,
            vision,
            shared,
            worker,
            _prefixes: prefixes,
        })
    }

    /// Compiles what a text has to match, for [`GenerationRequest::constraint`]. The last ones are
    /// remembered. It takes up to a second, more the first time, so it is not for a thread that
    /// others wait for.
    ///
    /// # Errors
    /// [`CompileError`] says what is wrong with the constraint, or why no text can be held to it,
    /// or that memory is short.
    pub fn compile(&self, constraint: &Constraint) -> Result<CompiledConstraint, CompileError> {
        let compiler = self
            .compiler
            .get_or_init(|| Compiler::new(Arc::clone(&self.vocab)));
        compiler.as_ref().map_err(Clone::clone)?.compile(constraint)
    }

    /// Adds a generation. Its outputs go to its sink until one with a finish reason; dropping the
    /// handle cancels it.
    ///
    /// # Errors
    /// [`SubmitError`] for a request that cannot be run, or not now because too many wait.
    pub fn submit(&self, request: GenerationRequest) -> Result<SequenceHandle, SubmitError> {
        self.check(&request)?;
        let group = self.group(request.adapter.as_deref(), &request.cache_salt)?;
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
        let ticket = self.worker.ticket(id.0, receiver).map_err(|why| {
            self.leave(tenant, tokens);
            SubmitError::Failed(why)
        })?;
        if !self.worker.order(Order::Generate(sequence)) {
            self.leave(tenant, tokens);
            return Err(SubmitError::Stopped);
        }
        Ok(SequenceHandle(ticket))
    }

    /// Abandons the engine's thread, which is dead or hangs: waiting requests get the reason, and
    /// later outputs of the thread are ignored.
    pub(crate) fn abandon(&self, why: &GenerationError) {
        let finish = FinishReason::Error(why.clone());
        for waiting in self.worker.abandon(why) {
            match waiting {
                Waiting::Sequence(receiver) => {
                    if receiver.fail(why) {
                        self.shared.measured.ended(&finish);
                    }
                }
                Waiting::Question(waiter) => drop(waiter.tell(Err(why.clone()))),
            }
        }
    }

    /// What shows whether the engine is alive.
    pub(crate) fn pulse(&self) -> &Arc<Pulse> {
        self.worker.pulse()
    }

    /// Loads the model again, for an engine in the place of this one.
    ///
    /// # Errors
    /// As [`load`](Self::load), and if the file has become one of another vocabulary, which is not
    /// what sessions know.
    pub(crate) fn load_again(&self) -> Result<Self, LoadError> {
        let mut next = Self::load(self.spec.clone())?;
        let difference = vocab::difference(&*self.vocab, &*next.vocab);
        vocab::check_loaded_again(&self.spec.model, difference)?;
        // Constraints that were compiled hold for the same vocabulary.
        next.compiler = Arc::clone(&self.compiler);
        Ok(next)
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
                message: "cannot be asked for with images, whose positions have none".to_owned(),
            });
        }
        self.check_prompt(&request.prompt, &request.tiles, request.max_tokens)
    }

    /// Whether a prompt with these tiles of images can run, with this limit of its generation.
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

    /// What reads images for the model; `None` if it takes none.
    pub fn vision(&self) -> Option<&Vision> {
        self.vision.as_ref()
    }

    /// The model's vocabulary, shared with every session.
    pub fn vocab(&self) -> Arc<dyn Vocab> {
        Arc::clone(&self.vocab)
    }

    /// The spec the engine was loaded from.
    pub fn spec(&self) -> &LlmEngineSpec {
        &self.spec
    }

    /// The files that it was loaded from.
    pub fn files(&self) -> &ModelFiles {
        &self.files
    }

    /// The values it runs with.
    pub fn info(&self) -> &LlmEngineInfo {
        &self.info
    }

    /// Most tokens of a sequence, prompt and generated together.
    pub fn context_length(&self) -> usize {
        self.capacity.cells_per_sequence as usize
    }

    /// What the engine has measured since it was loaded.
    pub fn measurements(&self) -> Measurements {
        self.shared.measured.read()
    }

    /// What the engine is doing now.
    pub fn status(&self) -> LlmEngineStatus {
        let model = self.vocab.model_name().to_owned();
        let mut status = self
            .shared
            .status(model, &self.capacity, &self.spec.adapters);
        status.images = self.vision.as_ref().map(Vision::status).unwrap_or_default();
        status
    }
}

/// What a draft model runs with, or the MTP layers of the model.
fn draft_info(spec: &LlmEngineSpec, backend: &dyn Backend) -> DraftInfo {
    let capacity = backend.capacity();
    let mtp = spec.draft.is_none() && backend.hidden_width() > 0;
    DraftInfo {
        path: match &spec.draft {
            Some(draft) => draft.model.clone(),
            None if mtp => spec.model.clone(),
            None => PathBuf::new(),
        },
        mtp,
        context_length: capacity.cells_per_sequence,
        max_num_seqs: capacity.max_sequences,
        max_num_batched_tokens: capacity.max_batch_tokens,
        kv_cells: capacity.total_cells,
        backend: backend.info(),
    }
}

impl Drop for LlmEngine {
    fn drop(&mut self) {
        if !self.worker.stop() {
            self.abandon(&stopped());
        }
    }
}

impl fmt::Debug for LlmEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LlmEngine")
            .field("spec", &self.spec)
            .field("capacity", &self.capacity)
            .finish_non_exhaustive()
    }
}

/// A generation in an engine. Dropping it cancels the generation: its cells are free after the step
/// that is being computed, and no finish is delivered. Outputs of that step may still arrive.
#[derive(Debug)]
pub struct SequenceHandle(Ticket<Order, Waiting>);

impl SequenceHandle {
    /// The sequence's number.
    pub fn id(&self) -> SequenceId {
        SequenceId(self.0.number())
    }

    /// Allows this many more outputs.
    pub fn grant(&self, credits: u32) {
        self.0.say(Order::Grant(self.id(), credits));
    }
}
