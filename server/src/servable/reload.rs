//! Replacement of a configuration: the graphs that are reused, the graphs that are loaded, and the
//! memory that this needs.

use std::sync::Arc;

use clap::ValueEnum;
use graphmill_engine::FileStamps;
use graphmill_llm::memory_budget;

use super::{
    Servable, Servables, StateName,
    served::{Changes, ConfigRefusal},
    unloading::{BY_OPERATOR, DRAIN_AT_MOST, WHEN_IDLE},
};
use crate::config::{Config, GraphEntry};

/// The behavior of a reload if the old and the new models do not fit into memory together.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ReloadPolicy {
    /// Keeps serving the old graphs, and refuses the new configuration.
    #[default]
    Refuse,
    /// Unloads the old graphs after their requests have ended, then loads the new ones. New
    /// requests wait.
    Drain,
}

/// A replacement of the served graphs in progress.
pub(super) struct Reload<'a> {
    old: &'a Servables,
    new: Servables,
    changes: Changes,
    /// Graphs that must be loaded.
    to_load: Vec<ToLoad>,
}

/// A graph that is not reused as it is.
struct ToLoad {
    entry: GraphEntry,
    /// True if it is loaded with the configuration, not by its first request.
    now: bool,
    /// True if it was not served before, so that it may fail again without blocking the reload.
    may_fail: bool,
    /// True if its adapters change. If it cannot be loaded, the reload fails, because the new adapters
    /// are wrong.
    changes_adapters: bool,
}

impl<'a> Reload<'a> {
    /// Determines the graphs that stay as they are. With `only`, all graphs of other names stay,
    /// even if their files have changed.
    pub(super) fn new(
        old: &'a Servables,
        config: Config,
        seen: &mut FileStamps,
        only: Option<&str>,
    ) -> Self {
        let mut new = old.succeeded_by(config);
        let mut changes = Changes::default();
        let gone = old.iter().map(Servable::name);
        let gone = gone.filter(|name| new.get(name).is_none());
        changes.removed = gone.map(str::to_owned).collect();
        let same_subgraphs = new.config.subgraphs == old.config.subgraphs;
        let mut to_load = Vec::new();
        for entry in new.config.graphs.clone() {
            let id = entry.id();
            let before = old.get(&id);
            let is_other = only.is_some_and(|name| name != entry.name);
            if let Some(before) = before.filter(|it| same_subgraphs && *it.entry() == entry)
                && (is_other
                    || before.stays() && before.sources().seen.is_still(&new.check(&entry).0.seen))
            {
                seen.extend(&before.sources().seen);
                new.put(Arc::clone(before));
                continue;
            }
            let state = before.map(|before| before.state_name());
            let servable = new.servable(&entry);
            let stays_out = before.is_some_and(|it| it.is_kept_out());
            if stays_out {
                servable.keep_out(BY_OPERATOR);
            }
            let is_independent = servable.is_independent();
            let changes_adapters = state == Some(StateName::Available)
                && before.is_some_and(|it| it.entry().adapters != entry.adapters);
            to_load.push(ToLoad {
                now: match state {
                    _ if changes_adapters => true,
                    _ if is_independent || stays_out => false,
                    Some(StateName::Available) => true,
                    Some(StateName::Unloaded) => !servable.loads_on_demand(),
                    Some(_) | None => !servable.starts_unloaded(),
                },
                may_fail: !changes_adapters
                    && (is_independent || before.is_some_and(|before| !before.stays())),
                changes_adapters,
                entry,
            });
            match before {
                Some(_) => changes.changed.push(id),
                None => changes.added.push(id),
            }
        }
        let is_redivided = |graph: &&str| new.canary(graph) != old.canary(graph);
        let redivided = new.versioned().filter(is_redivided);
        changes.changed.extend(redivided.map(str::to_owned));
        Self {
            old,
            new,
            changes,
            to_load,
        }
    }

    /// Checks all graphs that must be loaded, and loads them.
    pub(super) fn load(
        mut self,
        seen: &mut FileStamps,
        policy: ReloadPolicy,
    ) -> Result<(Servables, Changes), ConfigRefusal> {
        let bytes = self.check(seen)?;
        let room = if bytes == 0 { Ok(()) } else { has_room(bytes) };
        let outcome = match room {
            Ok(()) => self.load_all(seen),
            Err(short) if policy == ReloadPolicy::Refuse => Err(short),
            Err(short) => self.load_drained(short, seen),
        };
        outcome?;
        let (old, new) = (self.old, &self.new);
        let failure = |of: &Servables, id: &str| of.get(id).and_then(|it| it.failure());
        let fails_as_before = |id: &String| {
            let now = failure(new, id);
            now.is_some() && now == failure(old, id)
        };
        self.changes.changed.retain(|id| !fails_as_before(id));
        Ok((self.new, self.changes))
    }

    fn load_all(&self, seen: &mut FileStamps) -> Result<(), ConfigRefusal> {
        for graph in self.to_load.iter().filter(|it| it.now) {
            let entry = &graph.entry;
            let loaded = self.new.load_one(entry);
            let servable = self.new.servable(entry);
            seen.extend(&servable.sources().seen);
            if let Err(failed) = loaded
                && !graph.may_fail
                && (graph.changes_adapters || servable.state_name() != StateName::Waiting)
            {
                let reason = format!("graph `{}`: {}", entry.id(), failed.reason);
                return Err(ConfigRefusal {
                    diagnostics: failed.shown,
                    ..ConfigRefusal::new(reason)
                });
            }
        }
        Ok(())
    }

    /// Loads the new graphs after the old ones have been unloaded. If that fails, loads the old
    /// ones again.
    fn load_drained(
        &mut self,
        short: ConfigRefusal,
        seen: &mut FileStamps,
    ) -> Result<(), ConfigRefusal> {
        let is_kept = |servable: &&Arc<Servable>| {
            let now = self.new.get(servable.name());
            now.is_some_and(|now| Arc::ptr_eq(now, servable))
        };
        let leaving: Vec<&Arc<Servable>> = self
            .old
            .all()
            .filter(|servable| servable.state_name() == StateName::Available)
            .filter(|servable| !is_kept(servable))
            .collect();
        if leaving.is_empty() {
            return Err(short);
        }
        let names: Vec<&str> = leaving.iter().map(|servable| servable.name()).collect();
        tracing::info!(
            "there is not enough memory for old and new models at once: waiting for the requests of `{}` to end",
            names.join("`, `")
        );
        let mut left: Vec<&Arc<Servable>> = Vec::new();
        let mut outcome = Ok(());
        for servable in leaving {
            match servable.drain(DRAIN_AT_MOST) {
                Ok(()) => left.push(servable),
                Err(plan) => {
                    servable.set_available(plan);
                    let (name, seconds) = (servable.name(), DRAIN_AT_MOST.as_secs());
                    let reason = format!("requests of `{name}` still run after {seconds} s");
                    outcome = Err(ConfigRefusal::new(reason));
                    break;
                }
            }
        }
        let checked = outcome.and_then(|()| self.check(seen)).and_then(has_room);
        let outcome = checked.and_then(|()| self.load_all(seen));
        if outcome.is_err() {
            self.leave_new();
            for servable in left {
                self.old.load_again(servable);
            }
        }
        outcome
    }

    /// Drops the new graphs that were loaded, to free memory for the old ones.
    fn leave_new(&mut self) {
        let config = self.new.config.clone();
        self.new = self.old.succeeded_by(config);
        memory_budget::trim();
    }

    /// Checks that all graphs can be loaded, without loading one. Returns the number of bytes of
    /// files to load that are not in memory yet.
    fn check(&self, seen: &mut FileStamps) -> Result<u64, ConfigRefusal> {
        let in_memory = self.old.in_memory();
        let mut bytes = 0;
        let mut wrong = Vec::new();
        let mut diagnostics = Vec::new();
        for graph in &self.to_load {
            let entry = &graph.entry;
            let (made, failed) = self.new.check(entry);
            seen.extend(&made.seen);
            if graph.now {
                bytes += made.seen.bytes_beyond(&in_memory);
            } else {
                let servable = self.new.servable(entry);
                servable.set_sources(made);
                if !servable.starts_unloaded() && !servable.is_kept_out() {
                    servable.set_unloaded(WHEN_IDLE);
                }
            }
            let Some(failed) = failed else { continue };
            let may_wait = failed.lacks_files && self.new.settings.waits;
            if self.new.servable(entry).is_independent() {
                let before = self.old.get(&entry.id()).and_then(|it| it.failure());
                self.new.record_failure(entry, &failed);
                // A file that is being copied has another error each time.
                let is_known = failed.lacks_files && before.is_some();
                if !is_known && before.as_deref() != Some(&failed.reason) {
                    self.new.log_failure(entry, &failed);
                }
            } else if !graph.may_fail && !may_wait {
                wrong.push(format!("graph `{}`: {}", entry.id(), failed.reason));
                diagnostics.extend(failed.shown);
            }
        }
        if wrong.is_empty() {
            return Ok(bytes);
        }
        Err(ConfigRefusal {
            diagnostics,
            ..ConfigRefusal::new(wrong.join("; "))
        })
    }
}

/// Checks that there is memory for this number of bytes of files.
fn has_room(bytes: u64) -> Result<(), ConfigRefusal> {
    memory_budget::ensure(bytes).map_err(|short| {
        ConfigRefusal::new(format!(
            "the new models need {} MiB in addition to the old ones, but only {} MiB of memory are left",
            bytes >> 20,
            short.left >> 20
        ))
    })
}

impl Servable {
    /// Returns true if it is reused when its entry and files have not changed: it answers, it is
    /// loaded on demand, or it has failed without affecting other graphs.
    fn stays(&self) -> bool {
        match self.state_name() {
            StateName::Available => true,
            StateName::Failed => self.is_independent(),
            StateName::Waiting => false,
            _ => self.loads_on_demand() || self.is_kept_out(),
        }
    }
}

impl Servables {
    /// Loads a graph again from its stored sources, even if its files have changed. Its models may
    /// have changed.
    fn load_again(&self, servable: &Servable) {
        let entry = servable.sources().entry(servable.entry());
        match self.load_one(&entry) {
            Ok(()) => tracing::info!("graph `{}` is served as before", entry.id()),
            Err(failed) => self.log_failure(&entry, &failed),
        }
    }
}
