//! `Clip...VectorSizeCalculator`: the first elements of a vector.

use std::marker::PhantomData;

use graphmill_engine::{
    Calculator, Contract, Cx, Error, Flow, In, OpenCx, Out, Payload, Result, Side, register,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// Options of a `Clip...VectorSizeCalculator` node.
#[derive(Copy, Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ClipVectorSizeOptions {
    /// Maximum number of elements that a vector keeps; at least 1.
    pub max_vec_size: i32,
}

impl Default for ClipVectorSizeOptions {
    fn default() -> Self {
        Self { max_vec_size: 1 }
    }
}

/// Drops the elements of a vector beyond the first `max_vec_size`. An input side packet, if there
/// is one, overrides the option.
///
/// For your own type: `register!(ClipVectorSize<Face> as "ClipFaceVectorSizeCalculator")`.
///
/// ```pbtxt
/// input_stream: "numbers"
/// output_stream: "first_three"
/// node {
///   calculator: "ClipIntVectorSizeCalculator"
///   input_stream: "numbers"
///   output_stream: "first_three"
///   options { [mediapipe.ClipVectorSizeCalculatorOptions.ext] { max_vec_size: 3 } }
/// }
/// ```
pub struct ClipVectorSize<T> {
    most: usize,
    of: PhantomData<fn() -> T>,
}

impl<T: Payload + Clone> Calculator for ClipVectorSize<T> {
    const NAME: &'static str = "ClipVectorSizeCalculator";
    const DOC: &'static str = "Shortens a vector to a maximum number of elements.";
    const OPTION_NAMES: &'static [&'static str] = &["mediapipe.ClipVectorSizeCalculatorOptions"];
    type Options = ClipVectorSizeOptions;
    type Ports = (In<Vec<T>>, Out<Vec<T>>, Side<i64>);

    fn contract(c: &mut Contract, options: &ClipVectorSizeOptions) -> Self::Ports {
        if options.max_vec_size < 1 {
            c.error("`max_vec_size` has to be 1 or more");
        }
        (c.input(""), c.output(""), c.optional_side(""))
    }

    fn open(
        options: &ClipVectorSizeOptions,
        (_, _, most): Self::Ports,
        cx: &mut OpenCx<'_>,
    ) -> Result<Self> {
        let most = cx.side(most).copied();
        let most = most.unwrap_or_else(|| options.max_vec_size.into());
        if most < 1 {
            return Err(Error::invalid(format!(
                "a vector cannot be clipped to {most} elements"
            )));
        }
        Ok(Self {
            most: usize::try_from(most).unwrap_or(usize::MAX),
            of: PhantomData,
        })
    }

    fn process(&mut self, (vector, clipped, _): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(mut items) = cx.take(vector) {
            items.truncate(self.most);
            cx.emit(clipped, items);
        }
        Ok(Flow::Continue)
    }
}
register!(ClipVectorSize<i64> as "ClipIntVectorSizeCalculator");
register!(ClipVectorSize<f64> as "ClipFloatVectorSizeCalculator");
register!(ClipVectorSize<String> as "ClipStringVectorSizeCalculator");

#[cfg(test)]
mod tests {
    use graphmill_engine::testing::Harness;

    fn graph(more: &str) -> String {
        format!(
            r#"node {{ calculator: "ClipIntVectorSizeCalculator" input_stream: "in" output_stream: "out" {more}
               options {{ [mediapipe.ClipVectorSizeCalculatorOptions.ext] {{ max_vec_size: 2 }} }} }}"#
        )
    }

    #[test]
    fn the_first_elements_stay() {
        let mut h = Harness::global(&graph(""));
        h.push("in", 1, vec![1_i64, 2, 3])
            .push("in", 2, vec![4_i64])
            .push("in", 3, Vec::<i64>::new());
        h.expect("out", [(1, vec![1_i64, 2]), (2, vec![4]), (3, vec![])]);
        h.finish();
    }

    #[test]
    fn a_side_packet_overrides_the_option() {
        let side = r#"input_side_packet: "most""#;
        let mut h = Harness::global(&graph(side)).side("most", 1_i64);
        h.push("in", 1, vec![1_i64, 2])
            .expect("out", [(1, vec![1_i64])]);
        let mut h = Harness::global(&graph(side)).side("most", 0_i64);
        assert_eq!(
            h.error().message,
            "a vector cannot be clipped to 0 elements"
        );
    }
}
