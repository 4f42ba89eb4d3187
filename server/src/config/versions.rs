//! Versions of a graph: numbered folders in its `base_path`, each with a graph file.

use std::{
    collections::BTreeMap,
    fs,
    num::NonZeroU64,
    path::{Path, PathBuf},
};

use graphmill_grammar::diag::Diagnostic;

use super::{codes, schema, text::Text};

/// The versions of a graph to serve.
pub(super) struct Versions {
    /// Version numbers in ascending order.
    pub(super) served: Vec<u64>,
    /// Percentages of the requests that name no version, by version.
    pub(super) canary: BTreeMap<u64, u32>,
    /// Folders and files whose changes add or remove versions.
    pub(super) places: Vec<PathBuf>,
}

/// Finds the versions of a graph with the file name `named` in `base`. `None` for a graph without
/// versions, such as one in the folder `1` alone, unless the configuration mentions versions.
pub(super) fn find(
    graph: &schema::Graph,
    base: &Path,
    named: &str,
    places: &Text<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Versions> {
    let is_told = graph.model_version_policy.is_some() || !graph.canary.is_empty();
    if !is_told && base.join(named).is_file() {
        return None;
    }
    let folders = numbered(base);
    let file = |version: &u64| base.join(version.to_string()).join(named);
    let there = folders.iter().copied().filter(|it| file(it).is_file());
    let there: Vec<u64> = there.collect();
    if !is_told && matches!(there.as_slice(), [] | [1]) {
        return None;
    }
    let served = chosen(graph, &there);
    let (name, folder) = (&graph.name, base.display());
    let place = || places.name(name, 0);
    if served.is_empty() {
        let others = match there.as_slice() {
            [] => String::new(),
            others => {
                let others: Vec<String> = others.iter().map(u64::to_string).collect();
                let others = others.join(", ");
                format!(": there is {others}, but `model_version_policy` excludes it")
            }
        };
        let message = format!("there is no version of `{name}` to serve in `{folder}`{others}");
        let diagnostic = Diagnostic::error(&codes::VERSIONS, place(), message);
        diagnostics.push(diagnostic.hint(format!(
            "a version is a folder whose name is a number above 0, with a `{named}` in it"
        )));
    }
    let mut missing: Vec<u64> = listed(graph).filter(|it| !there.contains(it)).collect();
    missing.dedup();
    for version in &missing {
        let absent = format!("`{}` does not exist", file(version).display());
        let message = format!("version {version} of `{name}` is not there: {absent}");
        diagnostics.push(Diagnostic::warning(&codes::VERSIONS, place(), message));
    }
    for version in graph.canary.keys() {
        if there.contains(version) && !served.contains(version) {
            let message = format!(
                "`canary` of `{name}` names version {version}, which `model_version_policy` excludes"
            );
            diagnostics.push(Diagnostic::error(&codes::VERSIONS, place(), message));
        }
    }
    let mut looked: Vec<PathBuf> = vec![base.to_owned()];
    looked.extend(folders.iter().chain(&missing).map(file));
    Some(Versions {
        served,
        canary: graph.canary.clone(),
        places: looked,
    })
}

/// Returns the versions that the configuration names, in ascending order.
fn listed(graph: &schema::Graph) -> impl Iterator<Item = u64> {
    let policy = graph.model_version_policy.as_ref();
    let specific = policy.and_then(|policy| policy.specific.as_ref());
    let specific = specific.into_iter().flat_map(|it| &it.0.versions);
    let mut all: Vec<u64> = specific.copied().map(NonZeroU64::get).collect();
    all.extend(graph.canary.keys());
    all.sort_unstable();
    all.into_iter()
}

/// Selects the versions to serve from the existing ones, in ascending order.
fn chosen(graph: &schema::Graph, there: &[u64]) -> Vec<u64> {
    let newest = |count: NonZeroU64| {
        let count = usize::try_from(count.get()).unwrap_or(usize::MAX);
        there[there.len().saturating_sub(count)..].to_vec()
    };
    let Some(policy) = &graph.model_version_policy else {
        // Versions with a share of the requests, and the newest of the others.
        let is_listed = |version: &&u64| graph.canary.contains_key(version);
        let newest = there.iter().rev().find(|it| !is_listed(it)).copied();
        let is_served = |it: &&u64| is_listed(it) || Some(**it) == newest;
        return there.iter().filter(is_served).copied().collect();
    };
    match (&policy.latest, &policy.specific) {
        (Some(latest), _) => newest(latest.0.num_versions),
        (None, Some(specific)) => {
            let is_listed = |it: &&u64| specific.0.versions.iter().any(|own| own.get() == **it);
            there.iter().filter(is_listed).copied().collect()
        }
        (None, None) => there.to_vec(),
    }
}

/// Returns the numbers of the folders whose names are numbers above 0, in ascending order.
pub(crate) fn numbered(base: &Path) -> Vec<u64> {
    let entries = fs::read_dir(base).into_iter().flatten().flatten();
    let mut numbers: Vec<u64> = entries
        .filter(|entry| entry.path().is_dir())
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let number: u64 = name.parse().ok()?;
            (number > 0 && number.to_string() == name).then_some(number)
        })
        .collect();
    numbers.sort_unstable();
    numbers
}
