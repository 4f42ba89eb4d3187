//! The served configuration, and its replacement by another one.
//!
//! The new configuration is read, checked and loaded beside the old one. Unchanged graphs are
//! reused, and so are the models of changed graphs. Then the new configuration replaces the old one
//! atomically. Running requests end on the graph on which they began. If there is any error, the
//! old configuration stays.

use std::{
    fmt,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use arc_swap::ArcSwap;
use graphmill_engine::{Environment, FileStamps, Registry};
use graphmill_llm::AdapterSpec;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use super::{Servable, Servables, Settings, loading::shown, reload::Reload, state::ChangeNotifier};
use crate::{
    config::{self, Config},
    errors::{Cause, Failure},
    telemetry::{self, Audit},
};

/// The served graphs, and their sources.
pub(crate) struct ServedGraphs {
    now: ArcSwap<Servables>,
    settings: Arc<Settings>,
    /// Stamps of all files that the last load read, taken before it. Locked while graphs are
    /// loaded.
    looked: Mutex<FileStamps>,
    /// Wakes the file watch, as files may have changed.
    pub(super) hint: Arc<Notify>,
    /// Notifies of each change of a graph's state or of the list.
    pub(super) changed: ChangeNotifier,
    /// True while the files contain a configuration that was refused.
    refused: AtomicBool,
}

/// The changes of a reload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) added: Vec<String>,
    /// Names of graphs with a new plan.
    pub(crate) changed: Vec<String>,
    pub(crate) removed: Vec<String>,
}

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty()
    }
}

impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lists = [
            ("added", &self.added),
            ("changed", &self.changed),
            ("removed", &self.removed),
        ];
        let told = lists.into_iter().filter(|(_, names)| !names.is_empty());
        let told = told.map(|(what, names)| format!("{what} `{}`", names.join("`, `")));
        match told.collect::<Vec<_>>().as_slice() {
            [] => f.write_str("nothing has changed"),
            told => f.write_str(&told.join("; ")),
        }
    }
}

/// The error of a configuration that was refused.
#[derive(Clone, Debug)]
pub(crate) struct ConfigRefusal {
    /// True if the configuration could not be read.
    pub(crate) unreadable: bool,
    /// Reason in one line, for the log and the answer.
    pub(crate) reason: String,
    /// All diagnostics, formatted for people.
    pub(crate) diagnostics: Vec<String>,
}

impl ConfigRefusal {
    /// Creates the error of a configuration that could be read.
    pub(super) fn new(reason: String) -> Self {
        Self {
            unreadable: false,
            reason,
            diagnostics: Vec::new(),
        }
    }
}

impl ServedGraphs {
    /// Creates the graphs of a configuration, without loading them.
    pub(crate) fn new(config: Config, settings: Settings, registry: Registry) -> Self {
        let (settings, changed) = (Arc::new(settings), ChangeNotifier::default());
        let servables = Servables::new(
            config,
            registry.clone(),
            Environment::new(registry),
            Arc::clone(&settings),
            Arc::clone(&changed),
        );
        Self {
            now: ArcSwap::from_pointee(servables),
            settings,
            looked: Mutex::default(),
            hint: Arc::default(),
            changed,
            refused: AtomicBool::new(false),
        }
    }

    /// Stores the served configuration, if there is a store.
    pub(super) fn keep(&self, servables: &Servables) {
        if let Some(keeper) = &self.settings.keeper {
            keeper.keep(servables);
        }
    }

    /// Returns the graphs that are served now. Two calls may return different ones.
    pub(crate) fn now(&self) -> Arc<Servables> {
        self.now.load_full()
    }

    /// Loads all graphs for the first time.
    pub(crate) fn load(&self) {
        let mut looked = self.lock_stamps();
        let servables = self.now();
        let config = self.config_seen(&servables.config);
        servables.load();
        *looked = config;
        looked.extend(&servables.seen());
        self.hint.notify_one();
        if !self.settings.rolled_back {
            self.keep(&servables);
        }
    }

    /// Returns true if a relevant file has changed since the last load. Waits while graphs are
    /// loaded.
    pub(crate) fn has_changed(&self) -> bool {
        self.lock_stamps().changed().is_some()
    }

    /// Returns the stamps of the relevant files. Waits while graphs are loaded.
    pub(crate) fn files(&self) -> FileStamps {
        self.lock_stamps().clone()
    }

    /// Reloads like [`ServedGraphs::reload`], and writes a line of the audit log. `actor` is the
    /// name of a key, and `how` the reason to log for a success.
    pub(crate) fn reload_for(
        &self,
        actor: Option<&str>,
        how: Option<&str>,
    ) -> Result<Changes, ConfigRefusal> {
        let reloaded = self.reload();
        let failure = reloaded.as_ref().err();
        telemetry::audit(&Audit {
            action: "reload",
            actor,
            subject: "server",
            outcome: if failure.is_none() { "done" } else { "failed" },
            reason: failure.map(|refused| refused.reason.as_str()).or(how),
        });
        reloaded
    }

    /// Reads the configuration again, and replaces the served one with it.
    pub(crate) fn reload(&self) -> Result<Changes, ConfigRefusal> {
        self.reload_locked(&mut self.lock_stamps(), None, |config| config)
    }

    /// Reads a model of a repository again, with a JSON configuration in place of its own if given.
    /// For other graphs, reads the whole configuration again.
    pub(crate) fn reload_model(
        &self,
        actor: Option<&str>,
        name: &str,
        config: Option<&str>,
    ) -> Result<Changes, ConfigRefusal> {
        let Some(reader) = &self.settings.model_reader else {
            return self.reload_for(actor, None);
        };
        let entries = reader.read(name, config).map_err(ConfigRefusal::new)?;
        self.reload_locked(&mut self.lock_stamps(), Some(name), |mut config| {
            let before = config.clone();
            let graphs = &mut config.graphs;
            let at = graphs.iter().position(|graph| graph.name == name);
            let at = at.unwrap_or(graphs.len());
            graphs.retain(|graph| graph.name != name);
            graphs.splice(at..at, entries);
            config.keep_adapters(&before);
            config
        })
    }

    /// Loads a graph again, after `change` has changed the adapters that it was given at run time.
    /// `change` also gets all graphs, to check names. No other reload comes in between.
    ///
    /// # Errors
    /// The error of `change`; a graph that is not served any more, or cannot be loaded.
    pub(crate) fn change_adapters(
        &self,
        graph: &Servable,
        change: impl FnOnce(&Servables, &mut Vec<AdapterSpec>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let gone = || {
            let message = format!("the graph `{}` is not served any more", graph.name());
            Failure::new(Cause::UnknownModel, message)
        };
        let mut looked = self.lock_stamps();
        let servables = self.now();
        let before = servables.get(graph.name()).ok_or_else(gone)?;
        let mut adapters = before.entry().adapters.clone();
        change(&servables, &mut adapters)?;
        let mut is_listed = false;
        let reloaded = self.reload_locked(&mut looked, Some(graph.graph()), |mut config| {
            let mut graphs = config.graphs.iter_mut();
            if let Some(entry) = graphs.find(|entry| entry.id() == graph.name()) {
                entry.adapters = adapters;
                is_listed = true;
            }
            config
        });
        reloaded.map_err(|refused| {
            let message = format!("the adapters are not changed: {}", refused.reason);
            Failure::new(Cause::BadRequest, message)
        })?;
        is_listed.then_some(()).ok_or_else(gone)
    }

    /// Returns true if models are in a repository, and are read one by one.
    pub(crate) fn reads_models(&self) -> bool {
        self.settings.model_reader.is_some()
    }

    /// Reloads the graphs named `only`, or all if it is `None`, from the configuration after
    /// `change`. `looked` are the stamps, which the caller has locked.
    fn reload_locked(
        &self,
        looked: &mut FileStamps,
        only: Option<&str>,
        change: impl FnOnce(Config) -> Config,
    ) -> Result<Changes, ConfigRefusal> {
        let started = Instant::now();
        let old = self.now();
        let mut seen = self.config_seen(&old.config);
        let outcome = self.next(&old, &mut seen, only, change);
        // An error may be fixed in the files of the old graphs or of the new ones, so both are
        // watched.
        seen.extend(&looked.again());
        *looked = seen;
        self.hint.notify_one();
        let was_refused = self.refused.swap(outcome.is_err(), Ordering::Relaxed);
        match outcome {
            Ok((new, changes)) => {
                if !changes.is_empty() || new.observation() != old.observation() {
                    self.keep(&new);
                    self.now.store(new);
                    let seconds = started.elapsed().as_secs_f64();
                    tracing::info!(
                        "the configuration was reloaded after {seconds:.2} s: {changes}"
                    );
                    self.changed.send_replace(());
                } else if was_refused {
                    tracing::info!(
                        "the configuration is valid again, and equal to the one that is served"
                    );
                }
                Ok(changes)
            }
            Err(refused) => {
                for shown in &refused.diagnostics {
                    tracing::error!("{shown}");
                }
                let reason = &refused.reason;
                tracing::error!(
                    "the configuration was not reloaded, the old one is served: {reason}"
                );
                Err(refused)
            }
        }
    }

    /// Creates the graphs of the current configuration, and loads them.
    fn next(
        &self,
        old: &Arc<Servables>,
        seen: &mut FileStamps,
        only: Option<&str>,
        change: impl FnOnce(Config) -> Config,
    ) -> Result<(Arc<Servables>, Changes), ConfigRefusal> {
        let mut config = match (&self.settings.config_path, &self.settings.lister) {
            (Some(path), _) => read(path)?,
            (None, Some(lister)) => lister.list(),
            (None, None) => old.config.clone(),
        };
        config.keep_adapters(&old.config);
        let config = change(config);
        config.places.iter().for_each(|place| seen.look(place));
        let (new, changes) =
            Reload::new(old, config, seen, only).load(seen, self.settings.policy)?;
        Ok((Arc::new(new), changes))
    }

    fn config_seen(&self, config: &Config) -> FileStamps {
        let mut seen = FileStamps::default();
        if let Some(path) = &self.settings.config_path {
            seen.look(path);
        }
        config.places.iter().for_each(|place| seen.look(place));
        seen
    }

    pub(super) fn lock_stamps(&self) -> MutexGuard<'_, FileStamps> {
        self.looked.lock()
    }
}

fn read(path: &Path) -> Result<Config, ConfigRefusal> {
    let loaded = config::load(path);
    let diagnostics = shown(&loaded.sources, &loaded.diagnostics);
    loaded.config.ok_or_else(|| {
        let error = loaded.diagnostics.iter().find(|found| found.is_error());
        ConfigRefusal {
            unreadable: !path.is_file(),
            reason: error.map_or_else(String::new, |error| error.message.clone()),
            diagnostics,
        }
    })
}
