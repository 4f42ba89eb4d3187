//! Loading of a configuration's graphs: all of them at the start, and waiting ones when their files
//! exist.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use graphmill_engine::{Environment, codes::sides};
use graphmill_grammar::{
    Diagnostic, SourceMap,
    render::{self, Color},
};

use super::{
    CompileResult, Servables, ServedGraphs, StateName,
    load::{self, GraphSources},
};
use crate::{config::GraphEntry, file_watch, telemetry::log};

/// Pause between the first two attempts to load files that exist but cannot be loaded.
const FIRST_PAUSE: Duration = Duration::from_secs(2);

/// Longest pause between attempts to load files that exist but cannot be loaded, such as one that
/// is still being copied.
const RETRY_AT_MOST: Duration = Duration::from_mins(1);

/// The error of a graph that could not be loaded.
pub(super) struct LoadFailure {
    /// Reason in one line, for the status.
    pub(super) reason: String,
    /// Reason with all diagnostics, as in the log.
    pub(super) shown: Vec<String>,
    /// True if a file is missing or cannot be used.
    pub(super) lacks_files: bool,
}

impl LoadFailure {
    fn plainly(reason: String, lacks_files: bool) -> Self {
        Self {
            reason,
            shown: Vec::new(),
            lacks_files,
        }
    }

    /// Creates the error of a graph without a plan.
    fn new(compiled: &CompileResult) -> Self {
        Self {
            reason: first_error(compiled),
            shown: shown(&compiled.sources, &compiled.diagnostics),
            lacks_files: only_files(&compiled.diagnostics),
        }
    }

    /// Formats the whole reason: after a colon, or below.
    fn full_reason(&self) -> String {
        if self.shown.is_empty() {
            format!(": {}", self.reason)
        } else {
            format!("\n{}", self.shown.join("\n"))
        }
    }
}

/// The attempts to load a waiting graph.
pub(super) struct Attempts {
    pause: Duration,
    next: Instant,
}

/// Loads graphs once the files that they wait for exist.
pub(crate) async fn look_for_models(served: Arc<ServedGraphs>) {
    file_watch::repeat(move || {
        let servables = served.now();
        if servables.look_again() {
            served.keep(&servables);
        }
        true
    })
    .await;
}

/// Checks regularly, until the server is gone, if model files in use have changed. The log, the
/// status and the metrics report it.
pub(crate) async fn watch_files(served: Weak<ServedGraphs>) {
    file_watch::repeat(move || {
        let servables = served.upgrade().map(|served| served.now());
        servables.map(|it| it.look_at_files()).is_some()
    })
    .await;
}

impl Servables {
    /// Loads the graphs that are loaded with the server, one after the other, required ones first.
    /// Checks the others. An error or a panic in one is reported, and does not affect the others.
    pub(crate) fn load(&self) {
        let (optional, required): (Vec<_>, Vec<_>) =
            (self.config.graphs.iter()).partition(|entry| entry.serving.optional);
        for entry in required.into_iter().chain(optional) {
            let servable = self.servable(entry);
            let outcome = if servable.starts_unloaded() {
                self.check_one(entry)
            } else if servable.state_name() == StateName::Available {
                Ok(())
            } else {
                self.load_one(entry)
            };
            if let Err(failed) = outcome {
                self.log_failure(entry, &failed);
            }
        }
    }

    /// Logs the reason why a graph is not served.
    pub(super) fn log_failure(&self, entry: &GraphEntry, failed: &LoadFailure) {
        let (name, why) = (entry.id(), failed.full_reason());
        if self.servable(entry).state_name() == StateName::Waiting {
            tracing::warn!("graph `{name}` waits{why}");
        } else {
            tracing::error!("graph `{name}` is not served{why}");
        }
    }

    /// Loads a graph. It is available, waiting or failed after that.
    pub(super) fn load_one(&self, entry: &GraphEntry) -> Result<(), LoadFailure> {
        let loaded = self.load_graph(entry);
        if let Err(failed) = &loaded {
            self.record_failure(entry, failed);
        }
        loaded
    }

    pub(super) fn record_failure(&self, entry: &GraphEntry, failed: &LoadFailure) {
        let servable = self.servable(entry);
        let is_awaited = !servable.is_settled() || !servable.loads_on_demand();
        if failed.lacks_files && self.settings.waits && is_awaited {
            servable.set_waiting(&failed.reason);
        } else {
            servable.set_failed(&failed.reason, false);
        }
    }

    /// Checks a graph that is loaded by its first request. If it cannot be served, it has failed.
    fn check_one(&self, entry: &GraphEntry) -> Result<(), LoadFailure> {
        let (made, failed) = self.check(entry);
        self.servable(entry).set_sources(made);
        if let Some(failed) = failed {
            self.record_failure(entry, &failed);
            return Err(failed);
        }
        tracing::info!("graph `{}` is loaded on demand", entry.id());
        Ok(())
    }

    /// Returns the sources of a graph, and its errors as far as they can be found without loading
    /// it.
    pub(super) fn check(&self, entry: &GraphEntry) -> (GraphSources, Option<LoadFailure>) {
        let environment = self.environment.clone().looking_only();
        match compile(entry, &environment) {
            Err(failed) => {
                let mut made = GraphSources::default();
                made.seen.look(&entry.file);
                (made, Some(failed))
            }
            Ok(compiled) => {
                let failed = compiled.plan.is_none().then(|| LoadFailure::new(&compiled));
                (compiled.made, failed)
            }
        }
    }

    /// Loads the waiting graphs whose files exist now. Returns true if there was one.
    fn look_again(&self) -> bool {
        let mut has_loaded = false;
        let mut attempts = self.attempts.lock();
        for entry in &self.config.graphs {
            let (servable, id) = (self.servable(entry), entry.id());
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
                        servable.set_waiting(&failed.reason);
                    } else {
                        servable.set_failed(&failed.reason, false);
                    }
                    if is_news || !failed.lacks_files {
                        self.log_failure(entry, &failed);
                    }
                }
            }
        }
        has_loaded
    }

    /// Loads a graph and makes it available.
    fn load_graph(&self, entry: &GraphEntry) -> Result<(), LoadFailure> {
        let started = Instant::now();
        let servable = self.servable(entry);
        servable.begin_load();
        let compiled = compile(entry, &self.environment)?;
        servable.set_sources(compiled.made.clone());
        let Some(plan) = &compiled.plan else {
            return Err(LoadFailure::new(&compiled));
        };
        for warning in shown(&compiled.sources, &compiled.diagnostics) {
            tracing::warn!("graph `{}`\n{warning}", entry.id());
        }
        let seconds = started.elapsed().as_secs_f64();
        let (id, file) = (entry.id(), entry.file.display());
        tracing::info!("graph `{id}` is available after {seconds:.2} s ({file})");
        servable.set_load_time(started.elapsed());
        servable.set_available(Arc::clone(plan));
        Ok(())
    }

    /// Returns true if a file of a graph is still missing, without loading anything.
    fn lacks_files(&self, entry: &GraphEntry) -> bool {
        let environment = self.environment.clone().looking_only();
        match load::compile_entry(entry, &environment) {
            Err(_) => true,
            Ok(compiled) => only_files(&compiled.diagnostics),
        }
    }
}

/// Compiles the graph of an entry. A panic is an error, too.
fn compile(entry: &GraphEntry, environment: &Environment) -> Result<CompileResult, LoadFailure> {
    match catch_unwind(AssertUnwindSafe(|| load::load(entry, environment))) {
        Err(panic) => {
            let reason = format!("loading panicked: {}", log::payload(&*panic));
            Err(LoadFailure::plainly(reason, false))
        }
        Ok(Err(reason)) => Err(LoadFailure::plainly(reason, !entry.file.is_file())),
        Ok(Ok(compiled)) => Ok(compiled),
    }
}

/// Formats each diagnostic with its excerpt of the source, without colors.
pub(super) fn shown(sources: &SourceMap, diagnostics: &[Diagnostic]) -> Vec<String> {
    let human = |found| render::human(sources, std::slice::from_ref(found), Color::Plain);
    diagnostics.iter().map(human).collect()
}

/// Returns true if all errors are about files that may still appear.
fn only_files(found: &[Diagnostic]) -> bool {
    let mut errors = found.iter().filter(|it| it.is_error()).peekable();
    errors.peek().is_some() && errors.all(|it| it.code == &sides::RESOURCE_FAILED)
}

/// Returns the first error of a graph in one line. All of them are in the log.
fn first_error(compiled: &CompileResult) -> String {
    let mut errors = compiled.diagnostics.iter().filter(|it| it.is_error());
    let Some(first) = errors.next() else {
        return "it has no plan".to_owned();
    };
    let place = compiled.sources.locate(first.primary.span);
    let place = place.map_or(String::new(), |place| format!("{place}: "));
    let more = match errors.count() {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    format!("{place}{}: {}{more}", first.code, first.message)
}
