//! `graphmill-bench model`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use graphmill_bench::model::{Quantization, Recipe, SHAPES, Shape};

use super::{Outcome, note, print};

/// The small model of this repository, relative to its root.
const SHIPPED: &str = "demos/tiny_chat/model.gguf";

/// Which model.
#[derive(Clone, Debug, Args)]
pub(super) struct Arguments {
    /// The shape: that of Qwen2.5 for 0.5b and 1.5b; tiny-moe has four experts, of which two
    /// compute a token, and moe has 64 and eight; hybrid is that of LFM2 350M, most of whose layers
    /// have no attention.
    #[arg(long, default_value = "0.5b", value_parser = ["tiny", "tiny-moe", "moe", "hybrid", "0.5b", "1.5b"])]
    shape: String,
    /// The types of the matrices.
    #[arg(long = "type", value_enum, default_value = "q8_0")]
    kind: Kind,
    /// Make a model whose greedy text repeats itself.
    #[arg(long)]
    loops: bool,
    /// Seed of the weights.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    store: Store,
}

/// Where models come from.
#[derive(Clone, Debug, Args)]
pub(super) struct Store {
    /// Where models are kept.
    #[arg(long, value_name = "FOLDER", default_value = "target/bench-models")]
    folder: PathBuf,
    /// The GGUF file whose vocabulary is taken and extended.
    #[arg(long, value_name = "FILE", default_value = SHIPPED)]
    vocabulary: PathBuf,
}

/// Number types of matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    /// Blocks of 8-bit numbers.
    #[value(name = "q8_0")]
    Q8_0,
    /// Blocks of 4-bit numbers.
    #[value(name = "q4_0")]
    Q4_0,
    /// llama.cpp's mix of `Q4_K` and `Q6_K`; `Q5_0` and `Q8_0` for rows that are no multiple of
    /// 256, as in 0.5b.
    #[value(name = "q4_k_m")]
    Q4KM,
    /// Experts in `MXFP4`, all else in 8-bit numbers.
    #[value(name = "mxfp4")]
    MxFp4,
    /// 16-bit float.
    #[value(name = "f16")]
    F16,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let recipe = Recipe {
        shape: shape(&arguments.shape)?,
        quantization: arguments.kind.quantization(),
        loops: arguments.loops,
        seed: arguments.seed,
    };
    print(&arguments.store.model(&recipe)?.display().to_string());
    Ok(())
}

impl Kind {
    /// The types of a model's matrices.
    pub(super) fn quantization(self) -> Quantization {
        match self {
            Self::Q8_0 => Quantization::Q8_0,
            Self::Q4_0 => Quantization::Q4_0,
            Self::Q4KM => Quantization::Q4KM,
            Self::MxFp4 => Quantization::MxFp4,
            Self::F16 => Quantization::F16,
        }
    }
}

impl Store {
    /// The path of a model, which is made unless it is there.
    pub(super) fn model(&self, recipe: &Recipe) -> Outcome<PathBuf> {
        note(&format!("model {}", recipe.file_name()));
        let made = recipe.make(&self.folder, &self.vocabulary);
        made.map_err(|error| format!("cannot make {}: {error}", recipe.file_name()).into())
    }
}

/// The shape of a name.
pub(super) fn shape(name: &str) -> Outcome<Shape> {
    let shape = SHAPES.into_iter().find(|shape| shape.name == name);
    shape.ok_or_else(|| format!("there is no shape `{name}`").into())
}
