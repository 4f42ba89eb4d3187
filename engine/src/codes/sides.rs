//! `GM05xx`: side packets and shared resources.

use super::TEXT_TO_NUMBER;

graphmill_grammar::codes! {
    /// A side packet that is produced twice.
    TWO_SIDE_PRODUCERS = 501, "side packet produced twice" {
        explanation: "A side packet has exactly one producer: one output of one node, or the caller that starts the graph.",
        wrong: r#"input_side_packet: "text"
output_side_packet: "number"
node { calculator: "StringToIntCalculator" input_side_packet: "text" output_side_packet: "number" }
node { calculator: "StringToIntCalculator" input_side_packet: "text" output_side_packet: "number" }"#,
        right: r#"input_side_packet: "text"
output_side_packet: "number"
output_side_packet: "number_2"
node { calculator: "StringToIntCalculator" input_side_packet: "text" output_side_packet: "number" }
node { calculator: "StringToIntCalculator" input_side_packet: "text" output_side_packet: "number_2" }"#,
    }

    /// Producer and consumer disagree about a side packet's type.
    SIDE_TYPE = 502, "side packet of another type" {
        explanation: "The producer's port and the consumer's port have different types.",
        wrong: r#"input_side_packet: "text"
output_side_packet: "number"
node { calculator: "StringToIntCalculator" input_side_packet: "text" output_side_packet: "middle" }
node { calculator: "StringToIntCalculator" input_side_packet: "middle" output_side_packet: "number" }"#,
        right: TEXT_TO_NUMBER,
    }

    /// A resource that no node defines.
    NO_RESOURCE = 503, "resource that no node defines" {
        explanation: "The node uses a shared resource by the name of a side packet, but no node of the graph defines that resource. Use the side packet name of the node whose options define it.",
        wrong: r#"input_stream: "prompt"
input_stream: "params"
output_stream: "answer"
node {
  calculator: "TokenizerCalculator"
  input_side_packet: "LLM_NODE_RESOURCES:lm"
  input_stream: "PROMPT:prompt"
  output_stream: "TOKENS:tokens"
}
node {
  calculator: "LLMCalculator"
  input_side_packet: "LLM_NODE_RESOURCES:llm"
  input_stream: "TOKENS:tokens"
  input_stream: "PARAMS:params"
  output_stream: "TOKENS:answer"
  node_options { [type.googleapis.com/mediapipe.LLMCalculatorOptions] { models_path: "./" } }
}"#,
        right: r#"input_stream: "prompt"
input_stream: "params"
output_stream: "answer"
node {
  calculator: "TokenizerCalculator"
  input_side_packet: "LLM_NODE_RESOURCES:llm"
  input_stream: "PROMPT:prompt"
  output_stream: "TOKENS:tokens"
}
node {
  calculator: "LLMCalculator"
  input_side_packet: "LLM_NODE_RESOURCES:llm"
  input_stream: "TOKENS:tokens"
  input_stream: "PARAMS:params"
  output_stream: "TOKENS:answer"
  node_options { [type.googleapis.com/mediapipe.LLMCalculatorOptions] { models_path: "./" } }
}"#,
    }

    /// A resource that two nodes define differently.
    TWO_RESOURCES = 504, "resource defined in two ways" {
        explanation: "Two nodes give the same side packet name to different resources. Give one of them another name, or make their options equal.",
        wrong: r#"input_stream: "tokens"
input_stream: "params"
output_stream: "answer"
output_stream: "other"
node {
  calculator: "LLMCalculator"
  input_side_packet: "LLM_NODE_RESOURCES:llm"
  input_stream: "TOKENS:tokens"
  input_stream: "PARAMS:params"
  output_stream: "TOKENS:answer"
  node_options { [type.googleapis.com/mediapipe.LLMCalculatorOptions] { models_path: "./" } }
}
node {
  calculator: "LLMCalculator"
  input_side_packet: "LLM_NODE_RESOURCES:llm"
  input_stream: "TOKENS:tokens"
  input_stream: "PARAMS:params"
  output_stream: "TOKENS:other"
  node_options { [type.googleapis.com/mediapipe.LLMCalculatorOptions] { models_path: "./other" } }
}"#,
        right: r#"input_stream: "tokens"
input_stream: "params"
output_stream: "answer"
output_stream: "other"
node {
  calculator: "LLMCalculator"
  input_side_packet: "LLM_NODE_RESOURCES:llm"
  input_stream: "TOKENS:tokens"
  input_stream: "PARAMS:params"
  output_stream: "TOKENS:answer"
  node_options { [type.googleapis.com/mediapipe.LLMCalculatorOptions] { models_path: "./" } }
}
node {
  calculator: "LLMCalculator"
  input_side_packet: "LLM_NODE_RESOURCES:llm_2"
  input_stream: "TOKENS:tokens"
  input_stream: "PARAMS:params"
  output_stream: "TOKENS:other"
  node_options { [type.googleapis.com/mediapipe.LLMCalculatorOptions] { models_path: "./other" } }
}"#,
    }

    /// A resource that cannot be loaded.
    RESOURCE_FAILED = 505, "resource that cannot be loaded" {
        explanation: "The node's options are valid, but the resource cannot be loaded, or it does not meet the needs of a node; the message says why. Paths are relative to the folder of the graph file. `graphmill check` loads nothing, but reports missing files; `--skip_models` skips this check.",
        wrong: r#"input_stream: "tokens"
input_stream: "params"
output_stream: "answer"
node {
  calculator: "LLMCalculator"
  input_side_packet: "LLM_NODE_RESOURCES:llm"
  input_stream: "TOKENS:tokens"
  input_stream: "PARAMS:params"
  output_stream: "TOKENS:answer"
  node_options { [type.googleapis.com/mediapipe.LLMCalculatorOptions] { models_path: "./missing" } }
}"#,
        right: r#"input_stream: "tokens"
input_stream: "params"
output_stream: "answer"
node {
  calculator: "LLMCalculator"
  input_side_packet: "LLM_NODE_RESOURCES:llm"
  input_stream: "TOKENS:tokens"
  input_stream: "PARAMS:params"
  output_stream: "TOKENS:answer"
  node_options { [type.googleapis.com/mediapipe.LLMCalculatorOptions] { models_path: "./" } }
}"#,
    }

    /// A side packet that nothing reads.
    UNUSED_SIDE = 506, "side packet that nothing reads" {
        explanation: "The side packet is produced or declared, but no node reads it.",
        wrong: r#"input_side_packet: "text"
node { calculator: "StringToIntCalculator" input_side_packet: "text" output_side_packet: "number" }"#,
        right: TEXT_TO_NUMBER,
    }

    /// An output side packet of the graph that nothing produces.
    NO_GRAPH_SIDE = 507, "output side packet of the graph without a producer" {
        explanation: "The graph lists an `output_side_packet` that no node sets, so it will never exist.",
        wrong: r#"input_side_packet: "text"
output_side_packet: "number"
output_side_packet: "numbre"
node { calculator: "StringToIntCalculator" input_side_packet: "text" output_side_packet: "number" }"#,
        right: TEXT_TO_NUMBER,
    }

    /// A side packet whose name is nearly that of another.
    UNKNOWN_SIDE = 508, "side packet that nothing makes or declares" {
        explanation: "Side packets may be given when a graph is started, whether or not the graph lists them as `input_side_packet`. This one is not listed and has nearly the name of one that is, or of one that a node sets. It is probably misspelled. If it is not, list it.",
        wrong: r#"input_side_packet: "prefix"
output_side_packet: "number"
output_side_packet: "other"
node { calculator: "StringToIntCalculator" input_side_packet: "prefix" output_side_packet: "number" }
node { calculator: "StringToIntCalculator" input_side_packet: "prefx" output_side_packet: "other" }"#,
        right: r#"input_side_packet: "prefix"
output_side_packet: "number"
output_side_packet: "other"
node { calculator: "StringToIntCalculator" input_side_packet: "prefix" output_side_packet: "number" }
node { calculator: "StringToIntCalculator" input_side_packet: "prefix" output_side_packet: "other" }"#,
    }

    /// A resource whose files can never be loaded.
    RESOURCE_INVALID = 509, "invalid resource" {
        explanation: "The files named by the node's options are complete but invalid, such as a script with an unknown field. A server that waits for missing model files does not wait for these.",
        wrong: "",
        right: "",
    }
}
