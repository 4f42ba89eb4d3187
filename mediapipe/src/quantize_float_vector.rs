//! `QuantizeFloatVectorCalculator`: a vector of floats as bytes.

use graphmill_engine::{Calculator, Contract, Cx, Flow, In, OpenCx, Out, Result, register};
use schemars::JsonSchema;
use serde::Deserialize;

/// Options of [`QuantizeFloatVector`] and [`DequantizeByteArray`](super::DequantizeByteArray): the
/// interval that the bytes stand for. Both ends are required.
#[derive(Copy, Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct QuantizationOptions {
    /// Value of the highest byte, 255.
    pub max_quantized_value: Option<f32>,
    /// Value of the lowest byte, 0. It must be below `max_quantized_value`.
    pub min_quantized_value: Option<f32>,
}

impl QuantizationOptions {
    /// Returns the interval's lower end and width.
    pub(super) fn interval(self) -> std::result::Result<(f32, f32), &'static str> {
        let (Some(max), Some(min)) = (self.max_quantized_value, self.min_quantized_value) else {
            return Err("`max_quantized_value` and `min_quantized_value` have to be set");
        };
        if max >= min + f32::EPSILON {
            Ok((min, max - min))
        } else {
            Err("`max_quantized_value` has to be above `min_quantized_value`")
        }
    }
}

/// Encodes each float of a vector as a byte: its place between `min_quantized_value` and
/// `max_quantized_value`. A float outside of the interval is moved to the nearer end. The bytes are
/// a `Vec<u8>`. It computes in single precision.
///
/// ```pbtxt
/// input_stream: "features"
/// output_stream: "encoded"
/// node {
///   calculator: "QuantizeFloatVectorCalculator"
///   input_stream: "FLOAT_VECTOR:features"
///   output_stream: "ENCODED:encoded"
///   options {
///     [mediapipe.QuantizeFloatVectorCalculatorOptions.ext] { max_quantized_value: 64 min_quantized_value: -64 }
///   }
/// }
/// ```
pub struct QuantizeFloatVector {
    min: f32,
    width: f32,
}

impl Calculator for QuantizeFloatVector {
    const NAME: &'static str = "QuantizeFloatVectorCalculator";
    const DOC: &'static str = "Encodes the floats of a vector as bytes.";
    const OPTION_NAMES: &'static [&'static str] =
        &["mediapipe.QuantizeFloatVectorCalculatorOptions"];
    type Options = QuantizationOptions;
    type Ports = (In<Vec<f64>>, Out<Vec<u8>>);

    fn contract(c: &mut Contract, options: &QuantizationOptions) -> Self::Ports {
        if let Err(problem) = options.interval() {
            c.error(problem);
        }
        (c.input("FLOAT_VECTOR"), c.output("ENCODED"))
    }

    fn open(options: &QuantizationOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        let (min, width) = options.interval().unwrap_or_default();
        Ok(Self { min, width })
    }

    fn process(&mut self, (floats, encoded): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(floats) = cx.get(floats) {
            let step = 255.0 / f64::from(self.width);
            let max = self.min + self.width;
            let encode = |value: &f64| {
                let value = (*value as f32).clamp(self.min, max);
                (f64::from(value - self.min) * step) as u8
            };
            let bytes: Vec<u8> = floats.iter().map(encode).collect();
            cx.emit(encoded, bytes);
        }
        Ok(Flow::Continue)
    }
}
register!(QuantizeFloatVector);

#[cfg(test)]
mod tests {
    use graphmill_engine::{
        Environment, Registry,
        testing::{Harness, check},
    };

    fn graph(options: &str) -> String {
        format!(
            r#"node {{ calculator: "QuantizeFloatVectorCalculator" input_stream: "FLOAT_VECTOR:in" output_stream: "ENCODED:out"
               options {{ [mediapipe.QuantizeFloatVectorCalculatorOptions.ext] {{ {options} }} }} }}"#
        )
    }

    #[test]
    fn floats_become_bytes() {
        let mut h = Harness::global(&graph("max_quantized_value: 64 min_quantized_value: -64"));
        h.push("in", 1, vec![-64.0, 0.0, 32.0, 64.0, 1e9, -1e9, f64::NAN]);
        h.expect("out", [(1, vec![0_u8, 127, 191, 255, 255, 0, 0])]);
    }

    #[test]
    fn an_interval_is_needed() {
        for (options, message) in [
            ("max_quantized_value: 1", "have to be set"),
            (
                "max_quantized_value: 1 min_quantized_value: 1",
                "has to be above",
            ),
        ] {
            let found = check(&graph(options), &Environment::new(Registry::global()));
            assert!(found.contains(message), "{options}:\n{found}");
        }
    }
}
