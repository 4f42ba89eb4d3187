//! Flags that add subgraphs to the registry.

use std::path::PathBuf;

use clap::Args;

use crate::config::subgraphs::NamedSubgraphs;

/// Flags of all commands that compile graphs.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(super) struct SubgraphFlags {
    /// Graph file with a `type`, or folder of such files, that graphs can use as nodes; may be given
    /// several times.
    ///
    /// Subgraphs in the graph's own folder are found without this flag. If two have the same type,
    /// the one named here is used.
    #[arg(long, value_name = "PATH")]
    subgraphs: Vec<PathBuf>,
}

impl SubgraphFlags {
    /// Returns the subgraphs that the flags name. The error names the wrong one.
    pub(super) fn named(&self) -> Result<NamedSubgraphs, String> {
        let mut named = NamedSubgraphs::default();
        for path in &self.subgraphs {
            let added = named.add(path);
            added.map_err(|why| format!("--subgraphs: {why}"))?;
        }
        Ok(named)
    }
}
