//! The bound on waiting: a sequence that was never admitted ends with an error when it has waited too long.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::Command;
use super::step::Core;
use crate::protocol::{ErrorKind, FinishReason, GenerationError};
use crate::sequence::Sequence;
use crate::spec::EngineSpec;

/// How long a sequence may wait for its first admission; `None` is for ever.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueTimeout(Option<Duration>);

impl QueueTimeout {
    pub(super) fn new(spec: &EngineSpec) -> Self {
        let milliseconds = u64::from(spec.queue_timeout_ms);
        Self((milliseconds > 0).then(|| Duration::from_millis(milliseconds)))
    }
}

impl Core<'_> {
    /// Ends the sequences that have waited too long.
    pub(super) fn expire(&mut self) {
        let QueueTimeout(Some(bound)) = self.queue_timeout else {
            return;
        };
        let now = Instant::now();
        while let Some(sequence) = self.longest_waiting()
            && now.saturating_duration_since(sequence.submitted) >= bound
        {
            let id = sequence.id;
            let message = format!(
                "no place in the batches for {bound:?} (queue_timeout_ms); running: {}, waiting: {}",
                self.running.len(),
                self.waiting.len()
            );
            let error = GenerationError {
                kind: ErrorKind::ResourceExhausted,
                message,
            };
            let finish = FinishReason::Error(error);
            self.shared.measured.ended(&finish);
            let output = sequence.end(finish);
            let sink = std::sync::Arc::clone(&sequence.sink);
            self.outbox.current.push((sink, output));
            self.cancel(id);
        }
        self.outbox.flush();
    }

    /// Waits for a command, at most until a sequence has waited too long.
    pub(super) fn next_command(
        &self,
        inbox: &Receiver<Command>,
    ) -> Result<Command, RecvTimeoutError> {
        match (self.queue_timeout, self.longest_waiting()) {
            (QueueTimeout(Some(bound)), Some(sequence)) => {
                inbox.recv_timeout(bound.saturating_sub(sequence.submitted.elapsed()))
            }
            _ => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
        }
    }

    fn longest_waiting(&self) -> Option<&Sequence> {
        self.waiting.iter().find(|sequence| !sequence.was_admitted)
    }
}
