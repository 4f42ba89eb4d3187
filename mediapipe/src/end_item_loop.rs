//! `EndItemLoopCalculator`: the results of a loop over items, on parallel streams again.

use graphmill_engine::{
    Calculator, Contract, Cx, Error, Flow, Group, In, NoOptions, Offset, OpenCx, Out, Outs, Packet,
    Payload, Result, Timestamp, register,
};

/// Ends a loop that a `BeginItemLoopCalculator` began. It collects `ITEM`s and, with the
/// `BATCH_END` of their batch, emits the first on `ITEM:0`, the second on `ITEM:1` and so on. All
/// of them get the timestamp that the loop went over. A batch has as many items as there are
/// outputs, or none.
///
/// ```pbtxt
/// input_stream: "item"
/// input_stream: "batch_end"
/// output_stream: "left"
/// output_stream: "right"
/// node {
///   calculator: "EndItemLoopCalculator"
///   input_stream: "ITEM:item"
///   input_stream: "BATCH_END:batch_end"
///   output_stream: "ITEM:0:left"
///   output_stream: "ITEM:1:right"
/// }
/// ```
pub struct EndItemLoop {
    /// The items of the batch so far.
    items: Vec<Packet>,
}

impl Calculator for EndItemLoop {
    const NAME: &'static str = "EndItemLoopCalculator";
    const DOC: &'static str = "Puts the items of a loop on parallel streams.";
    type Options = NoOptions;
    type Ports = (In<dyn Payload>, In<Timestamp>, Outs<dyn Payload>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        c.offset(Offset::Unset);
        let item = c.any("ITEM");
        let items = c.outputs("ITEM");
        for index in 0..c.count(Group::Outputs, "ITEM") {
            let _: Out<dyn Payload> = c.same_as(&format!("ITEM:{index}"), item);
        }
        (item, c.input("BATCH_END"), items)
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self { items: Vec::new() })
    }

    fn process(
        &mut self,
        (item, batch_end, outputs): Self::Ports,
        cx: &mut Cx<'_>,
    ) -> Result<Flow> {
        self.items.extend(cx.take_packet(item));
        let Some(outer) = cx.take(batch_end) else {
            return Ok(Flow::Continue);
        };
        if !self.items.is_empty() && self.items.len() != outputs.len() {
            return Err(Error::invalid(format!(
                "the batch at {outer} has {} items for {} outputs",
                self.items.len(),
                outputs.len()
            )));
        }
        for (output, item) in outputs.iter().zip(self.items.drain(..)) {
            cx.out().emit_packet(output, item.at(outer));
        }
        for output in outputs.iter() {
            cx.out().bound_at_least(output, outer.next());
        }
        Ok(Flow::Continue)
    }
}
register!(EndItemLoop);

#[cfg(test)]
mod tests {
    use graphmill_engine::{Timestamp, testing::Harness};

    const GRAPH: &str = r#"node { calculator: "EndItemLoopCalculator" input_stream: "ITEM:i" input_stream: "BATCH_END:e"
        output_stream: "ITEM:0:a" output_stream: "ITEM:1:b" }"#;

    #[test]
    fn items_go_back_to_their_streams() {
        let mut harness = Harness::global(GRAPH);
        harness
            .push("i", 0, "left")
            .push("i", 1, "right")
            .bound("e", 1)
            .push("e", 1, Timestamp::new(10));
        harness
            .expect("a", [(10, "left")])
            .expect("b", [(10, "right")]);
        harness.bound("i", 3).push("e", 2, Timestamp::new(20));
        harness.expect_nothing("a");
        assert_eq!(harness.bounds("b").last(), Some(&Timestamp::new(20)));
        harness.finish();
    }

    #[test]
    fn a_batch_of_another_size_is_refused() {
        let mut harness = Harness::global(GRAPH);
        harness
            .push("i", 0, "left")
            .push("e", 0, Timestamp::new(10));
        assert_eq!(
            harness.error().message,
            "the batch at 10 has 1 items for 2 outputs"
        );
    }
}
