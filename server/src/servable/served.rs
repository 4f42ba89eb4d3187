//! The configuration that is served now, and how another one takes its place.
//!
//! The new one is read, checked and loaded beside the old. What has not changed is taken over:
//! graphs as they are, and models of those that have. Then all of it takes the place of the old one
//! at once; requests that run end on the graph that they began on. If anything is wrong, the old
//! one stays as it is.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use arc_swap::ArcSwap;
use graphmill_engine::{Registry, Seen};
use graphmill_grammar::render::{self, Color};
use graphmill_llm::room;
use tokio::sync::Notify;

use super::{Servable, Servables, StateName};
use crate::config::{self, Config, GraphEntry};

/// The graphs that are served now.
pub(crate) struct Served {
    now: ArcSwap<Servables>,
    /// The file that lists them, if there is one.
    config_path: Option<PathBuf>,
    /// All files that the last attempt to load looked at, as they were before it. Held while
    /// graphs are loaded.
    looked: Mutex<Seen>,
    /// Tells who watches the files that there may be something to see.
    pub(super) hint: Arc<Notify>,
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
    pub(crate) fn new(
        config: &Config,
        config_path: Option<PathBuf>,
        registry: Registry,
        waits: bool,
    ) -> Self {
        Self {
            now: ArcSwap::from_pointee(Servables::new(config, registry, waits)),
            config_path,
            looked: Mutex::default(),
            hint: Arc::default(),
        }
    }

    /// The graphs that are served now; who asks twice may get others.
    pub(crate) fn now(&self) -> Arc<Servables> {
        self.now.load_full()
    }

    /// Loads all graphs for the first time.
    pub(crate) fn load(&self) {
        let mut looked = self.looking();
        let servables = self.now();
        let config = self.config_seen();
        servables.load();
        *looked = config;
        looked.extend(&servables.seen());
        self.hint.notify_one();
    }

    /// Whether a file that counts is another one than when it was last looked at. Waits while
    /// graphs are loaded.
    pub(crate) fn has_changed(&self) -> bool {
        self.looking().changed().is_some()
    }

    /// The files that count. Waits while graphs are loaded.
    pub(crate) fn files(&self) -> Seen {
        self.looking().clone()
    }

    /// Reads the configuration again and takes it in the place of the present one.
    pub(crate) fn reload(&self) -> Result<Changes, Refused> {
        let mut looked = self.looking();
        let started = Instant::now();
        let old = self.now();
        let mut seen = self.config_seen();
        let outcome = self.next(&old, &mut seen);
        // What is wrong may be put right in the files of the old graphs as well as of the new.
        seen.extend(&looked.again());
        *looked = seen;
        self.hint.notify_one();
        match outcome {
            Ok((new, changes)) => {
                if !changes.is_empty() {
                    let seconds = started.elapsed().as_secs_f64();
                    tracing::info!(
                        "the configuration was reloaded after {seconds:.2} s: {changes}"
                    );
                    self.now.store(new);
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
        seen: &mut Seen,
    ) -> Result<(Arc<Servables>, Changes), Refused> {
        let config = match &self.config_path {
            None => old.config.clone(),
            Some(path) => read(path)?,
        };
        let (new, changes) = Succession::new(old, config, seen).load(seen)?;
        Ok((Arc::new(new), changes))
    }

    fn config_seen(&self) -> Seen {
        let mut seen = Seen::default();
        if let Some(path) = &self.config_path {
            seen.look(path);
        }
        seen
    }

    fn looking(&self) -> MutexGuard<'_, Seen> {
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

/// Graphs on their way to take the place of others.
struct Succession<'a> {
    old: &'a Servables,
    new: Servables,
    changes: Changes,
    /// Those that have to be loaded.
    to_load: Vec<GraphEntry>,
}

impl<'a> Succession<'a> {
    /// Finds out which graphs stay as they are.
    fn new(old: &'a Servables, config: Config, seen: &mut Seen) -> Self {
        let mut new = old.succeeded_by(config);
        let mut changes = Changes::default();
        let gone = old.iter().map(Servable::name);
        let gone = gone.filter(|name| new.get(name).is_none());
        changes.removed = gone.map(str::to_owned).collect();
        let same_subgraphs = new.config.subgraphs == old.config.subgraphs;
        let mut to_load = Vec::new();
        for entry in new.config.graphs.clone() {
            let before = old.get(&entry.name);
            if let Some(before) = before.filter(|_| same_subgraphs && old.has(&entry))
                && before.state_name() == StateName::Available
                && before.seen().is_still(&new.check(&entry).0)
            {
                seen.extend(&before.seen());
                new.put(Arc::clone(before));
                continue;
            }
            match before {
                Some(_) => changes.changed.push(entry.name.clone()),
                None => changes.added.push(entry.name.clone()),
            }
            to_load.push(entry);
        }
        Self {
            old,
            new,
            changes,
            to_load,
        }
    }

    /// Checks all graphs that are to be loaded, and loads them.
    fn load(self, seen: &mut Seen) -> Result<(Servables, Changes), Refused> {
        self.check(seen)?;
        let mut refused = Vec::new();
        for entry in &self.to_load {
            let loaded = self.new.load_one(entry);
            let servable = self.new.get(&entry.name).expect("it is listed");
            seen.extend(&servable.seen());
            if let Err(failed) = loaded
                && !self.may_fail(servable)
            {
                refused.push(format!("graph `{}`: {}", entry.name, failed.reason));
                refused.extend(failed.shown);
                break;
            }
        }
        match refused.split_first() {
            Some((reason, shown)) => Err(Refused {
                unreadable: false,
                reason: reason.clone(),
                diagnostics: shown.to_vec(),
            }),
            None => Ok((self.new, self.changes)),
        }
    }

    /// A graph that was not served before, and is still not, keeps nobody from another one. One
    /// that waits for its files is no mistake.
    fn may_fail(&self, servable: &Servable) -> bool {
        let before = self.old.get(servable.name());
        servable.state_name() == StateName::Waiting
            || before.is_some_and(|before| before.state_name() != StateName::Available)
    }

    /// Whether all graphs would load, found out without loading one, and whether there is memory
    /// for those models that are not loaded yet.
    fn check(&self, seen: &mut Seen) -> Result<(), Refused> {
        let loaded = self.old.seen();
        let mut bytes = 0;
        let mut wrong = Vec::new();
        let mut diagnostics = Vec::new();
        for entry in &self.to_load {
            let (look, failed) = self.new.check(entry);
            seen.extend(&look);
            bytes += look.bytes_beyond(&loaded);
            let before = self.old.get(&entry.name);
            let may_fail = before.is_some_and(|it| it.state_name() != StateName::Available);
            if let Some(failed) = failed
                && !may_fail
                && !(failed.lacks_files && self.new.waits)
            {
                wrong.push(format!("graph `{}`: {}", entry.name, failed.reason));
                diagnostics.extend(failed.shown);
            }
        }
        let refused = |reason| Refused {
            unreadable: false,
            reason,
            diagnostics,
        };
        if !wrong.is_empty() {
            return Err(refused(wrong.join("; ")));
        }
        room::ensure(bytes).map_err(|short| {
            refused(format!(
                "the new models take {} MiB beside the old ones, and {} MiB of memory are left",
                bytes >> 20,
                short.left >> 20
            ))
        })
    }
}
