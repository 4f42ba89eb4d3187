//! How a configuration replaces another: what is reused, what is loaded, and how much memory that
//! needs.

use std::sync::Arc;

use clap::ValueEnum;
use graphmill_engine::FileStamps;
use graphmill_llm::room;

use super::{
    Servable, Servables, StateName,
    served::{Changes, Refused},
    unloading::{BY_OPERATOR, DRAIN_AT_MOST, WHEN_IDLE},
};
use crate::config::{Config, GraphEntry};

/// What is done where there is no memory for old and new models at once.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ReloadPolicy {
    /// The old ones are served on, and the new ones are not.
    #[default]
    Refuse,
    /// The old ones end their requests and leave before the new ones are loaded; requests that come
    /// meanwhile wait.
    Drain,
}

/// Graphs on their way to take the place of others.
pub(super) struct Reload<'a> {
    old: &'a Servables,
    new: Servables,
    changes: Changes,
    /// Those that have to be loaded.
    to_load: Vec<ToLoad>,
}

/// A graph that does not stay as it is.
struct ToLoad {
    entry: GraphEntry,
    /// Whether it is loaded with the configuration, and not when a request asks for it.
    now: bool,
    /// Whether it was not served before: then it may fail again without blocking the reload.
    may_fail: bool,
    /// True if it was served with other adapters. Then it is loaded, or all stays as it was: the
    /// adapters are what is wrong.
    changes_adapters: bool,
}

impl<'a> Reload<'a> {
    /// Finds out which graphs stay as they are: all but those of the name `only`, if there is one,
    /// whatever has become of their files.
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
                    || before.stays() && before.made().seen.is_still(&new.check(&entry).0.seen))
            {
                seen.extend(&before.made().seen);
                new.put(Arc::clone(before));
                continue;
            }
            let state = before.map(|before| before.state_name());
            let servable = new.of(&entry);
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
        let redivided = new
            .versioned()
            .filter(|graph| new.canary(graph) != old.canary(graph));
        changes.changed.extend(redivided.map(str::to_owned));
        Self {
            old,
            new,
            changes,
            to_load,
        }
    }

    /// Checks all graphs that are to be loaded, and loads them.
    pub(super) fn load(
        mut self,
        seen: &mut FileStamps,
        policy: ReloadPolicy,
    ) -> Result<(Servables, Changes), Refused> {
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

    fn load_all(&self, seen: &mut FileStamps) -> Result<(), Refused> {
        for ToLoad {
            entry,
            may_fail,
            changes_adapters,
            ..
        } in self.to_load.iter().filter(|it| it.now)
        {
            let loaded = self.new.load_one(entry);
            let servable = self.new.of(entry);
            seen.extend(&servable.made().seen);
            if let Err(failed) = loaded
                && !may_fail
                && (*changes_adapters || servable.state_name() != StateName::Waiting)
            {
                return Err(Refused {
                    unreadable: false,
                    reason: format!("graph `{}`: {}", entry.id(), failed.reason),
                    diagnostics: failed.shown,
                });
            }
        }
        Ok(())
    }

    /// Loads the new graphs when the old ones have left. If that fails, the old ones are loaded
    /// again.
    fn load_drained(&mut self, short: Refused, seen: &mut FileStamps) -> Result<(), Refused> {
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
            "there is no memory for old and new models at once: `{}` end their requests",
            names.join("`, `")
        );
        let mut left: Vec<&Arc<Servable>> = Vec::new();
        let mut outcome = Ok(());
        for servable in leaving {
            match servable.drain(DRAIN_AT_MOST) {
                Ok(()) => left.push(servable),
                Err(plan) => {
                    servable.becomes_available(plan);
                    let reason = format!(
                        "requests of `{}` still run after {} s",
                        servable.name(),
                        DRAIN_AT_MOST.as_secs()
                    );
                    outcome = Err(Refused {
                        unreadable: false,
                        reason,
                        diagnostics: Vec::new(),
                    });
                    break;
                }
            }
        }
        let outcome = outcome
            .and_then(|()| self.check(seen))
            .and_then(has_room)
            .and_then(|()| self.load_all(seen));
        if outcome.is_err() {
            self.leave_new();
            for servable in left {
                self.old.load_again(servable);
            }
        }
        outcome
    }

    /// Drops what was loaded of the new graphs, so that the old ones have its memory.
    fn leave_new(&mut self) {
        let config = self.new.config.clone();
        self.new = self.old.succeeded_by(config);
        room::trim();
    }

    /// Whether all graphs would load, found out without loading one; tells how many bytes of files
    /// are loaded that are not in memory yet.
    fn check(&self, seen: &mut FileStamps) -> Result<u64, Refused> {
        let in_memory = self.old.in_memory();
        let mut bytes = 0;
        let mut wrong = Vec::new();
        let mut diagnostics = Vec::new();
        for ToLoad {
            entry,
            now,
            may_fail,
            ..
        } in &self.to_load
        {
            let (made, failed) = self.new.check(entry);
            seen.extend(&made.seen);
            if *now {
                bytes += made.seen.bytes_beyond(&in_memory);
            } else {
                let servable = self.new.of(entry);
                servable.was_made_of(made);
                if !servable.starts_unloaded() && !servable.is_kept_out() {
                    servable.becomes_unloaded(WHEN_IDLE);
                }
            }
            let Some(failed) = failed else { continue };
            let may_wait = failed.lacks_files && self.new.waits;
            if self.new.of(entry).is_independent() {
                let before = self.old.get(&entry.id()).and_then(|it| it.failure());
                self.new.has_failed(entry, &failed);
                // A file that is being copied is wrong in another way each time.
                let is_known = failed.lacks_files && before.is_some();
                if !is_known && before.as_deref() != Some(&failed.reason) {
                    self.new.tell(entry, &failed);
                }
            } else if !may_fail && !may_wait {
                wrong.push(format!("graph `{}`: {}", entry.id(), failed.reason));
                diagnostics.extend(failed.shown);
            }
        }
        if wrong.is_empty() {
            return Ok(bytes);
        }
        Err(Refused {
            unreadable: false,
            reason: wrong.join("; "),
            diagnostics,
        })
    }
}

/// Whether there is memory for so many bytes of files.
fn has_room(bytes: u64) -> Result<(), Refused> {
    room::ensure(bytes).map_err(|short| Refused {
        unreadable: false,
        reason: format!(
            "the new models take {} MiB beside the old ones, and {} MiB of memory are left",
            bytes >> 20,
            short.left >> 20
        ),
        diagnostics: Vec::new(),
    })
}

impl Servable {
    /// Whether it goes on as it is where its entry and its files are the same: it answers, it is
    /// loaded when it is asked to, or it has failed where that keeps no other from being served.
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
    /// Loads a graph again as it was, whatever its files are by now. A model of it may be another
    /// one.
    fn load_again(&self, servable: &Servable) {
        let entry = servable.made().entry(servable.entry());
        match self.load_one(&entry) {
            Ok(()) => tracing::info!("graph `{}` is served as before", entry.id()),
            Err(failed) => self.tell(&entry, &failed),
        }
    }
}
