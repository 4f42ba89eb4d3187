//! Takes what steps put out and calls the sinks, beside the engine's thread, so that no receiver can hold up a step.
//!
//! Receivers run on the processors that compute, and whichever thread of a step is put aside for them, the others wait for it. So they
//! get what was put out right after a step, when only one of the threads has something to do; and where steps take less than [`SPACING`],
//! what several of them put out at once.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use crate::protocol::{StepOutput, StepSink};
use crate::worker::catch;

/// Outputs and who gets them, in order.
type Outputs = Vec<(Arc<dyn StepSink>, StepOutput)>;

/// Outputs that nobody waits for go to their receivers so long after the ones before: too short for a reader to see. To wake a thread on
/// another processor can take the engine's own thread 40 microseconds.
const SPACING: Duration = Duration::from_millis(8);
/// Outputs are delivered so long after the ones before even if the step after them does not end. Longer than a step whose outputs are
/// held back, so that nobody wakes amid a step.
const LATEST: Duration = Duration::from_millis(50);
/// A sequence with so much credit left needs its receivers to return some, or it will sit out steps.
const LOW_CREDIT: u32 = 4;

/// The engine thread's end.
pub(super) struct Outbox {
    mailbox: Arc<Mailbox>,
    /// Outputs of the step that is being computed.
    current: Outputs,
    /// Whether one of them is waited for.
    urgent: bool,
    /// When outputs were handed over last, and when the delivery was last told of some.
    handed_over: Instant,
    told: Instant,
}

/// Calls the sinks of an engine's sequences. It never waits for anything but the engine.
#[derive(Debug)]
pub struct Delivery(Arc<Mailbox>);

/// What was handed over. It needs no bound: a sequence produces at most as many outputs as it has credit, or tokens.
#[derive(Default)]
struct Mailbox(Mutex<Content>);

#[derive(Default)]
struct Content {
    outputs: Outputs,
    /// The delivery is to take them.
    told: bool,
    /// Whether steps take so little that the delivery is not told of each.
    spaced: bool,
    /// Whether the delivery is to be told of the next output, whenever it comes.
    idle: bool,
    /// The engine has stopped.
    closed: bool,
    /// Present while the delivery waits.
    waker: Option<Waker>,
}

impl Mailbox {
    fn lock(&self) -> MutexGuard<'_, Content> {
        // No code that can panic runs under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the content, and wakes the delivery if it is told of that.
    fn change(&self, change: impl FnOnce(&mut Content)) {
        let mut content = self.lock();
        change(&mut content);
        let waker = content.told.then(|| content.waker.take());
        drop(content);
        if let Some(Some(waker)) = waker {
            waker.wake();
        }
    }

    /// Waits until the delivery is told of outputs or of the end.
    async fn told(&self) {
        let told = |cx: &mut Context<'_>| {
            let mut content = self.lock();
            if content.told {
                return Poll::Ready(());
            }
            content.waker = Some(cx.waker().clone());
            Poll::Pending
        };
        poll_fn(told).await;
    }
}

impl std::fmt::Debug for Mailbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mailbox").finish_non_exhaustive()
    }
}

impl Outbox {
    /// An outbox, and what delivers its outputs.
    pub(super) fn new() -> (Self, Delivery) {
        let mailbox = Arc::<Mailbox>::default();
        let outbox = Self {
            mailbox: Arc::clone(&mailbox),
            current: Outputs::new(),
            urgent: false,
            handed_over: Instant::now(),
            told: Instant::now(),
        };
        (outbox, Delivery(mailbox))
    }

    /// Adds an output of a sequence with so much credit left, to be handed over with those of the same step.
    pub(super) fn push(&mut self, sink: Arc<dyn StepSink>, output: StepOutput, credit: u32) {
        let is_first = output.usage.generated_tokens as usize <= output.tokens.len();
        self.urgent |= is_first || output.finish.is_some() || credit <= LOW_CREDIT;
        self.current.push((sink, output));
    }

    /// Hands over the outputs that were added, if any, all at once.
    pub(super) fn flush(&mut self) {
        if self.current.is_empty() {
            return;
        }
        let now = Instant::now();
        let spaced = now.duration_since(self.handed_over) < SPACING;
        let due = now.duration_since(self.told) >= SPACING || std::mem::take(&mut self.urgent);
        self.handed_over = now;
        self.mailbox.change(|content| {
            content.outputs.append(&mut self.current);
            content.spaced = spaced;
            content.told |= due || content.idle;
            if content.told {
                self.told = now;
            }
        });
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.mailbox.change(|content| {
            content.closed = true;
            content.told = true;
        });
    }
}

impl Delivery {
    /// Delivers until the engine has stopped. `sleep` gives a future that ends after some time.
    pub async fn run<S: Future<Output = ()>>(self, sleep: impl Fn(Duration) -> S) {
        let mailbox = self.0;
        let mut outputs = Outputs::new();
        loop {
            let (closed, spaced) = {
                let mut content = mailbox.lock();
                std::mem::swap(&mut content.outputs, &mut outputs);
                content.told = content.closed;
                content.idle = outputs.is_empty() || !content.spaced;
                (content.closed, !content.idle)
            };
            if closed && outputs.is_empty() {
                return;
            }
            for (sink, output) in outputs.drain(..) {
                if let Err(message) = catch(|| sink.deliver(output)) {
                    tracing::error!(%message, "a receiver of generated tokens panicked");
                }
            }
            let mut told = pin!(mailbox.told());
            if spaced {
                let mut late = pin!(sleep(LATEST));
                poll_fn(|cx| match told.as_mut().poll(cx) {
                    Poll::Pending => late.as_mut().poll(cx),
                    ready @ Poll::Ready(()) => ready,
                })
                .await;
            } else {
                told.await;
            }
        }
    }

    /// Delivers on a thread of its own.
    pub(super) fn on_thread(self, name: &str) -> std::io::Result<()> {
        let deliver = || {
            let wake_at = Cell::new(None);
            let sleep = |time| {
                let end = Instant::now() + time;
                let wake_at = &wake_at;
                poll_fn(move |_| {
                    if Instant::now() >= end {
                        return Poll::Ready(());
                    }
                    wake_at.set(Some(end));
                    Poll::Pending
                })
            };
            let mut delivery = pin!(self.run(sleep));
            let waker = Waker::from(Arc::new(Unpark(thread::current())));
            let mut cx = Context::from_waker(&waker);
            while delivery.as_mut().poll(&mut cx).is_pending() {
                match wake_at.take() {
                    Some(end) => {
                        thread::park_timeout(end.saturating_duration_since(Instant::now()));
                    }
                    None => thread::park(),
                }
            }
        };
        let thread = thread::Builder::new().name(format!("deliver {name}"));
        thread.spawn(deliver).map(drop)
    }
}

/// Wakes a thread that is parked.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
