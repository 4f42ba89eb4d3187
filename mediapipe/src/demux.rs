//! `DemuxCalculator`: passes each packet on to one of several streams.

use graphmill_engine::{
    Calculator, Contract, Cx, Flow, In, NoOptions, OpenCx, Out, Outs, Payload, Result, Side,
    register,
};

use super::mux::{no_such_port, select_once};

/// Passes each packet of `INPUT` on to the output whose number `SELECT` has at the same timestamp:
/// 0 is `OUTPUT:0`. A packet without a `SELECT` beside it is dropped. With a side packet `SELECT`
/// all packets go to the same output. A number without an output is an error. The bounds of all
/// outputs follow the inputs, so nothing waits for a packet that went to another output.
///
/// ```pbtxt
/// input_stream: "items"
/// input_stream: "which"
/// output_stream: "left"
/// output_stream: "right"
/// node {
///   calculator: "DemuxCalculator"
///   input_stream: "INPUT:items"
///   input_stream: "SELECT:which"
///   output_stream: "OUTPUT:0:left"
///   output_stream: "OUTPUT:1:right"
/// }
/// ```
pub struct Demux {
    /// Number of the output, if a side packet chose it.
    fixed: Option<i64>,
}

/// The port handles of [`Demux`].
#[derive(Copy, Clone, Debug)]
pub struct Ports {
    input: In<dyn Payload>,
    select: In<i64>,
    select_side: Side<i64>,
    outputs: Outs<dyn Payload>,
}

impl Calculator for Demux {
    const NAME: &'static str = "DemuxCalculator";
    const DOC: &'static str = "Passes each packet on to the output that `SELECT` names.";
    type Options = NoOptions;
    type Ports = Ports;

    fn contract(c: &mut Contract, _: &NoOptions) -> Ports {
        let input = c.any("INPUT");
        let ports = Ports {
            input,
            select: c.optional("SELECT"),
            select_side: c.optional_side("SELECT"),
            outputs: c.outputs_all_same_as("OUTPUT", input),
        };
        select_once(c, ports.select, ports.select_side);
        ports
    }

    fn open(_: &NoOptions, io: Ports, cx: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self {
            fixed: cx.side(io.select_side).copied(),
        })
    }

    fn process(&mut self, io: Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        let Some(select) = self.fixed.or_else(|| cx.get(io.select).copied()) else {
            return Ok(Flow::Continue);
        };
        let output: Out<dyn Payload> = usize::try_from(select)
            .ok()
            .and_then(|index| io.outputs.get(index))
            .ok_or_else(|| no_such_port(select, io.outputs.len(), "output"))?;
        cx.forward(io.input, output);
        Ok(Flow::Continue)
    }
}
register!(Demux);

#[cfg(test)]
mod tests {
    use graphmill_engine::{Timestamp, testing::Harness};

    use super::Demux;

    fn demux(select: &str) -> Harness {
        Harness::for_calculator::<Demux>(&format!(
            r#"node {{ calculator: "DemuxCalculator" input_stream: "INPUT:in" {select}
                 output_stream: "OUTPUT:0:a" output_stream: "OUTPUT:1:b" }}"#
        ))
    }

    #[test]
    fn a_stream_chooses_for_its_timestamp() {
        let mut h = demux(r#"input_stream: "SELECT:which""#);
        for (time, which) in [(1, 1), (2, 0), (3, 1_i64)] {
            h.push("in", time, time).push("which", time, which);
        }
        h.push("in", 4, 4_i64).bound("which", 5);
        h.expect("a", [(2, 2_i64)])
            .expect("b", [(1, 1_i64), (3, 3)]);
        assert_eq!(h.bounds("a"), [1, 3, 4].map(Timestamp::new));
        h.finish();
    }

    #[test]
    fn a_side_packet_chooses_once_for_all() {
        let mut h = demux(r#"input_side_packet: "SELECT:which""#).side("which", 0_i64);
        h.push("in", 1, 1_i64)
            .expect("a", [(1, 1_i64)])
            .expect_nothing("b");
        h.finish();
    }

    #[test]
    fn a_number_that_is_no_output_fails() {
        let mut h = demux(r#"input_stream: "SELECT:which""#);
        let error = h.push("in", 1, 1_i64).push("which", 1, -1_i64).error();
        assert_eq!(
            error.to_string(),
            "node `DemuxCalculator`: `SELECT` is -1, but the outputs are numbered from 0 to 1"
        );
    }
}
