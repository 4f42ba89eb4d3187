//! Aliases: additional names of graphs.

use std::collections::{HashMap, HashSet};

use super::{GraphEntry, wrong_name};

/// Returns the aliases that cannot be used, each with the reason.
pub(crate) fn wrong(graphs: &[GraphEntry]) -> Vec<(&str, String)> {
    let names = graphs.iter().flat_map(|it| [it.name.clone(), it.id()]);
    let names: HashSet<String> = names.collect();
    let mut taken: HashMap<&str, &str> = HashMap::new();
    let mut seen = HashSet::new();
    let mut wrong = Vec::new();
    // Versions of a graph have the same aliases.
    for graph in graphs.iter().filter(|it| seen.insert(it.name.as_str())) {
        let name = graph.name.as_str();
        for alias in &graph.aliases {
            let why = if let Some(why) = wrong_name(alias) {
                format!("the alias `{alias}` of `{name}` {why}")
            } else if names.contains(alias) {
                format!("`{alias}` is an alias of `{name}` and the name of a graph")
            } else if let Some(other) = taken.insert(alias, name) {
                format!("`{alias}` is an alias of `{other}` and of `{name}`")
            } else {
                continue;
            };
            wrong.push((alias.as_str(), why));
        }
    }
    wrong
}
