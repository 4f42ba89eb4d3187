//! The graphs that are served: each has a name, a state, and when it is available a plan to open
//! sessions on.
//!
//! A list is immutable, and a reload puts another one in its place; a graph's state changes behind
//! it in one atomic swap. So a request sees one state from beginning to end.

mod answer;
mod health;
mod load;
mod loading;
mod models;
mod progress;
mod running;
mod served;
mod state;
mod watch;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use graphmill_calculators::{embed::EmbeddingModel, llm::LanguageModel};
use graphmill_engine::{Environment, Registry, Resource, Seen, shortened};
use graphmill_grammar::suggest;

pub(crate) use answer::{Answer, Asked, Stage, Trace, cut, ended};
pub(crate) use load::{answers, compile, compile_text};
pub(crate) use loading::{look_for_models, watch_files};
pub(crate) use models::Named;
pub(crate) use running::{Listed, Running};
pub(crate) use served::Served;
pub(crate) use state::{Servable, StateName};
pub(crate) use watch::watch;

use crate::{
    config::{Config, GraphEntry},
    rescue::{Cause, Failure},
};

/// All graphs of a server, by name.
pub(crate) struct Servables {
    by_name: BTreeMap<String, Arc<Servable>>,
    /// Lists them in the order in which they are loaded.
    config: Config,
    /// What the program brings, without the subgraphs of the configuration.
    registry: Registry,
    environment: Environment,
    /// Whether graphs wait for files that are missing.
    pub(crate) waits: bool,
    /// When those that wait and have their files are tried again.
    attempts: Mutex<BTreeMap<String, loading::Attempts>>,
}

impl Servables {
    /// The graphs of a configuration, none of them loaded.
    pub(crate) fn new(config: &Config, registry: Registry, waits: bool) -> Self {
        let environment = Environment::new(config.register(registry.clone()));
        Self::in_environment(config.clone(), registry, environment, waits)
    }

    /// The graphs of another configuration, none of them loaded. Models that these use are shared.
    fn succeeded_by(&self, config: Config) -> Self {
        let registry = self.registry.clone();
        let registered = config.register(registry.clone());
        let environment = self.environment.clone().with_registry(registered);
        Self::in_environment(config, registry, environment, self.waits)
    }

    fn in_environment(
        config: Config,
        registry: Registry,
        environment: Environment,
        waits: bool,
    ) -> Self {
        let graphs = config.graphs.iter();
        let by_name = graphs
            .map(|entry| (entry.name.clone(), Arc::new(Servable::loading(&entry.name))))
            .collect();
        Self {
            by_name,
            config,
            registry,
            environment,
            waits,
            attempts: Mutex::default(),
        }
    }

    /// Puts a graph in the place of the one of its name.
    fn put(&mut self, servable: Arc<Servable>) {
        self.by_name.insert(servable.name().to_owned(), servable);
    }

    /// Whether a graph is listed just so.
    fn has(&self, entry: &GraphEntry) -> bool {
        self.config.graphs.contains(entry)
    }

    /// All files that its graphs are made of.
    fn seen(&self) -> Seen {
        let mut all = Seen::default();
        self.iter()
            .for_each(|servable| all.extend(&servable.seen()));
        all
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
    ) -> Result<Named, Failure> {
        self.named(name).ok_or_else(|| self.unknown(name, sees))
    }

    fn unknown(&self, name: &str, sees: impl Fn(&str, Option<&str>) -> bool) -> Failure {
        /// Longer names say nothing more, and an answer must not grow with a request.
        const SHOWN_BYTES: usize = 150;
        let visible = self.by_name.keys().filter(|name| sees(name, None));
        let mut all: Vec<String> = visible.cloned().collect();
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
