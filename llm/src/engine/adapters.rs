//! Adapters of the sequences of a step, for the status.

use super::sequence::Sequence;
use crate::spec::AdapterSpec;

/// Returns a bit for each adapter of the sequences; adapters behind the 64th are omitted.
pub(super) fn bits<'a>(sequences: impl Iterator<Item = &'a Sequence>) -> u64 {
    let adapters = sequences.flat_map(|sequence| sequence.group.adapters.iter());
    adapters
        .filter(|adapter| adapter.number < u64::BITS)
        .fold(0, |bits, adapter| bits | 1 << adapter.number)
}

/// Returns the names of the adapters whose bits are set.
pub(super) fn names(bits: u64, adapters: &[AdapterSpec]) -> Vec<String> {
    let set = |index: &usize| *index < u64::BITS as usize && bits & (1 << index) != 0;
    (0..adapters.len())
        .filter(set)
        .map(|index| adapters[index].name.clone())
        .collect()
}
