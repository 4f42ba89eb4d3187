//! How the graphs of a configuration become available: all of them at the start, and those that
//! wait for a file once it is there.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, PoisonError, Weak},
    time::{Duration, Instant},
};

use graphmill_engine::codes::sides;
use graphmill_grammar::{
    Diagnostic,
    render::{self, Color},
};
use tokio::{task::spawn_blocking, time::sleep};

use super::{Servables, StateName, load};
use crate::{config::GraphEntry, observe::log};

/// How often is looked for files that graphs wait for, and for changes of those that they use: soon
/// enough for whoever puts one there, and cheap.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// The longest time between two attempts to load what is there and cannot be loaded, such as a file
/// that is still being copied.
const RETRY_AT_MOST: Duration = Duration::from_mins(1);

/// Why a graph could not be loaded.
struct Failed {
    /// In one line.
    reason: String,
    /// The same with all that is to be said, as the log shows it.
    shown: Vec<String>,
    /// A file that it needs is missing or cannot be used.
    lacks_files: bool,
}

impl Failed {
    fn plainly(reason: String, lacks_files: bool) -> Self {
        Self {
            reason,
            shown: Vec::new(),
            lacks_files,
        }
    }
}

/// The attempts to load a graph that waits.
pub(super) struct Attempts {
    pause: Duration,
    next: Instant,
}

/// Loads graphs once the files that they wait for are there.
pub(crate) async fn look_for_models(servables: Arc<Servables>) {
    loop {
        sleep(LOOK_EVERY).await;
        let servables = Arc::clone(&servables);
        // Panics of a load are caught.
        let _ = spawn_blocking(move || servables.look_again()).await;
    }
}

/// Looks, until the server is gone, whether files of models were changed while they are in use. The
/// log, the status and the metrics tell what was found.
pub(crate) async fn watch_files(servables: Weak<Servables>) {
    loop {
        sleep(LOOK_EVERY).await;
        let Some(servables) = servables.upgrade() else {
            return;
        };
        // A file system can take its time to answer.
        if spawn_blocking(move || servables.look_at_files())
            .await
            .is_err()
        {
            return; // the runtime ends
        }
    }
}

impl Servables {
    /// Loads every graph, one after the other. One that fails, or panics, is reported and does not
    /// keep the others.
    pub(crate) fn load(&self) {
        for entry in &self.entries {
            let servable = &self.by_name[&entry.name];
            match self.load_graph(entry) {
                Ok(()) => {}
                Err(failed) if failed.lacks_files && self.waits => {
                    failed.log(entry);
                    tracing::warn!("graph `{}` waits: {}", entry.name, failed.reason);
                    servable.becomes_waiting(&failed.reason);
                }
                Err(failed) => {
                    failed.log(entry);
                    tracing::error!("graph `{}` is not served: {}", entry.name, failed.reason);
                    servable.becomes_failed(&failed.reason);
                }
            }
        }
    }

    /// Loads those graphs that waited for a file that is there now.
    pub(crate) fn look_again(&self) {
        let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        for entry in &self.entries {
            let servable = &self.by_name[&entry.name];
            let now = Instant::now();
            let is_due = attempts.get(&entry.name).is_none_or(|it| it.next <= now);
            if servable.state_name() != StateName::Waiting || !is_due || self.lacks_files(entry) {
                continue;
            }
            match self.load_graph(entry) {
                Ok(()) => {
                    attempts.remove(&entry.name);
                }
                Err(failed) => {
                    let before = attempts
                        .get(&entry.name)
                        .map_or(LOOK_EVERY / 2, |it| it.pause);
                    let pause = (before * 2).min(RETRY_AT_MOST);
                    let next = Instant::now() + pause;
                    attempts.insert(entry.name.clone(), Attempts { pause, next });
                    if servable.failure().as_deref() != Some(&failed.reason) {
                        failed.log(entry);
                        tracing::warn!("graph `{}` still waits: {}", entry.name, failed.reason);
                    }
                    servable.becomes_waiting(&failed.reason);
                }
            }
        }
    }

    /// Loads a graph and makes it available.
    fn load_graph(&self, entry: &GraphEntry) -> Result<(), Failed> {
        let started = Instant::now();
        self.by_name[&entry.name].begins();
        let loading = AssertUnwindSafe(|| load::load(entry, &self.environment));
        let compiled = match catch_unwind(loading) {
            Err(panic) => {
                let reason = format!("loading panicked: {}", log::payload(&*panic));
                return Err(Failed::plainly(reason, false));
            }
            Ok(Err(reason)) => return Err(Failed::plainly(reason, !entry.file.is_file())),
            Ok(Ok(compiled)) => compiled,
        };
        let Some(plan) = compiled.plan else {
            let human = |found: &Diagnostic| {
                render::human(&compiled.sources, std::slice::from_ref(found), Color::Plain)
            };
            return Err(Failed {
                reason: first_error(&compiled),
                shown: compiled.diagnostics.iter().map(human).collect(),
                lacks_files: only_files(&compiled.diagnostics),
            });
        };
        for warning in &compiled.diagnostics {
            let shown = render::human(
                &compiled.sources,
                std::slice::from_ref(warning),
                Color::Plain,
            );
            tracing::warn!("graph `{}`\n{shown}", entry.name);
        }
        let seconds = started.elapsed().as_secs_f64();
        tracing::info!(
            "graph `{}` is available after {seconds:.2} s ({})",
            entry.name,
            entry.file.display()
        );
        self.by_name[&entry.name].becomes_available(plan);
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

impl Failed {
    fn log(&self, entry: &GraphEntry) {
        for shown in &self.shown {
            tracing::error!("graph `{}`\n{shown}", entry.name);
        }
    }
}

/// Whether nothing but files is wrong: the graph would do with others.
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
