//! `GM06xx`: loops.

use super::PASS_THROUGH;

/// A loop with one back edge.
const LOOP: &str = r#"input_stream: "in"
output_stream: "out"
node {
  calculator: "PreviousLoopbackCalculator"
  input_stream: "MAIN:in"
  input_stream: "LOOP:out"
  output_stream: "PREV_LOOP:previous"
  input_stream_info { tag_index: "LOOP" back_edge: true }
}
node { calculator: "PassThroughCalculator" input_stream: "previous" output_stream: "out" }"#;

graphmill_grammar::codes! {
    /// Nodes that wait for each other.
    CYCLE = 601, "cycle without a back edge" {
        explanation: "Each of these nodes needs the output of the next one. In a loop, one input must be marked with `input_stream_info { tag_index: \"..\" back_edge: true }`: the one that returns the output of an earlier round.",
        wrong: r#"input_stream: "in"
output_stream: "out"
node {
  calculator: "PreviousLoopbackCalculator"
  input_stream: "MAIN:in"
  input_stream: "LOOP:out"
  output_stream: "PREV_LOOP:previous"
}
node { calculator: "PassThroughCalculator" input_stream: "previous" output_stream: "out" }"#,
        right: LOOP,
    }

    /// An `input_stream_info` that names no input of its node.
    BACK_EDGE_NOT_INPUT = 602, "`input_stream_info` names no input of the node" {
        explanation: "`tag_index` must be the tag and index of one of the node's inputs, not the name of a stream.",
        wrong: r#"input_stream: "in"
output_stream: "out"
node {
  calculator: "PreviousLoopbackCalculator"
  input_stream: "MAIN:in"
  input_stream: "LOOP:out"
  output_stream: "PREV_LOOP:previous"
  input_stream_info { tag_index: "LOOP" back_edge: true }
  input_stream_info { tag_index: "BACK" }
}
node { calculator: "PassThroughCalculator" input_stream: "previous" output_stream: "out" }"#,
        right: LOOP,
    }

    /// Two `input_stream_info` for one input.
    BACK_EDGE_TWICE = 603, "`input_stream_info` given twice for one input" {
        explanation: "Each input has at most one `input_stream_info`.",
        wrong: r#"input_stream: "in"
output_stream: "out"
node {
  calculator: "PreviousLoopbackCalculator"
  input_stream: "MAIN:in"
  input_stream: "LOOP:out"
  output_stream: "PREV_LOOP:previous"
  input_stream_info { tag_index: "LOOP" back_edge: true }
  input_stream_info { tag_index: "LOOP" }
}
node { calculator: "PassThroughCalculator" input_stream: "previous" output_stream: "out" }"#,
        right: LOOP,
    }

    /// A back edge that closes no loop.
    BACK_EDGE_UNNEEDED = 604, "back edge that closes no loop" {
        explanation: "The stream does not depend on the node that reads it. As a back edge it is ignored in the order of nodes and in the limits of queues.",
        wrong: r#"input_stream: "in"
output_stream: "out"
node {
  calculator: "PassThroughCalculator"
  input_stream: "in"
  output_stream: "out"
  input_stream_info { tag_index: ":0" back_edge: true }
}"#,
        right: PASS_THROUGH,
    }

    /// A back edge that its node waits for.
    BACK_EDGE_WAITS = 605, "back edge that its node waits for" {
        explanation: "By default a node runs at a timestamp when all of its inputs are settled at it. An input that comes back from the node's own output is not settled at any timestamp before the node has run at it, so the node never runs, unless a node of the loop emits when it opens, or later than its input, as a delay does. Give the input a sync set of its own.",
        wrong: r#"input_stream: "in"
output_stream: "out"
node {
  calculator: "MergeCalculator"
  input_stream: "in"
  input_stream: "back"
  output_stream: "out"
  input_stream_info { tag_index: ":1" back_edge: true }
}
node { calculator: "PassThroughCalculator" input_stream: "out" output_stream: "back" }"#,
        right: r#"input_stream: "in"
output_stream: "out"
node {
  calculator: "MergeCalculator"
  input_stream: "in"
  input_stream: "back"
  output_stream: "out"
  input_stream_info { tag_index: ":1" back_edge: true }
  input_stream_handler {
    input_stream_handler: "SyncSetInputStreamHandler"
    options {
      [mediapipe.SyncSetInputStreamHandlerOptions.ext] { sync_set { tag_index: ":1" } }
    }
  }
}
node { calculator: "PassThroughCalculator" input_stream: "out" output_stream: "back" }"#,
    }

    /// A loop that nothing starts.
    NEVER_STARTED = 606, "loop that nothing starts" {
        explanation: "All inputs of these nodes come from each other: no graph input and no source leads to them. They are never called, unless one of them emits when it opens.",
        wrong: r#"input_stream: "in"
output_stream: "out"
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" }
node {
  calculator: "PassThroughCalculator"
  input_stream: "a"
  output_stream: "b"
  input_stream_info { tag_index: ":0" back_edge: true }
  input_stream_handler { input_stream_handler: "ImmediateInputStreamHandler" }
}
node { calculator: "PassThroughCalculator" input_stream: "b" output_stream: "a" }"#,
        right: PASS_THROUGH,
    }
}
