//! The embedding engine's interface to the rest of the program: load, submit, status. The work
//! happens on its thread, in `step`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::info::{EmbeddingInfo, EmbeddingMeasurements, Recorders};
use super::request::{EmbeddingError, EmbeddingRefusal, EmbeddingRequest};
use super::step::{Core, EmbedJob};
use crate::backend::interface::{EmbeddingBackend, LoadedEmbedding, ServeEmbedding};
use crate::debug::show_fields;
use crate::load;
use crate::model::files::ModelFiles;
use crate::model::progress;
use crate::model::vocab::{self, Vocab};
use crate::model::{Head, PairForm};
use crate::protocol::LoadError;
use crate::settings::EmbeddingSpec;
use crate::supervise::Replaceable;
use crate::worker::{Inbox, Places, Pulse, Ready, Ticket, Waiter, Worker, stopped, whole_seconds};

/// A loaded model that embeds or ranks for many requests at once. Dropping it stops its thread;
/// requests that still wait end with an error.
pub struct EmbeddingEngine {
    spec: EmbeddingSpec,
    files: ModelFiles,
    vocab: Arc<dyn Vocab>,
    pairs: PairForm,
    head: Head,
    info: EmbeddingInfo,
    shared: Arc<EmbeddingState>,
    worker: Worker<Box<EmbedJob>, Arc<Vectors>>,
}

/// The receiver of the vectors of a request's texts.
pub(super) type Vectors = Waiter<Vec<Vec<f32>>>;

/// State that the engine thread publishes.
#[derive(Debug, Default)]
pub(super) struct EmbeddingState {
    /// Liveness of the thread, also shared with the guard that reports its end.
    pub(super) pulse: Arc<Pulse>,
    /// Places of requests that have not ended.
    pub(super) places: Places,
    pub(super) measured: Recorders,
}

/// Present state of an embedding engine, and its counts since it was loaded.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EmbeddingStatus {
    /// Model name, from its file.
    #[serde(skip)]
    pub model: String,
    /// Number of requests that have not ended.
    pub requests: u32,
    /// Number of requests refused because too many waited.
    pub refused: u64,
    /// Number of steps, failed ones included.
    pub steps: u64,
    /// Number of texts in these steps.
    pub texts: f64,
    /// Number of tokens in these texts.
    pub tokens: f64,
    /// Number of steps that failed or panicked.
    pub failed_steps: u64,
    /// Time that the engine has had work without making progress; zero while it is idle.
    #[serde(rename = "stalled_seconds", serialize_with = "whole_seconds")]
    pub stalled_for: Duration,
    /// True if there is nothing to compute.
    #[serde(skip)]
    pub idle: bool,
    /// True if the engine's thread has ended.
    pub stopped: bool,
}

impl EmbeddingEngine {
    /// Loads the model of a spec and starts its thread. Blocks until the model is ready.
    ///
    /// # Errors
    /// [`LoadError`] says which file or option is wrong, and why.
    pub fn load(spec: EmbeddingSpec) -> Result<Self, LoadError> {
        spec.validate()?;
        let _guard = progress::LoadGuard::new(&spec.model);
        let files = load::prepare_embedding(&spec)?;
        let to_open = spec.clone();
        let engine = Self::start(spec, files, move |serve| {
            load::open_embedding(&to_open, serve)
        })?;
        engine.files.check_unchanged()?;
        Ok(engine)
    }

    /// Starts an engine on the caller's backend. `open` creates it on the engine thread.
    ///
    /// # Errors
    /// Errors of `open`, and [`LoadError::Spec`] for values out of range.
    pub fn with_backend<B, F>(spec: EmbeddingSpec, open: F) -> Result<Self, LoadError>
    where
        B: EmbeddingBackend,
        F: FnOnce() -> Result<(B, Arc<dyn Vocab>, PairForm), LoadError> + Send + 'static,
    {
        Self::start(spec, ModelFiles::default(), move |serve| {
            let (mut backend, vocab, pairs) = open()?;
            serve(LoadedEmbedding {
                backend: &mut backend,
                vocab,
                pairs,
            });
            Ok(())
        })
    }

    fn start<F>(spec: EmbeddingSpec, files: ModelFiles, open: F) -> Result<Self, LoadError>
    where
        F: FnOnce(&mut ServeEmbedding<'_>) -> Result<(), LoadError> + Send + 'static,
    {
        spec.validate()?;
        let shared = Arc::<EmbeddingState>::default();
        let name = spec.model.file_stem().unwrap_or_default().to_string_lossy();
        let to_publish = Arc::clone(&shared);
        let serve = move |ready: Ready<_>, inbox: Inbox<_>| {
            open(&mut |loaded: LoadedEmbedding<'_>| {
                let (backend, vocab, pairs) = (loaded.backend, loaded.vocab, loaded.pairs);
                let (head, capacity, info) = (backend.head(), backend.capacity(), backend.info());
                ready.send(Ok((vocab, pairs, head, capacity, info))).ok();
                inbox.serve(&mut Core::new(backend, Arc::clone(&to_publish)));
            })
        };
        let pulse = Arc::clone(&shared.pulse);
        let (worker, opened) = Worker::start(format!("embed {name}"), pulse, serve)?;
        let (vocab, pairs, head, capacity, backend) = opened;
        let info = EmbeddingInfo {
            model: vocab.model_name().to_owned(),
            path: spec.model.clone(),
            context_length: capacity.context_length,
            max_num_batched_tokens: capacity.batch_tokens,
            dimensions: capacity.width,
            pooling: capacity.pooling,
            max_waiting: spec.max_waiting,
            backend,
        };
        info.log();
        Ok(Self {
            spec,
            files,
            vocab,
            pairs,
            head,
            info,
            shared,
            worker,
        })
    }

    /// Adds a request. Its sink is called once. Dropping the handle before that cancels the
    /// request, and the sink may never be called.
    ///
    /// # Errors
    /// [`EmbeddingRefusal`] for a request that can never be computed, or if too many wait now.
    pub fn submit(&self, request: EmbeddingRequest) -> Result<EmbeddingHandle, EmbeddingRefusal> {
        self.check(&request)?;
        let entered = self.shared.places.enter(self.spec.max_waiting, None);
        entered.map_err(|_| self.full(self.shared.places.taken()))?;
        let id = self.worker.number();
        let receiver = Arc::new(Waiter::new(request.sink));
        let ticket = self.worker.ticket(id, Arc::clone(&receiver));
        let ticket = ticket.map_err(|why| {
            self.shared.places.leave(None);
            EmbeddingRefusal::Failed(why)
        })?;
        let texts = request.texts.len();
        let computed = Arc::<AtomicUsize>::default();
        let job = Box::new(EmbedJob {
            id,
            computed: Arc::clone(&computed),
            texts: request.texts,
            tenant: request.tenant,
            receiver,
            submitted: Instant::now(),
            results: Vec::new(),
        });
        if !self.worker.order(job) {
            self.shared.places.leave(None);
            return Err(EmbeddingRefusal::Stopped);
        }
        Ok(EmbeddingHandle {
            _ticket: ticket,
            texts,
            computed,
        })
    }

    /// Checks that a request would be accepted now, before its texts are tokenized.
    ///
    /// # Errors
    /// [`EmbeddingRefusal::QueueFull`] if too many wait.
    pub fn check_room(&self) -> Result<(), EmbeddingRefusal> {
        let waiting = self.shared.places.taken();
        if waiting < self.spec.max_waiting {
            return Ok(());
        }
        self.shared.places.refused.add(1);
        Err(self.full(waiting))
    }

    fn full(&self, waiting: u32) -> EmbeddingRefusal {
        EmbeddingRefusal::QueueFull {
            waiting: waiting as usize,
            limit: self.spec.max_waiting as usize,
        }
    }

    fn check(&self, request: &EmbeddingRequest) -> Result<(), EmbeddingRefusal> {
        if request.texts.is_empty() {
            return Err(EmbeddingRefusal::NoText);
        }
        let limit = self.context_length();
        for (index, text) in request.texts.iter().enumerate() {
            if text.is_empty() {
                return Err(EmbeddingRefusal::EmptyText { index });
            }
            if text.len() > limit {
                return Err(EmbeddingRefusal::TextTooLong {
                    index,
                    n_tokens: text.len(),
                    limit,
                });
            }
            let unknown = text.iter().position(|token| !self.vocab.contains(*token));
            if let Some(position) = unknown {
                return Err(EmbeddingRefusal::InvalidToken {
                    index,
                    token: text[position],
                    position,
                    n_vocab: self.vocab.n_vocab(),
                });
            }
        }
        Ok(())
    }

    /// The vocabulary, which stays valid after the engine is dropped.
    pub fn vocab(&self) -> &Arc<dyn Vocab> {
        &self.vocab
    }

    /// Form in which a ranking model receives a query and a document as one text.
    pub fn pairs(&self) -> &PairForm {
        &self.pairs
    }

    /// Returns the classes of the head of a model that ranks.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Maximum number of tokens of a text.
    pub fn context_length(&self) -> usize {
        self.info.context_length as usize
    }

    /// Numbers in the result of each text.
    pub fn width(&self) -> usize {
        self.info.dimensions as usize
    }

    /// Effective values of the engine.
    pub fn info(&self) -> &EmbeddingInfo {
        &self.info
    }

    /// Files that the engine was loaded from.
    pub fn files(&self) -> &ModelFiles {
        &self.files
    }

    /// Measurements since the engine was loaded.
    pub fn measurements(&self) -> EmbeddingMeasurements {
        self.shared.measured.read()
    }

    /// Present state of the engine.
    pub fn status(&self) -> EmbeddingStatus {
        let (shared, measured) = (&self.shared, self.measurements());
        EmbeddingStatus {
            model: self.info.model.clone(),
            requests: shared.places.taken(),
            refused: shared.places.refused.get(),
            steps: measured.step_tokens.count,
            texts: measured.step_texts.sum,
            tokens: measured.step_tokens.sum,
            failed_steps: measured.failed_steps,
            stalled_for: shared.pulse.stalled_for(),
            idle: shared.pulse.idle(),
            stopped: shared.pulse.stopped(),
        }
    }
}

impl Replaceable for EmbeddingEngine {
    fn model(&self) -> &str {
        &self.info.model
    }

    fn step_timeout_ms(&self) -> u32 {
        self.spec.step_timeout_ms
    }

    fn abandon(&self, why: &EmbeddingError) {
        for receiver in self.worker.abandon(why) {
            receiver.tell(Err(why.clone()));
        }
    }

    fn pulse(&self) -> &Arc<Pulse> {
        &self.worker.pulse
    }

    fn load_again(&self) -> Result<Self, LoadError> {
        let next = Self::load(self.spec.clone())?;
        let mut difference = vocab::difference(&*self.vocab, &*next.vocab);
        if next.width() != self.width() {
            difference = Some("its vectors have another length".to_owned());
        }
        vocab::check_loaded_again(&self.spec.model, difference)?;
        Ok(next)
    }
}

impl Drop for EmbeddingEngine {
    fn drop(&mut self) {
        if !self.worker.stop() {
            self.abandon(&stopped());
        }
    }
}

show_fields!(EmbeddingEngine { spec, info });

/// A request in an engine. Dropping it cancels the request, if it has not ended.
#[derive(Debug)]
pub struct EmbeddingHandle {
    _ticket: Ticket<Box<EmbedJob>, Arc<Vectors>>,
    texts: usize,
    computed: Arc<AtomicUsize>,
}

impl EmbeddingHandle {
    /// Returns the number of texts in the request.
    pub fn texts(&self) -> usize {
        self.texts
    }

    /// Returns the number of texts that are computed.
    pub fn computed(&self) -> usize {
        self.computed.load(Ordering::Relaxed)
    }
}
