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
    &DUPLICATE_NAME,
];

/// A calculator that is not registered.
pub static UNKNOWN_CALCULATOR: Code = Code {
    number: 801,
    title: "unknown calculator",
    explanation: "No calculator and no subgraph of this name is registered in this program. `graphmill calculators` lists those that are.",
    wrong: r#"input_stream: "in"
output_stream: "out"
node { calculator: "PasThroughCalculator" input_stream: "in" output_stream: "out" }"#,
    right: r#"input_stream: "in"
output_stream: "out"
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" }"#,
};

/// Options of a type that the calculator does not take.
pub static FOREIGN_OPTIONS: Code = Code {
    number: 802,
    title: "options of another calculator",
    explanation: "The options' type belongs to another calculator, so they would have no effect.",
    wrong: r#"input_stream: "in"
output_stream: "out"
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" node_options { [type.googleapis.com/mediapipe.GateCalculatorOptions] { } } }"#,
    right: r#"input_stream: "in"
output_stream: "out"
node { calculator: "GateCalculator" input_stream: "in" output_stream: "out" node_options { [type.googleapis.com/mediapipe.GateCalculatorOptions] { allow: true } } }"#,
};

/// A subgraph that contains itself.
pub static RECURSION: Code = Code {
    number: 803,
    title: "subgraph that contains itself",
    explanation: "A subgraph is replaced by its nodes; if it contains itself, directly or through others, this never ends.",
    wrong: r#"type: "EchoSubgraph"
input_stream: "in"
output_stream: "out"
node { calculator: "EchoSubgraph" input_stream: "in" output_stream: "out" }"#,
    right: r#"type: "EchoSubgraph"
input_stream: "in"
output_stream: "out"
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" }"#,
};

/// A field that a subgraph node cannot have.
pub static SUBGRAPH_FIELD: Code = Code {
    number: 804,
    title: "field that only calculators have",
    explanation: "A subgraph consists of several nodes, and the field could be meant for any of them.",
    wrong: r#"input_stream: "HTTP_REQUEST_PAYLOAD:in"
output_stream: "HTTP_RESPONSE_PAYLOAD:out"
node {
  calculator: "HttpLLMCalculator"
  input_side_packet: "LLM_NODE_RESOURCES:llm"
  input_stream: "LOOPBACK:back"
  input_stream: "HTTP_REQUEST_PAYLOAD:in"
  output_stream: "LOOPBACK:back"
  output_stream: "HTTP_RESPONSE_PAYLOAD:out"
  source_layer: 1
  input_stream_info { tag_index: "LOOPBACK:0" back_edge: true }
  node_options { [type.googleapis.com/mediapipe.LLMCalculatorOptions] { models_path: "./" } }
  input_stream_handler {
    input_stream_handler: "SyncSetInputStreamHandler"
    options { [mediapipe.SyncSetInputStreamHandlerOptions.ext] { sync_set { tag_index: "LOOPBACK:0" } } }
  }
}"#,
    right: r#"input_stream: "HTTP_REQUEST_PAYLOAD:in"
output_stream: "HTTP_RESPONSE_PAYLOAD:out"
node {
  calculator: "HttpLLMCalculator"
  input_side_packet: "LLM_NODE_RESOURCES:llm"
  input_stream: "LOOPBACK:back"
  input_stream: "HTTP_REQUEST_PAYLOAD:in"
  output_stream: "LOOPBACK:back"
  output_stream: "HTTP_RESPONSE_PAYLOAD:out"
  input_stream_info { tag_index: "LOOPBACK:0" back_edge: true }
  node_options { [type.googleapis.com/mediapipe.LLMCalculatorOptions] { models_path: "./" } }
  input_stream_handler {
    input_stream_handler: "SyncSetInputStreamHandler"
    options { [mediapipe.SyncSetInputStreamHandlerOptions.ext] { sync_set { tag_index: "LOOPBACK:0" } } }
  }
}"#,
};

/// A port that a subgraph does not have.
pub static SUBGRAPH_PORT: Code = Code {
    number: 805,
    title: "port that the subgraph does not have",
    explanation: "The ports of a subgraph are the `input_stream`, `output_stream`, `input_side_packet` and `output_side_packet` of its file, matched by tag and index.",
    wrong: r#"input_stream: "HTTP_REQUEST_PAYLOAD:in"
output_stream: "HTTP_RESPONSE_PAYLOAD:out"
node {
  calculator: "HttpLLMCalculator"
  input_side_packet: "LLM_NODE_RESOURCES:llm"
  input_stream: "LOOPBACK:back"
  input_stream: "HTTP_REQUEST_PAYLOAD:in"
  output_stream: "LOOPBACK:back"
  output_stream: "HTTP_RESPONSE_PAYLOAD:out"
  output_stream: "RESPONSE_HEADERS:headers"
  input_stream_info { tag_index: "LOOPBACK:0" back_edge: true }
  node_options { [type.googleapis.com/mediapipe.LLMCalculatorOptions] { models_path: "./" } }
  input_stream_handler {
    input_stream_handler: "SyncSetInputStreamHandler"
    options { [mediapipe.SyncSetInputStreamHandlerOptions.ext] { sync_set { tag_index: "LOOPBACK:0" } } }
  }
}"#,
    right: r#"input_stream: "HTTP_REQUEST_PAYLOAD:in"
output_stream: "HTTP_RESPONSE_PAYLOAD:out"
node {
  calculator: "HttpLLMCalculator"
  input_side_packet: "LLM_NODE_RESOURCES:llm"
  input_stream: "LOOPBACK:back"
  input_stream: "HTTP_REQUEST_PAYLOAD:in"
  output_stream: "LOOPBACK:back"
  output_stream: "HTTP_RESPONSE_PAYLOAD:out"
  input_stream_info { tag_index: "LOOPBACK:0" back_edge: true }
  node_options { [type.googleapis.com/mediapipe.LLMCalculatorOptions] { models_path: "./" } }
  input_stream_handler {
    input_stream_handler: "SyncSetInputStreamHandler"
    options { [mediapipe.SyncSetInputStreamHandlerOptions.ext] { sync_set { tag_index: "LOOPBACK:0" } } }
  }
}"#,
};

/// A field that this engine does not support.
pub static UNSUPPORTED_FIELD: Code = Code {
    number: 806,
    title: "unsupported field",
    explanation: "The field is part of the format, but this engine does not support it, and ignoring it would change what the graph does.",
    wrong: r#"input_side_packet: "text"
output_side_packet: "number"
packet_generator { packet_generator: "StringToIntGenerator" input_side_packet: "text" output_side_packet: "number" }"#,
    right: r#"input_side_packet: "text"
output_side_packet: "number"
node { calculator: "StringToIntCalculator" input_side_packet: "text" output_side_packet: "number" }"#,
};

/// A graph that is too large.
pub static TOO_LARGE: Code = Code {
    number: 807,
    title: "graph too large",
    explanation: "A graph has at most 65534 nodes and graph inputs, and a node at most 65534 ports of each kind. The nodes inside subgraphs count, too.",
    wrong: "",
    right: "",
};

/// A field that changes nothing.
pub static NO_EFFECT: Code = Code {
    number: 808,
    title: "field without effect",
    explanation: "The field is part of the format, but it has no effect in this place or in this engine.",
    wrong: r#"profiler_config { trace_enabled: true }
input_stream: "in"
output_stream: "out"
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" }"#,
    right: r#"input_stream: "in"
output_stream: "out"
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" }"#,
};

/// Two nodes with one name.
pub static DUPLICATE_NAME: Code = Code {
    number: 809,
    title: "two nodes of one name",
    explanation: "Messages, metrics and traces name nodes. If several have the same name, a number is added: `name_1`, `name_2`, in the order of the file.",
    wrong: r#"input_stream: "in"
output_stream: "out"
node { name: "pass" calculator: "PassThroughCalculator" input_stream: "in" output_stream: "middle" }
node { name: "pass" calculator: "PassThroughCalculator" input_stream: "middle" output_stream: "out" }"#,
    right: r#"input_stream: "in"
output_stream: "out"
node { name: "first" calculator: "PassThroughCalculator" input_stream: "in" output_stream: "middle" }
node { name: "second" calculator: "PassThroughCalculator" input_stream: "middle" output_stream: "out" }"#,
};
