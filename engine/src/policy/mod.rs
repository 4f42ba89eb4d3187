//! Input policies: when may a node be called, and with which packets? One policy a file.
//!
//! A policy answers two questions. `readiness` looks at the queues of a node and changes nothing,
//! so it may be asked at any time and any number of times; `fill` takes the packets of the
//! timestamp it announced. A timestamp is *settled* on a stream when the stream has a packet at it
//! or its bound is past it.

mod barrier;
mod batch;
mod default;
mod early_close;
mod fixed_size;
mod immediate;
mod mux;
mod settle;
mod sync_set;
mod timestamp_align;

use std::sync::Arc;

pub use fixed_size::FixedSize;

use crate::{
    input::{InputQueue, InputSet},
    timestamp::Timestamp,
};

/// What a policy says about a node's queues.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Not yet.
    Waiting(Waiting),
    /// Now, at this timestamp.
    Process(Timestamp),
    /// Nothing can come any more.
    Close,
}

impl Readiness {
    /// Returns the node's wait, if it waits.
    pub(crate) fn waiting(self) -> Option<Waiting> {
        match self {
            Self::Waiting(waiting) => Some(waiting),
            Self::Process(_) | Self::Close => None,
        }
    }
}

/// What a node waits for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The input whose bound has to move, counted within the node.
    pub stream: u16,
    /// No call can come for a timestamp below this one: the node's outputs are settled up to it.
    pub until: Timestamp,
}

/// Decides when a node is called.
pub trait InputPolicy: Send {
    /// Whether the node can be called. Changes nothing.
    fn readiness(&self, queues: &[InputQueue]) -> Readiness;

    /// Takes the inputs of the call at `at`, which `readiness` has just announced.
    fn fill(&mut self, at: Timestamp, queues: &mut [InputQueue], set: &mut InputSet);

    /// Everything that a node waits for which waits, where any of it can bring about a call. For
    /// those who look at a session.
    fn waits_for(&self, queues: &[InputQueue]) -> Vec<Waiting> {
        self.readiness(queues).waiting().into_iter().collect()
    }

    /// Called when a packet has arrived: a policy that drops packets does it here, and says that it
    /// may have.
    fn arrived(&mut self, _queues: &mut [InputQueue]) -> bool {
        false
    }

    /// Whether packets have to arrive in the order of their timestamps.
    fn timed(&self) -> bool {
        true
    }
}

/// The input policies a contract or graph file can name. Inputs are given by position within the
/// node.
#[derive(Clone, Default)]
pub enum Policy {
    /// One call for each timestamp, in order, once all inputs are settled at it.
    #[default]
    Default,
    /// The default policy, but calls come this many at a time; what is left of a batch comes when
    /// the inputs are done.
    Batch(usize),
    /// The default policy within each set of inputs, independently of the other sets; inputs in no
    /// set form one more.
    SyncSet(Vec<Vec<u16>>),
    /// Each input by itself: a packet is delivered when it arrives. So packets at one timestamp
    /// come in one call only if they were there together when the node was free.
    Immediate,
    /// The default policy, but queues that grow are cut to their newest packets.
    FixedSize(FixedSize),
    /// One packet of each input, whatever their timestamps.
    Barrier,
    /// The last input says, at each of its timestamps, which other input is delivered with it.
    Mux,
    /// The default policy, but the node closes as soon as any input is done.
    EarlyClose,
    /// The default policy on time lines that are shifted so that the first packets meet; this input
    /// gives the time.
    TimestampAlign(u16),
    /// A policy of the calculator's own.
    Custom(Arc<dyn Fn() -> Box<dyn InputPolicy> + Send + Sync>),
}

impl std::fmt::Debug for Policy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Default => f.write_str("Default"),
            Self::Batch(size) => f.debug_tuple("Batch").field(size).finish(),
            Self::SyncSet(sets) => f.debug_tuple("SyncSet").field(sets).finish(),
            Self::Immediate => f.write_str("Immediate"),
            Self::FixedSize(sizes) => sizes.fmt(f),
            Self::Barrier => f.write_str("Barrier"),
            Self::Mux => f.write_str("Mux"),
            Self::EarlyClose => f.write_str("EarlyClose"),
            Self::TimestampAlign(base) => f.debug_tuple("TimestampAlign").field(base).finish(),
            Self::Custom(_) => f.write_str("Custom"),
        }
    }
}

impl Policy {
    /// How many input sets have to be there before the first of them is delivered.
    pub(crate) fn batch(&self) -> usize {
        match self {
            Self::Batch(size) => *size,
            _ => 1,
        }
    }

    /// The policy of one node of one session. With `bounds`, settled timestamps without packets are
    /// delivered too.
    pub(crate) fn build(&self, inputs: usize, bounds: bool) -> Rule {
        let policy: Box<dyn InputPolicy> = match self {
            Self::Default if bounds => Box::new(default::WithBounds::default()),
            Self::Default => return Rule::Packets,
            Self::Batch(size) => Box::new(batch::Batches::new(*size)),
            Self::SyncSet(sets) => Box::new(sync_set::SyncSets::new(sets, inputs, bounds)),
            Self::Immediate => Box::new(immediate::Immediate::new(inputs, bounds)),
            Self::FixedSize(sizes) => Box::new(fixed_size::Truncating::new(*sizes, bounds)),
            Self::Barrier => Box::new(barrier::Barrier),
            Self::Mux => Box::new(mux::Mux),
            Self::EarlyClose => Box::new(early_close::EarlyClose::new(bounds)),
            Self::TimestampAlign(base) => {
                Box::new(timestamp_align::TimestampAlign::new(usize::from(*base)))
            }
            Self::Custom(build) => build(),
        };
        Rule::Other(policy)
    }
}

/// The policy of one node of one session.
pub(crate) enum Rule {
    /// The default policy without bounds, which nearly all nodes have, is called directly.
    Packets,
    Other(Box<dyn InputPolicy>),
}

impl Rule {
    /// Whether a node that waits for one input can only become ready through that input.
    pub(crate) fn waits_for_laggard(&self) -> bool {
        matches!(self, Self::Packets)
    }

    pub(crate) fn readiness(&self, queues: &[InputQueue]) -> Readiness {
        match self {
            Self::Packets => default::Packets.readiness(queues),
            Self::Other(policy) => policy.readiness(queues),
        }
    }

    pub(crate) fn waits_for(&self, queues: &[InputQueue]) -> Vec<Waiting> {
        match self {
            Self::Packets => default::Packets.waits_for(queues),
            Self::Other(policy) => policy.waits_for(queues),
        }
    }

    pub(crate) fn fill(&mut self, at: Timestamp, queues: &mut [InputQueue], set: &mut InputSet) {
        match self {
            Self::Packets => default::Packets.fill(at, queues, set),
            Self::Other(policy) => policy.fill(at, queues, set),
        }
    }

    pub(crate) fn arrived(&mut self, queues: &mut [InputQueue]) -> bool {
        match self {
            Self::Packets => false,
            Self::Other(policy) => policy.arrived(queues),
        }
    }

    pub(crate) fn timed(&self) -> bool {
        match self {
            Self::Packets => true,
            Self::Other(policy) => policy.timed(),
        }
    }
}
