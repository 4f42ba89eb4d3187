//! `GM05xx`: side packets and shared resources.

use graphmill_grammar::Code;

/// All codes of this theme, by number.
pub const ALL: &[&Code] = &[
    &TWO_SIDE_PRODUCERS,
    &SIDE_TYPE,
    &NO_RESOURCE,
    &TWO_RESOURCES,
    &RESOURCE_FAILED,
];

/// A side packet that is produced twice.
pub static TWO_SIDE_PRODUCERS: Code = Code {
    number: 501,
    title: "side packet produced twice",
    explanation: "A side packet has exactly one producer: one output of one node, or whoever starts the graph.",
    wrong: "node { calculator: \"A\" output_side_packet: \"s\" } node { calculator: \"B\" output_side_packet: \"s\" }",
    right: "node { calculator: \"A\" output_side_packet: \"s\" } node { calculator: \"B\" output_side_packet: \"s_2\" }",
};

/// Producer and consumer disagree about a side packet's type.
pub static SIDE_TYPE: Code = Code {
    number: 502,
    title: "side packet of another type",
    explanation: "The producer's port and the consumer's port have different types.",
    wrong: "node { calculator: \"A\" output_side_packet: \"s\" } node { calculator: \"B\" input_side_packet: \"s\" }",
    right: "node { calculator: \"A\" output_side_packet: \"s\" } node { calculator: \"C\" input_side_packet: \"s\" }",
};

/// A resource that no node defines.
pub static NO_RESOURCE: Code = Code {
    number: 503,
    title: "resource that no node defines",
    explanation: "The node uses a shared resource by the name of a side packet, but no node of the graph says what that resource is.",
    wrong: "node { calculator: \"TokenizerCalculator\" input_side_packet: \"LLM_NODE_RESOURCES:lm\" input_stream: \"PROMPT:p\" output_stream: \"TOKENS:t\" }",
    right: "the same side packet name as the node with `models_path`",
};

/// A resource that two nodes define differently.
pub static TWO_RESOURCES: Code = Code {
    number: 504,
    title: "resource defined in two ways",
    explanation: "Two nodes give the same side packet name to different resources. Give one of them another name, or make their options equal.",
    wrong: "two nodes with `LLM_NODE_RESOURCES:llm` and different `models_path`",
    right: "one `LLM_NODE_RESOURCES` name for each `models_path`",
};

/// A resource that cannot be loaded.
pub static RESOURCE_FAILED: Code = Code {
    number: 505,
    title: "resource that cannot be loaded",
    explanation: "The node's options are well-formed, but what they describe cannot be loaded: the message says why.",
    wrong: "models_path: \"./missing\"",
    right: "models_path: \"./\"",
};
