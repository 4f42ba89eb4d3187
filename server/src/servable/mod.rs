//! The served graphs. Each has a name, a state and, if it is available, a plan for opening
//! sessions.
//!
//! A list of graphs is immutable, and a reload replaces it. The state of a graph changes in one
//! atomic swap. So a request sees one state from beginning to end.

mod default;
mod demand;
mod health;
mod last_good;
mod load;
mod loading;
mod models;
mod progress;
mod reload;
mod reload_watch;
mod served;
mod state;
mod state_name;
mod unloading;
mod usage;
mod versions;

use std::{collections::BTreeMap, fmt::Display, path::PathBuf, sync::Arc, time::Duration};

use graphmill_calculators::{embed::EmbeddingModel, llm::LanguageModel, tensor::batch::Batcher};
use graphmill_engine::{Environment, Executors, FileStamps, Plan, Registry, Resource, shortened};
use graphmill_grammar::suggest;
use parking_lot::Mutex;

pub(crate) use demand::Ready;
pub(crate) use last_good::{Keeper, LastGood};
pub(crate) use load::{
    CompileResult, answers, compile, compile_text, request_stream, response_stream,
};
pub(crate) use loading::{look_for_models, watch_files};
pub(crate) use models::{INFER, LATEST, ResolvedGraph};
pub use reload::ReloadPolicy;
pub(crate) use reload_watch::reload_on_change;
pub(crate) use served::ServedGraphs;
pub(crate) use state::Servable;
pub(crate) use state_name::StateName;
pub(crate) use unloading::unload_idle;
pub(crate) use usage::InUse;

use crate::{
    config::{Config, GraphEntry, Lister, ModelReader, Observation},
    errors::{Cause, Failure},
};
use health::NO_GRAPH;
use state::ChangeNotifier;
use versions::Versions;

/// Maximum number of graphs in a message, as there may be hundreds.
const NAMED: usize = 10;

/// The settings for loading, keeping and replacing graphs.
pub(crate) struct Settings {
    /// Path of the file that lists the graphs, if there is one.
    pub(crate) config_path: Option<PathBuf>,
    /// Lists the graphs if there is no file.
    pub(crate) lister: Option<Lister>,
    /// Reads a single model again, for a repository.
    pub(crate) model_reader: Option<ModelReader>,
    /// Maximum number of on-demand graphs in memory; no limit if `None`.
    pub(crate) models_max: Option<usize>,
    /// True if graphs wait for missing files.
    pub(crate) waits: bool,
    /// Idle time after which graphs without a setting of their own are unloaded.
    pub(crate) idle_unload: Option<Duration>,
    pub(crate) policy: ReloadPolicy,
    /// Store of the last good configuration, if there is one.
    pub(crate) keeper: Option<Keeper>,
    /// True if the first configuration is a stored one.
    pub(crate) rolled_back: bool,
}

/// All graphs of a server, by name.
pub(crate) struct Servables {
    /// Graphs and versions by [`Servable::name`].
    by_name: BTreeMap<String, Arc<Servable>>,
    /// Versions of graphs by the graph's name.
    versions: BTreeMap<String, Versions>,
    /// Names of graphs and versions by their aliases.
    aliases: BTreeMap<String, String>,
    /// Configuration, which lists the graphs in the order of loading.
    config: Config,
    /// Calculators and subgraphs of the program, without the subgraphs of the configuration.
    registry: Registry,
    environment: Environment,
    settings: Arc<Settings>,
    changed: ChangeNotifier,
    /// Next attempts to load waiting graphs whose files exist.
    attempts: Mutex<BTreeMap<String, loading::Attempts>>,
}

impl Servables {
    /// Creates the graphs of a configuration, without loading them. Its subgraphs are added to
    /// `registry`, which replaces the one of `environment`.
    fn new(
        config: Config,
        registry: Registry,
        environment: Environment,
        settings: Arc<Settings>,
        changed: ChangeNotifier,
    ) -> Self {
        let mut all = Self {
            by_name: BTreeMap::new(),
            versions: versions::collect(&config),
            aliases: BTreeMap::new(),
            config: Config::default(),
            environment: environment.with_registry(config.register(registry.clone())),
            registry,
            settings,
            changed,
            attempts: Mutex::default(),
        };
        for entry in &config.graphs {
            let mut serving = entry.serving;
            serving.idle_unload = serving.idle_unload.or(all.settings.idle_unload);
            let servable = Servable::new(entry.clone(), serving, Arc::clone(&all.changed));
            all.put(Arc::new(servable));
            for alias in &entry.aliases {
                all.aliases.insert(alias.clone(), entry.name.clone());
                if let Some(version) = entry.version {
                    let alias = format!("{alias}@{version}");
                    all.aliases.insert(alias, entry.id());
                }
            }
        }
        all.config = config;
        all
    }

    /// Creates the graphs of another configuration, without loading them. They share models with
    /// these graphs.
    fn succeeded_by(&self, config: Config) -> Self {
        let next = Self::new(
            config,
            self.registry.clone(),
            self.environment.clone(),
            Arc::clone(&self.settings),
            Arc::clone(&self.changed),
        );
        next.keep_defaults(self);
        next
    }

    /// Replaces the graph of the same name.
    fn put(&mut self, servable: Arc<Servable>) {
        self.by_name.insert(servable.name().to_owned(), servable);
    }

    /// Returns the graph of an entry of the configuration.
    fn servable(&self, entry: &GraphEntry) -> &Arc<Servable> {
        &self.by_name[&entry.id()]
    }

    /// Returns the stamps of all files that its graphs are made from.
    fn seen(&self) -> FileStamps {
        let mut all = FileStamps::default();
        self.iter()
            .for_each(|servable| all.extend(&servable.sources().seen));
        all
    }

    /// Returns the stamps of the files of graphs in memory.
    fn in_memory(&self) -> FileStamps {
        let mut all = FileStamps::default();
        self.iter()
            .filter(|servable| servable.state_name() == StateName::Available)
            .for_each(|servable| all.extend(&servable.sources().seen));
        all
    }

    /// Returns the limits on the packets that operators see.
    pub(crate) fn observation(&self) -> &Observation {
        &self.config.observation
    }

    /// Returns the calculators and subgraphs that graphs can use.
    pub(crate) fn registry(&self) -> &Registry {
        self.environment.registry()
    }

    /// Compiles the text of a graph that is not served, without models.
    pub(crate) fn check_text(&self, text: String) -> CompileResult {
        load::compile_alone(text, &self.environment.clone().without_loading())
    }

    /// Compiles a text that may replace a graph's file, without models.
    pub(crate) fn check_edit(&self, servable: &Servable, text: &str) -> CompileResult {
        let environment = self.environment.clone().without_loading();
        load::compile_in_place(text, servable.entry(), &environment)
    }

    /// Returns the executors on which graphs compute.
    pub(crate) fn executors(&self) -> &Executors {
        self.environment.executors()
    }

    /// Returns an environment that uses the models of served graphs, and loads none.
    pub(crate) fn sharing(&self) -> Environment {
        self.environment.clone().sharing_only()
    }

    /// Compiles the text of a graph that is not served, as if it were in the folder of `beside`; by
    /// default, in the first folder of a graph that has everything it needs.
    pub(crate) fn compile_beside(
        &self,
        text: &str,
        beside: Option<&Servable>,
        environment: &Environment,
    ) -> CompileResult {
        let entries: Vec<&GraphEntry> = match beside {
            Some(servable) => vec![servable.entry()],
            None => self.config.graphs.iter().collect(),
        };
        let mut first = None;
        for entry in entries {
            let compiled = load::compile_in_place(text, entry, environment);
            if compiled.plan.is_some() {
                return compiled;
            }
            first.get_or_insert(compiled);
        }
        first.unwrap_or_else(|| load::compile_alone(text.to_owned(), environment))
    }

    /// Compiles a graph that is not in memory, from its last sources and without models.
    pub(crate) fn compile_unloaded(&self, servable: &Servable) -> Option<Arc<Plan>> {
        let entry = servable.sources().entry(servable.entry());
        let compiled = load::compile_entry(&entry, &self.environment.clone().without_loading());
        compiled.ok()?.plan
    }

    /// Iterates over all graphs, sorted by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Servable> {
        self.by_name.values().map(AsRef::as_ref)
    }

    /// Iterates over all graphs as shared pointers, sorted by name.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Servable>> {
        self.by_name.values()
    }

    /// Returns the name of the graph with this alias; any other name unchanged.
    pub(crate) fn without_alias<'a>(&'a self, name: &'a str) -> &'a str {
        self.aliases.get(name).map_or(name, String::as_str)
    }

    fn get(&self, name: &str) -> Option<&Arc<Servable>> {
        self.by_name.get(name)
    }

    /// Returns the graph or adapter of this name, like [`Servables::named`]. The failure for an unknown name lists the graphs
    /// and adapters that the client may see.
    pub(crate) fn find(
        &self,
        name: &str,
        word: Option<&str>,
        sees: impl Fn(&str, Option<&str>) -> bool,
    ) -> Result<ResolvedGraph, Failure> {
        self.named(name, word)
            .filter(|named| sees(named.servable.graph(), named.adapter.as_deref()))
            .ok_or_else(|| self.unknown("model", name, sees))
    }

    /// Returns the graph, or version of a graph, of this name, for callers that may see all of
    /// them.
    pub(crate) fn graph(&self, name: &str) -> Result<Arc<Servable>, Failure> {
        // This asks for a graph, even if an adapter has the same name.
        let found = self.named(name, None).map(|named| named.servable);
        found.ok_or_else(|| self.unknown("graph", name, |_, adapter| adapter.is_none()))
    }

    /// Creates the failure for an unknown name; `what` is the kind of thing.
    fn unknown(
        &self,
        what: &'static str,
        name: &str,
        sees: impl Fn(&str, Option<&str>) -> bool,
    ) -> Failure {
        /// Maximum length in bytes of the name in the message, so that the answer does not grow
        /// with the request.
        const SHOWN_BYTES: usize = 150;
        if let Some((graph, version)) = name.rsplit_once('@')
            && !version.contains(':')
            && let Some(numbers) = self.numbers(graph).filter(|_| sees(graph, None))
        {
            let version = shortened(version, SHOWN_BYTES);
            let message = format!(
                "the {what} `{graph}` has no version `{version}`; there are {}",
                quoted(numbers)
            );
            return Failure::new(Cause::UnknownModel, message).with_field(what);
        }
        let graphs = self.iter().map(Servable::graph);
        let visible = graphs.filter(|graph| sees(graph, None));
        let mut all: Vec<String> = visible.map(str::to_owned).collect();
        all.dedup();
        for servable in self.iter() {
            let adapters = servable.adapters().into_iter();
            let adapters = adapters.filter(|adapter| sees(servable.graph(), Some(adapter)));
            all.extend(adapters.map(|adapter| format!("{}:{adapter}", servable.name())));
        }
        let names = || all.iter().map(String::as_str);
        let shown = &*shortened(name, SHOWN_BYTES);
        let message = match suggest::nearest(shown, names()) {
            Some(near) => format!("the {what} `{shown}` does not exist; did you mean `{near}`?"),
            None if self.by_name.is_empty() => {
                format!("the {what} `{shown}` does not exist; {NO_GRAPH}")
            }
            None if all.is_empty() => format!("the {what} `{shown}` does not exist"),
            None => {
                let some = quoted(names());
                format!("the {what} `{shown}` does not exist; there are {some}")
            }
        };
        Failure::new(Cause::UnknownModel, message).with_field(what)
    }

    /// Returns the models of all available graphs, each once, with the name of the first graph that
    /// uses it, and a name that is unique within that graph.
    pub(crate) fn models(&self) -> Vec<(String, String, Arc<LanguageModel>)> {
        self.with_names(|model: &LanguageModel| model.engine().info().model.clone())
    }

    /// Returns the models that embed or rank, like [`Servables::models`].
    pub(crate) fn embedding_models(&self) -> Vec<(String, String, Arc<EmbeddingModel>)> {
        self.with_names(|model: &EmbeddingModel| model.engine().status().model)
    }

    /// Returns the batchers, like [`Servables::models`].
    pub(crate) fn batchers(&self) -> Vec<(String, String, Arc<Batcher>)> {
        self.with_names(|batcher: &Batcher| batcher.info().model.clone())
    }

    fn with_names<R: Resource>(
        &self,
        name: impl Fn(&R) -> String,
    ) -> Vec<(String, String, Arc<R>)> {
        let mut named: Vec<(String, String, Arc<R>)> = Vec::new();
        for servable in self.iter() {
            for resource in servable.resources::<R>() {
                if named.iter().any(|it| Arc::ptr_eq(&it.2, &resource)) {
                    continue;
                }
                let (graph, usual) = (servable.name(), name(&resource));
                let is_named = |name: &str| named.iter().any(|it| it.0 == graph && it.1 == name);
                let mut name = usual.clone();
                let mut number = 2;
                while is_named(&name) {
                    name = format!("{usual}_{number}");
                    number += 1;
                }
                named.push((graph.to_owned(), name, resource));
            }
        }
        named
    }

    /// Checks if the files of models have changed since they were loaded.
    pub(crate) fn look_at_files(&self) {
        for (.., model) in self.models() {
            model.engine().files().look();
        }
        for (.., model) in self.embedding_models() {
            model.engine().files().look();
        }
    }
}

/// Formats the first names of a list.
fn quoted(names: impl Iterator<Item: Display>) -> String {
    let names = names.take(NAMED).map(|name| format!("`{name}`"));
    names.collect::<Vec<_>>().join(", ")
}
