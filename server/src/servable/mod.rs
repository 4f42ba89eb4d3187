//! The graphs that are served: each has a name, a state, and when it is available a plan to open
//! sessions on.
//!
//! A list is immutable, and a reload puts another one in its place; a graph's state changes behind
//! it in one atomic swap. So a request sees one state from beginning to end.

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
mod unloading;
mod usage;
mod versions;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use graphmill_calculators::{embed::EmbeddingModel, llm::LanguageModel, tensor::batch::Batcher};
use graphmill_engine::{Environment, Executors, FileStamps, Plan, Registry, Resource, shortened};
use graphmill_grammar::suggest;

pub(crate) use demand::{Patience, Ready};
pub(crate) use last_good::{Keeper, LastGood};
pub(crate) use load::{Compiled, answers, compile, compile_text, request_stream, response_stream};
pub(crate) use loading::{look_for_models, watch_files};
pub(crate) use models::{INFER, LATEST, Named};
pub use reload::ReloadPolicy;
pub(crate) use reload_watch::reload_on_change;
pub(crate) use served::Served;
pub(crate) use state::{Servable, StateName};
pub(crate) use unloading::unload_idle;
pub(crate) use usage::InUse;
pub(crate) use versions::Choice;

use crate::{
    config::{Config, GraphEntry, Lister, ModelReader, Observation},
    errors::{Cause, Failure},
};
use state::Changed;
use versions::Versions;

/// What is served, and how graphs are loaded, kept and replaced.
pub(crate) struct Settings {
    pub(crate) config: Config,
    /// The file that lists the graphs, if there is one.
    pub(crate) config_path: Option<PathBuf>,
    /// Lists the graphs where no file does.
    pub(crate) lister: Option<Lister>,
    /// Reads one of them again, where they lie in a repository.
    pub(crate) model_reader: Option<ModelReader>,
    /// Maximum number of graphs in memory of those that are loaded on demand.
    pub(crate) models_max: Option<usize>,
    /// Whether graphs wait for files that are missing.
    pub(crate) waits: bool,
    /// After which time without a request graphs are unloaded that do not say so themselves.
    pub(crate) idle_unload: Option<Duration>,
    pub(crate) policy: ReloadPolicy,
    /// Keeps what is served, where it can be.
    pub(crate) keeper: Option<Keeper>,
    /// Whether what is loaded first is what was kept.
    pub(crate) rolled_back: bool,
}

/// All graphs of a server, by name.
pub(crate) struct Servables {
    /// By [`Servable::name`].
    by_name: BTreeMap<String, Arc<Servable>>,
    /// Graphs with versions, by their names.
    versions: BTreeMap<String, Versions>,
    /// Names of graphs and of versions, by their aliases.
    aliases: BTreeMap<String, String>,
    /// Lists them in the order in which they are loaded.
    config: Config,
    /// What the program brings, without the subgraphs of the configuration.
    registry: Registry,
    environment: Environment,
    /// Whether graphs wait for files that are missing.
    pub(crate) waits: bool,
    /// After which time without a request graphs are unloaded that do not say so themselves.
    idle_unload: Option<Duration>,
    /// Maximum number of graphs in memory of those that are loaded on demand.
    models_max: Option<usize>,
    changed: Changed,
    /// When those that wait and have their files are tried again.
    attempts: Mutex<BTreeMap<String, loading::Attempts>>,
}

impl Servables {
    /// The graphs of a configuration, none of them loaded.
    fn new(settings: &Settings, registry: Registry, changed: Changed) -> Self {
        let config = settings.config.clone();
        let environment = Environment::new(config.register(registry.clone()));
        Self {
            by_name: BTreeMap::new(),
            versions: BTreeMap::new(),
            aliases: BTreeMap::new(),
            config: Config::default(),
            registry,
            environment,
            waits: settings.waits,
            idle_unload: settings.idle_unload,
            models_max: settings.models_max,
            changed,
            attempts: Mutex::default(),
        }
        .listing(config)
    }

    /// The graphs of another configuration, none of them loaded. Models that these use are shared.
    fn succeeded_by(&self, config: Config) -> Self {
        let registry = self.registry.clone();
        let registered = config.register(registry.clone());
        let next = Self {
            by_name: BTreeMap::new(),
            versions: BTreeMap::new(),
            aliases: BTreeMap::new(),
            config: Config::default(),
            registry,
            environment: self.environment.clone().with_registry(registered),
            waits: self.waits,
            idle_unload: self.idle_unload,
            models_max: self.models_max,
            changed: Arc::clone(&self.changed),
            attempts: Mutex::default(),
        }
        .listing(config);
        next.keep_defaults(self);
        next
    }

    fn listing(mut self, config: Config) -> Self {
        for entry in &config.graphs {
            let mut serving = entry.serving;
            serving.idle_unload = serving.idle_unload.or(self.idle_unload);
            let servable = Servable::new(entry.clone(), serving, Arc::clone(&self.changed));
            self.put(Arc::new(servable));
            for alias in &entry.aliases {
                self.aliases.insert(alias.clone(), entry.name.clone());
                if let Some(version) = entry.version {
                    self.aliases
                        .insert(format!("{alias}@{version}"), entry.id());
                }
            }
        }
        self.versions = versions::of(&config);
        self.config = config;
        self
    }

    /// Puts a graph in the place of the one of its name.
    fn put(&mut self, servable: Arc<Servable>) {
        self.by_name.insert(servable.name().to_owned(), servable);
    }

    /// The graph of an entry of the configuration.
    fn of(&self, entry: &GraphEntry) -> &Arc<Servable> {
        &self.by_name[&entry.id()]
    }

    /// All files that its graphs are made of.
    fn seen(&self) -> FileStamps {
        let mut all = FileStamps::default();
        self.iter()
            .for_each(|servable| all.extend(&servable.made().seen));
        all
    }

    /// The files of what is in memory.
    fn in_memory(&self) -> FileStamps {
        let mut all = FileStamps::default();
        self.iter()
            .filter(|servable| servable.state_name() == StateName::Available)
            .for_each(|servable| all.extend(&servable.made().seen));
        all
    }

    /// What operators may see of packets.
    pub(crate) fn observation(&self) -> &Observation {
        &self.config.observation
    }

    /// What nodes of graphs can be.
    pub(crate) fn registry(&self) -> &Registry {
        self.environment.registry()
    }

    /// Compiles the text of a graph that is not served, without models.
    pub(crate) fn check_text(&self, text: String) -> Compiled {
        load::compile_alone(text, &self.environment.clone().without_loading())
    }

    /// Compiles a text that may take the place of a graph's file, without models.
    pub(crate) fn check_edit(&self, servable: &Servable, text: &str) -> Compiled {
        let environment = self.environment.clone().without_loading();
        load::compile_in_place(text, servable.entry(), &environment)
    }

    /// Returns the executors on which graphs compute.
    pub(crate) fn executors(&self) -> &Executors {
        self.environment.executors()
    }

    /// What a graph is compiled with that takes models from those that are served, and loads none.
    pub(crate) fn sharing(&self) -> Environment {
        self.environment.clone().sharing_only()
    }

    /// Compiles the text of a graph that is not served, as if it lay beside the graph `beside`;
    /// else beside any: the first beside which all that it needs is found.
    pub(crate) fn compile_beside(
        &self,
        text: &str,
        beside: Option<&Servable>,
        environment: &Environment,
    ) -> Compiled {
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

    /// Compiles a graph that is not in memory as it was last read, without models.
    pub(crate) fn compile_unloaded(&self, servable: &Servable) -> Option<Arc<Plan>> {
        let entry = servable.made().entry(servable.entry());
        let compiled = load::compile_entry(&entry, &self.environment.clone().without_loading());
        compiled.ok()?.plan
    }

    /// By name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Servable> {
        self.by_name.values().map(AsRef::as_ref)
    }

    /// By name, to keep.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Servable>> {
        self.by_name.values()
    }

    /// The name of the graph of an alias; any other name as it is.
    pub(crate) fn without_alias<'a>(&'a self, name: &'a str) -> &'a str {
        self.aliases.get(name).map_or(name, String::as_str)
    }

    fn get(&self, name: &str) -> Option<&Arc<Servable>> {
        self.by_name.get(name)
    }

    /// What this name is of, or the failure that a request for it gets, which names the graphs and
    /// adapters that the client may see.
    pub(crate) fn find(
        &self,
        name: &str,
        choice: &Choice,
        sees: impl Fn(&str, Option<&str>) -> bool,
    ) -> Result<Named, Failure> {
        self.named(name, choice)
            .filter(|named| sees(named.servable.graph(), named.adapter.as_deref()))
            .ok_or_else(|| self.unknown("model", name, sees))
    }

    /// The graph, or version of a graph, of this name, for those who may see all of them.
    pub(crate) fn graph(&self, name: &str) -> Result<Arc<Servable>, Failure> {
        // What is looked at is a graph, whatever adapters of its models are called.
        let found = self
            .named(name, &Choice::Newest)
            .map(|named| named.servable);
        found.ok_or_else(|| self.unknown("graph", name, |_, adapter| adapter.is_none()))
    }

    /// The failure of a request that names a `what` which does not exist.
    fn unknown(
        &self,
        what: &'static str,
        name: &str,
        sees: impl Fn(&str, Option<&str>) -> bool,
    ) -> Failure {
        /// Longer names say nothing more, and an answer must not grow with a request.
        const SHOWN_BYTES: usize = 150;
        if let Some((graph, version)) = name.rsplit_once('@')
            && !version.contains(':')
            && let Some(numbers) = self.numbers(graph).filter(|_| sees(graph, None))
        {
            let version = shortened(version, SHOWN_BYTES);
            let some: Vec<String> = numbers.take(10).map(|it| format!("`{it}`")).collect();
            let message = format!(
                "the {what} `{graph}` has no version `{version}`; there are {}",
                some.join(", ")
            );
            return Failure::new(Cause::UnknownModel, message).of_field(what);
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
                format!("the {what} `{shown}` does not exist; the configuration lists no graph")
            }
            None if all.is_empty() => format!("the {what} `{shown}` does not exist"),
            None => {
                let some: Vec<String> = names().take(10).map(|name| format!("`{name}`")).collect();
                format!(
                    "the {what} `{shown}` does not exist; there are {}",
                    some.join(", ")
                )
            }
        };
        Failure::new(Cause::UnknownModel, message).of_field(what)
    }

    /// The models of all available graphs, each once, with the name of the first graph that uses
    /// it, and a name of its own among those of that graph.
    pub(crate) fn models(&self) -> Vec<(String, String, Arc<LanguageModel>)> {
        self.with_names(|model: &LanguageModel| model.engine().info().model.clone())
    }

    /// As [`Servables::models`], for those that embed or rank.
    pub(crate) fn embedding_models(&self) -> Vec<(String, String, Arc<EmbeddingModel>)> {
        self.with_names(|model: &EmbeddingModel| model.engine().status().model)
    }

    /// As [`Servables::models`], for batchers.
    pub(crate) fn batchers(&self) -> Vec<(String, String, Arc<Batcher>)> {
        self.with_names(|batcher: &Batcher| batcher.info().model.clone())
    }

    fn with_names<R: Resource>(
        &self,
        name: impl Fn(&R) -> String,
    ) -> Vec<(String, String, Arc<R>)> {
        let mut named: Vec<(String, String, Arc<R>)> = Vec::new();
        for (graph, resource) in self.resources::<R>() {
            let usual = name(&resource);
            let is_named = |name: &str| named.iter().any(|it| it.0 == graph && it.1 == name);
            let mut name = usual.clone();
            let mut number = 2;
            while is_named(&name) {
                name = format!("{usual}_{number}");
                number += 1;
            }
            named.push((graph, name, resource));
        }
        named
    }

    /// Looks whether the files of models have changed since they were loaded.
    pub(crate) fn look_at_files(&self) {
        for (.., model) in self.models() {
            model.engine().files().look();
        }
        for (.., model) in self.embedding_models() {
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
