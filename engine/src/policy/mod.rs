//! Input policies: when may a node be called, and with which packets? One policy a file.
//!
//! A policy answers two questions. `readiness` looks at the queues of a node and changes nothing, so it may be asked at any
//! time and any number of times; `fill` takes the packets of the timestamp it announced. A timestamp is *settled* on a
//! stream when the stream has a packet at it or its bound is past it.

use std::sync::Arc;

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

    /// Called when a packet or bound has arrived: a policy that drops packets does it here.
    fn arrived(&mut self, _queues: &mut [InputQueue]) {}

    /// Whether packets have to arrive in the order of their timestamps.
    fn timed(&self) -> bool {
        true
    }
}

/// The input policies a contract or graph file can name. Inputs are given by position within the node.
#[derive(Clone, Default)]
pub enum Policy {
    /// One call for each timestamp, in order, once all inputs are settled at it.
    #[default]
    Default,
    /// The default policy within each set of inputs, independently of the other sets; inputs in no set form one more.
    SyncSet(Vec<Vec<u16>>),
    /// Each input by itself: a packet is delivered when it arrives.
    Immediate,
    /// A policy of the calculator's own.
    Custom(Arc<dyn Fn() -> Box<dyn InputPolicy> + Send + Sync>),
}

impl std::fmt::Debug for Policy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Default => f.write_str("Default"),
            Self::SyncSet(sets) => f.debug_tuple("SyncSet").field(sets).finish(),
            Self::Immediate => f.write_str("Immediate"),
            Self::Custom(_) => f.write_str("Custom"),
        }
    }
}
