//! The second thread: takes each step's outputs as one message and calls the sinks, so that no receiver can hold up a step.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use super::step;
use crate::protocol::{StepOutput, StepSink};

/// The outputs of one step.
pub(super) type StepBatch = Vec<(Arc<dyn StepSink>, StepOutput)>;

/// The engine thread's end. The channel needs no bound: a sequence produces at most as many outputs as it has credit, or tokens.
pub(super) struct Outbox {
    batches: Sender<StepBatch>,
    /// Delivered batches come back empty, so that a step reuses their memory.
    emptied: Receiver<StepBatch>,
    pub(super) current: StepBatch,
}

impl Outbox {
    /// Starts the delivery thread; it ends when the outbox is dropped and everything is delivered.
    pub(super) fn start(name: &str) -> std::io::Result<Self> {
        let (batches, to_deliver) = mpsc::channel::<StepBatch>();
        let (give_back, emptied) = mpsc::channel();
        thread::Builder::new()
            .name(format!("deliver {name}"))
            .spawn(move || {
                for mut batch in to_deliver {
                    for (sink, output) in batch.drain(..) {
                        if let Err(message) = step::catch(|| sink.deliver(output)) {
                            tracing::error!(%message, "a receiver of generated tokens panicked");
                        }
                    }
                    give_back.send(batch).ok(); // the engine thread has ended otherwise
                }
            })?;
        Ok(Self {
            batches,
            emptied,
            current: Vec::new(),
        })
    }

    /// Sends the outputs collected in `current`, if any.
    pub(super) fn flush(&mut self) {
        if self.current.is_empty() {
            return;
        }
        let next = self.emptied.try_recv().unwrap_or_default();
        let batch = std::mem::replace(&mut self.current, next);
        // The delivery thread outlives this sender: it catches its sinks' panics.
        self.batches.send(batch).ok();
    }
}
