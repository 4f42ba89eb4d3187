//! Descriptions of calculators and subgraphs, for the command line and the HTTP API.

use graphmill_calculators::GROUPS;
use graphmill_engine::{Registry, Subgraph, registry::Description};
use serde_json::{Value, json};

/// Returns the first sentence of a description.
pub(crate) fn summary(doc: &str) -> &str {
    doc.split_inclusive(". ").next().unwrap_or(doc).trim_end()
}

/// Describes a subgraph as JSON.
pub(crate) fn subgraph_json(subgraph: &Subgraph) -> Value {
    json!({ "name": subgraph.name, "doc": subgraph.doc, "graph": subgraph.text, "primary": subgraph.primary })
}

/// Describes the calculator or subgraph of this name with all details; `None` if there is none.
pub(crate) fn describe(registry: &Registry, name: &str) -> Option<Value> {
    let mut calculators = registry.describe().into_iter();
    if let Some(calculator) = calculators.find(|it| it.name == name) {
        return Some(json!(calculator));
    }
    let mut subgraphs = registry.subgraphs();
    subgraphs.find(|it| *it.name == *name).map(subgraph_json)
}

/// Lists the calculators and subgraphs, sorted by name, each with its [`summary`].
pub(crate) fn list(registry: &Registry) -> Vec<(String, String)> {
    let calculators = registry.describe().into_iter();
    let calculators = calculators.map(|it| (it.name.to_owned(), summary(it.doc).to_owned()));
    let subgraphs = registry.subgraphs();
    let subgraphs = subgraphs.map(|it| (it.name.to_string(), summary(&it.doc).to_owned()));
    let mut all: Vec<_> = calculators.chain(subgraphs).collect();
    all.sort_unstable();
    all
}

/// Returns the group of a calculator that this project ships.
pub(crate) fn shipped_group(calculator: &Description) -> Option<&'static str> {
    let inside = |path: &str| {
        let rest = calculator.module.strip_prefix(path);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    let found = GROUPS.iter().find(|(path, _)| inside(path));
    found.map(|(_, group)| *group)
}

/// Returns the group of a calculator: one of this project, or the crate that registers it.
pub(crate) fn group(calculator: &Description) -> &'static str {
    let crate_name = || calculator.module.split("::").next().unwrap_or_default();
    shipped_group(calculator).unwrap_or_else(crate_name)
}
