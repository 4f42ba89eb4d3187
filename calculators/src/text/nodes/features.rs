//! `TextFeaturesCalculator`: converts texts to vectors of hashed words and parts of words.

use graphmill_engine::{
    Calculator, Contract, Cx, Error, Flow, In, OpenCx, Out, Payload, Result, Run, TypeInfo,
    register,
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::tensor::{Datatype, Tensor};

/// Maximum number of elements of an output: 64 MB.
const MAX_NUMBERS: usize = 16 << 20;
/// Maximum length of a vector.
const MAX_BUCKETS: u32 = 1 << 20;
/// Maximum length of a part of a word, in characters.
const MAX_PART: usize = 16;

/// Options of a `TextFeaturesCalculator` node.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TextFeaturesOptions {
    /// Length of a vector. Default: 4096.
    #[schemars(range(min = 1, max = MAX_BUCKETS))]
    pub buckets: u32,
    /// Minimum length of a part of a word, in characters. Default: 3.
    #[schemars(range(min = 1))]
    pub min_part: usize,
    /// Maximum length of a part of a word, in characters. Default: 4. With 0 only whole words
    /// count.
    #[schemars(range(max = MAX_PART))]
    pub max_part: usize,
}

impl Default for TextFeaturesOptions {
    fn default() -> Self {
        Self {
            buckets: 4096,
            min_part: 3,
            max_part: 4,
        }
    }
}

/// Computes a vector for each text, for models that classify texts by their words.
///
/// Words are runs of letters and digits, in lower case. Each occurrence of a word counts once. So
/// does each part of `min_part` to `max_part` characters of the word, with a space before and after
/// it. Words and parts are hashed (FNV-1a of their UTF-8, 32 bits), and the hash modulo `buckets`
/// is the place in the vector to which 1 is added. The vector is then scaled to length 1.
/// `hashing.py` of `demos/text_classifier` does the same in Python.
///
/// The texts are a string or a BYTES tensor. The output is FP32 of shape `[texts, buckets]`.
///
/// ```pbtxt
/// input_stream: "TEXT:text"
/// output_stream: "features"
/// node {
///   calculator: "TextFeaturesCalculator"
///   input_stream: "TEXT:text"
///   output_stream: "FEATURES:features"
///   node_options {
///     [type.googleapis.com/graphmill.TextFeaturesCalculatorOptions] { buckets: 2048 }
///   }
/// }
/// ```
pub struct TextFeatures(TextFeaturesOptions);

impl Calculator for TextFeatures {
    const NAME: &'static str = "TextFeaturesCalculator";
    const DOC: &'static str = "Converts texts to vectors by hashing their words.";
    type Options = TextFeaturesOptions;
    type Ports = (In<dyn Payload>, Out<Tensor>);

    fn contract(c: &mut Contract, _: &TextFeaturesOptions) -> Self::Ports {
        c.run(Run::Offload("cpu"));
        c.parallel();
        let types = [TypeInfo::new::<Tensor>(), TypeInfo::new::<String>()];
        (c.one_of("TEXT", &types), c.output("FEATURES"))
    }

    fn open(options: &TextFeaturesOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self(options.clone()))
    }

    fn process(&mut self, (text, features): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        let Some(packet) = cx.take_packet(text) else {
            return Ok(Flow::Continue);
        };
        let made = if let Some(tensor) = packet.get::<Tensor>() {
            if tensor.datatype() != Datatype::Bytes {
                let message = format!(
                    "expected texts as BYTES, but the tensor is {}",
                    tensor.datatype()
                );
                return Err(Error::invalid(message));
            }
            let texts = tensor
                .strings()
                .map(str::from_utf8)
                .collect::<Result<Vec<_>, _>>();
            self.vectors(&texts.map_err(|_| Error::invalid("a text is not UTF-8"))?)
        } else {
            self.vectors(&[packet.get::<String>().map_or("", String::as_str)])
        };
        cx.emit(features, made?);
        Ok(Flow::Continue)
    }
}
register!(TextFeatures);

impl TextFeatures {
    fn vectors(&self, texts: &[&str]) -> Result<Tensor> {
        let buckets = self.0.buckets as usize;
        let most = MAX_NUMBERS / buckets;
        if texts.len() > most {
            let message = format!("there are {} texts, more than {most}", texts.len());
            return Err(Error::invalid(message));
        }
        let mut data = Vec::with_capacity(texts.len() * buckets * 4);
        for text in texts {
            data.extend(self.vector(text).into_iter().flat_map(f32::to_le_bytes));
        }
        Tensor::new(Datatype::Fp32, [texts.len(), buckets], data)
            .map_err(|error| Error::internal(error.to_string()))
    }

    fn vector(&self, text: &str) -> Vec<f32> {
        let mut vector = vec![0.0_f32; self.0.buckets as usize];
        let mut count = |part: &str| vector[(hash(part) % self.0.buckets) as usize] += 1.0;
        let text = text.to_lowercase();
        let words = text.split(|it: char| !it.is_alphanumeric());
        for word in words.filter(|word| !word.is_empty()) {
            count(word);
            let framed = format!(" {word} ");
            // Bytes at which characters begin, and the end.
            let mut edges: Vec<usize> = framed.char_indices().map(|(at, _)| at).collect();
            edges.push(framed.len());
            for length in self.0.min_part..=self.0.max_part {
                for edges in edges.windows(length + 1) {
                    count(&framed[edges[0]..edges[length]]);
                }
            }
        }
        let length = vector.iter().map(|it| it * it).sum::<f32>().sqrt();
        if length > 0.0 {
            for value in &mut vector {
                *value /= length;
            }
        }
        vector
    }
}

/// Computes the FNV-1a hash of a text, in 32 bits.
fn hash(part: &str) -> u32 {
    let mix = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    part.bytes().fold(0x811c_9dc5, mix)
}
