//! `DequantizeByteArrayCalculator`: bytes as a vector of floats.

use graphmill_engine::{Calculator, Contract, Cx, Flow, In, OpenCx, Out, Result, register};

use super::quantize_float_vector::QuantizationOptions;

/// Decodes the bytes that a `QuantizeFloatVectorCalculator` with the same options made. Each byte
/// stands for a part of the interval and becomes its middle. The bytes are a `Vec<u8>`. It computes
/// in single precision.
///
/// ```pbtxt
/// input_stream: "encoded"
/// output_stream: "features"
/// node {
///   calculator: "DequantizeByteArrayCalculator"
///   input_stream: "ENCODED:encoded"
///   output_stream: "FLOAT_VECTOR:features"
///   options {
///     [mediapipe.DequantizeByteArrayCalculatorOptions.ext] { max_quantized_value: 64 min_quantized_value: -64 }
///   }
/// }
/// ```
pub struct DequantizeByteArray {
    step: f32,
    first: f32,
}

impl Calculator for DequantizeByteArray {
    const NAME: &'static str = "DequantizeByteArrayCalculator";
    const DOC: &'static str = "Decodes bytes to the floats that they stand for.";
    const OPTION_NAMES: &'static [&'static str] =
        &["mediapipe.DequantizeByteArrayCalculatorOptions"];
    type Options = QuantizationOptions;
    type Ports = (In<Vec<u8>>, Out<Vec<f64>>);

    fn contract(c: &mut Contract, options: &QuantizationOptions) -> Self::Ports {
        if let Err(problem) = options.interval() {
            c.error(problem);
        }
        (c.input("ENCODED"), c.output("FLOAT_VECTOR"))
    }

    fn open(options: &QuantizationOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        let (min, width) = options.interval().unwrap_or_default();
        Ok(Self {
            step: width / 255.0,
            first: width / 512.0 + min,
        })
    }

    fn process(&mut self, (encoded, floats): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(bytes) = cx.get(encoded) {
            let decode = |byte: &u8| f64::from(f32::from(*byte) * self.step + self.first);
            let decoded: Vec<f64> = bytes.iter().map(decode).collect();
            cx.emit(floats, decoded);
        }
        Ok(Flow::Continue)
    }
}
register!(DequantizeByteArray);

#[cfg(test)]
mod tests {
    use graphmill_engine::testing::Harness;

    #[test]
    fn bytes_become_floats() {
        let mut h = Harness::global(
            r#"node { calculator: "DequantizeByteArrayCalculator" input_stream: "ENCODED:in" output_stream: "FLOAT_VECTOR:out"
               options { [mediapipe.DequantizeByteArrayCalculatorOptions.ext] { max_quantized_value: 255 min_quantized_value: 0 } } }"#,
        );
        let middle = f64::from(255.0_f32 / 512.0);
        h.push("in", 1, vec![0_u8, 255]);
        h.expect("out", [(1, vec![middle, 255.0 + middle])]);
    }
}
