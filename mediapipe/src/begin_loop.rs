//! `BeginLoop...Calculator`: a vector's elements, one by one.

use std::marker::PhantomData;

use graphmill_engine::{
    Calculator, Contract, Cx, Flow, Group, In, Ins, NoOptions, Offset, OpenCx, Out, Outs, Packet,
    Payload, Result, Timestamp, register,
};

/// Begins a loop over the elements of vectors. It emits each element as an `ITEM` on a time line of
/// its own (0, 1, 2, ...), with copies of the `CLONE` inputs beside it. The last item of each
/// vector comes with a `BATCH_END` that carries the vector's own timestamp. An empty vector, or a
/// timestamp without one, gives a `BATCH_END` without an item. A packet on `TICK` settles such a
/// timestamp, as a bound does.
///
/// Integers are 64 bits wide and floats are doubles, whatever the name says. To loop over vectors
/// of your own type, register the node for it:
/// `register!(BeginLoop<Face> as "BeginLoopFaceCalculator")`.
///
/// ```pbtxt
/// input_stream: "numbers"
/// output_stream: "number"
/// output_stream: "batch_end"
/// node {
///   calculator: "BeginLoopIntCalculator"
///   input_stream: "ITERABLE:numbers"
///   output_stream: "ITEM:number"
///   output_stream: "BATCH_END:batch_end"
/// }
/// ```
pub struct BeginLoop<T> {
    /// The timestamp of the next item, on the loop's own time line.
    next: Timestamp,
    of: PhantomData<fn() -> T>,
}

impl<T: Payload + Clone> Calculator for BeginLoop<T> {
    const NAME: &'static str = "BeginLoopCalculator";
    const DOC: &'static str = "Begins a loop over the elements of vectors.";
    type Options = NoOptions;
    type Ports = (In<Vec<T>>, Out<T>, Clones, Out<Timestamp>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        c.offset(Offset::Unset);
        c.process_timestamp_bounds();
        let iterable = c.input("ITERABLE");
        c.optional::<dyn Payload>("TICK");
        let item = c.output("ITEM");
        (iterable, item, Clones::declare(c), c.output("BATCH_END"))
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self {
            next: Timestamp::ZERO,
            of: PhantomData,
        })
    }

    fn process(
        &mut self,
        (iterable, output, clones, batch_end): Self::Ports,
        cx: &mut Cx<'_>,
    ) -> Result<Flow> {
        let outer = cx.time();
        let items = cx.take(iterable).unwrap_or_default();
        let repeated = clones.packets(cx);
        let first = self.next;
        for item in items {
            cx.emit_at(output, self.next, item);
            clones.emit(&repeated, self.next, cx);
            self.next = self.next + 1;
        }
        if self.next == first {
            // Nothing to loop over: the end of the batch stands alone.
            self.next = self.next + 1;
            cx.bound(output, self.next);
            clones.bound(self.next, cx);
        }
        cx.emit_at(batch_end, self.next + -1, outer);
        Ok(Flow::Continue)
    }
}
register!(BeginLoop<i64> as "BeginLoopIntCalculator");
register!(BeginLoop<u64> as "BeginLoopUint64tCalculator");
register!(BeginLoop<f64> as "BeginLoopFloatCalculator");
register!(BeginLoop<bool> as "BeginLoopBooleanCalculator");
register!(BeginLoop<String> as "BeginLoopStringCalculator");

/// The inputs that a loop repeats for each item, and the outputs of their copies.
#[derive(Copy, Clone, Debug)]
pub struct Clones(Ins<dyn Payload>, Outs<dyn Payload>);

impl Clones {
    pub(super) fn declare(c: &mut Contract) -> Self {
        let inputs = c.optional_inputs("CLONE");
        if inputs.is_empty() && c.count(Group::Outputs, "CLONE") == 0 {
            Self(inputs, c.optional_outputs("CLONE"))
        } else {
            Self(inputs, c.outputs_same_as("CLONE", inputs))
        }
    }

    /// Returns the packets of a call, one or none for each input.
    pub(super) fn packets(self, cx: &Cx<'_>) -> Vec<Option<Packet>> {
        self.0
            .iter()
            .map(|input| cx.packet(input).cloned())
            .collect()
    }

    /// Emits copies of these packets with the timestamp of an item.
    pub(super) fn emit(self, packets: &[Option<Packet>], at: Timestamp, cx: &mut Cx<'_>) {
        for (output, packet) in self.1.iter().zip(packets) {
            if let Some(packet) = packet {
                cx.out().emit_packet(output, packet.clone().at(at));
            }
        }
    }

    /// Moves the bounds of the outputs.
    pub(super) fn bound(self, at: Timestamp, cx: &mut Cx<'_>) {
        self.1.iter().for_each(|output| cx.bound(output, at));
    }
}

#[cfg(test)]
mod tests {
    use graphmill_engine::{Timestamp, testing::Harness};

    #[test]
    fn elements_with_the_end_of_each_batch() {
        let graph = r#"node { calculator: "BeginLoopIntCalculator" input_stream: "ITERABLE:v" input_stream: "CLONE:c"
            output_stream: "ITEM:i" output_stream: "CLONE:k" output_stream: "BATCH_END:e" }"#;
        let mut harness = Harness::global(graph);
        harness.push("c", 100, "x").push("v", 100, vec![7_i64, 8]);
        harness
            .expect("i", [(0, 7_i64), (1, 8)])
            .expect("k", [(0, "x"), (1, "x")]);
        harness.expect("e", [(1, Timestamp::new(100))]);
        harness
            .push("c", 200, "y")
            .push("v", 200, Vec::<i64>::new());
        harness
            .expect_nothing("i")
            .expect("e", [(2, Timestamp::new(200))]);
        harness.finish();
    }

    #[test]
    fn a_tick_or_a_bound_without_a_vector_ends_an_empty_batch() {
        let graph = r#"node { calculator: "BeginLoopStringCalculator" input_stream: "ITERABLE:v" input_stream: "TICK:t"
            output_stream: "ITEM:i" output_stream: "BATCH_END:e" }"#;
        let mut harness = Harness::global(graph);
        harness.push("t", 5, ()).bound("v", 6).expect_nothing("i");
        harness.expect("e", [(0, Timestamp::new(5))]);
        harness.push("v", 7, vec!["a".to_owned()]).push("t", 7, ());
        harness.expect("i", [(1, "a".to_owned())]);
        harness.expect("e", [(1, Timestamp::new(7))]);
    }
}
