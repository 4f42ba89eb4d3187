//! `BeginItemLoopCalculator`: packets of parallel streams, one after the other.

use graphmill_engine::{
    Calculator, Contract, Cx, Error, Flow, Ins, NoOptions, Offset, OpenCx, Out, Packet, Payload,
    Result, Timestamp, register,
};

use super::begin_loop::Clones;

/// Begins a loop over the packets that the streams `ITEM:0`, `ITEM:1`, ... have at one timestamp.
/// It emits them one by one as `ITEM` on a time line of its own, with copies of the `CLONE` inputs
/// beside each. The last item comes with a `BATCH_END` that carries their timestamp. Either all of
/// the streams have a packet, or none. An `EndItemLoopCalculator` puts the items back on their
/// streams.
///
/// ```pbtxt
/// input_stream: "left"
/// input_stream: "right"
/// output_stream: "left_done"
/// output_stream: "right_done"
/// node {
///   calculator: "BeginItemLoopCalculator"
///   input_stream: "ITEM:0:left"
///   input_stream: "ITEM:1:right"
///   output_stream: "ITEM:item"
///   output_stream: "BATCH_END:batch_end"
/// }
/// node {
///   calculator: "EndItemLoopCalculator"
///   input_stream: "ITEM:item"
///   input_stream: "BATCH_END:batch_end"
///   output_stream: "ITEM:0:left_done"
///   output_stream: "ITEM:1:right_done"
/// }
/// ```
pub struct BeginItemLoop {
    /// The timestamp of the next item, on the loop's own time line.
    next: Timestamp,
}

impl Calculator for BeginItemLoop {
    const NAME: &'static str = "BeginItemLoopCalculator";
    const DOC: &'static str =
        "Begins a loop over the packets that parallel streams have at one timestamp.";
    type Options = NoOptions;
    type Ports = (Ins<dyn Payload>, Out<dyn Payload>, Clones, Out<Timestamp>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        c.offset(Offset::Unset);
        c.process_timestamp_bounds();
        let items: Ins<dyn Payload> = c.inputs("ITEM");
        let item = match items.get(0) {
            Some(first) => c.same_as("ITEM", first),
            None => c.output("ITEM"),
        };
        (items, item, Clones::declare(c), c.output("BATCH_END"))
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self {
            next: Timestamp::ZERO,
        })
    }

    fn process(
        &mut self,
        (inputs, output, clones, batch_end): Self::Ports,
        cx: &mut Cx<'_>,
    ) -> Result<Flow> {
        let items: Vec<Packet> = inputs
            .iter()
            .filter_map(|input| cx.packet(input).cloned())
            .collect();
        if !items.is_empty() && items.len() < inputs.len() {
            return Err(Error::invalid(format!(
                "{} of {} items have a packet at {}; all of them must, or none",
                items.len(),
                inputs.len(),
                cx.time()
            )));
        }
        let outer = cx.time();
        let repeated = clones.packets(cx);
        let next = self.next + items.len().max(1) as i64;
        for (at, item) in (0..).zip(items) {
            let at = self.next + at;
            cx.out().emit_packet(output, item.at(at));
            clones.emit(&repeated, at, cx);
        }
        self.next = next;
        cx.emit_at(batch_end, next + -1, outer);
        cx.bound(output, next);
        clones.bound(next, cx);
        Ok(Flow::Continue)
    }
}
register!(BeginItemLoop);

#[cfg(test)]
mod tests {
    use graphmill_engine::{Timestamp, testing::Harness};

    const GRAPH: &str = r#"node { calculator: "BeginItemLoopCalculator" input_stream: "ITEM:0:a" input_stream: "ITEM:1:b"
        input_stream: "CLONE:c" output_stream: "ITEM:i" output_stream: "CLONE:k" output_stream: "BATCH_END:e" }"#;

    #[test]
    fn the_packets_of_a_timestamp_follow_each_other() {
        let mut harness = Harness::global(GRAPH);
        for time in [10_i64, 20] {
            harness
                .push("a", time, "left")
                .push("b", time, "right")
                .push("c", time, time);
        }
        harness.expect("i", [(0, "left"), (1, "right"), (2, "left"), (3, "right")]);
        harness.expect("k", [(0, 10_i64), (1, 10), (2, 20), (3, 20)]);
        harness.expect("e", [(1, Timestamp::new(10)), (3, Timestamp::new(20))]);
        harness.finish();
    }

    #[test]
    fn all_have_a_packet_or_none() {
        let mut harness = Harness::global(GRAPH);
        harness
            .push("c", 10, 1)
            .bound("a", 11)
            .bound("b", 11)
            .expect("e", [(0, Timestamp::new(10))]);
        harness
            .push("c", 20, 1)
            .push("a", 20, "left")
            .bound("b", 21);
        assert_eq!(
            harness.error().message,
            "1 of 2 items have a packet at 20; all of them must, or none"
        );
    }
}
