//! The bound on waiting: a sequence that was never admitted ends with an error when it has waited too long.

use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, TryRecvError};

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
        let due = self.due();
        // While somebody waits, the bound on waiting comes first.
        while due.is_none() {
            match inbox.try_recv() {
                Ok(command) => return Ok(command),
                Err(TryRecvError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
                Err(TryRecvError::Empty) if self.backend.tidy() => {}
                Err(TryRecvError::Empty) => break,
            }
        }
        let rest = Instant::now() + REST_AFTER;
        if due.is_none_or(|due| due > rest) {
            match inbox.recv_deadline(rest) {
                Err(RecvTimeoutError::Timeout) => self.backend.rest(),
                outcome => return outcome,
            }
        }
        match due {
            Some(due) => inbox.recv_deadline(due),
            None => Ok(inbox.recv()?),
        }
    }

    /// When a sequence will have waited too long, if one can.
    fn due(&self) -> Option<Instant> {
        let bound = self.queue_timeout.0?;
        Some(self.longest_waiting()?.submitted + bound)
    }

    fn longest_waiting(&self) -> Option<&Sequence> {
        self.waiting.iter().find(|sequence| !sequence.was_admitted)
    }
}
