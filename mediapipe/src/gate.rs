//! `GateCalculator`: lets packets through while it is open.

use graphmill_engine::{
    Calculator, Contract, Cx, Flow, In, Ins, OpenCx, Out, Outs, Payload, Result, Side, register,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// The state before the first decision, for `STATE_CHANGE`.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum GateState {
    /// Neither open nor closed: the first decision is a change.
    #[serde(rename = "UNSPECIFIED")]
    Neither,
    /// Not known: the first decision is no change.
    #[default]
    #[serde(rename = "GATE_UNINITIALIZED")]
    Unknown,
    /// Open: the first decision to close is a change.
    #[serde(rename = "GATE_ALLOW")]
    Allow,
    /// Closed: the first decision to open is a change.
    #[serde(rename = "GATE_DISALLOW")]
    Disallow,
}

/// Options of a `GateCalculator` node.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GateOptions {
    /// Opens the gate at timestamps at which the connected `ALLOW` or `DISALLOW` has no packet.
    /// Default: false.
    pub empty_packets_as_allow: bool,
    /// Opens the gate if neither `ALLOW` nor `DISALLOW` is connected. Default: false.
    pub allow: bool,
    /// State before the first decision. It decides whether `STATE_CHANGE` gets the first decision.
    pub initial_gate_state: GateState,
}

/// Lets the packets of its untagged inputs through while it is open. The packet of `ALLOW` or
/// `DISALLOW` decides at each timestamp. The side packet of one of these tags, or else the option
/// `allow`, decides for the whole run. `STATE_CHANGE` gets a boolean when the gate opens or closes.
///
/// ```pbtxt
/// input_stream: "video"
/// input_stream: "wanted"
/// output_stream: "gated"
/// node {
///   calculator: "GateCalculator"
///   input_stream: "video"
///   input_stream: "ALLOW:wanted"
///   output_stream: "gated"
/// }
/// ```
pub struct Gate {
    /// The decision, if it holds for the whole run.
    fixed: Option<bool>,
    /// True if a side packet has closed the gate: nothing will ever come through.
    closed_for_good: bool,
    empty_as_allow: bool,
    state: GateState,
}

/// The port handles of [`Gate`].
#[derive(Copy, Clone, Debug)]
pub struct Ports {
    data: Ins<dyn Payload>,
    gated: Outs<dyn Payload>,
    allow: In<bool>,
    disallow: In<bool>,
    allow_side: Side<bool>,
    disallow_side: Side<bool>,
    state_change: Out<bool>,
}

impl Calculator for Gate {
    const NAME: &'static str = "GateCalculator";
    const DOC: &'static str =
        "Lets packets through while a control stream, a side packet or an option allows it.";
    type Options = GateOptions;
    type Ports = Ports;

    fn contract(c: &mut Contract, _: &GateOptions) -> Ports {
        let data = c.optional_inputs("");
        let ports = Ports {
            data,
            gated: c.outputs_same_as("", data),
            allow: c.optional("ALLOW"),
            disallow: c.optional("DISALLOW"),
            allow_side: c.optional_side("ALLOW"),
            disallow_side: c.optional_side("DISALLOW"),
            state_change: c.optional_output("STATE_CHANGE"),
        };
        let controls = [
            ports.allow.is_connected(),
            ports.disallow.is_connected(),
            ports.allow_side.is_connected(),
            ports.disallow_side.is_connected(),
        ];
        if controls.into_iter().filter(|connected| *connected).count() > 1 {
            c.error("only one of `ALLOW` and `DISALLOW` can be connected, as a stream or as a side packet");
        }
        ports
    }

    fn open(options: &GateOptions, io: Ports, cx: &mut OpenCx<'_>) -> Result<Self> {
        let by_side = decision(cx.side(io.allow_side), cx.side(io.disallow_side));
        let by_stream = io.allow.is_connected() || io.disallow.is_connected();
        Ok(Self {
            closed_for_good: by_side == Some(false),
            fixed: by_side.or((!by_stream).then_some(options.allow)),
            empty_as_allow: options.empty_packets_as_allow,
            state: options.initial_gate_state,
        })
    }

    fn process(&mut self, io: Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        if self.closed_for_good {
            io.gated.iter().for_each(|output| cx.out().close(output));
        }
        let by_stream = decision(cx.get(io.allow), cx.get(io.disallow));
        let open = self.fixed.or(by_stream).unwrap_or(self.empty_as_allow);
        let state = if open {
            GateState::Allow
        } else {
            GateState::Disallow
        };
        if self.state != GateState::Unknown && self.state != state {
            cx.emit(io.state_change, open);
        }
        self.state = state;
        if open {
            for (input, output) in io.data.iter().zip(io.gated.iter()) {
                cx.forward(input, output);
            }
        }
        Ok(Flow::Continue)
    }
}
register!(Gate);

/// Returns true if the gate is open, by the value of `ALLOW` or else of `DISALLOW`.
fn decision(allow: Option<&bool>, disallow: Option<&bool>) -> Option<bool> {
    allow.copied().or(disallow.map(|disallow| !disallow))
}

#[cfg(test)]
mod tests {
    use graphmill_engine::testing::Harness;

    use super::Gate;

    fn gate(more: &str) -> Harness {
        Harness::for_calculator::<Gate>(&format!(
            r#"node {{ calculator: "GateCalculator" input_stream: "in" output_stream: "out" {more} }}"#
        ))
    }

    #[test]
    fn a_stream_decides_for_its_timestamp() {
        let mut h = gate(r#"input_stream: "ALLOW:ok" output_stream: "STATE_CHANGE:change""#);
        for (time, ok) in [(1, true), (2, false), (4, true)] {
            h.push("ok", time, ok);
        }
        for time in 1..=4_i64 {
            h.push("in", time, time);
        }
        h.finish();
        h.expect("out", [(1, 1_i64), (4, 4)])
            .expect("change", [(2, false), (4, true)]);
    }

    #[test]
    fn a_side_packet_or_an_option_decides_for_all() {
        let mut h = gate(r#"input_side_packet: "DISALLOW:no""#).side("no", false);
        h.push("in", 1, 1_i64).expect("out", [(1, 1_i64)]);
        let mut h = gate("");
        h.push("in", 1, 1_i64).expect_nothing("out");
        let mut h = gate("options { [mediapipe.GateCalculatorOptions.ext] { allow: true } }");
        h.push("in", 1, 1_i64).expect("out", [(1, 1_i64)]);
    }

    #[test]
    fn a_gate_without_data_still_tells_of_changes() {
        let mut h = Harness::for_calculator::<Gate>(
            r#"node { calculator: "GateCalculator" input_stream: "DISALLOW:no" output_stream: "STATE_CHANGE:change"
                 options { [mediapipe.GateCalculatorOptions.ext] { initial_gate_state: UNSPECIFIED } } }"#,
        );
        h.push("no", 1, true)
            .push("no", 2, true)
            .push("no", 3, false);
        h.expect("change", [(1, false), (3, true)]);
        h.finish();
    }

    #[test]
    fn the_first_state_can_be_given() {
        let mut h = gate(
            r#"input_stream: "ALLOW:ok" output_stream: "STATE_CHANGE:change"
               options { [mediapipe.GateCalculatorOptions.ext] { initial_gate_state: GATE_DISALLOW empty_packets_as_allow: true } }"#,
        );
        h.push("in", 1, 1_i64).bound("ok", 2);
        h.expect("out", [(1, 1_i64)]).expect("change", [(1, true)]);
    }
}
