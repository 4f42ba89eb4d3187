//! The second thread: takes what steps put out and calls the sinks, so that no receiver can hold up a step.
//!
//! Where steps take less than [`SPACING`], it takes what several of them put out at once. Receivers run on the processors that
//! compute, and where they interrupt every step of two milliseconds, all of its threads wait for the one that was put aside.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::protocol::{StepOutput, StepSink};
use crate::worker::catch;

/// Outputs and who gets them, in order.
type Outputs = Vec<(Arc<dyn StepSink>, StepOutput)>;

/// Outputs that nobody is kept waiting by go to their receivers so long after the ones before: less than a frame of a screen at 60 Hz.
const SPACING: Duration = Duration::from_millis(15);
/// A sequence with so much credit left needs its receivers to return some, or it will sit out steps.
const LOW_CREDIT: u32 = 4;

/// The engine thread's end.
pub(super) struct Outbox {
    mailbox: Arc<Mailbox>,
    /// Outputs of the step that is being computed.
    current: Outputs,
    /// Whether one of them is waited for.
    urgent: bool,
}

/// What waits for the delivery thread. It needs no bound: a sequence produces at most as many outputs as it has credit, or tokens.
#[derive(Default)]
struct Mailbox {
    content: Mutex<Content>,
    changed: Condvar,
}

#[derive(Default)]
struct Content {
    outputs: Outputs,
    /// Whether one of the outputs is waited for.
    urgent: bool,
    /// Whether the delivery thread sleeps until there is an output.
    idle: bool,
    closed: bool,
}

impl Mailbox {
    fn lock(&self) -> MutexGuard<'_, Content> {
        // No code that can panic runs under the lock.
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Exchanges `empty` for what waits, once there is something, and from `due` on unless it is urgent; false when nothing will
    /// come any more.
    fn take(&self, empty: &mut Outputs, due: Instant) -> bool {
        let content = self.lock();
        let wait = due.saturating_duration_since(Instant::now());
        let (mut content, _) = self
            .changed
            .wait_timeout_while(content, wait, |content| !content.urgent && !content.closed)
            .unwrap_or_else(PoisonError::into_inner);
        content.idle = true;
        let waits = |content: &mut Content| content.outputs.is_empty() && !content.closed;
        let mut content = self
            .changed
            .wait_while(content, waits)
            .unwrap_or_else(PoisonError::into_inner);
        content.idle = false;
        content.urgent = false;
        std::mem::swap(&mut content.outputs, empty);
        !empty.is_empty()
    }
}

impl Outbox {
    /// Starts the delivery thread; it ends when the outbox is dropped and everything is delivered.
    pub(super) fn start(name: &str) -> std::io::Result<Self> {
        let mailbox = Arc::<Mailbox>::default();
        let to_deliver = Arc::clone(&mailbox);
        thread::Builder::new()
            .name(format!("deliver {name}"))
            .spawn(move || {
                let mut outputs = Outputs::new();
                let mut due = Instant::now();
                while to_deliver.take(&mut outputs, due) {
                    due = Instant::now() + SPACING;
                    for (sink, output) in outputs.drain(..) {
                        if let Err(message) = catch(|| sink.deliver(output)) {
                            tracing::error!(%message, "a receiver of generated tokens panicked");
                        }
                    }
                }
            })?;
        Ok(Self {
            mailbox,
            current: Outputs::new(),
            urgent: false,
        })
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
        let mut content = self.mailbox.lock();
        content.outputs.append(&mut self.current);
        content.urgent |= std::mem::take(&mut self.urgent);
        if content.idle || content.urgent {
            self.mailbox.changed.notify_one();
        }
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.mailbox.lock().closed = true;
        self.mailbox.changed.notify_one();
    }
}
