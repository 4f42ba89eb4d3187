//! What sessions tell the engine thread, and who waits for it.

use std::sync::Arc;

use crossbeam_channel::Sender;

use super::preview::{PromptPreview, Question};
use super::sequence::Sequence;
use crate::protocol::SequenceId;
use crate::room::Cache;
use crate::worker::{Command, OutputReceiver, Waiter};

/// What sessions tell the engine thread. These are bounded: submissions by `max_waiting` and
/// `max_num_seqs`, grants by one for each delivered output, and a session asks about each of its
/// prompts once, and for memory a few times.
pub(super) enum Order {
    Generate(Box<Sequence>),
    Grant(SequenceId, u32),
    Preview(Box<Question>),
    /// Memory is short: what finished sequences left goes.
    Shrink,
}

/// The prefix cache of an engine, as what asks for memory sees it.
pub(super) struct SavedPrefixes(pub(super) Sender<Command<Order>>);

impl Cache for SavedPrefixes {
    fn shrink(&self) {
        // Fails only when the engine has stopped, and its cache with it.
        self.0.send(Command::Order(Order::Shrink)).ok();
    }
}

/// A receiver that waits for the engine.
#[derive(Debug)]
pub(super) enum Waiting {
    Sequence(Arc<OutputReceiver>),
    Question(Arc<Waiter<PromptPreview>>),
}
