//! The configuration that is served now, and how another one replaces it.
//!
//! The new one is read, checked and loaded beside the old. Unchanged graphs are reused, and so are
//! the models of changed ones. Then the new configuration replaces the old one atomically; running
//! requests end on the graph on which they began. If anything is wrong, the old one stays.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use arc_swap::ArcSwap;
use graphmill_engine::{FileStamps, Registry};
use graphmill_grammar::render::{self, Color};
use graphmill_llm::AdapterSpec;
use tokio::sync::Notify;

use super::{
    Keeper, Servable, Servables, Settings,
    reload::{Reload, ReloadPolicy},
    state::Changed,
};
use crate::{
    config::{self, Config, Lister, ModelReader},
    observe::{self, Audit},
};

/// The graphs that are served now.
pub(crate) struct Served {
    now: ArcSwap<Servables>,
    /// The file that lists them, if there is one.
    config_path: Option<PathBuf>,
    /// Lists them where no file does.
    lister: Option<Lister>,
    /// Reads one of them again, where they lie in a repository.
    model_reader: Option<ModelReader>,
    /// All files that the last attempt to load looked at, as they were before it. Held while
    /// graphs are loaded.
    looked: Mutex<FileStamps>,
    /// Tells who watches the files that there may be something to see.
    pub(super) hint: Arc<Notify>,
    /// Tells of each change of a graph's state and of the list.
    pub(super) changed: Changed,
    policy: ReloadPolicy,
    /// Keeps what is served, where it can be.
    keeper: Option<Keeper>,
    /// Whether what is loaded first is what was kept.
    rolled_back: bool,
    /// Set while the files hold a configuration that was refused.
    refused: AtomicBool,
}

/// What a reload has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// Graphs that are new.
    pub(crate) added: Vec<String>,
    /// Graphs that run on a new plan from now on.
    pub(crate) changed: Vec<String>,
    /// Graphs that are gone.
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
        let told: Vec<String> = told
            .map(|(what, names)| format!("{what} `{}`", names.join("`, `")))
            .collect();
        match told.as_slice() {
            [] => f.write_str("nothing has changed"),
            told => f.write_str(&told.join("; ")),
        }
    }
}

/// Why a configuration was not taken.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    /// Whether the configuration could not even be read.
    pub(crate) unreadable: bool,
    /// In one line.
    pub(crate) reason: String,
    /// All that is to be said.
    pub(crate) diagnostics: Vec<String>,
}

impl Served {
    /// The graphs of a configuration, none of them loaded.
    pub(crate) fn new(settings: Settings, registry: Registry) -> Self {
        let changed: Changed = Arc::default();
        let servables = Servables::new(&settings, registry, Arc::clone(&changed));
        Self {
            now: ArcSwap::from_pointee(servables),
            config_path: settings.config_path,
            lister: settings.lister,
            model_reader: settings.model_reader,
            looked: Mutex::default(),
            hint: Arc::default(),
            changed,
            policy: settings.policy,
            keeper: settings.keeper,
            rolled_back: settings.rolled_back,
            refused: AtomicBool::new(false),
        }
    }

    /// Keeps what is served now, where it can be.
    pub(super) fn keep(&self, servables: &Servables) {
        if let Some(keeper) = &self.keeper {
            keeper.keep(servables);
        }
    }

    /// The graphs that are served now; two calls may return different ones.
    pub(crate) fn now(&self) -> Arc<Servables> {
        self.now.load_full()
    }

    /// Loads all graphs for the first time.
    pub(crate) fn load(&self) {
        let mut looked = self.looking();
        let servables = self.now();
        let config = self.config_seen(&servables.config);
        servables.load();
        *looked = config;
        looked.extend(&servables.seen());
        self.hint.notify_one();
        if !self.rolled_back {
            self.keep(&servables);
        }
    }

    /// Whether a file that counts is another one than when it was last looked at. Waits while
    /// graphs are loaded.
    pub(crate) fn has_changed(&self) -> bool {
        self.looking().changed().is_some()
    }

    /// The files that count. Waits while graphs are loaded.
    pub(crate) fn files(&self) -> FileStamps {
        self.looking().clone()
    }

    /// [`Served::reload`] on somebody's word, which the audit log has: `actor` is the name of a key,
    /// `how` what is to be said of a success.
    pub(crate) fn reload_for(
        &self,
        actor: Option<&str>,
        how: Option<&str>,
    ) -> Result<Changes, Refused> {
        let reloaded = self.reload();
        let failure = reloaded.as_ref().err();
        observe::audit(&Audit {
            action: "reload",
            actor,
            subject: "server",
            outcome: if failure.is_none() { "done" } else { "failed" },
            reason: failure.map(|refused| refused.reason.as_str()).or(how),
        });
        reloaded
    }

    /// Reads the configuration again and takes it in the place of the present one.
    pub(crate) fn reload(&self) -> Result<Changes, Refused> {
        self.reload_with(None, |config| config)
    }

    /// Reads a model of a repository again, with a configuration in JSON in the place of its own if
    /// there is one; reads the whole configuration again where it does not lie in a repository.
    pub(crate) fn reload_model(
        &self,
        actor: Option<&str>,
        name: &str,
        config: Option<&str>,
    ) -> Result<Changes, Refused> {
        let Some(reader) = &self.model_reader else {
            return self.reload_for(actor, None);
        };
        let entries = reader.read(name, config).map_err(|reason| Refused {
            unreadable: false,
            reason,
            diagnostics: Vec::new(),
        })?;
        self.reload_with(Some(name), |mut config| {
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

    /// Serves a graph with other adapters than it was given so far, which `change` changes.
    pub(crate) fn change_adapters(
        &self,
        graph: &Servable,
        change: impl FnOnce(&mut Vec<AdapterSpec>),
    ) -> Result<Changes, Refused> {
        self.reload_with(Some(graph.graph()), |mut config| {
            let mut graphs = config.graphs.iter_mut();
            if let Some(entry) = graphs.find(|entry| entry.id() == graph.name()) {
                change(&mut entry.adapters);
            }
            config
        })
    }

    /// Whether models lie in a repository, and are read one by one.
    pub(crate) fn reads_models(&self) -> bool {
        self.model_reader.is_some()
    }

    /// Reloads the graphs of the name `only`, or all if there is none, of a configuration that is
    /// changed.
    fn reload_with(
        &self,
        only: Option<&str>,
        change: impl FnOnce(Config) -> Config,
    ) -> Result<Changes, Refused> {
        let mut looked = self.looking();
        let started = Instant::now();
        let old = self.now();
        let mut seen = self.config_seen(&old.config);
        let outcome = self.next(&old, &mut seen, only, change);
        // What is wrong may be put right in the files of the old graphs as well as of the new.
        seen.extend(&looked.again());
        *looked = seen;
        self.hint.notify_one();
        let was_refused = self.refused.swap(outcome.is_err(), Ordering::Relaxed);
        match outcome {
            Ok((new, changes)) => {
                if !changes.is_empty() || new.observation() != old.observation() {
                    let seconds = started.elapsed().as_secs_f64();
                    tracing::info!(
                        "the configuration was reloaded after {seconds:.2} s: {changes}"
                    );
                    self.keep(&new);
                    self.now.store(new);
                    self.changed.send_replace(());
                } else if was_refused {
                    tracing::info!(
                        "the configuration can be served again: it is the one that is served"
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

    /// The graphs of the configuration as it is now.
    fn next(
        &self,
        old: &Arc<Servables>,
        seen: &mut FileStamps,
        only: Option<&str>,
        change: impl FnOnce(Config) -> Config,
    ) -> Result<(Arc<Servables>, Changes), Refused> {
        let mut config = match (&self.config_path, &self.lister) {
            (Some(path), _) => read(path)?,
            (None, Some(lister)) => lister.list(),
            (None, None) => old.config.clone(),
        };
        config.keep_adapters(&old.config);
        let config = change(config);
        config.places.iter().for_each(|place| seen.look(place));
        let (new, changes) = Reload::new(old, config, seen, only).load(seen, self.policy)?;
        Ok((Arc::new(new), changes))
    }

    fn config_seen(&self, config: &Config) -> FileStamps {
        let mut seen = FileStamps::default();
        if let Some(path) = &self.config_path {
            seen.look(path);
        }
        config.places.iter().for_each(|place| seen.look(place));
        seen
    }

    pub(super) fn looking(&self) -> MutexGuard<'_, FileStamps> {
        self.looked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(path: &Path) -> Result<Config, Refused> {
    let loaded = config::load(path);
    let shown = |found| render::human(&loaded.sources, std::slice::from_ref(found), Color::Plain);
    let diagnostics: Vec<String> = loaded.diagnostics.iter().map(shown).collect();
    loaded.config.ok_or_else(|| {
        let error = loaded.diagnostics.iter().find(|found| found.is_error());
        Refused {
            unreadable: !path.is_file(),
            reason: error.map_or_else(String::new, |error| error.message.clone()),
            diagnostics,
        }
    })
}
