//! `GM04xx`: the types that streams carry.

use graphmill_grammar::Code;

/// All codes of this theme, by number.
pub const ALL: &[&Code] = &[&TYPE_MISMATCH];

/// Producer and consumer disagree about a stream's type.
pub static TYPE_MISMATCH: Code = Code {
    number: 401,
    title: "stream of another type",
    explanation: "The producer's port and the consumer's port have different types. Put a calculator between them that converts, or connect another stream.",
    wrong: "node { calculator: \"StringSourceCalculator\" output_stream: \"text\" } node { calculator: \"NumberSinkCalculator\" input_stream: \"text\" }",
    right: "node { calculator: \"StringSourceCalculator\" output_stream: \"text\" } node { calculator: \"StringSinkCalculator\" input_stream: \"text\" }",
};
