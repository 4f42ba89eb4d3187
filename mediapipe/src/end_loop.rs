//! `EndLoop...Calculator`: the results of a loop, as vectors again.

use graphmill_engine::{
    Calculator, Contract, Cx, Flow, In, NoOptions, Offset, OpenCx, Out, Payload, Result, Timestamp,
    register,
};

/// Ends a loop that a `BeginLoop...Calculator` began. It collects `ITEM`s and, with the `BATCH_END`
/// of their batch, emits them as one vector at the timestamp of the vector the loop went over. A
/// batch without items settles its timestamp without a packet, so an empty vector that enters a
/// loop gives no vector at its end.
///
/// Integers are 64 bits wide and floats are doubles, whatever the name says. For your own type:
/// `register!(EndLoop<Face> as "EndLoopFaceCalculator")`.
///
/// ```pbtxt
/// input_stream: "number"
/// input_stream: "batch_end"
/// output_stream: "numbers"
/// node {
///   calculator: "EndLoopFloatCalculator"
///   input_stream: "ITEM:number"
///   input_stream: "BATCH_END:batch_end"
///   output_stream: "ITERABLE:numbers"
/// }
/// ```
pub struct EndLoop<T> {
    /// The items of the batch so far.
    items: Vec<T>,
}

impl<T: Payload + Clone> Calculator for EndLoop<T> {
    const NAME: &'static str = "EndLoopCalculator";
    const DOC: &'static str = "Collects the items of a loop into vectors.";
    type Options = NoOptions;
    type Ports = (In<T>, In<Timestamp>, Out<Vec<T>>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        c.offset(Offset::Unset);
        let item = c.input("ITEM");
        (item, c.input("BATCH_END"), c.output("ITERABLE"))
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self { items: Vec::new() })
    }

    fn process(
        &mut self,
        (item, batch_end, iterable): Self::Ports,
        cx: &mut Cx<'_>,
    ) -> Result<Flow> {
        self.items.extend(cx.take(item));
        if let Some(outer) = cx.take(batch_end) {
            if self.items.is_empty() {
                cx.bound(iterable, outer.next());
            } else {
                cx.emit_at(iterable, outer, std::mem::take(&mut self.items));
            }
        }
        Ok(Flow::Continue)
    }
}
register!(EndLoop<i64> as "EndLoopIntCalculator");
register!(EndLoop<u64> as "EndLoopUint64tCalculator");
register!(EndLoop<f64> as "EndLoopFloatCalculator");
register!(EndLoop<bool> as "EndLoopBooleanCalculator");
register!(EndLoop<String> as "EndLoopStringCalculator");

#[cfg(test)]
mod tests {
    use graphmill_engine::{Timestamp, testing::Harness};

    const LOOP: &str = r#"
        input_stream: "v" input_stream: "keep" output_stream: "out"
        node { calculator: "BeginLoopIntCalculator" input_stream: "ITERABLE:v" input_stream: "CLONE:keep"
               output_stream: "ITEM:i" output_stream: "CLONE:k" output_stream: "BATCH_END:e" }
        node { calculator: "GateCalculator" input_stream: "i" input_stream: "ALLOW:k" output_stream: "kept" }
        node { calculator: "EndLoopIntCalculator" input_stream: "ITEM:kept" input_stream: "BATCH_END:e" output_stream: "ITERABLE:out" }"#;

    #[test]
    fn a_vector_leaves_a_loop_at_its_own_timestamp() {
        let mut harness = Harness::global(LOOP);
        for (time, items, keep) in [(10, vec![1_i64, 2], true), (20, vec![3], true)] {
            harness.push("keep", time, keep).push("v", time, items);
        }
        harness.expect("out", [(10, vec![1_i64, 2]), (20, vec![3])]);
        harness.finish();
    }

    #[test]
    fn an_empty_batch_is_a_settled_timestamp() {
        let mut harness = Harness::global(LOOP);
        harness
            .push("keep", 10, true)
            .push("v", 10, Vec::<i64>::new())
            .push("keep", 20, false)
            .push("v", 20, vec![1_i64]);
        harness.expect_nothing("out");
        assert_eq!(
            harness.bounds("out"),
            [Timestamp::new(10), Timestamp::new(20)]
        );
        harness.push("keep", 30, true).push("v", 30, vec![4_i64]);
        harness.expect("out", [(30, vec![4_i64])]);
        harness.finish();
    }
}
