//! `Get...VectorItemCalculator`: one element of a vector.

use graphmill_engine::{
    Calculator, Contract, Cx, Error, Flow, In, OpenCx, Out, Payload, Result, TypeInfo, register,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// Options of a `Get...VectorItemCalculator` node.
#[derive(Copy, Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GetVectorItemOptions {
    /// Number of the element, counted from 0, at timestamps at which `INDEX` has no packet.
    pub item_index: Option<i32>,
    /// Emits nothing for a vector without that element. By default this is an error.
    pub output_empty_on_oob: bool,
}

/// Takes one element out of each vector. The packet on `INDEX` selects it by number, or else the
/// option `item_index`.
///
/// For your own type: `register!(GetVectorItem<Face> as "GetFaceVectorItemCalculator")`.
///
/// ```pbtxt
/// input_stream: "numbers"
/// input_stream: "which"
/// output_stream: "number"
/// node {
///   calculator: "GetIntVectorItemCalculator"
///   input_stream: "VECTOR:numbers"
///   input_stream: "INDEX:which"
///   output_stream: "ITEM:number"
/// }
/// ```
pub struct GetVectorItem<T> {
    index: Option<i64>,
    empty_if_absent: bool,
    of: std::marker::PhantomData<fn() -> T>,
}

impl<T: Payload + Clone> Calculator for GetVectorItem<T> {
    const NAME: &'static str = "GetVectorItemCalculator";
    const DOC: &'static str = "Takes one element out of each vector.";
    const OPTION_NAMES: &'static [&'static str] = &["mediapipe.GetVectorItemCalculatorOptions"];
    type Options = GetVectorItemOptions;
    type Ports = (In<Vec<T>>, In<dyn Payload>, Out<T>);

    fn contract(c: &mut Contract, options: &GetVectorItemOptions) -> Self::Ports {
        let integers = [TypeInfo::new::<i64>(), TypeInfo::new::<u64>()];
        let vector = c.input("VECTOR");
        let index = c.optional_one_of("INDEX", &integers);
        if !index.is_connected() && options.item_index.is_none() {
            c.error("either `INDEX` must be connected or `item_index` set");
        }
        if options.item_index.is_some_and(|index| index < 0) {
            c.error("`item_index` has to be 0 or more");
        }
        (vector, index, c.output("ITEM"))
    }

    fn open(options: &GetVectorItemOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self {
            index: options.item_index.map(i64::from),
            empty_if_absent: options.output_empty_on_oob,
            of: std::marker::PhantomData,
        })
    }

    fn process(&mut self, (vector, index, output): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        let given = cx.packet(index).and_then(|packet| {
            let unsigned = packet.get::<u64>().copied();
            let unsigned = unsigned.map(|index| i64::try_from(index).unwrap_or(i64::MAX));
            packet.get::<i64>().copied().or(unsigned)
        });
        let (Some(vector), Some(index)) = (cx.get(vector), given.or(self.index)) else {
            return Ok(Flow::Continue);
        };
        let found = usize::try_from(index).ok().and_then(|at| vector.get(at));
        match found.cloned() {
            Some(item) => cx.emit(output, item),
            None if self.empty_if_absent && index >= 0 => {}
            None => {
                return Err(Error::invalid(format!(
                    "a vector of {} elements has none at {index}",
                    vector.len()
                )));
            }
        }
        Ok(Flow::Continue)
    }
}
register!(GetVectorItem<i64> as "GetIntVectorItemCalculator");
register!(GetVectorItem<f64> as "GetFloatVectorItemCalculator");
register!(GetVectorItem<String> as "GetStringVectorItemCalculator");

#[cfg(test)]
mod tests {
    use graphmill_engine::testing::Harness;

    fn harness(ports: &str, options: &str) -> Harness {
        Harness::global(&format!(
            r#"node {{ calculator: "GetIntVectorItemCalculator" input_stream: "VECTOR:v" {ports} output_stream: "ITEM:out"
               options {{ [mediapipe.GetVectorItemCalculatorOptions.ext] {{ {options} }} }} }}"#
        ))
    }

    const INDEX: &str = r#"input_stream: "INDEX:i""#;

    #[test]
    fn a_packet_or_the_option_says_which() {
        let mut h = harness(INDEX, "item_index: 0");
        h.push("v", 1, vec![5_i64, 6]).push("i", 1, 1_i64);
        h.push("v", 2, vec![7_i64, 8]).bound("i", 3);
        h.push("v", 3, vec![9_i64, 10]).push("i", 3, 1_i64);
        h.expect("out", [(1, 6_i64), (2, 7), (3, 10)]);
        let mut h = harness(INDEX, "");
        h.push("v", 1, vec![5_i64, 6]).push("i", 1, 1_u64);
        h.push("v", 2, vec![7_i64]).bound("i", 3);
        h.expect("out", [(1, 6_i64)]);
        h.finish();
    }

    #[test]
    fn an_element_that_is_not_there() {
        let mut h = harness("", "item_index: 2 output_empty_on_oob: true");
        h.push("v", 1, vec![5_i64]).expect_nothing("out").finish();
        let mut h = harness("", "item_index: 2");
        h.push("v", 1, vec![5_i64]);
        assert_eq!(h.error().message, "a vector of 1 elements has none at 2");
        let mut h = harness(INDEX, "output_empty_on_oob: true");
        h.push("v", 1, vec![5_i64]).push("i", 1, -1_i64);
        assert_eq!(h.error().message, "a vector of 1 elements has none at -1");
    }
}
