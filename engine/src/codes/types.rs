//! `GM04xx`: the types that streams carry.

graphmill_grammar::codes! {
    /// Producer and consumer disagree about a stream's type.
    TYPE_MISMATCH = 401, "stream of another type" {
        explanation: "The producer's port and the consumer's port have different types. Put a calculator between them that converts, or connect another stream.",
        wrong: r#"input_stream: "tick"
output_stream: "out"
output_stream: "end"
node { calculator: "PacketPresenceCalculator" input_stream: "PACKET:tick" output_stream: "PRESENCE:present" }
node { calculator: "BeginLoopIntCalculator" input_stream: "ITERABLE:present" output_stream: "ITEM:out" output_stream: "BATCH_END:end" }"#,
        right: r#"input_stream: "tick"
output_stream: "out"
node { calculator: "PacketPresenceCalculator" input_stream: "PACKET:tick" output_stream: "PRESENCE:present" }
node { calculator: "GateCalculator" input_stream: "tick" input_stream: "ALLOW:present" output_stream: "out" }"#,
    }

    /// Two nodes take one graph input as different types.
    INPUT_OF_TWO_TYPES = 402, "graph input taken as two types" {
        explanation: "A packet has one type, and the nodes that read this graph input expect different ones, so that one of them would fail at the first packet. Give each of them an input of its own, or put a calculator before one of them that converts.",
        wrong: r#"input_stream: "in"
input_stream: "flag"
output_stream: "out"
output_stream: "item"
output_stream: "end"
node { calculator: "GateCalculator" input_stream: "in" input_stream: "ALLOW:flag" output_stream: "out" }
node { calculator: "BeginLoopIntCalculator" input_stream: "ITERABLE:flag" output_stream: "ITEM:item" output_stream: "BATCH_END:end" }"#,
        right: r#"input_stream: "in"
input_stream: "flag"
input_stream: "raw"
output_stream: "out"
output_stream: "item"
output_stream: "end"
node { calculator: "GateCalculator" input_stream: "in" input_stream: "ALLOW:flag" output_stream: "out" }
node { calculator: "BeginLoopIntCalculator" input_stream: "ITERABLE:raw" output_stream: "ITEM:item" output_stream: "BATCH_END:end" }"#,
    }
}
