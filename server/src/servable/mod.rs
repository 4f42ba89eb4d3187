//! The graphs that are served: each has a name, a state, and when it is available a plan to open
//! sessions on.
//!
//! The list is fixed when the server starts; a graph's state changes behind it in one atomic swap,
//! so a request sees one state from beginning to end.

mod answer;
mod health;
mod load;
mod loading;
mod models;
mod running;
mod state;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use graphmill_calculators::{embed::EmbeddingModel, llm::LanguageModel};
use graphmill_engine::{Environment, Registry, Resource, shortened};
use graphmill_grammar::suggest;

pub(crate) use answer::{Answer, Asked, Stage, cut};
pub(crate) use load::{answers_http, compile, compile_text};
pub(crate) use loading::{look_for_models, watch_files};
pub(crate) use models::Named;
pub(crate) use running::Running;
pub(crate) use state::{Servable, StateName};

use crate::{
    config::{Config, GraphEntry},
    rescue::{Cause, Failure},
};

/// All graphs of a server, by name.
pub(crate) struct Servables {
    by_name: BTreeMap<String, Arc<Servable>>,
    /// In the order in which they are loaded.
    entries: Vec<GraphEntry>,
    environment: Environment,
    /// Whether graphs wait for files that are missing.
    pub(crate) waits: bool,
    /// When those that wait and have their files are tried again.
    attempts: Mutex<BTreeMap<String, loading::Attempts>>,
}

impl Servables {
    /// The graphs of a configuration, none of them loaded.
    pub(crate) fn new(config: &Config, registry: Registry, waits: bool) -> Self {
        let by_name = config
            .graphs
            .iter()
            .map(|entry| (entry.name.clone(), Arc::new(Servable::loading(&entry.name))))
            .collect();
        Self {
            by_name,
            entries: config.graphs.clone(),
            environment: Environment::new(config.register(registry)),
            waits,
            attempts: Mutex::default(),
        }
    }

    /// By name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Servable> {
        self.by_name.values().map(AsRef::as_ref)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Arc<Servable>> {
        self.by_name.get(name)
    }

    /// The graph that is meant where a question about prompts names none: the only one, or one with
    /// the only language model.
    pub(crate) fn unnamed(&self) -> Option<&Arc<Servable>> {
        let mut graphs = self.by_name.values();
        match (graphs.next(), graphs.next()) {
            (Some(only), None) => Some(only),
            _ => match self.models().as_slice() {
                [(graph, _)] => self.get(graph),
                _ => None,
            },
        }
    }

    /// What this name is of, or the failure that a request for it gets, which names the graphs and
    /// adapters that the client may see.
    pub(crate) fn find(
        &self,
        name: &str,
        sees: impl Fn(&str, Option<&str>) -> bool,
    ) -> Result<Named<'_>, Failure> {
        self.named(name).ok_or_else(|| self.unknown(name, sees))
    }

    fn unknown(&self, name: &str, sees: impl Fn(&str, Option<&str>) -> bool) -> Failure {
        /// Longer names say nothing more, and an answer must not grow with a request.
        const SHOWN_BYTES: usize = 150;
        let seen = self.by_name.keys().filter(|name| sees(name, None));
        let mut all: Vec<String> = seen.cloned().collect();
        for servable in self.iter() {
            let adapters = servable.adapters().into_iter();
            let adapters = adapters.filter(|adapter| sees(servable.name(), Some(adapter)));
            all.extend(adapters.map(|adapter| format!("{}:{adapter}", servable.name())));
        }
        let names = || all.iter().map(String::as_str);
        let shown = &*shortened(name, SHOWN_BYTES);
        let message = match suggest::nearest(shown, names()) {
            Some(near) => format!("the model `{shown}` does not exist; did you mean `{near}`?"),
            None if self.by_name.is_empty() => {
                format!("the model `{shown}` does not exist; the configuration lists no graph")
            }
            None if all.is_empty() => format!("the model `{shown}` does not exist"),
            None => {
                let some: Vec<String> = names().take(10).map(|name| format!("`{name}`")).collect();
                format!(
                    "the model `{shown}` does not exist; there are {}",
                    some.join(", ")
                )
            }
        };
        Failure::new(Cause::UnknownModel, message).of_field("model")
    }

    /// The models of all available graphs, each once, with the name of the first graph that uses
    /// it.
    pub(crate) fn models(&self) -> Vec<(String, Arc<LanguageModel>)> {
        self.resources()
    }

    /// As [`Servables::models`], for those that embed or rank.
    pub(crate) fn embedding_models(&self) -> Vec<(String, Arc<EmbeddingModel>)> {
        self.resources()
    }

    /// Looks whether the files of models have changed since they were loaded.
    pub(crate) fn look_at_files(&self) {
        for (_, model) in self.models() {
            model.engine().files().look();
        }
        for (_, model) in self.embedding_models() {
            model.engine().files().look();
        }
    }

    fn resources<R: Resource>(&self) -> Vec<(String, Arc<R>)> {
        let mut found: Vec<(String, Arc<R>)> = Vec::new();
        for servable in self.iter() {
            for resource in servable.resources::<R>() {
                if !found.iter().any(|(_, other)| Arc::ptr_eq(other, &resource)) {
                    found.push((servable.name().to_owned(), resource));
                }
            }
        }
        found
    }
}
