//! Stateful sequences: runs of graphs that persist between requests, with the state of their nodes.
//!
//! A sequence belongs to the key that began it. While a request uses it, the request owns it: if
//! the request ends early, the sequence ends too.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use graphmill_engine::shortened;
use tokio::{sync::watch, time::sleep};

use super::{
    Label, SHOWN_BYTES, SequenceControl,
    parameters::{ID, Id, START, field},
    wrong,
};
use crate::{
    errors::{Cause, Failure},
    owner::Owner,
    run::{Feeder, Run},
    stage::Stage,
};

/// How many sequences there may be. Each is a session: what its nodes keep is in memory, and its
/// graph stays loaded.
#[derive(Clone, Debug)]
pub struct SequenceLimits {
    /// Most sequences at once.
    pub all: usize,
    /// Maximum number of sequences per key, or per client where there are no keys.
    pub of_a_key: usize,
    /// After which time without a request a sequence ends.
    pub idle: Duration,
}

impl Default for SequenceLimits {
    fn default() -> Self {
        Self {
            all: 1_024,
            of_a_key: 256,
            idle: Duration::from_mins(1),
        }
    }
}

/// A run that stays.
pub(super) struct Sequence {
    /// What logs and counts call its graph.
    pub(super) name: String,
    pub(super) label: Label,
    pub(super) run: Run,
    pub(super) feeder: Feeder,
}

/// Where a sequence is.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Place {
    /// The name of the key, where there are keys.
    key: Option<Arc<str>>,
    graph: String,
    id: Id,
}

/// The use of a place.
struct Slot {
    /// Owner of the request that began it.
    owner: Option<Owner>,
    state: State,
}

enum State {
    /// A request has the place and has not begun the sequence.
    Begins,
    /// A request works with it.
    InUse,
    /// It waits for a request since then.
    Waiting(Box<Sequence>, Instant),
}

/// Why a sequence has ended.
#[derive(Copy, Clone, Debug)]
enum End {
    /// Its last request was answered, or the graph has ended.
    Done,
    /// A request failed in the graph, passed its deadline, or was left by its client.
    Failed,
    /// No request came.
    Idle,
    /// The server stops.
    Stopped,
}

/// What is counted of sequences.
#[derive(Clone, Debug, Default)]
pub(crate) struct SequenceCounts {
    /// Those that are open, by the name of the graph.
    pub(crate) open: BTreeMap<String, usize>,
    /// Those of them that a request works with.
    pub(crate) in_use: usize,
    /// Those that have ended, by why.
    pub(crate) ended: [(&'static str, u64); 4],
    /// Requests that would have begun one, and found no place.
    pub(crate) refused: u64,
}

/// All sequences.
pub(crate) struct Sequences {
    pub(crate) limits: SequenceLimits,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    slots: HashMap<Place, Slot>,
    /// By [`End`].
    ended: [u64; 4],
    refused: u64,
}

impl Table {
    /// Refuses a sequence where there are as many as there may be.
    fn check_room(
        &mut self,
        limits: &SequenceLimits,
        owner: Option<&Owner>,
    ) -> Result<(), Failure> {
        let own = |owner: &Owner| {
            let slots = self.slots.values();
            slots.filter(|it| it.owner.as_ref() == Some(owner)).count()
        };
        let why = match owner {
            Some(owner) if own(owner) >= limits.of_a_key => {
                format!("{owner} has {} sequences", limits.of_a_key)
            }
            _ if self.slots.len() >= limits.all => format!("there are {} sequences", limits.all),
            _ => return Ok(()),
        };
        self.refused += 1;
        let failure = Failure::new(Cause::QueueFull, why + ", as many as there may be");
        Err(failure.with_code("too_many_sequences"))
    }
}

impl Sequences {
    pub(crate) fn new(limits: SequenceLimits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            table: Mutex::default(),
        })
    }

    pub(crate) fn counts(&self) -> SequenceCounts {
        let table = self.lock();
        let names = ["done", "failed", "idle", "stopped"];
        let mut counts = SequenceCounts {
            ended: std::array::from_fn(|why| (names[why], table.ended[why])),
            refused: table.refused,
            ..SequenceCounts::default()
        };
        for (place, Slot { state, .. }) in &table.slots {
            // What has not begun may name a graph that there is not.
            if !matches!(state, State::Begins) {
                *counts.open.entry(place.graph.clone()).or_default() += 1;
            }
            counts.in_use += usize::from(matches!(state, State::InUse));
        }
        counts
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sequence of a request, for as long as the request works with it; of the first one a
    /// place for it.
    pub(crate) fn take(
        self: &Arc<Self>,
        owner: Option<Owner>,
        graph: &str,
        part: &SequenceControl,
    ) -> Result<Hold, Failure> {
        let SequenceControl { id, starts, .. } = part;
        let place = Place {
            key: owner.as_ref().and_then(Owner::key).cloned(),
            graph: graph.to_owned(),
            id: id.clone(),
        };
        let mut table = self.lock();
        let sequence = match table.slots.get_mut(&place).map(|slot| &mut slot.state) {
            Some(State::InUse | State::Begins) => {
                let why = format!("another request works with the sequence {id}");
                let failure = Failure::new(Cause::QueueFull, why).of_field(field(ID));
                return Err(failure.with_code("sequence_in_use"));
            }
            Some(State::Waiting(..)) if *starts => {
                let why = format_args!("the sequence {id} has begun and not ended");
                return Err(wrong(field(START), why));
            }
            Some(waiting) => match std::mem::replace(waiting, State::InUse) {
                State::Waiting(sequence, _) => Some(*sequence),
                State::InUse | State::Begins => None,
            },
            None if !*starts => {
                let graph = shortened(graph, SHOWN_BYTES);
                let why = format!(
                    "`{ID}`: the graph `{graph}` has no sequence {id}: it begins with `{START}`, and ends after {} s without a request",
                    self.limits.idle.as_secs()
                );
                return Err(Failure::new(Cause::NotFound, why).of_field(field(ID)));
            }
            None => {
                table.check_room(&self.limits, owner.as_ref())?;
                let state = State::Begins;
                table.slots.insert(place.clone(), Slot { owner, state });
                None
            }
        };
        drop(table);
        Ok(Hold {
            sequences: Arc::clone(self),
            place,
            ends: sequence.is_some().then_some(End::Failed),
            sequence,
            stays: false,
        })
    }

    /// Ends unused sequences, and all that wait when the server stops.
    pub(crate) async fn watch(self: Arc<Self>, mut stage: watch::Receiver<Stage>) {
        // Often enough that none lives much longer than it may.
        let look = (self.limits.idle / 10).clamp(Duration::from_millis(10), Duration::from_secs(1));
        loop {
            tokio::select! {
                () = sleep(look) => {
                    self.end_those(End::Idle, |since| since.elapsed() >= self.limits.idle);
                }
                _ = stage.wait_for(|stage| *stage >= Stage::Draining) => {
                    self.end_those(End::Stopped, |_| true);
                    return;
                }
            }
        }
    }

    fn end_those(&self, why: End, is_over: impl Fn(Instant) -> bool) {
        let mut table = self.lock();
        let over = table.slots.extract_if(|_, slot| match &slot.state {
            State::Waiting(_, since) => is_over(*since),
            State::InUse | State::Begins => false,
        });
        let over: Vec<_> = over.collect();
        table.ended[why as usize] += over.len() as u64;
        drop(table);
        // What nodes keep may take a while to drop: nobody waits for it.
        drop(over);
    }
}

/// A sequence that a request works with. It ends when this is dropped, unless it was
/// [left](Self::leave).
pub(crate) struct Hold {
    sequences: Arc<Sequences>,
    place: Place,
    /// None before it has begun.
    pub(super) sequence: Option<Sequence>,
    /// How it ends when this is dropped; none before it has begun.
    ends: Option<End>,
    stays: bool,
}

impl Hold {
    /// Says that the sequence has begun.
    pub(super) fn begins(&mut self) {
        self.ends = Some(End::Failed);
        self.is(State::InUse);
    }

    fn is(&self, state: State) {
        if let Some(slot) = self.sequences.lock().slots.get_mut(&self.place) {
            slot.state = state;
        }
    }

    /// Lets the sequence wait for its next request.
    pub(super) fn leave(mut self, sequence: Sequence) {
        self.stays = true;
        self.is(State::Waiting(Box::new(sequence), Instant::now()));
    }

    /// Ends the sequence well.
    pub(super) fn done(mut self) {
        self.ends = Some(End::Done);
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.stays {
            return;
        }
        let mut table = self.sequences.lock();
        let slot = table.slots.remove(&self.place);
        if let Some(why) = self.ends {
            table.ended[why as usize] += 1;
        }
        drop(table);
        drop(slot);
    }
}
