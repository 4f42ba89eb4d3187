//! The LLM engine's interface to the rest of the program: load, inspect, drop.

use std::path::PathBuf;
use std::sync::Arc;
use std::{io, num::NonZero, thread};

use rayon_core::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

use super::delivery::{self, Outbox};
use super::order::{Order, SavedPrefixes, Waiting};
use super::standing::Standing;
use super::status::EngineState;
use super::step::Core;
use crate::backend::{Backend, Capacity, LoadedBackends, Reuse, Serve};
use crate::constrain::LazyCompiler;
use crate::debug::show_fields;
use crate::load;
use crate::measure::Measurements;
use crate::memory_budget::{self, Cache};
use crate::model::files::ModelFiles;
use crate::model::info::{DraftInfo, LlmEngineInfo};
use crate::model::progress;
use crate::model::vocab::{self, Vocab};
use crate::protocol::{FinishReason, GenerationError, LoadError};
use crate::settings::LlmEngineSpec;
use crate::supervise::Replaceable;
use crate::vision::Vision;
use crate::worker::{Inbox, Pulse, Ready, Worker, stopped};

/// Maximum number of threads that compute token masks.
const MAX_MASK_THREADS: usize = 8;

/// A loaded model that generates for many requests at once. Dropping it stops its thread; sequences
/// that still run end with an error.
pub struct LlmEngine {
    pub(super) spec: LlmEngineSpec,
    files: ModelFiles,
    pub(super) vocab: Arc<dyn Vocab>,
    pub(super) compiler: LazyCompiler,
    pub(super) capacity: Capacity,
    pub(super) info: LlmEngineInfo,
    pub(super) vision: Option<Vision>,
    pub(super) shared: Arc<EngineState>,
    pub(super) worker: Worker<Order, Waiting>,
    /// Kept alive as long as the engine.
    _prefixes: Arc<dyn Cache>,
}

impl LlmEngine {
    /// Loads the model of a spec and starts its thread. Blocks until the model is ready.
    ///
    /// # Errors
    /// [`LoadError`] says which file or option is wrong, and why.
    pub fn load(spec: LlmEngineSpec) -> Result<Self, LoadError> {
        spec.validate()?;
        let _guard = progress::LoadGuard::new(&spec.model);
        let files = load::prepare(&spec)?;
        let to_open = spec.clone();
        let engine = Self::start(spec, files, move |serve| load::open(&to_open, serve))?;
        engine.files.check_unchanged()?;
        Ok(engine)
    }

    /// Starts an engine on the caller's backend. `open` creates it on the engine thread.
    ///
    /// # Errors
    /// Errors of `open`, and [`LoadError::Spec`] for values out of range.
    pub fn with_backend<B, F>(spec: LlmEngineSpec, open: F) -> Result<Self, LoadError>
    where
        B: Backend,
        F: FnOnce() -> Result<(B, Arc<dyn Vocab>), LoadError> + Send + 'static,
    {
        Self::with_backends(spec, move || {
            let (backend, vocab) = open()?;
            Ok((backend, None::<B>, vocab))
        })
    }

    /// Starts an engine as [`with_backend`](Self::with_backend) does, with a second backend that
    /// drafts if there is one. Both must have the same vocabulary.
    ///
    /// # Errors
    /// Those of [`with_backend`](Self::with_backend).
    pub fn with_backends<B, D, F>(spec: LlmEngineSpec, open: F) -> Result<Self, LoadError>
    where
        B: Backend,
        D: Backend,
        F: FnOnce() -> Result<(B, Option<D>, Arc<dyn Vocab>), LoadError> + Send + 'static,
    {
        Self::start(spec, ModelFiles::default(), move |serve| {
            let (mut backend, mut draft, vocab) = open()?;
            serve(LoadedBackends {
                backend: &mut backend,
                draft: draft.as_mut().map(|draft| -> &mut dyn Backend { draft }),
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
        let shared = Arc::<EngineState>::default();
        let name = spec.model.file_stem().unwrap_or_default().to_string_lossy();
        let start = |source| LoadError::Thread { source };
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        let pause = move |outputs| delivery::pause(outputs, processors);
        let mut outbox = Outbox::start(&name, pause).map_err(start)?;
        let serve = {
            let (spec, shared) = (spec.clone(), Arc::clone(&shared));
            let model = name.clone().into_owned();
            move |ready: Ready<_>, inbox: Inbox<_>| {
                let masking = mask_threads(&model, processors);
                let _masking = masking.map_err(|error| start(io::Error::other(error)))?;
                open(&mut |loaded: LoadedBackends<'_>| {
                    let (backend, draft, vocab) = (loaded.backend, loaded.draft, loaded.vocab);
                    let (to_sessions, shared) = (Arc::clone(&vocab), Arc::clone(&shared));
                    let (capacity, info) = (backend.capacity(), backend.info());
                    let draft_info = draft.as_deref().map(|draft| draft_info(&spec, draft));
                    // Borrowed for this call, not for the lifetime of the backend.
                    let draft = draft.map(|draft| -> &mut dyn Backend { draft });
                    let mut core = Core::new(&spec, backend, draft, vocab, shared, &mut outbox);
                    let opened = (to_sessions, capacity, info, draft_info, loaded.projector);
                    ready.send(Ok(opened)).ok();
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
        let cached_bytes = |size: Option<u64>, is_used: bool| {
            let size = size.unwrap_or(capacity.host_cache_bytes);
            if spec.prefix_caching && is_used {
                size
            } else {
                0
            }
        };
        let reuses = capacity.reuse != Reuse::Never;
        let has_checkpoints = capacity.reuse == Reuse::Checkpoints;
        let info = LlmEngineInfo {
            model: vocab.model_name().to_owned(),
            path: spec.model.clone(),
            context_length: capacity.cells_per_sequence,
            max_num_seqs: capacity.max_sequences,
            max_num_batched_tokens: capacity.max_batch_tokens,
            dynamic_split_fuse: spec.dynamic_split_fuse,
            max_waiting: spec.max_waiting,
            kv_cells: capacity.total_cells,
            prefix_cache_bytes: cached_bytes(spec.prefix_cache_size, reuses),
            checkpoint_cache_bytes: cached_bytes(spec.checkpoint_cache_size, has_checkpoints),
            backend,
            draft,
            adapters: spec.adapters.clone(),
            vision: spec.vision.clone().filter(|_| vision.is_some()),
        };
        info.log();
        let prefixes: Arc<dyn Cache> = Arc::new(SavedPrefixes(worker.commands.clone()));
        memory_budget::enroll(Arc::downgrade(&prefixes));
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

    /// The encoder of images and sounds; `None` if the model takes neither.
    pub fn vision(&self) -> Option<&Vision> {
        self.vision.as_ref()
    }

    /// The vocabulary, shared with every session.
    pub fn vocab(&self) -> Arc<dyn Vocab> {
        Arc::clone(&self.vocab)
    }

    /// The spec that the engine was loaded from.
    pub fn spec(&self) -> &LlmEngineSpec {
        &self.spec
    }

    /// Files that the engine was loaded from.
    pub fn files(&self) -> &ModelFiles {
        &self.files
    }

    /// Effective values of the engine.
    pub fn info(&self) -> &LlmEngineInfo {
        &self.info
    }

    /// Maximum number of tokens of a sequence, prompt and generated together.
    pub fn context_length(&self) -> usize {
        self.capacity.cells_per_sequence as usize
    }

    /// Numbers of a vector that a prompt can have in place of a token; `None` for a model that reads
    /// tokens only.
    pub fn vector_width(&self) -> Option<usize> {
        self.capacity.vector_width
    }

    /// Measurements since the engine was loaded.
    pub fn measurements(&self) -> Measurements {
        self.shared.measured.read()
    }

    /// The standings of the sequences that have a slot.
    pub fn standings(&self) -> Vec<Standing> {
        self.shared.standings.running()
    }
}

impl Replaceable for LlmEngine {
    fn model(&self) -> &str {
        &self.info.model
    }

    fn step_timeout_ms(&self) -> u32 {
        self.spec.step_timeout_ms
    }

    fn abandon(&self, why: &GenerationError) {
        let finish = FinishReason::Error(why.clone());
        for waiting in self.worker.abandon(why) {
            match waiting {
                Waiting::Sequence(receiver) => {
                    if receiver.fail(why) {
                        self.shared.measured.ended(&finish);
                    }
                }
                Waiting::Question(waiter) => waiter.tell(Err(why.clone())),
            }
        }
    }

    fn pulse(&self) -> &Arc<Pulse> {
        &self.worker.pulse
    }

    fn load_again(&self) -> Result<Self, LoadError> {
        let mut next = Self::load(self.spec.clone())?;
        let difference = vocab::difference(&*self.vocab, &*next.vocab);
        vocab::check_loaded_again(&self.spec.model, difference)?;
        // Compiled constraints stay valid for the same vocabulary.
        next.compiler = Arc::clone(&self.compiler);
        Ok(next)
    }
}

/// Creates a pool of threads that compute, in parallel with a decode, the token masks of constrained
/// sequences, with the calling thread as one of them. Idle threads sleep.
fn mask_threads(model: &str, processors: usize) -> Result<ThreadPool, ThreadPoolBuildError> {
    let model = model.to_owned();
    ThreadPoolBuilder::new()
        .num_threads(processors.min(MAX_MASK_THREADS))
        .thread_name(move |number| format!("mask {number} {model}"))
        .use_current_thread()
        .build()
}

/// Effective values of a draft model, or of the model's MTP layers.
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

show_fields!(LlmEngine { spec, capacity });
