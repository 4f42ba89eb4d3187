//! The bound on waiting: a sequence that was never admitted ends with an error when it has waited too long.

use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use super::Command;
use super::step::Core;
use crate::protocol::{ErrorKind, FinishReason, GenerationError};
use crate::sequence::Sequence;
use crate::spec::EngineSpec;

/// How long there is no work before the backend rests: longer than the pauses between the requests of one client.
const REST_AFTER: Duration = Duration::from_millis(200);

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
            self.outbox.push(id, sink, output, 0);
            self.cancel(id);
        }
        self.outbox.flush();
    }

    /// Waits for a command, at most until a sequence has waited too long.
    pub(super) fn next_command(
        &mut self,
        inbox: &Receiver<Command>,
    ) -> Result<Command, RecvTimeoutError> {
        let left = self.time_left();
        // While somebody waits, the bound on waiting comes first.
        while left.is_none() {
            match inbox.try_recv() {
                Ok(command) => return Ok(command),
                Err(TryRecvError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
                Err(TryRecvError::Empty) if self.backend.tidy() => {}
                Err(TryRecvError::Empty) => break,
            }
        }
        if left.is_none_or(|left| left > REST_AFTER) {
            match inbox.recv_timeout(REST_AFTER) {
                Err(RecvTimeoutError::Timeout) => self.backend.rest(),
                outcome => return outcome,
            }
        }
        match left {
            Some(left) => inbox.recv_timeout(left.saturating_sub(REST_AFTER)),
            None => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
        }
    }

    /// Until a sequence has waited too long, if one can.
    fn time_left(&self) -> Option<Duration> {
        let bound = self.queue_timeout.0?;
        let sequence = self.longest_waiting()?;
        Some(bound.saturating_sub(sequence.submitted.elapsed()))
    }

    fn longest_waiting(&self) -> Option<&Sequence> {
        self.waiting.iter().find(|sequence| !sequence.was_admitted)
    }
}
