//! The calculators and subgraphs that a command goes by.

use std::path::PathBuf;

use clap::Args;
use graphmill_engine::Registry;

use crate::servable::subgraphs::listed;

/// Flags of all verbs that compile graphs.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(super) struct Further {
    /// A graph file with a `type`, or a folder of such files, that graphs can use as nodes; may be given several times. Those in
    /// a graph's own folder are found without it.
    #[arg(long, value_name = "PATH")]
    subgraphs: Vec<PathBuf>,
}

impl Further {
    /// All that this binary registers, with the subgraphs that the flags name. The error says which of them is wrong.
    pub(super) fn registry(&self) -> Result<Registry, String> {
        let mut registry = Registry::global();
        for path in &self.subgraphs {
            let found = listed(path).map_err(|why| format!("--subgraphs: {why}"))?;
            registry = found.into_iter().fold(registry, Registry::with_subgraph);
        }
        Ok(registry)
    }
}
