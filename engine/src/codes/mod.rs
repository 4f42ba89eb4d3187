//! The engine's diagnostic codes, `GM03xx` to `GM08xx`. Each theme has a file.

pub mod calculators;
pub mod cycles;
pub mod executors;
pub mod sides;
pub mod streams;
pub mod subgraphs;
pub mod types;

use graphmill_grammar::Code;

/// Iterates over all codes of this crate by number.
pub fn all() -> impl Iterator<Item = &'static Code> {
    [
        streams::ALL,
        types::ALL,
        sides::ALL,
        cycles::ALL,
        executors::ALL,
        calculators::ALL,
        subgraphs::ALL,
    ]
    .into_iter()
    .flatten()
    .copied()
}
