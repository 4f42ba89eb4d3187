//! Versions of a graph, and the choice among them for requests that name none.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use ring::digest::{SHA256, digest};

use super::{Servable, Servables, StateName};
use crate::{
    config::Config,
    errors::{Cause, Failure},
};

/// The versions of a graph.
#[derive(Debug, Default)]
pub(super) struct Versions {
    /// Names of the versions, by number.
    names: BTreeMap<u64, String>,
    /// Percentages of the requests that name no version, by version.
    canary: BTreeMap<u64, u32>,
    /// Version that an operator has made the default; 0 for the newest.
    default: AtomicU64,
}

/// Returns the graphs of a configuration that have versions.
pub(super) fn collect(config: &Config) -> BTreeMap<String, Versions> {
    let mut all: BTreeMap<String, Versions> = BTreeMap::new();
    for entry in &config.graphs {
        if let Some(version) = entry.version {
            let versions = all.entry(entry.name.clone()).or_default();
            versions.names.insert(version, entry.id());
        }
    }
    for canary in &config.canaries {
        if let Some(versions) = all.get_mut(&canary.graph) {
            versions.canary.clone_from(&canary.percents);
        }
    }
    all
}

impl Versions {
    /// Returns the canary version for a word, if it falls to one.
    fn on_trial(&self, graph: &str, word: Option<&str>) -> Option<u64> {
        let falls_to = hundredth(graph, word?);
        let mut sum = 0;
        let mut listed = self.canary.iter();
        let found = listed.find(|(_, percent)| {
            sum += **percent;
            falls_to < sum
        });
        found.map(|(version, _)| *version)
    }
}

/// Returns the hundredth of all requests for a graph that a word belongs to, which is the same in
/// every process.
fn hundredth(graph: &str, word: &str) -> u32 {
    let digest = digest(&SHA256, format!("{graph}\n{word}").as_bytes());
    let first = digest.as_ref().first_chunk().expect("it has 32 bytes");
    u32::from_le_bytes(*first) % 100
}

impl Servables {
    /// Returns the graph of a name, or the chosen version of it; one that can answer, if there is
    /// one.
    pub(super) fn find_version(&self, name: &str, word: Option<&str>) -> Option<&Arc<Servable>> {
        let name = self.without_alias(name);
        if let Some(servable) = self.by_name.get(name) {
            return Some(servable);
        }
        let versions = self.versions.get(name)?;
        let trial = versions.on_trial(name, word);
        let newest = versions.names.iter().rev();
        let is_listed = |version: &u64| versions.canary.contains_key(version);
        let (listed, others): (Vec<_>, Vec<_>) = newest.partition(|(number, _)| is_listed(number));
        let in_turn = others.into_iter().chain(listed).map(|(number, _)| *number);
        let default = versions.default.load(Relaxed);
        let first = trial.or((default > 0).then_some(default));
        let in_turn: Vec<u64> = first.into_iter().chain(in_turn).collect();
        let servables = || {
            let names = in_turn.iter().filter_map(|it| versions.names.get(it));
            names.filter_map(|name| self.by_name.get(name))
        };
        let will_answer = |it: &&Arc<Servable>| it.state_name() != StateName::Failed;
        servables()
            .find(|servable| servable.answers())
            .or_else(|| servables().find(will_answer))
            .or_else(|| servables().next())
    }

    /// Makes a version the default for requests that name none, until the server ends.
    ///
    /// # Errors
    /// If the configuration divides the graph's requests among versions.
    pub(crate) fn set_default(&self, graph: &str, version: u64) -> Result<(), Failure> {
        let Some(versions) = self.versions.get(graph) else {
            return Ok(());
        };
        if !versions.canary.is_empty() {
            let why = "the configuration divides requests among versions (`canary`)";
            return Err(Failure::new(Cause::Unsupported, why));
        }
        versions.default.store(version, Relaxed);
        Ok(())
    }

    /// Copies the defaults of `before`, for versions that still exist.
    pub(super) fn keep_defaults(&self, before: &Self) {
        for (graph, versions) in &self.versions {
            let earlier = before.versions.get(graph);
            let default = earlier.map(|it| it.default.load(Relaxed));
            let default = default.filter(|it| versions.names.contains_key(it));
            versions.default.store(default.unwrap_or(0), Relaxed);
        }
    }

    /// Returns the numbers of a graph's versions, in ascending order.
    pub(super) fn numbers(&self, graph: &str) -> Option<impl Iterator<Item = u64>> {
        let versions = self.versions.get(self.without_alias(graph))?;
        Some(versions.names.keys().copied())
    }

    /// Returns the percentages of a graph's versions, if requests are divided among them.
    pub(super) fn canary(&self, graph: &str) -> Option<&BTreeMap<u64, u32>> {
        let canary = &self.versions.get(graph)?.canary;
        (!canary.is_empty()).then_some(canary)
    }

    /// Returns the names of graphs with versions.
    pub(crate) fn versioned(&self) -> impl Iterator<Item = &str> {
        self.versions.keys().map(String::as_str)
    }
}

impl Servable {
    /// Returns true if it answers, or is loaded by a request.
    pub(crate) fn answers(&self) -> bool {
        match self.state_name() {
            StateName::Available => true,
            StateName::Listed | StateName::Loading | StateName::Unloading | StateName::Unloaded => {
                self.loads_on_demand() && self.last_failure().is_none()
            }
            StateName::Failed | StateName::Waiting => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_always_falls_to_the_same_version_and_all_words_as_the_percents_say() {
        let versions = Versions {
            names: BTreeMap::new(),
            canary: BTreeMap::from([(2, 10), (3, 30), (4, 0)]),
            default: AtomicU64::new(0),
        };
        let of = |word: u32| versions.on_trial("chat", Some(&word.to_string()));
        let mut counts = BTreeMap::new();
        for word in 0..10_000 {
            assert_eq!(of(word), of(word));
            *counts.entry(of(word)).or_insert(0) += 1;
        }
        assert!((800..1_200).contains(&counts[&Some(2)]), "{counts:?}");
        assert!((2_700..3_300).contains(&counts[&Some(3)]), "{counts:?}");
        assert!(!counts.contains_key(&Some(4)), "{counts:?}");
        assert_eq!(versions.on_trial("chat", None), None);
        let differ = |word: &str| hundredth("chat", word) != hundredth("other", word);
        assert!(differ("a") || differ("b"), "graphs choose apart");
    }
}
