//! `GM05xx`: side packets and shared resources.

use graphmill_grammar::Code;

/// All codes of this theme, by number.
pub const ALL: &[&Code] = &[
    &TWO_SIDE_PRODUCERS,
    &SIDE_TYPE,
    &NO_RESOURCE,
    &TWO_RESOURCES,
    &RESOURCE_FAILED,
    &UNUSED_SIDE,
    &NO_GRAPH_SIDE,
    &UNKNOWN_SIDE,
    &RESOURCE_INVALID,
];

/// A side packet that is produced twice.
pub static TWO_SIDE_PRODUCERS: Code = Code {
    number: 501,
    title: "side packet produced twice",
    explanation: "A side packet has exactly one producer: one output of one node, or whoever starts the graph.",
    wrong: r#"input_side_packet: "text"
output_side_packet: "number"
node { calculator: "StringToIntCalculator" input_side_packet: "text" output_side_packet: "number" }
node { calculator: "StringToIntCalculator" input_side_packet: "text" output_side_packet: "number" }"#,
    right: r#"input_side_packet: "text"
output_side_packet: "number"
output_side_packet: "number_2"
node { calculator: "StringToIntCalculator" input_side_packet: "text" output_side_packet: "number" }
node { calculator: "StringToIntCalculator" input_side_packet: "text" output_side_packet: "number_2" }"#,
};

/// Producer and consumer disagree about a side packet's type.
pub static SIDE_TYPE: Code = Code {
    number: 502,
    title: "side packet of another type",
    explanation: "The producer's port and the consumer's port have different types.",
    wrong: r#"input_side_packet: "text"
output_side_packet: "number"
node { calculator: "StringToIntCalculator" input_side_packet: "text" output_side_packet: "middle" }
node { calculator: "StringToIntCalculator" input_side_packet: "middle" output_side_packet: "number" }"#,
    right: r#"input_side_packet: "text"
output_side_packet: "number"
node { calculator: "StringToIntCalculator" input_side_packet: "text" output_side_packet: "number" }"#,
};

/// A resource that no node defines.
pub static NO_RESOURCE: Code = Code {
    number: 503,
    title: "resource that no node defines",
    explanation: "The node uses a shared resource by the name of a side packet, but no node of the graph says what that resource is. Give this side packet the name that it has at the node with the options that define it.",
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
};

/// A resource that two nodes define differently.
pub static TWO_RESOURCES: Code = Code {
    number: 504,
    title: "resource defined in two ways",
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
};

/// A resource that cannot be loaded.
pub static RESOURCE_FAILED: Code = Code {
    number: 505,
    title: "resource that cannot be loaded",
    explanation: "The node's options are well-formed, but what they describe cannot be loaded, or is not what a node asks for: the message says why. Paths are relative to the folder of the graph file. `graphmill check` does not load, but tells of files that are not there; `--skip_models` leaves that out.",
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
};

/// A side packet that nothing reads.
pub static UNUSED_SIDE: Code = Code {
    number: 506,
    title: "side packet that nothing reads",
    explanation: "The side packet is made, or asked for, and nothing depends on it.",
    wrong: r#"input_side_packet: "text"
node { calculator: "StringToIntCalculator" input_side_packet: "text" output_side_packet: "number" }"#,
    right: r#"input_side_packet: "text"
output_side_packet: "number"
node { calculator: "StringToIntCalculator" input_side_packet: "text" output_side_packet: "number" }"#,
};

/// An output side packet of the graph that nothing produces.
pub static NO_GRAPH_SIDE: Code = Code {
    number: 507,
    title: "output side packet of the graph without a producer",
    explanation: "The graph lists an `output_side_packet` that no node makes, so it will never be there.",
    wrong: r#"input_side_packet: "text"
output_side_packet: "number"
output_side_packet: "numbre"
node { calculator: "StringToIntCalculator" input_side_packet: "text" output_side_packet: "number" }"#,
    right: r#"input_side_packet: "text"
output_side_packet: "number"
node { calculator: "StringToIntCalculator" input_side_packet: "text" output_side_packet: "number" }"#,
};

/// A side packet whose name is nearly that of another.
pub static UNKNOWN_SIDE: Code = Code {
    number: 508,
    title: "side packet that nothing makes or declares",
    explanation: "Side packets may be given when a graph is started, whether or not the graph lists them as `input_side_packet`. This one is not listed and has nearly the name of one that is listed or made, so it is probably misspelt. If it is not, list it.",
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
};

/// A resource whose files can never be loaded.
pub static RESOURCE_INVALID: Code = Code {
    number: 509,
    title: "resource that is wrong",
    explanation: "The files that the node's options name are there in full, and what they say cannot be loaded: a script with a field that scripts do not have. A server that waits for the files of models does not wait for these.",
    wrong: "",
    right: "",
};
