//! Messages of sessions to the engine thread, and receivers that wait for it.

use std::sync::Arc;

use crossbeam_channel::Sender;

use super::preview::{PromptPreview, Question};
use super::sequence::Sequence;
use crate::memory_budget::Cache;
use crate::protocol::SequenceId;
use crate::worker::{Command, OutputReceiver, Waiter};

/// Messages of sessions to the engine thread. Their number is bounded: submissions by `max_waiting`
/// and `max_num_seqs`, grants by one for each delivered output. A session asks about each of its
/// prompts once, and for memory a few times.
pub(super) enum Order {
    Generate(Box<Sequence>),
    Grant(SequenceId, u32),
    Preview(Box<Question>),
    /// Drops the saved cells and checkpoints of finished sequences, because memory is short.
    Shrink,
}

/// An engine's prefix cache, which can be asked to free memory.
pub(super) struct SavedPrefixes(pub(super) Sender<Command<Order>>);

impl Cache for SavedPrefixes {
    fn shrink(&self) {
        // Fails only if the engine has stopped, and its cache with it.
        self.0.send(Command::Order(Order::Shrink)).ok();
    }
}

/// A receiver that waits for the engine.
#[derive(Debug)]
pub(super) enum Waiting {
    Sequence(Arc<OutputReceiver>),
    Question(Arc<Waiter<PromptPreview>>),
}
