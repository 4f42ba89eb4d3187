//! `GM08xx`: calculators and subgraphs.

use graphmill_grammar::Code;

/// All codes of this theme, by number.
pub const ALL: &[&Code] = &[
    &UNKNOWN_CALCULATOR,
    &FOREIGN_OPTIONS,
    &RECURSION,
    &SUBGRAPH_FIELD,
    &SUBGRAPH_PORT,
    &UNSUPPORTED_FIELD,
    &TOO_LARGE,
    &NO_EFFECT,
];

/// A calculator that is not registered.
pub static UNKNOWN_CALCULATOR: Code = Code {
    number: 801,
    title: "unknown calculator",
    explanation: "No calculator and no subgraph of this name is registered in this program. `graphmill calculators` lists those that are.",
    wrong: "node { calculator: \"PasThroughCalculator\" input_stream: \"a\" output_stream: \"b\" }",
    right: "node { calculator: \"PassThroughCalculator\" input_stream: \"a\" output_stream: \"b\" }",
};

/// Options of a type that the calculator does not take.
pub static FOREIGN_OPTIONS: Code = Code {
    number: 802,
    title: "options of another calculator",
    explanation: "The options' type belongs to another calculator, so they would have no effect.",
    wrong: "node { calculator: \"PassThroughCalculator\" node_options { [type.googleapis.com/mediapipe.GateCalculatorOptions] {} } }",
    right: "node { calculator: \"GateCalculator\" node_options { [type.googleapis.com/mediapipe.GateCalculatorOptions] {} } }",
};

/// A subgraph that contains itself.
pub static RECURSION: Code = Code {
    number: 803,
    title: "subgraph that contains itself",
    explanation: "A subgraph is replaced by its nodes; one that contains itself, directly or through others, never ends.",
    wrong: "type: \"Loop\" node { calculator: \"Loop\" }",
    right: "type: \"Loop\" node { calculator: \"PassThroughCalculator\" }",
};

/// A field that a subgraph node cannot have.
pub static SUBGRAPH_FIELD: Code = Code {
    number: 804,
    title: "field that only calculators have",
    explanation: "A subgraph stands for several nodes, and it is not said which of them the field is for.",
    wrong: "node { calculator: \"SomeSubgraph\" source_layer: 1 }",
    right: "node { calculator: \"SomeSubgraph\" }",
};

/// A port that a subgraph does not have.
pub static SUBGRAPH_PORT: Code = Code {
    number: 805,
    title: "port that the subgraph does not have",
    explanation: "The ports of a subgraph are the `input_stream`, `output_stream`, `input_side_packet` and `output_side_packet` of its file, matched by tag and index.",
    wrong: "node { calculator: \"SomeSubgraph\" input_stream: \"NO_SUCH:a\" }",
    right: "node { calculator: \"SomeSubgraph\" input_stream: \"IN:a\" }",
};

/// A field that this engine does not support.
pub static UNSUPPORTED_FIELD: Code = Code {
    number: 806,
    title: "unsupported field",
    explanation: "The field is part of the format, but this engine does not support it, and ignoring it would change what the graph does.",
    wrong: "packet_generator { packet_generator: \"X\" }",
    right: "node { calculator: \"X\" output_side_packet: \"s\" }",
};

/// A graph that is too large.
pub static TOO_LARGE: Code = Code {
    number: 807,
    title: "graph too large",
    explanation: "A graph has at most 65534 nodes.",
    wrong: "a graph of 100000 nodes",
    right: "a smaller graph",
};

/// A field that changes nothing.
pub static NO_EFFECT: Code = Code {
    number: 808,
    title: "field without effect",
    explanation: "The field is part of the format, but in this place, or in this engine, it changes nothing: the graph does the same without it.",
    wrong: "profiler_config { trace_log_path: \"/tmp/trace\" }",
    right: "profiler_config { enable_profiler: true }",
};
