//! `ValueOrDefaultCalculator`: a value for every tick.

use graphmill_engine::{
    Calculator, Contract, Cx, Flow, In, NoOptions, OpenCx, Out, Packet, Payload, Result, Side,
    register,
};

/// Passes on, at each packet of `TICK`, the packet of `IN`, or the side packet if `IN` has none.
/// `FLAG` gets `true` wherever the default is used, and nothing elsewhere.
///
/// ```pbtxt
/// input_stream: "sometimes"
/// input_stream: "frames"
/// input_side_packet: "fallback"
/// output_stream: "always"
/// output_stream: "missing"
/// node {
///   calculator: "ValueOrDefaultCalculator"
///   input_stream: "IN:sometimes"
///   input_stream: "TICK:frames"
///   input_side_packet: "fallback"
///   output_stream: "OUT:always"
///   output_stream: "FLAG:missing"
/// }
/// ```
pub struct ValueOrDefault {
    default: Option<Packet>,
}

/// The port handles of [`ValueOrDefault`].
#[derive(Copy, Clone, Debug)]
pub struct Ports {
    value: In<dyn Payload>,
    tick: In<dyn Payload>,
    default: Side<dyn Payload>,
    output: Out<dyn Payload>,
    flag: Out<bool>,
}

impl Calculator for ValueOrDefault {
    const NAME: &'static str = "ValueOrDefaultCalculator";
    const DOC: &'static str = "Passes a value on at each tick, or a default if it is missing.";
    type Options = NoOptions;
    type Ports = Ports;

    fn contract(c: &mut Contract, _: &NoOptions) -> Ports {
        let value = c.any("IN");
        Ports {
            value,
            tick: c.any("TICK"),
            default: c.side(""),
            output: c.same_as("OUT", value),
            flag: c.optional_output("FLAG"),
        }
    }

    fn open(_: &NoOptions, io: Ports, cx: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self {
            default: cx.side_packet(io.default).cloned(),
        })
    }

    fn process(&mut self, io: Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        if cx.packet(io.tick).is_none() {
            return Ok(Flow::Continue);
        }
        if cx.packet(io.value).is_some() {
            cx.forward(io.value, io.output);
        } else if let Some(default) = self.default.clone() {
            let time = cx.time();
            cx.out().emit_packet(io.output, default.at(time));
            cx.emit(io.flag, true);
        }
        Ok(Flow::Continue)
    }
}
register!(ValueOrDefault);

#[cfg(test)]
mod tests {
    use graphmill_engine::testing::Harness;

    use super::ValueOrDefault;

    #[test]
    fn the_default_stands_in() {
        let graph = r#"node { calculator: "ValueOrDefaultCalculator" input_stream: "IN:in" input_stream: "TICK:tick"
            input_side_packet: "default" output_stream: "OUT:out" output_stream: "FLAG:flag" }"#;
        let mut h = Harness::for_calculator::<ValueOrDefault>(graph).side("default", 0_i64);
        h.push("in", 1, 10_i64)
            .push("tick", 1, ())
            .push("tick", 2, ())
            .bound("in", 3);
        h.push("in", 3, 30_i64).bound("tick", 4);
        h.expect("out", [(1, 10_i64), (2, 0)])
            .expect("flag", [(2, true)]);
        h.finish();
    }
}
