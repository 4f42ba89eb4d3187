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

/// The port handles of [`BeginLoop`].
#[derive(Debug)]
pub struct Ports<T> {
    iterable: In<Vec<T>>,
    clones: Ins<dyn Payload>,
    item: Out<T>,
    copies: Outs<dyn Payload>,
    batch_end: Out<Timestamp>,
}

impl<T> Clone for Ports<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Ports<T> {}

impl<T: Payload + Clone> Calculator for BeginLoop<T> {
    const NAME: &'static str = "BeginLoopCalculator";
    const DOC: &'static str = "Begins a loop over the elements of vectors.";
    type Options = NoOptions;
    type Ports = Ports<T>;

    fn contract(c: &mut Contract, _: &NoOptions) -> Ports<T> {
        c.offset(Offset::Unset);
        c.process_timestamp_bounds();
        let iterable = c.input("ITERABLE");
        c.optional::<dyn Payload>("TICK");
        let item = c.output("ITEM");
        let (clones, copies) = clones(c);
        Ports {
            iterable,
            clones,
            item,
            copies,
            batch_end: c.output("BATCH_END"),
        }
    }

    fn open(_: &NoOptions, _: Ports<T>, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self {
            next: Timestamp::ZERO,
            of: PhantomData,
        })
    }

    fn process(&mut self, io: Ports<T>, cx: &mut Cx<'_>) -> Result<Flow> {
        let outer = cx.time();
        let items = cx.take(io.iterable).unwrap_or_default();
        let clones: Vec<Option<Packet>> = io
            .clones
            .iter()
            .map(|clone| cx.packet(clone).cloned())
            .collect();
        let first = self.next;
        for item in items {
            cx.emit_at(io.item, self.next, item);
            for (copy, packet) in io.copies.iter().zip(&clones) {
                if let Some(packet) = packet {
                    cx.out().emit_packet(copy, packet.clone().at(self.next));
                }
            }
            self.next = self.next + 1;
        }
        if self.next == first {
            // Nothing to loop over: the end of the batch stands alone.
            self.next = self.next + 1;
            cx.bound(io.item, self.next);
            for copy in io.copies.iter() {
                cx.bound(copy, self.next);
            }
        }
        cx.emit_at(io.batch_end, self.next + -1, outer);
        Ok(Flow::Continue)
    }
}
register!(BeginLoop<i64> as "BeginLoopIntCalculator");
register!(BeginLoop<u64> as "BeginLoopUint64tCalculator");
register!(BeginLoop<f64> as "BeginLoopFloatCalculator");
register!(BeginLoop<bool> as "BeginLoopBooleanCalculator");
register!(BeginLoop<String> as "BeginLoopStringCalculator");

/// Declares the inputs that a loop repeats for each item, and the outputs of their copies.
pub(super) fn clones(c: &mut Contract) -> (Ins<dyn Payload>, Outs<dyn Payload>) {
    let clones = c.optional_inputs("CLONE");
    if clones.is_empty() && c.count(Group::Outputs, "CLONE") == 0 {
        (clones, c.optional_outputs("CLONE"))
    } else {
        (clones, c.outputs_same_as("CLONE", clones))
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
