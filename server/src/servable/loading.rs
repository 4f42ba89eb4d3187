//! How the graphs of a configuration become available: all of them at the start, and those that
//! wait for a file once it is there.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, PoisonError, Weak},
    time::{Duration, Instant},
};

use graphmill_engine::codes::sides;
use graphmill_grammar::{
    Diagnostic,
    render::{self, Color},
};

use super::{
    Servables, Served, StateName,
    load::{self, Made},
};
use crate::{config::GraphEntry, file_watch, observe::log};

/// The time between the first two attempts to load what is there and cannot be loaded.
const FIRST_PAUSE: Duration = Duration::from_secs(2);

/// The longest time between two attempts to load what is there and cannot be loaded, such as a file
/// that is still being copied.
const RETRY_AT_MOST: Duration = Duration::from_mins(1);

/// Why a graph could not be loaded.
pub(super) struct Failed {
    /// In one line.
    pub(super) reason: String,
    /// The same with all that is to be said, as the log shows it.
    pub(super) shown: Vec<String>,
    /// A file that it needs is missing or cannot be used.
    pub(super) lacks_files: bool,
}

impl Failed {
    fn plainly(reason: String, lacks_files: bool) -> Self {
        Self {
            reason,
            shown: Vec::new(),
            lacks_files,
        }
    }

    fn by(panic: &(dyn Any + Send)) -> Self {
        let reason = format!("loading panicked: {}", log::payload(panic));
        Self::plainly(reason, false)
    }

    /// What is wrong with a graph that has no plan.
    fn of(compiled: &load::Compiled) -> Self {
        let human = |found: &Diagnostic| {
            render::human(&compiled.sources, std::slice::from_ref(found), Color::Plain)
        };
        Self {
            reason: first_error(compiled),
            shown: compiled.diagnostics.iter().map(human).collect(),
            lacks_files: only_files(&compiled.diagnostics),
        }
    }

    /// All that is to be said, behind a colon or below.
    fn told(&self) -> String {
        if self.shown.is_empty() {
            format!(": {}", self.reason)
        } else {
            format!("\n{}", self.shown.join("\n"))
        }
    }
}

/// The attempts to load a graph that waits.
pub(super) struct Attempts {
    pause: Duration,
    next: Instant,
}

/// Loads graphs once the files that they wait for are there.
pub(crate) async fn look_for_models(served: Arc<Served>) {
    file_watch::repeat(move || {
        let servables = served.now();
        if servables.look_again() {
            served.keep(&servables);
        }
        true
    })
    .await;
}

/// Looks, until the server is gone, whether files of models were changed while they are in use. The
/// log, the status and the metrics tell what was found.
pub(crate) async fn watch_files(served: Weak<Served>) {
    file_watch::repeat(move || {
        let servables = served.upgrade().map(|served| served.now());
        servables.map(|it| it.look_at_files()).is_some()
    })
    .await;
}

impl Servables {
    /// Loads every graph that is loaded with the server, one after the other, those first that the
    /// server is not ready without; the others are checked. One that fails, or panics, is reported
    /// and does not keep the others.
    pub(crate) fn load(&self) {
        let (optional, required): (Vec<_>, Vec<_>) =
            (self.config.graphs.iter()).partition(|entry| entry.serving.optional);
        for entry in required.into_iter().chain(optional) {
            let servable = self.of(entry);
            let outcome = if servable.starts_unloaded() {
                self.check_one(entry)
            } else if servable.state_name() == StateName::Available {
                Ok(())
            } else {
                self.load_one(entry)
            };
            if let Err(failed) = outcome {
                self.tell(entry, &failed);
            }
        }
    }

    /// Says in the log why a graph is not served.
    pub(super) fn tell(&self, entry: &GraphEntry, failed: &Failed) {
        let (name, why) = (entry.id(), failed.told());
        if self.of(entry).state_name() == StateName::Waiting {
            tracing::warn!("graph `{name}` waits{why}");
        } else {
            tracing::error!("graph `{name}` is not served{why}");
        }
    }

    /// Loads a graph, after which it is available, waits or has failed.
    pub(super) fn load_one(&self, entry: &GraphEntry) -> Result<(), Failed> {
        let loaded = self.load_graph(entry);
        if let Err(failed) = &loaded {
            self.has_failed(entry, failed);
        }
        loaded
    }

    pub(super) fn has_failed(&self, entry: &GraphEntry, failed: &Failed) {
        let servable = self.of(entry);
        let is_awaited = !servable.is_settled() || !servable.loads_on_demand();
        if failed.lacks_files && self.waits && is_awaited {
            servable.becomes_waiting(&failed.reason);
        } else {
            servable.becomes_failed(&failed.reason, false);
        }
    }

    /// Checks a graph that is loaded when a request asks for it. One that cannot be served has
    /// failed.
    fn check_one(&self, entry: &GraphEntry) -> Result<(), Failed> {
        match self.check(entry) {
            (made, None) => {
                self.of(entry).was_made_of(made);
                tracing::info!("graph `{}` is loaded on demand", entry.id());
                Ok(())
            }
            (made, Some(failed)) => {
                self.of(entry).was_made_of(made);
                self.has_failed(entry, &failed);
                Err(failed)
            }
        }
    }

    /// What a graph is made of, and what is wrong with it as far as can be told without loading it.
    pub(super) fn check(&self, entry: &GraphEntry) -> (Made, Option<Failed>) {
        let environment = self.environment.clone().looking_only();
        let checking = AssertUnwindSafe(|| load::load(entry, &environment));
        match catch_unwind(checking) {
            Err(panic) => (Made::default(), Some(Failed::by(&*panic))),
            Ok(Err(reason)) => {
                let mut made = Made::default();
                made.seen.look(&entry.file);
                (made, Some(Failed::plainly(reason, !entry.file.is_file())))
            }
            Ok(Ok(compiled)) => {
                let failed = compiled.plan.is_none().then(|| Failed::of(&compiled));
                (compiled.made, failed)
            }
        }
    }

    /// Loads those graphs that waited for a file that is there now; tells whether there was one.
    fn look_again(&self) -> bool {
        let mut has_loaded = false;
        let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        for entry in &self.config.graphs {
            let (servable, id) = (self.of(entry), entry.id());
            let now = Instant::now();
            let is_due = attempts.get(&id).is_none_or(|it| it.next <= now);
            if servable.state_name() != StateName::Waiting || !is_due || self.lacks_files(entry) {
                continue;
            }
            match self.load_graph(entry) {
                Ok(()) => {
                    attempts.remove(&id);
                    has_loaded = true;
                }
                Err(failed) => {
                    let before = attempts.get(&id).map_or(FIRST_PAUSE / 2, |it| it.pause);
                    let pause = (before * 2).min(RETRY_AT_MOST);
                    let next = Instant::now() + pause;
                    let is_news = servable.failure().as_deref() != Some(&failed.reason);
                    attempts.insert(id, Attempts { pause, next });
                    if failed.lacks_files {
                        servable.becomes_waiting(&failed.reason);
                    } else {
                        servable.becomes_failed(&failed.reason, false);
                    }
                    if is_news || !failed.lacks_files {
                        self.tell(entry, &failed);
                    }
                }
            }
        }
        has_loaded
    }

    /// Loads a graph and makes it available.
    fn load_graph(&self, entry: &GraphEntry) -> Result<(), Failed> {
        let started = Instant::now();
        let servable = self.of(entry);
        servable.begins();
        let loading = AssertUnwindSafe(|| load::load(entry, &self.environment));
        let compiled = match catch_unwind(loading) {
            Err(panic) => return Err(Failed::by(&*panic)),
            Ok(Err(reason)) => return Err(Failed::plainly(reason, !entry.file.is_file())),
            Ok(Ok(compiled)) => compiled,
        };
        servable.was_made_of(compiled.made.clone());
        let Some(plan) = &compiled.plan else {
            return Err(Failed::of(&compiled));
        };
        for warning in &compiled.diagnostics {
            let shown = render::human(
                &compiled.sources,
                std::slice::from_ref(warning),
                Color::Plain,
            );
            tracing::warn!("graph `{}`\n{shown}", entry.id());
        }
        let seconds = started.elapsed().as_secs_f64();
        tracing::info!(
            "graph `{}` is available after {seconds:.2} s ({})",
            entry.id(),
            entry.file.display()
        );
        servable.has_taken(started.elapsed());
        servable.becomes_available(Arc::clone(plan));
        Ok(())
    }

    /// Whether a file that a graph needs is still missing, found out without loading anything.
    fn lacks_files(&self, entry: &GraphEntry) -> bool {
        let environment = self.environment.clone().looking_only();
        match load::compile_entry(entry, &environment) {
            Err(_) => true,
            Ok(compiled) => only_files(&compiled.diagnostics),
        }
    }
}

/// Returns true if nothing is wrong but files that may still come: the graph would do with others.
fn only_files(found: &[Diagnostic]) -> bool {
    let mut errors = found.iter().filter(|it| it.is_error()).peekable();
    errors.peek().is_some() && errors.all(|it| it.code == &sides::RESOURCE_FAILED)
}

/// The first error of a graph in one line; all of them are in the log.
fn first_error(compiled: &load::Compiled) -> String {
    let errors: Vec<&Diagnostic> = compiled
        .diagnostics
        .iter()
        .filter(|diagnostic| diagnostic.is_error())
        .collect();
    let Some(first) = errors.first() else {
        return "it has no plan".to_owned();
    };
    let place = compiled
        .sources
        .locate(first.primary.span)
        .map_or(String::new(), |place| format!("{place}: "));
    let more = if errors.len() > 1 {
        format!(" (and {} more)", errors.len() - 1)
    } else {
        String::new()
    };
    format!("{place}{}: {}{more}", first.code, first.message)
}
