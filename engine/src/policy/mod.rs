//! Input policies, which decide when a node is called and with which packets. Each policy has a
//! file.
//!
//! A policy answers two questions. `readiness` reads the queues of a node without changing them, so
//! it may be called any number of times. `fill` takes the packets of the timestamp that `readiness`
//! announced. A timestamp is *settled* on a stream if the stream has a packet at it or its bound is
//! past it.

mod barrier;
mod batch;
mod default;
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

/// A policy's decision about a node.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// The node cannot be called yet.
    Waiting(Waiting),
    /// The node can be called now, at this timestamp.
    Process(Timestamp),
    /// The node can be closed: no call can follow.
    Close,
}

impl Readiness {
    /// Makes the decision to wait for input `stream`. The outputs are settled up to `until`.
    fn wait(stream: usize, until: Timestamp) -> Self {
        let stream = stream as u16;
        Self::Waiting(Waiting { stream, until })
    }

    /// Returns the reason of the wait, if the node waits.
    pub(crate) fn waiting(self) -> Option<Waiting> {
        match self {
            Self::Waiting(waiting) => Some(waiting),
            Self::Process(_) | Self::Close => None,
        }
    }
}

/// The input and time that a node waits for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Position of the input whose bound must move.
    pub stream: u16,
    /// No call can follow for an earlier timestamp: the node's outputs are settled up to it.
    pub until: Timestamp,
}

/// A rule that decides when a node is called.
pub trait InputPolicy: Send {
    /// Decides whether the node can be called. Changes nothing.
    fn readiness(&self, queues: &[InputQueue]) -> Readiness;

    /// Takes the inputs of the call at `at`, which `readiness` has just announced.
    fn fill(&mut self, at: Timestamp, queues: &mut [InputQueue], set: &mut InputSet);

    /// Returns all waits of which any one can lead to a call. Used to describe sessions.
    fn waits_for(&self, queues: &[InputQueue]) -> Vec<Waiting> {
        self.readiness(queues).waiting().into_iter().collect()
    }

    /// Handles the arrival of a packet. A policy that drops packets does it here and returns `true`
    /// if it may have dropped some.
    fn arrived(&mut self, _queues: &mut [InputQueue]) -> bool {
        false
    }

    /// Returns `true` if packets must arrive in the order of their timestamps.
    fn timed(&self) -> bool {
        true
    }
}

/// The input policies that contracts and graph files can name. Inputs are positions within the
/// node.
#[derive(Clone, Default)]
pub enum Policy {
    /// One call for each timestamp, in order, when all inputs are settled at it.
    #[default]
    Default,
    /// The default policy in batches of this many calls. An incomplete batch is delivered when the
    /// inputs are done.
    Batch(usize),
    /// The default policy within each set of inputs, independently of the other sets. Inputs in no
    /// set form a further set.
    SyncSet(Vec<Vec<u16>>),
    /// Each input by itself: a packet is delivered on arrival. Packets with equal timestamps share
    /// a call only if all have arrived when the node is free.
    Immediate,
    /// The default policy with queues that are cut to their newest packets.
    FixedSize(FixedSize),
    /// One packet of each input, whatever their timestamps.
    Barrier,
    /// The last input selects, at each of its timestamps, the other input that is delivered with
    /// it.
    Mux,
    /// The default policy, but the node closes as soon as any input is done.
    EarlyClose,
    /// The default policy on timelines that are shifted so that their first packets meet. This
    /// input has the reference timeline.
    TimestampAlign(u16),
    /// A policy that the calculator implements.
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
    /// Returns the number of complete input sets that the node waits for.
    pub(crate) fn batch(&self) -> usize {
        match self {
            Self::Batch(size) => *size,
            _ => 1,
        }
    }

    /// Makes the policy of one node of one session. With `bounds`, settled timestamps without
    /// packets are delivered too.
    pub(crate) fn build(&self, inputs: usize, bounds: bool) -> Rule {
        let policy: Box<dyn InputPolicy> = match self {
            Self::Default if bounds => Box::new(default::OneSet::new(true, false)),
            Self::Default => return Rule::Packets,
            Self::Batch(size) => Box::new(batch::Batches::new(*size)),
            Self::SyncSet(sets) => Box::new(sync_set::SyncSets::new(sets, inputs, bounds)),
            Self::Immediate => Box::new(immediate::Immediate::new(inputs, bounds)),
            Self::FixedSize(sizes) => Box::new(fixed_size::Truncating::new(*sizes, bounds)),
            Self::Barrier => Box::new(barrier::Barrier),
            Self::Mux => Box::new(mux::Mux),
            Self::EarlyClose => Box::new(default::OneSet::new(bounds, true)),
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
    /// The default policy without bounds. Nearly all nodes have it, so it is called directly.
    Packets,
    Other(Box<dyn InputPolicy>),
}

impl Rule {
    /// Returns `true` if a node that waits for one input can become ready only through that input.
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
