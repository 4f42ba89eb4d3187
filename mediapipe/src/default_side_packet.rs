//! `DefaultSidePacketCalculator`: a side packet with a default.

use graphmill_engine::{
    Calculator, Contract, Cx, Flow, NoOptions, OpenCx, OutSide, Payload, Result, Side, register,
};

/// Sets `VALUE` to the side packet `OPTIONAL_VALUE`. If that is not connected or not given, it sets
/// `VALUE` to `DEFAULT_VALUE`.
///
/// ```pbtxt
/// input_side_packet: "limit"
/// input_side_packet: "usual_limit"
/// output_side_packet: "chosen_limit"
/// node {
///   calculator: "DefaultSidePacketCalculator"
///   input_side_packet: "OPTIONAL_VALUE:limit"
///   input_side_packet: "DEFAULT_VALUE:usual_limit"
///   output_side_packet: "VALUE:chosen_limit"
/// }
/// ```
pub struct DefaultSidePacket;

impl Calculator for DefaultSidePacket {
    const NAME: &'static str = "DefaultSidePacketCalculator";
    const DOC: &'static str = "Passes a side packet on, or a default if it is missing.";
    type Options = NoOptions;
    type Ports = (Side<dyn Payload>, Side<dyn Payload>, OutSide<dyn Payload>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        let default = c.side("DEFAULT_VALUE");
        let optional = c.optional_side_same_as("OPTIONAL_VALUE", default);
        (optional, default, c.side_same_as("VALUE", default))
    }

    fn open(
        _: &NoOptions,
        (optional, default, value): Self::Ports,
        cx: &mut OpenCx<'_>,
    ) -> Result<Self> {
        let chosen = cx.side_packet(optional).or_else(|| cx.side_packet(default));
        if let Some(packet) = chosen.cloned() {
            cx.out().side_packet(value, packet);
        }
        Ok(Self)
    }

    fn process(&mut self, _: Self::Ports, _: &mut Cx<'_>) -> Result<Flow> {
        Ok(Flow::Stop)
    }
}
register!(DefaultSidePacket);

#[cfg(test)]
mod tests {
    use graphmill_engine::testing::Harness;

    fn harness() -> Harness {
        Harness::global(
            r#"node { calculator: "DefaultSidePacketCalculator" input_side_packet: "OPTIONAL_VALUE:given"
               input_side_packet: "DEFAULT_VALUE:usual" output_side_packet: "VALUE:out" }"#,
        )
    }

    fn chosen(harness: &mut Harness) -> Option<i64> {
        let packet = harness
            .handle()
            .side_packet("out")
            .expect("the graph makes it");
        packet.and_then(|packet| packet.get().copied())
    }

    #[test]
    fn the_default_stands_in_for_what_is_not_given() {
        let mut both = harness().side("given", 1_i64).side("usual", 2_i64);
        assert_eq!(chosen(&mut both), Some(1));
        let mut one = harness().side("usual", 2_i64);
        assert_eq!(chosen(&mut one), Some(2));
    }
}
