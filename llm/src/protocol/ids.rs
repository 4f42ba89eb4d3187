//! Tokens, and the numbers of sequences and requests.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};

use smallvec::SmallVec;

/// A token's id in the model's vocabulary.
pub type Token = i32;

/// Tokens of one sequence in one step. Usually there is one, so they are stored inline.
pub type Tokens = SmallVec<[Token; 4]>;

/// Number of a sequence, in order of submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SequenceId(pub u64);

impl fmt::Display for SequenceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The owner of requests for scheduling. Tenants take turns, however many requests each has; the
/// requests of one tenant share its turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tenant {
    /// Number that no other tenant has.
    pub number: u64,
    /// Number of slots that the tenant gets for each slot of a tenant of weight 1.
    pub weight: NonZeroU32,
    /// Number of places in a queue that the tenant may have for each place that is then left free.
    pub places: u32,
}

/// Number of a request. All sequences of a request have the same one, and requests take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub(crate) u64);

impl RequestId {
    /// Returns a number that no other request of this process has.
    #[expect(clippy::new_without_default, reason = "each is different")]
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}
