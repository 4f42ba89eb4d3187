//! The engine's diagnostic codes, `GM03xx` to `GM08xx`. Each theme has a file.

pub mod calculators;
pub mod cycles;
pub mod executors;
pub mod sides;
pub mod streams;
pub mod subgraphs;
pub mod types;

use graphmill_grammar::Code;

/// The graph of one node that passes packets on.
const PASS_THROUGH: &str = r#"input_stream: "in"
output_stream: "out"
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" }"#;

/// The graph of one node that makes a side packet from another.
const TEXT_TO_NUMBER: &str = r#"input_side_packet: "text"
output_side_packet: "number"
node { calculator: "StringToIntCalculator" input_side_packet: "text" output_side_packet: "number" }"#;

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
