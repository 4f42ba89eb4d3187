//! `GM08xx`: calculators and subgraphs.

use super::{PASS_THROUGH, TEXT_TO_NUMBER};

/// A subgraph with all that it needs.
const CHAT: &str = r#"input_stream: "HTTP_REQUEST_PAYLOAD:in"
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
}"#;

graphmill_grammar::codes! {
    /// A calculator that is not registered.
    UNKNOWN_CALCULATOR = 801, "unknown calculator" {
        explanation: "No calculator and no subgraph of this name is registered in this program. `graphmill calculators` lists those that are.",
        wrong: r#"input_stream: "in"
output_stream: "out"
node { calculator: "PasThroughCalculator" input_stream: "in" output_stream: "out" }"#,
        right: PASS_THROUGH,
    }

    /// Options of a type that the calculator does not take.
    FOREIGN_OPTIONS = 802, "options of another calculator" {
        explanation: "The options' type belongs to another calculator, so they would have no effect.",
        wrong: r#"input_stream: "in"
output_stream: "out"
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" node_options { [type.googleapis.com/mediapipe.GateCalculatorOptions] { } } }"#,
        right: r#"input_stream: "in"
output_stream: "out"
node { calculator: "GateCalculator" input_stream: "in" output_stream: "out" node_options { [type.googleapis.com/mediapipe.GateCalculatorOptions] { allow: true } } }"#,
    }

    /// A subgraph that contains itself.
    RECURSION = 803, "subgraph that contains itself" {
        explanation: "A subgraph is replaced by its nodes; if it contains itself, directly or through others, this never ends.",
        wrong: r#"type: "EchoSubgraph"
input_stream: "in"
output_stream: "out"
node { calculator: "EchoSubgraph" input_stream: "in" output_stream: "out" }"#,
        right: r#"type: "EchoSubgraph"
input_stream: "in"
output_stream: "out"
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" }"#,
    }

    /// A field that a subgraph node cannot have.
    SUBGRAPH_FIELD = 804, "field that only calculators have" {
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
        right: CHAT,
    }

    /// A port that a subgraph does not have.
    SUBGRAPH_PORT = 805, "port that the subgraph does not have" {
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
        right: CHAT,
    }

    /// A field that this engine does not support.
    UNSUPPORTED_FIELD = 806, "unsupported field" {
        explanation: "The field is part of the format, but this engine does not support it, and ignoring it would change what the graph does.",
        wrong: r#"input_side_packet: "text"
output_side_packet: "number"
packet_generator { packet_generator: "StringToIntGenerator" input_side_packet: "text" output_side_packet: "number" }"#,
        right: TEXT_TO_NUMBER,
    }

    /// A graph that is too large.
    TOO_LARGE = 807, "graph too large" {
        explanation: "A graph has at most 65534 nodes and graph inputs, and a node at most 65534 ports of each kind. The nodes inside subgraphs count, too.",
        wrong: "",
        right: "",
    }

    /// A field that changes nothing.
    NO_EFFECT = 808, "field without effect" {
        explanation: "The field is part of the format, but it has no effect in this place or in this engine.",
        wrong: r#"profiler_config { trace_enabled: true }
input_stream: "in"
output_stream: "out"
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" }"#,
        right: PASS_THROUGH,
    }

    /// Two nodes with one name.
    DUPLICATE_NAME = 809, "two nodes of one name" {
        explanation: "Messages, metrics and traces name nodes. If several have the same name, a number is added: `name_1`, `name_2`, in the order of the file.",
        wrong: r#"input_stream: "in"
output_stream: "out"
node { name: "pass" calculator: "PassThroughCalculator" input_stream: "in" output_stream: "middle" }
node { name: "pass" calculator: "PassThroughCalculator" input_stream: "middle" output_stream: "out" }"#,
        right: r#"input_stream: "in"
output_stream: "out"
node { name: "first" calculator: "PassThroughCalculator" input_stream: "in" output_stream: "middle" }
node { name: "second" calculator: "PassThroughCalculator" input_stream: "middle" output_stream: "out" }"#,
    }
}
