//! `MakePairCalculator`: two packets as one.

use graphmill_engine::{
    Calculator, Contract, Cx, Error, Flow, In, NoOptions, OpenCx, Out, Packet, Payload, Result,
    codec, register, register_payload,
};
use serde::Deserialize as _;
use serde_json::{Value, json};

/// The output of `MakePairCalculator`: the packets of its two inputs at one timestamp, unchanged.
/// `None` stands for an input without a packet.
pub type Pair = (Option<Packet>, Option<Packet>);
register_payload!(Pair as "pair", to_json, from_json);

fn to_json(pair: &Pair) -> Value {
    let side = |packet: &Option<Packet>| packet.as_ref().and_then(codec::encode);
    json!([side(&pair.0), side(&pair.1)])
}

fn from_json(value: &Value) -> Result<Pair, String> {
    let sides = <[Value; 2]>::deserialize(value);
    let [first, second] = sides.map_err(|error| error.to_string())?;
    let side = |value: &Value| match value {
        Value::Null => Ok(None),
        value => codec::decode(value, None, &[]).map(Some),
    };
    Ok((side(&first)?, side(&second)?))
}

/// Maximum number of pairs inside of a pair, each counted as often as it occurs. Pairs share their
/// packets, so without a limit a few nodes could make a pair too large to be written or dropped.
const MAX_INSIDE: usize = 16;

/// Emits the packets of its two inputs at a timestamp as one [`Pair`], even if only one of them has
/// a packet. A pair that would hold more than 16 others is an error.
///
/// ```pbtxt
/// input_stream: "question"
/// input_stream: "answer"
/// output_stream: "both"
/// node {
///   calculator: "MakePairCalculator"
///   input_stream: "question"
///   input_stream: "answer"
///   output_stream: "both"
/// }
/// ```
pub struct MakePair;

impl Calculator for MakePair {
    const NAME: &'static str = "MakePairCalculator";
    const DOC: &'static str = "Emits the packets of two streams as pairs.";
    type Options = NoOptions;
    type Ports = (In<dyn Payload>, In<dyn Payload>, Out<Pair>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        (c.any(""), c.any(":1"), c.output(""))
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }

    fn process(&mut self, (first, second, pair): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        let both = (cx.take_packet(first), cx.take_packet(second));
        if pairs_inside(&both) > MAX_INSIDE {
            return Err(Error::exhausted(format!(
                "a pair can hold at most {MAX_INSIDE} others"
            )));
        }
        cx.emit(pair, both);
        Ok(Flow::Continue)
    }
}
register!(MakePair);

/// Counts the pairs inside of a pair whose own parts are within the limit.
fn pairs_inside(pair: &Pair) -> usize {
    let sides = [&pair.0, &pair.1].into_iter().flatten();
    let pairs = sides.filter_map(|packet| packet.get::<Pair>());
    pairs.map(|inside| 1 + pairs_inside(inside)).sum()
}

#[cfg(test)]
mod tests {
    use graphmill_engine::{codec, testing::Harness};
    use serde_json::json;

    use super::Pair;

    #[test]
    fn a_pair_that_is_read_is_written_again() {
        let value = json!([1, null]);
        let packet = codec::decode(&value, Some("pair"), &[]).expect("a value");
        assert_eq!(codec::encode(&packet), Some(value));
    }

    #[test]
    fn pairs_do_not_hold_more_pairs_than_can_be_written() {
        let nodes: Vec<String> = (0..40)
            .map(|at| {
                format!(
                    "node {{ calculator: \"MakePairCalculator\" input_stream: \"p{at}\" input_stream: \"p{at}\" output_stream: \"p{}\" }}\n",
                    at + 1
                )
            })
            .collect();
        let mut h = Harness::global(&nodes.concat());
        h.push("p0", 1, 7_i64);
        let error = h.error();
        assert!(error.message.contains("at most 16 others"), "{error}");
    }

    #[test]
    fn packets_of_a_timestamp_are_paired() {
        let mut h = Harness::global(
            r#"node { calculator: "MakePairCalculator" input_stream: "a" input_stream: "b" output_stream: "out" }"#,
        );
        h.push("a", 1, 7_i64).push("b", 1, "seven");
        h.push("b", 2, "eight").bound("a", 3);
        let packets = h.packets("out");
        let pairs: Vec<_> = packets
            .iter()
            .map(|packet| {
                let (first, second) = packet.get::<Pair>().expect("a pair");
                let first = first.as_ref().and_then(|packet| packet.get::<i64>());
                let second = second.as_ref().and_then(|packet| packet.get::<&str>());
                (packet.time.value(), first.copied(), second.copied())
            })
            .collect();
        assert_eq!(
            pairs,
            [(1, Some(7), Some("seven")), (2, None, Some("eight"))]
        );
    }
}
