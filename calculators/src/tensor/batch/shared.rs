//! State shared by the threads of a batcher and its waiting requests: the queue, and notification.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use graphmill_engine::{Error, Result};
use tokio::sync::oneshot;

use super::measure::{BatcherInfo, Recorders};
use super::rows::RequestKind;
use super::schedule::{Expiry, Queue, QueuePosition, QueuedRequest};
use crate::tensor::{Tensor, TensorModel};

/// The state that the threads of a batcher and the waiting requests share.
pub(super) struct SharedBatcher {
    pub(super) info: BatcherInfo,
    pub(super) model: Arc<dyn TensorModel>,
    pub(super) measured: Recorders,
    state: Mutex<State>,
    /// Wakes the threads that compute.
    pub(super) work: Condvar,
    /// Wakes the thread that keeps time.
    timer: Condvar,
}

pub(super) struct State {
    pub(super) queue: Queue<RequestKind, Vec<Tensor>>,
    /// Requests without an answer, in the queue or in a batch. Their number is limited by the queue
    /// and by the batches of the threads.
    open: HashMap<u64, OpenRequest>,
    numbers: u64,
    /// Time until which the thread that keeps time sleeps.
    sleeps_until: Option<Instant>,
    /// Number of running threads that compute. `instances` is the wanted number.
    pub(super) computing: u32,
    pub(super) instances: u32,
    pub(super) stopping: bool,
}

/// A request without an answer, with the channel for it.
struct OpenRequest {
    answer: oneshot::Sender<Result<Answer>>,
    deadline: Option<Instant>,
}

/// The answer to a request.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Outputs of the model, with the rows of the request.
    pub outputs: Vec<Tensor>,
    /// Time that the request waited before it was computed.
    pub queued: Duration,
}

/// A request that waits for its answer. Dropping it removes the request from the queue.
#[must_use = "dropping it cancels the request"]
pub struct Pending {
    number: u64,
    shared: Arc<SharedBatcher>,
    answer: oneshot::Receiver<Result<Answer>>,
}

impl SharedBatcher {
    pub(super) fn new(info: BatcherInfo, model: Arc<dyn TensorModel>) -> Self {
        Self {
            measured: Recorders::default(),
            state: Mutex::new(State {
                queue: Queue::new(info.batching.clone()),
                open: HashMap::new(),
                numbers: 0,
                sleeps_until: None,
                computing: 0,
                instances: 0,
                stopping: false,
            }),
            info,
            model,
            work: Condvar::new(),
            timer: Condvar::new(),
        }
    }

    /// Adds a request to a level whose requests wait at most `timeout`.
    ///
    /// # Errors
    /// The request is not what the model takes, or too many wait.
    pub(super) fn enter(
        self: &Arc<Self>,
        inputs: Vec<Tensor>,
        level: usize,
        timeout: Option<Duration>,
        deadline: Option<Instant>,
    ) -> Result<Pending> {
        let (rows, kind) = self.info.check(&inputs)?;
        let (answer, receiver) = oneshot::channel();
        let arrived = Instant::now();
        let mut state = self.lock();
        state.numbers += 1;
        let number = state.numbers;
        let waiting = QueuedRequest {
            number,
            kind,
            rows,
            arrived,
            deadline,
            inputs,
        };
        if let Err(full) = state.queue.enter(level, waiting) {
            self.measured.refused.add(1);
            return Err(Error::exhausted(format!(
                "{} requests wait for `{}`, which is the limit (max_queue_size)",
                full.0, self.info.model
            )));
        }
        state.open.insert(number, OpenRequest { answer, deadline });
        let timeout = timeout.map(|timeout| arrived + timeout);
        let due = deadline.into_iter().chain(timeout).min();
        if due.is_some_and(|due| state.sleeps_until.is_none_or(|until| due < until)) {
            self.timer.notify_one();
        }
        drop(state);
        self.work.notify_one();
        Ok(Pending {
            number,
            shared: Arc::clone(self),
            answer: receiver,
        })
    }

    /// Describes the wait of a request.
    fn waits_for(&self, number: u64) -> String {
        let state = self.lock();
        let name = &self.info.model;
        let most = self.info.batching.max_batch_size;
        match state.queue.place(number) {
            None => format!("a batch of `{name}`, which is computed now"),
            Some(QueuePosition::Later { ahead }) => {
                format!("a later batch of `{name}`, requests before it: {ahead}")
            }
            Some(QueuePosition::Next { rows }) => {
                match state.open.len().saturating_sub(state.queue.len()) {
                    0 => format!("a batch of `{name}`, which collects: {rows} of {most} rows"),
                    computed => format!(
                        "a batch of `{name}`, which collects: {rows} of {most} rows; requests computed meanwhile: {computed}"
                    ),
                }
            }
        }
    }

    /// Stops the threads after their current batches, and ends the waiting requests with an error.
    pub(super) fn stop(&self) {
        let mut state = self.lock();
        state.stopping = true;
        let waiting = state.queue.drain();
        drop(state);
        self.work.notify_all();
        self.timer.notify_all();
        self.answer(waiting.iter().map(|job| (job.number, Err(stopped()))));
    }

    /// Ends all requests without an answer with an error.
    pub(super) fn abandon(&self) {
        self.lock().open.clear();
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // No code that can panic runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if a request still waits for its answer.
    pub(super) fn is_open(&self, number: u64) -> bool {
        self.lock().open.contains_key(&number)
    }

    /// Sends answers to the requests that still wait for one, and counts them.
    pub(super) fn answer(&self, answers: impl IntoIterator<Item = (u64, Result<Answer>)>) {
        let mut state = self.lock();
        let mut told = Vec::new();
        for (number, answer) in answers {
            if let Some(open) = state.open.remove(&number) {
                told.push((open, answer));
            }
        }
        drop(state);
        for (open, answer) in told {
            let counter = match &answer {
                Ok(_) => &self.measured.done,
                Err(_) => &self.measured.failed,
            };
            counter.add(1);
            // Fails only if nobody waits for the answer any more.
            open.answer.send(answer).ok();
        }
    }

    /// Ends the requests whose time has passed with an error.
    pub(super) fn expire(&self, now: Instant) {
        let mut state = self.lock();
        let expired = state.queue.expire(now);
        let mut told = Vec::new();
        for (job, why) in expired {
            if let Some(open) = state.open.remove(&job.number) {
                told.push((open, why, now.duration_since(job.arrived)));
            }
        }
        // These are in a batch that takes too long.
        let over = |_: &u64, open: &mut OpenRequest| open.deadline.is_some_and(|at| at <= now);
        let late = state.open.extract_if(over);
        told.extend(late.map(|(_, open)| (open, Expiry::Deadline, Duration::ZERO)));
        drop(state);
        for (open, why, waited) in told {
            self.measured.timed_out.add(1);
            let error = match why {
                Expiry::Deadline => Error::deadline("the deadline of the request passed"),
                Expiry::Timeout => Error::exhausted(format!(
                    "the request waited {} ms for `{}`, which is the limit (default_timeout_microseconds)",
                    waited.as_millis(),
                    self.info.model
                )),
            };
            open.answer.send(Err(error)).ok();
        }
    }

    /// Refuses requests in time, even while all threads that compute are busy.
    pub(super) fn keep_time(&self) {
        loop {
            self.expire(Instant::now());
            let mut state = self.lock();
            if state.stopping {
                return;
            }
            let deadlines = state.open.values().filter_map(|open| open.deadline);
            let due = deadlines.chain(state.queue.due()).min();
            state.sleeps_until = due;
            match due.map(|due| due.saturating_duration_since(Instant::now())) {
                Some(Duration::ZERO) => {}
                Some(time) => drop(self.timer.wait_timeout(state, time)),
                None => drop(self.timer.wait(state)),
            }
        }
    }
}

/// Returns the error of requests to a batcher that was dropped.
fn stopped() -> Error {
    Error::unavailable("the batcher has stopped")
}

impl Pending {
    /// Returns a function that describes the wait to observers, in words that can follow "waits
    /// for".
    pub fn watch(&self) -> impl Fn() -> String + Send + use<> {
        let (number, shared) = (self.number, Arc::clone(&self.shared));
        move || shared.waits_for(number)
    }
}

impl Future for Pending {
    type Output = Result<Answer>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Answer>> {
        let answer = Pin::new(&mut self.answer).poll(cx);
        answer.map(|told| told.unwrap_or_else(|_| Err(stopped())))
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        if state.open.remove(&self.number).is_some() {
            let waited = state.queue.remove(self.number);
            drop(state);
            drop(waited);
            self.shared.measured.cancelled.add(1);
        }
    }
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}
