//! `MuxCalculator`: passes on one of several streams, chosen at each timestamp.

use graphmill_engine::{
    Calculator, Contract, Cx, Error, Flow, In, Ins, NoOptions, OpenCx, Out, Payload, Policy,
    Result, Side, register,
};

/// Passes on, at each packet of `SELECT`, the packet of the input with that number: 0 is `INPUT:0`.
/// If that input has no packet there, nothing comes out. Packets of the other inputs up to there
/// are dropped. With a side packet `SELECT` all packets come from the same input. A number without
/// an input is an error.
///
/// With the stream `SELECT`, the node waits only for the chosen input: its input policy is
/// `MuxInputStreamHandler`.
///
/// ```pbtxt
/// input_stream: "left"
/// input_stream: "right"
/// input_stream: "which"
/// output_stream: "chosen"
/// node {
///   calculator: "MuxCalculator"
///   input_stream: "INPUT:0:left"
///   input_stream: "INPUT:1:right"
///   input_stream: "SELECT:which"
///   output_stream: "OUTPUT:chosen"
/// }
/// ```
pub struct Mux {
    /// Number of the input, if a side packet chose it.
    fixed: Option<i64>,
}

/// The port handles of [`Mux`].
#[derive(Copy, Clone, Debug)]
pub struct Ports {
    inputs: Ins<dyn Payload>,
    select: In<i64>,
    select_side: Side<i64>,
    output: Out<dyn Payload>,
}

impl Calculator for Mux {
    const NAME: &'static str = "MuxCalculator";
    const DOC: &'static str = "Passes on the packet of the input that `SELECT` names.";
    type Options = NoOptions;
    type Ports = Ports;

    fn contract(c: &mut Contract, _: &NoOptions) -> Ports {
        let inputs = c.inputs_alike("INPUT");
        let ports = Ports {
            inputs,
            select: c.optional("SELECT"),
            select_side: c.optional_side("SELECT"),
            output: match inputs.get(0) {
                Some(first) => c.same_as("OUTPUT", first),
                None => c.output("OUTPUT"),
            },
        };
        select_once(c, ports.select, ports.select_side);
        if ports.select.is_connected() {
            c.policy(Policy::Mux);
        }
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
        let input = usize::try_from(select)
            .ok()
            .and_then(|index| io.inputs.get(index))
            .ok_or_else(|| no_such_port(select, io.inputs.len(), "input"))?;
        cx.forward(input, io.output);
        Ok(Flow::Continue)
    }
}
register!(Mux);

/// Checks that `SELECT` is either a stream or a side packet.
pub(super) fn select_once(c: &mut Contract, stream: In<i64>, side: Side<i64>) {
    if stream.is_connected() == side.is_connected() {
        c.error("`SELECT` must be connected, either as a stream or as a side packet");
    }
}

/// Returns the error for a `SELECT` that names no port.
pub(super) fn no_such_port(select: i64, ports: usize, noun: &str) -> Error {
    Error::invalid(format!(
        "`SELECT` is {select}, but the {noun}s are numbered from 0 to {}",
        ports.saturating_sub(1)
    ))
}

#[cfg(test)]
mod tests {
    use graphmill_engine::testing::Harness;

    use super::Mux;

    fn mux(select: &str) -> Harness {
        Harness::for_calculator::<Mux>(&format!(
            r#"node {{ calculator: "MuxCalculator" input_stream: "INPUT:0:a" input_stream: "INPUT:1:b" {select}
                 output_stream: "OUTPUT:out" }}"#
        ))
    }

    #[test]
    fn a_stream_chooses_for_its_timestamp() {
        let mut h = mux(r#"input_stream: "SELECT:which""#);
        h.push("a", 1, "a1")
            .push("b", 1, "b1")
            .push("which", 1, 1_i64);
        h.expect("out", [(1, "b1")]);
        h.push("which", 2, 0_i64).expect_nothing("out");
        h.push("a", 2, "a2").expect("out", [(2, "a2")]);
        h.push("b", 9, "b9").push("which", 3, 1_i64);
        h.push("which", 9, 1_i64).expect("out", [(9, "b9")]);
        h.finish();
    }

    #[test]
    fn it_ends_with_its_control() {
        let mut h = mux(r#"input_stream: "SELECT:which""#);
        h.close("which");
        assert!(h.bounds("out").is_empty());
        h.expect_nothing("out").finish();
    }

    #[test]
    fn a_side_packet_chooses_once_for_all() {
        let mut h = mux(r#"input_side_packet: "SELECT:which""#).side("which", 1_i64);
        h.push("a", 1, "a1")
            .push("b", 1, "b1")
            .push("a", 2, "a2")
            .bound("b", 3);
        h.expect("out", [(1, "b1")]).finish();
    }

    #[test]
    fn a_number_that_is_no_input_fails() {
        let mut h = mux(r#"input_stream: "SELECT:which""#);
        let error = h.push("which", 1, 2_i64).error();
        assert_eq!(
            error.to_string(),
            "node `MuxCalculator`: `SELECT` is 2, but the inputs are numbered from 0 to 1"
        );
    }
}
