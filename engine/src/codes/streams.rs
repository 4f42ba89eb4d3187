//! `GM03xx`: streams, ports and input policies.

use graphmill_grammar::Code;

/// All codes of this theme, by number.
pub const ALL: &[&Code] = &[
    &NO_PRODUCER,
    &TWO_PRODUCERS,
    &UNUSED_STREAM,
    &MISSING_PORT,
    &UNEXPECTED_PORT,
    &BAD_PORTS,
    &UNKNOWN_POLICY,
    &BAD_POLICY,
    &UNUSED_INPUT,
    &NO_GRAPH_OUTPUT,
];

/// A stream that nothing produces.
pub static NO_PRODUCER: Code = Code {
    number: 301,
    title: "stream without a producer",
    explanation: "A node reads a stream that no node writes and that is no `input_stream` of the graph.",
    wrong: "input_stream: \"in\" node { calculator: \"PassThroughCalculator\" input_stream: \"inn\" output_stream: \"out\" }",
    right: "input_stream: \"in\" node { calculator: \"PassThroughCalculator\" input_stream: \"in\" output_stream: \"out\" }",
};

/// A stream that is produced twice.
pub static TWO_PRODUCERS: Code = Code {
    number: 302,
    title: "stream produced twice",
    explanation: "A stream has exactly one producer: one output of one node, or the graph's input. Any number of nodes may read it.",
    wrong: "input_stream: \"in\" node { calculator: \"PassThroughCalculator\" input_stream: \"in\" output_stream: \"out\" } node { calculator: \"PassThroughCalculator\" input_stream: \"in\" output_stream: \"out\" }",
    right: "input_stream: \"in\" node { calculator: \"PassThroughCalculator\" input_stream: \"in\" output_stream: \"out\" } node { calculator: \"PassThroughCalculator\" input_stream: \"in\" output_stream: \"out_2\" }",
};

/// A stream that nothing reads.
pub static UNUSED_STREAM: Code = Code {
    number: 303,
    title: "stream that nothing reads",
    explanation: "The packets of this stream are made and thrown away. If that is meant, nothing has to be done; if the port is optional, leave it out.",
    wrong: "input_stream: \"in\" node { calculator: \"PassThroughCalculator\" input_stream: \"in\" output_stream: \"out\" }",
    right: "input_stream: \"in\" output_stream: \"out\" node { calculator: \"PassThroughCalculator\" input_stream: \"in\" output_stream: \"out\" }",
};

/// A port that a calculator needs is not connected.
pub static MISSING_PORT: Code = Code {
    number: 304,
    title: "required port not connected",
    explanation: "The calculator declares the port as required. `graphmill describe` lists the ports of a calculator.",
    wrong: "node { calculator: \"MergeCalculator\" output_stream: \"out\" }",
    right: "input_stream: \"in\" node { calculator: \"MergeCalculator\" input_stream: \"in\" output_stream: \"out\" }",
};

/// A port that a calculator does not have.
pub static UNEXPECTED_PORT: Code = Code {
    number: 305,
    title: "port that the calculator does not have",
    explanation: "The calculator declares no port with this tag and index. `graphmill describe` lists the ports of a calculator.",
    wrong: "node { calculator: \"MergeCalculator\" input_stream: \"IN:in\" output_stream: \"out\" }",
    right: "node { calculator: \"MergeCalculator\" input_stream: \"in\" output_stream: \"out\" }",
};

/// Ports or options that do not go together.
pub static BAD_PORTS: Code = Code {
    number: 306,
    title: "ports or options that do not go together",
    explanation: "Each port and each option may be right by itself, but the calculator cannot work with this combination.",
    wrong: "node { calculator: \"PassThroughCalculator\" input_stream: \"a\" output_stream: \"x\" output_stream: \"y\" }",
    right: "node { calculator: \"PassThroughCalculator\" input_stream: \"a\" output_stream: \"x\" }",
};

/// An input policy that does not exist.
pub static UNKNOWN_POLICY: Code = Code {
    number: 307,
    title: "unknown input policy",
    explanation: "`input_stream_handler` names one of the engine's input policies, such as `DefaultInputStreamHandler`, `ImmediateInputStreamHandler` or `SyncSetInputStreamHandler`.",
    wrong: "input_stream_handler { input_stream_handler: \"SyncInputStreamHandler\" }",
    right: "input_stream_handler { input_stream_handler: \"SyncSetInputStreamHandler\" }",
};

/// An input policy that does not fit the node.
pub static BAD_POLICY: Code = Code {
    number: 308,
    title: "input policy that does not fit the node",
    explanation: "The policy's options name inputs of the node by tag and index. Each input may be in one sync set only, and no set may be empty.",
    wrong: "sync_set { tag_index: \"LOOP\" } sync_set { tag_index: \"LOOP\" }",
    right: "sync_set { tag_index: \"LOOP\" }",
};

/// A graph input that no node reads.
pub static UNUSED_INPUT: Code = Code {
    number: 309,
    title: "graph input that no node reads",
    explanation: "Packets can be sent to this stream, but nothing happens with them.",
    wrong: "input_stream: \"in\" input_stream: \"other\" node { calculator: \"PassThroughCalculator\" input_stream: \"in\" output_stream: \"out\" }",
    right: "input_stream: \"in\" node { calculator: \"PassThroughCalculator\" input_stream: \"in\" output_stream: \"out\" }",
};

/// A graph output that nothing produces.
pub static NO_GRAPH_OUTPUT: Code = Code {
    number: 310,
    title: "graph output without a producer",
    explanation: "The graph lists an `output_stream` that no node writes, so nothing will ever come out of it.",
    wrong: "input_stream: \"in\" output_stream: \"outt\" node { calculator: \"PassThroughCalculator\" input_stream: \"in\" output_stream: \"out\" }",
    right: "input_stream: \"in\" output_stream: \"out\" node { calculator: \"PassThroughCalculator\" input_stream: \"in\" output_stream: \"out\" }",
};
