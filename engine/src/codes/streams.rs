//! `GM03xx`: streams, ports and input policies.

use super::PASS_THROUGH;

graphmill_grammar::codes! {
    /// A stream that nothing produces.
    NO_PRODUCER = 301, "stream without a producer" {
        explanation: "A node reads a stream that no node writes and that is not an `input_stream` of the graph.",
        wrong: r#"input_stream: "in"
output_stream: "out"
output_stream: "other"
node { calculator: "PassThroughCalculator" input_stream: "inn" output_stream: "out" }
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "other" }"#,
        right: PASS_THROUGH,
    }

    /// A stream that is produced twice.
    TWO_PRODUCERS = 302, "stream produced twice" {
        explanation: "A stream has exactly one producer: one output of one node, or the graph's input. Any number of nodes may read it.",
        wrong: r#"input_stream: "in"
output_stream: "out"
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" }
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" }"#,
        right: r#"input_stream: "in"
output_stream: "out"
output_stream: "out_2"
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" }
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out_2" }"#,
    }

    /// A stream that nothing reads.
    UNUSED_STREAM = 303, "stream that nothing reads" {
        explanation: "The packets of this stream are discarded. If that is intended, ignore the warning. Otherwise let a node read the stream, list it as an `output_stream` of the graph, or leave out the port if it is optional.",
        wrong: r#"input_stream: "in"
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" }"#,
        right: PASS_THROUGH,
    }

    /// A port that a calculator needs is not connected.
    MISSING_PORT = 304, "required port not connected" {
        explanation: "The calculator declares the port as required. `graphmill describe` lists the ports of a calculator.",
        wrong: r#"output_stream: "out"
node { calculator: "MergeCalculator" output_stream: "out" }"#,
        right: r#"input_stream: "in"
output_stream: "out"
node { calculator: "MergeCalculator" input_stream: "in" output_stream: "out" }"#,
    }

    /// A port that a calculator does not have.
    UNEXPECTED_PORT = 305, "port that the calculator does not have" {
        explanation: "The calculator declares no port with this tag and index. `graphmill describe` lists the ports of a calculator.",
        wrong: r#"input_stream: "in"
output_stream: "out"
node { calculator: "MergeCalculator" input_stream: "in" input_stream: "TICK:in" output_stream: "out" }"#,
        right: r#"input_stream: "in"
output_stream: "out"
node { calculator: "MergeCalculator" input_stream: "in" output_stream: "out" }"#,
    }

    /// Ports or options that do not go together.
    BAD_PORTS = 306, "ports or options that do not go together" {
        explanation: "Each port and each option may be right by itself, but the calculator cannot work with this combination.",
        wrong: r#"input_stream: "in"
output_stream: "out"
output_stream: "more"
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" output_stream: "more" }"#,
        right: PASS_THROUGH,
    }

    /// An input policy that does not exist.
    UNKNOWN_POLICY = 307, "unknown input policy" {
        explanation: "`input_stream_handler` names one of the engine's input policies, such as `DefaultInputStreamHandler`, `ImmediateInputStreamHandler` or `SyncSetInputStreamHandler`.",
        wrong: r#"input_stream: "in"
output_stream: "out"
node {
  calculator: "PassThroughCalculator"
  input_stream: "in"
  output_stream: "out"
  input_stream_handler { input_stream_handler: "SyncInputStreamHandler" }
}"#,
        right: r#"input_stream: "in"
output_stream: "out"
node {
  calculator: "PassThroughCalculator"
  input_stream: "in"
  output_stream: "out"
  input_stream_handler { input_stream_handler: "SyncSetInputStreamHandler" }
}"#,
    }

    /// An input policy that does not fit the node.
    BAD_POLICY = 308, "input policy that does not fit the node" {
        explanation: "The policy's options name inputs of the node by tag and index. Each input may be in one sync set only, and no set may be empty.",
        wrong: r#"input_stream: "in"
output_stream: "out"
node {
  calculator: "PassThroughCalculator"
  input_stream: "in"
  output_stream: "out"
  input_stream_handler {
    input_stream_handler: "SyncSetInputStreamHandler"
    options {
      [mediapipe.SyncSetInputStreamHandlerOptions.ext] { sync_set { tag_index: ":1" } }
    }
  }
}"#,
        right: r#"input_stream: "in"
output_stream: "out"
node {
  calculator: "PassThroughCalculator"
  input_stream: "in"
  output_stream: "out"
  input_stream_handler {
    input_stream_handler: "SyncSetInputStreamHandler"
    options {
      [mediapipe.SyncSetInputStreamHandlerOptions.ext] { sync_set { tag_index: ":0" } }
    }
  }
}"#,
    }

    /// A graph input that no node reads.
    UNUSED_INPUT = 309, "graph input that no node reads" {
        explanation: "Packets can be sent to this stream, but nothing happens with them.",
        wrong: r#"input_stream: "other"
input_stream: "in"
output_stream: "out"
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" }"#,
        right: PASS_THROUGH,
    }

    /// A graph output that nothing produces.
    NO_GRAPH_OUTPUT = 310, "graph output without a producer" {
        explanation: "The graph lists an `output_stream` that no node writes, so nothing will ever come out of it.",
        wrong: r#"input_stream: "in"
output_stream: "out"
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" }
output_stream: "outt""#,
        right: PASS_THROUGH,
    }

    /// A queue that is full before its policy acts.
    QUEUE_TOO_SMALL = 311, "queue that is full before its policy acts" {
        explanation: "The policy `FixedSizeInputStreamHandler` cuts a queue when it holds `trigger_queue_size` packets. A queue never holds more than `max_queue_size`: when it is full, its producer waits, and the policy never acts. The graph stands still until its queues are made larger, or ends with an error if `report_deadlock` is set.",
        wrong: r#"max_queue_size: 5
input_stream: "in"
output_stream: "out"
node {
  calculator: "PassThroughCalculator"
  input_stream: "in"
  output_stream: "out"
  input_stream_handler {
    input_stream_handler: "FixedSizeInputStreamHandler"
    options {
      [mediapipe.FixedSizeInputStreamHandlerOptions.ext] { trigger_queue_size: 8 target_queue_size: 4 }
    }
  }
}"#,
        right: r#"max_queue_size: 8
input_stream: "in"
output_stream: "out"
node {
  calculator: "PassThroughCalculator"
  input_stream: "in"
  output_stream: "out"
  input_stream_handler {
    input_stream_handler: "FixedSizeInputStreamHandler"
    options {
      [mediapipe.FixedSizeInputStreamHandlerOptions.ext] { trigger_queue_size: 8 target_queue_size: 4 }
    }
  }
}"#,
    }

    /// A join of sources that do not run at the same time.
    LAYERS_JOINED = 312, "join of sources of different layers" {
        explanation: "Sources of a `source_layer` start when all sources of the lower layers have ended. A node that joins both cannot run before that, and every packet of the lower layer waits in its queue. If there are more of them than the queue holds, the sources of the lower layer wait for room and never end.",
        wrong: r#"input_side_packet: "a"
input_side_packet: "b"
output_stream: "first"
output_stream: "second"
node {
  calculator: "SidePacketToStreamCalculator"
  input_side_packet: "a"
  output_stream: "AT_ZERO:early"
}
node {
  calculator: "SidePacketToStreamCalculator"
  input_side_packet: "b"
  output_stream: "AT_ZERO:late"
  source_layer: 1
}
node {
  calculator: "PassThroughCalculator"
  input_stream: "early"
  input_stream: "late"
  output_stream: "first"
  output_stream: "second"
}"#,
        right: r#"input_side_packet: "a"
input_side_packet: "b"
output_stream: "first"
output_stream: "second"
node {
  calculator: "SidePacketToStreamCalculator"
  input_side_packet: "a"
  output_stream: "AT_ZERO:early"
}
node {
  calculator: "SidePacketToStreamCalculator"
  input_side_packet: "b"
  output_stream: "AT_ZERO:late"
}
node {
  calculator: "PassThroughCalculator"
  input_stream: "early"
  input_stream: "late"
  output_stream: "first"
  output_stream: "second"
}"#,
    }
}
