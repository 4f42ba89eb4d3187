//! The second thread: takes what steps put out and calls the sinks, so that no receiver can hold up a step.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::protocol::{StepOutput, StepSink};
use crate::worker::catch;

/// Outputs and who gets them, in order.
type Outputs = Vec<(Arc<dyn StepSink>, StepOutput)>;

/// The engine thread's end.
pub(super) struct Outbox {
    mailbox: Arc<Mailbox>,
    /// Outputs of the step that is being computed.
    pub(super) current: Outputs,
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
    closed: bool,
}

impl Mailbox {
    fn lock(&self) -> MutexGuard<'_, Content> {
        // No code that can panic runs under the lock.
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Exchanges `empty` for what waits, once there is something; false when nothing will come any more.
    fn take(&self, empty: &mut Outputs) -> bool {
        let waits = |content: &mut Content| content.outputs.is_empty() && !content.closed;
        let mut content = self
            .changed
            .wait_while(self.lock(), waits)
            .unwrap_or_else(PoisonError::into_inner);
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
                while to_deliver.take(&mut outputs) {
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
        })
    }

    /// Hands over the outputs collected in `current`, if any, all at once.
    pub(super) fn flush(&mut self) {
        if self.current.is_empty() {
            return;
        }
        self.mailbox.lock().outputs.append(&mut self.current);
        self.mailbox.changed.notify_one();
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.mailbox.lock().closed = true;
        self.mailbox.changed.notify_one();
    }
}
