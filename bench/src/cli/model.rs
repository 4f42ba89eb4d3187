//! `graphmill-bench model`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use graphmill_bench::model::{Recipe, SHAPES, Type};

use super::{Outcome, note, print};

/// The small model of this repository, relative to its root.
const SHIPPED: &str = "demos/tiny_chat/model.gguf";

#[derive(Clone, Debug, Args)]
pub(super) struct Arguments {
    /// The shape: that of Qwen2.5 for 0.5b and 1.5b.
    #[arg(long, default_value = "0.5b", value_parser = ["tiny", "0.5b", "1.5b"])]
    shape: String,
    /// The type of the matrices.
    #[arg(long = "type", value_enum, default_value = "q8_0")]
    kind: Kind,
    /// Make a model whose greedy text repeats itself.
    #[arg(long)]
    loops: bool,
    /// Seed of the weights.
    #[arg(long, default_value_t = 1)]
    seed: u64,
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
    /// 16-bit float.
    #[value(name = "f16")]
    F16,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    print(&make(arguments)?.display().to_string());
    Ok(())
}

/// Makes a model unless it is there.
fn make(arguments: &Arguments) -> Outcome<PathBuf> {
    let shape = SHAPES
        .into_iter()
        .find(|shape| shape.name == arguments.shape);
    let recipe = Recipe {
        shape: shape.ok_or("no such shape")?,
        kind: match arguments.kind {
            Kind::Q8_0 => Type::Q8_0,
            Kind::Q4_0 => Type::Q4_0,
            Kind::F16 => Type::F16,
        },
        loops: arguments.loops,
        seed: arguments.seed,
    };
    note(&format!("model {}", recipe.file_name()));
    let made = recipe.make(&arguments.folder, &arguments.vocabulary);
    made.map_err(|error| format!("cannot make {}: {error}", recipe.file_name()).into())
}
