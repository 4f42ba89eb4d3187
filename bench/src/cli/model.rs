//! `graphmill-bench model`.

use std::path::PathBuf;

use clap::Args;
use graphmill_llm::weights::TYPES;

use super::{BenchResult, note, print};
use crate::model::{Recipe, SHAPES};

/// The small model of this repository, relative to its root.
const SHIPPED: &str = "demos/tiny_chat/model.gguf";

#[derive(Clone, Debug, Args)]
pub(super) struct ModelArguments {
    /// The shape: that of Qwen2.5 for 0.5b and 1.5b; tiny-moe has four experts, of which two
    /// compute a token, and moe has 64 and eight; hybrid is that of LFM2 350M, most of whose layers
    /// have no attention.
    #[arg(long, default_value = "0.5b", value_parser = ["tiny", "tiny-moe", "moe", "hybrid", "0.5b", "1.5b"])]
    shape: String,
    /// The types of the matrices, as `graphmill quantize` chooses them; `mxfp4` is `mxfp4_moe`.
    #[arg(long = "type", value_name = "TYPE", value_parser = kind, default_value = "q8_0")]
    kind: &'static str,
    /// Make a model whose greedy text repeats itself.
    #[arg(long)]
    loops: bool,
    /// Seed of the random weights.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Folder in which models are kept.
    #[arg(long, value_name = "FOLDER", default_value = "target/bench-models")]
    folder: PathBuf,
    /// The GGUF file whose vocabulary is taken and extended.
    #[arg(long, value_name = "FILE", default_value = SHIPPED)]
    vocabulary: PathBuf,
}

fn kind(name: &str) -> Result<&'static str, String> {
    let wanted = name.to_uppercase();
    let mut known = TYPES.iter().map(|(name, _)| *name);
    known
        .find(|known| known.trim_end_matches("_MOE") == wanted.trim_end_matches("_MOE"))
        .ok_or_else(|| "use a type of `graphmill quantize`".to_owned())
}

pub(super) fn run(arguments: &ModelArguments) -> BenchResult {
    let mut shapes = SHAPES.into_iter();
    let shape = shapes.find(|shape| shape.name == arguments.shape);
    let recipe = Recipe {
        shape: shape.ok_or("there is no such shape")?,
        kind: arguments.kind,
        loops: arguments.loops,
        seed: arguments.seed,
    };
    let name = recipe.file_name();
    note(&format!("model {name}"));
    let made = recipe.make(&arguments.folder, &arguments.vocabulary);
    let path = made.map_err(|error| format!("cannot make {name}: {error}"))?;
    print(&path.display().to_string());
    Ok(())
}
