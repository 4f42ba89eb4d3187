//! `RoundRobinDemuxCalculator`: deals packets out to several streams in turn.

use graphmill_engine::{
    Calculator, Contract, Cx, Flow, In, NoOptions, OpenCx, Out, Outs, Payload, Result, register,
};

/// Deals packets out: the first to `OUTPUT:0`, the next to `OUTPUT:1`, and after the last output to
/// the first again. `SELECT` gets the number of the output for each packet, so that a
/// `MuxCalculator` can bring the results back in order. With each branch on an executor, heavy
/// nodes run in parallel.
///
/// ```pbtxt
/// input_stream: "work"
/// output_stream: "done"
/// node {
///   calculator: "RoundRobinDemuxCalculator"
///   input_stream: "work"
///   output_stream: "OUTPUT:0:even"
///   output_stream: "OUTPUT:1:odd"
///   output_stream: "SELECT:which"
/// }
/// node {
///   calculator: "MuxCalculator"
///   input_stream: "INPUT:0:even"
///   input_stream: "INPUT:1:odd"
///   input_stream: "SELECT:which"
///   output_stream: "OUTPUT:done"
/// }
/// ```
pub struct RoundRobinDemux {
    next: usize,
}

impl Calculator for RoundRobinDemux {
    const NAME: &'static str = "RoundRobinDemuxCalculator";
    const DOC: &'static str = "Deals packets out to its outputs, one after the other.";
    type Options = NoOptions;
    type Ports = (In<dyn Payload>, Outs<dyn Payload>, Out<i64>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        let input = c.any("");
        let outputs = c.outputs_all_same_as("OUTPUT", input);
        (input, outputs, c.optional_output("SELECT"))
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self { next: 0 })
    }

    fn process(&mut self, (input, outputs, select): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(output) = outputs.get(self.next) {
            cx.forward(input, output);
            cx.emit(select, self.next as i64);
            self.next = (self.next + 1) % outputs.len();
        }
        Ok(Flow::Continue)
    }
}
register!(RoundRobinDemux);

#[cfg(test)]
mod tests {
    use graphmill_engine::testing::Harness;

    use super::RoundRobinDemux;

    #[test]
    fn packets_go_round() {
        let mut h = Harness::for_calculator::<RoundRobinDemux>(
            r#"node { calculator: "RoundRobinDemuxCalculator" input_stream: "in"
                 output_stream: "OUTPUT:0:a" output_stream: "OUTPUT:1:b" output_stream: "OUTPUT:2:c" output_stream: "SELECT:which" }"#,
        );
        for time in 1..=5_i64 {
            h.push("in", time * 10, time);
        }
        h.expect("a", [(10, 1_i64), (40, 4)])
            .expect("b", [(20, 2_i64), (50, 5)])
            .expect("c", [(30, 3_i64)])
            .expect("which", [(10, 0_i64), (20, 1), (30, 2), (40, 0), (50, 1)]);
        h.finish();
    }
}
