//! `GM06xx`: loops.

use graphmill_grammar::Code;

/// All codes of this theme, by number.
pub const ALL: &[&Code] = &[
    &CYCLE,
    &BACK_EDGE_NOT_INPUT,
    &BACK_EDGE_TWICE,
    &BACK_EDGE_UNNEEDED,
];

/// Nodes that wait for each other.
pub static CYCLE: Code = Code {
    number: 601,
    title: "cycle without a back edge",
    explanation: "Each of these nodes needs what the next one makes. In a loop, one input has to be marked with `input_stream_info { tag_index: \"..\" back_edge: true }`: the one that brings back what an earlier round made.",
    wrong: "node { calculator: \"PassThroughCalculator\" input_stream: \"b\" output_stream: \"a\" } node { calculator: \"PassThroughCalculator\" input_stream: \"a\" output_stream: \"b\" }",
    right: "node { calculator: \"MergeCalculator\" input_stream: \"in\" input_stream: \"b\" output_stream: \"a\" input_stream_info { tag_index: \":1\" back_edge: true } } node { calculator: \"PassThroughCalculator\" input_stream: \"a\" output_stream: \"b\" }",
};

/// `input_stream_info` names no input.
pub static BACK_EDGE_NOT_INPUT: Code = Code {
    number: 602,
    title: "`input_stream_info` names no input of the node",
    explanation: "`tag_index` has to be the tag and index of one of the node's inputs, not the name of a stream.",
    wrong: "input_stream: \"LOOP:back\" input_stream_info { tag_index: \"BACK\" back_edge: true }",
    right: "input_stream: \"LOOP:back\" input_stream_info { tag_index: \"LOOP\" back_edge: true }",
};

/// Two `input_stream_info` for one input.
pub static BACK_EDGE_TWICE: Code = Code {
    number: 603,
    title: "`input_stream_info` given twice for one input",
    explanation: "Each input has at most one `input_stream_info`.",
    wrong: "input_stream_info { tag_index: \"LOOP\" back_edge: true } input_stream_info { tag_index: \"LOOP\" }",
    right: "input_stream_info { tag_index: \"LOOP\" back_edge: true }",
};

/// A back edge that closes no loop.
pub static BACK_EDGE_UNNEEDED: Code = Code {
    number: 604,
    title: "back edge that closes no loop",
    explanation: "The stream does not depend on the node that reads it. Marked as a back edge it is left out when nodes are put in order and when queues fill up.",
    wrong: "input_stream: \"in\" node { calculator: \"PassThroughCalculator\" input_stream: \"in\" output_stream: \"out\" input_stream_info { tag_index: \":0\" back_edge: true } }",
    right: "input_stream: \"in\" node { calculator: \"PassThroughCalculator\" input_stream: \"in\" output_stream: \"out\" }",
};
