//! The engine thread: receives requests, computes a batch, and delivers the results of complete
//! requests.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use rustc_hash::FxHashMap;

use super::batch;
use super::engine::{EmbeddingState, Vectors};
use super::request::{EmbeddingError, EmbeddingOutcome};
use crate::backend::interface::{EmbeddingBackend, EmbeddingCapacity};
use crate::protocol::{ErrorKind, Tenant, Token};
use crate::worker::{Stepper, catch, stopped};

/// A request on the engine thread.
pub(super) struct EmbedJob {
    pub(super) id: u64,
    pub(super) texts: Vec<Vec<Token>>,
    pub(super) tenant: Option<Tenant>,
    pub(super) receiver: Arc<Vectors>,
    pub(super) submitted: Instant,
    /// Number of texts computed so far, for observers.
    pub(super) computed: Arc<AtomicUsize>,
    /// Results of the texts computed so far, in order.
    pub(super) results: Vec<Vec<f32>>,
}

impl EmbedJob {
    /// Number of tokens of a text, with `nth` texts before it that are not computed yet.
    fn length(&self, nth: usize) -> Option<usize> {
        Some(self.texts.get(self.results.len() + nth)?.len())
    }
}

/// The state of the engine thread.
pub(super) struct Core<'a> {
    backend: &'a mut dyn EmbeddingBackend,
    capacity: EmbeddingCapacity,
    shared: Arc<EmbeddingState>,
    queue: VecDeque<EmbedJob>,
    // Memory reused from step to step.
    batch: Vec<usize>,
    numbers: Vec<f32>,
}

impl<'a> Core<'a> {
    pub(super) fn new(backend: &'a mut dyn EmbeddingBackend, shared: Arc<EmbeddingState>) -> Self {
        Self {
            capacity: backend.capacity(),
            backend,
            shared,
            queue: VecDeque::new(),
            batch: Vec::new(),
            numbers: Vec::new(),
        }
    }

    fn compute(&mut self) {
        batch::fill(
            &self.capacity,
            &self.queue,
            EmbedJob::length,
            &mut self.batch,
        );
        let texts: Vec<&[Token]> = (self.queue.iter().zip(&self.batch))
            .flat_map(|(job, texts)| job.texts[job.results.len()..].iter().take(*texts))
            .map(Vec::as_slice)
            .collect();
        let tokens = texts.iter().map(|text| text.len()).sum();
        self.shared.pulse.begins(tokens);
        self.shared.pulse.beat(false);
        let width = self.capacity.width as usize;
        self.numbers.clear();
        let started = Instant::now();
        let outcome = catch(|| self.backend.compute(&texts, &mut self.numbers));
        let expected = texts.len() * width;
        self.shared
            .measured
            .step(started.elapsed(), texts.len(), tokens);
        let failed = match outcome {
            Ok(Ok(())) if self.numbers.len() == expected => None,
            Ok(Ok(())) => Some(format!(
                "the model returned {} numbers, expected {expected}",
                self.numbers.len()
            )),
            Ok(Err(message)) => Some(message),
            Err(message) => Some(format!("the step panicked: {message}")),
        };
        match failed {
            None => self.commit(width),
            Some(message) => self.fail(&message),
        }
        self.shared.pulse.beat(false);
    }

    /// Appends its results to each request of the batch. The first request then queues up again.
    fn commit(&mut self, width: usize) {
        let mut rows = self.numbers.chunks_exact(width);
        for (job, texts) in self.queue.iter_mut().zip(&self.batch) {
            let computed = rows.by_ref().take(*texts).map(<[f32]>::to_vec);
            job.results.extend(computed);
            job.computed.store(job.results.len(), Ordering::Relaxed);
        }
        if let Some(first) = self.queue.pop_front() {
            self.queue_up(first);
        }
        for mut job in self.take(|job| job.results.len() == job.texts.len()) {
            let results = std::mem::take(&mut job.results);
            let outcome = if results.iter().flatten().all(|number| number.is_finite()) {
                Ok(results)
            } else {
                let message = "the model computed NaN for a text";
                Err(EmbeddingError::new(ErrorKind::Internal, message))
            };
            self.end_job(&job, outcome);
        }
    }

    /// Inserts a request behind others of its tenant, and before requests of tenants that have more
    /// in the queue, by their weights.
    fn queue_up(&mut self, job: EmbedJob) {
        let Some(tenant) = job.tenant else {
            return self.queue.push_back(job);
        };
        let own = self.queue.iter().filter(|it| it.tenant == job.tenant);
        let own = own.count() as u32 / tenant.weight;
        let mut places = FxHashMap::<u64, u32>::default();
        let later = self.queue.iter().position(|other| {
            other.tenant.is_some_and(|other| {
                let before = places.entry(other.number).or_default();
                *before += 1;
                (*before - 1) / other.weight > own
            })
        });
        let place = later.unwrap_or(self.queue.len());
        self.queue.insert(place, job);
    }

    /// Ends the requests of a failed batch, and no others.
    fn fail(&mut self, message: &str) {
        tracing::error!(%message, "a batch of texts could not be computed");
        self.shared.measured.failed_steps.add(1);
        let error = EmbeddingError::new(ErrorKind::Internal, message);
        let mut batch = std::mem::take(&mut self.batch).into_iter();
        for job in self.take(|_| batch.next().is_some_and(|texts| texts > 0)) {
            self.end_job(&job, Err(error.clone()));
        }
    }

    /// Removes some requests from the queue, and keeps the order of the others.
    fn take(&mut self, mut chosen: impl FnMut(&EmbedJob) -> bool) -> Vec<EmbedJob> {
        let (taken, left) = self.queue.drain(..).partition(|job| chosen(job));
        self.queue = left;
        VecDeque::into(taken)
    }

    fn end_job(&self, job: &EmbedJob, outcome: EmbeddingOutcome) {
        self.shared.places.leave(None);
        self.shared.measured.ended(job.submitted, outcome.is_ok());
        job.receiver.tell(outcome);
    }
}

impl Stepper for Core<'_> {
    type Order = Box<EmbedJob>;
    const NAME: &'static str = "the embedding engine's thread";

    fn take_in(&mut self, job: Box<EmbedJob>) {
        self.shared.pulse.taken.add(1);
        self.queue_up(*job);
    }

    fn cancel(&mut self, number: u64) {
        let found = self.queue.iter().position(|job| job.id == number);
        if found.and_then(|index| self.queue.remove(index)).is_some() {
            self.shared.places.leave(None);
            self.shared.measured.cancelled.add(1);
        }
    }

    fn step(&mut self) -> bool {
        let has_work = !self.queue.is_empty();
        if has_work {
            self.compute();
        } else {
            self.shared.pulse.beat(true);
        }
        has_work
    }

    fn rest(&mut self) {
        self.backend.rest();
    }

    fn end(&mut self) {
        for job in std::mem::take(&mut self.queue) {
            self.end_job(&job, Err(stopped()));
        }
    }
}
