//! Stateful sequences: runs of graphs that persist between requests, with the state of their nodes.
//!
//! A sequence belongs to the key that started it. While a request uses it, the request owns it: if
//! the request ends early, the sequence ends, too.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use graphmill_engine::shortened;
use parking_lot::{Mutex, MutexGuard};
use tokio::{sync::watch, time::sleep};

use super::{
    Label, SHOWN_BYTES, SequenceControl,
    parameters::{ID, Id, START, field},
    wrong,
};
use crate::{
    errors::{Cause, Failure, Result},
    owner::Owner,
    run::{Feeder, GraphRun},
    shutdown::Stage,
};

/// Limits on sequences. Each is a session, whose nodes keep state in memory, and its graph stays
/// loaded.
#[derive(Clone, Debug)]
pub struct SequenceLimits {
    /// Maximum number of sequences in total.
    pub all: usize,
    /// Maximum number of sequences per key; per client if there are no keys.
    pub of_a_key: usize,
    /// Idle time after which a sequence ends.
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

/// A run that persists between requests.
pub(super) struct Sequence {
    /// Name of the graph in logs and counts.
    pub(super) name: String,
    pub(super) label: Label,
    pub(super) run: GraphRun,
    pub(super) feeder: Feeder,
}

/// The identity of a sequence.
#[derive(Clone, PartialEq, Eq, Hash)]
struct SequenceKey {
    /// Name of the key, if there are keys.
    key: Option<Arc<str>>,
    graph: String,
    id: Id,
}

/// The place of a sequence, with its owner.
struct Slot {
    /// Owner of the request that started it.
    owner: Option<Owner>,
    /// False if a request reserved the place, but has not started the sequence yet.
    has_begun: bool,
    /// Sequence that waits for its next request since this time; `None` while a request uses it.
    waiting: Option<(Box<Sequence>, Instant)>,
}

/// The reason why a sequence has ended.
#[derive(Copy, Clone, Debug)]
enum End {
    /// Its last request was answered, or the graph has ended.
    Done,
    /// A request failed in the graph, passed its deadline, or was left by its client.
    Failed,
    /// No request came within the idle time.
    Idle,
    /// The server is stopping, which ends all sequences.
    Stopped,
}

/// Counts of sequences for the metrics.
#[derive(Clone, Debug, Default)]
pub(crate) struct SequenceCounts {
    /// Open sequences, by the name of the graph.
    pub(crate) open: BTreeMap<String, usize>,
    /// Open sequences that a request is using.
    pub(crate) in_use: usize,
    /// Numbers of ended sequences, by reason.
    pub(crate) ended: [(&'static str, u64); 4],
    /// Requests that were refused because of a limit on sequences.
    pub(crate) refused: u64,
}

/// All sequences of the server.
pub(crate) struct Sequences {
    pub(crate) limits: SequenceLimits,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    slots: HashMap<SequenceKey, Slot>,
    /// Numbers of ended sequences, by [`End`].
    ended: [u64; 4],
    refused: u64,
}

impl Table {
    /// Refuses a sequence above a limit.
    fn check_room(&mut self, limits: &SequenceLimits, owner: Option<&Owner>) -> Result<()> {
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
        let failure = Failure::new(Cause::QueueFull, why + ", which is the limit");
        Err(failure.with_code("too_many_sequences"))
    }
}

impl Sequences {
    pub(crate) fn new(limits: SequenceLimits) -> Arc<Self> {
        let table = Mutex::default();
        Arc::new(Self { limits, table })
    }

    pub(crate) fn counts(&self) -> SequenceCounts {
        let table = self.lock();
        let names = ["done", "failed", "idle", "stopped"];
        let mut counts = SequenceCounts {
            ended: std::array::from_fn(|why| (names[why], table.ended[why])),
            refused: table.refused,
            ..SequenceCounts::default()
        };
        // A sequence that has not started may name an unknown graph.
        for (place, slot) in table.slots.iter().filter(|(_, slot)| slot.has_begun) {
            *counts.open.entry(place.graph.clone()).or_default() += 1;
            counts.in_use += usize::from(slot.waiting.is_none());
        }
        counts
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock()
    }

    /// Returns the sequence of a request for exclusive use. For the first request, reserves a new
    /// one.
    pub(crate) fn take(
        self: &Arc<Self>,
        owner: Option<Owner>,
        graph: &str,
        part: &SequenceControl,
    ) -> Result<Hold> {
        let SequenceControl { id, starts, .. } = part;
        let place = SequenceKey {
            key: owner.as_ref().and_then(Owner::key).cloned(),
            graph: graph.to_owned(),
            id: id.clone(),
        };
        let mut table = self.lock();
        let sequence = match table.slots.get_mut(&place) {
            Some(Slot { waiting: None, .. }) => {
                let why = format!("the sequence {id} is in use by another request");
                let failure = Failure::new(Cause::QueueFull, why).with_field(field(ID));
                return Err(failure.with_code("sequence_in_use"));
            }
            Some(_) if *starts => {
                let why = format_args!("the sequence {id} has already begun");
                return Err(wrong(field(START), why));
            }
            Some(slot) => slot.waiting.take().map(|(sequence, _)| *sequence),
            None if !*starts => {
                let graph = shortened(graph, SHOWN_BYTES);
                let why = format!(
                    "`{ID}`: the graph `{graph}` has no sequence {id}: a sequence begins with `{START}`, and ends after {} s without a request",
                    self.limits.idle.as_secs()
                );
                return Err(Failure::new(Cause::NotFound, why).with_field(field(ID)));
            }
            None => {
                table.check_room(&self.limits, owner.as_ref())?;
                let slot = Slot {
                    owner,
                    has_begun: false,
                    waiting: None,
                };
                table.slots.insert(place.clone(), slot);
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

    /// Ends idle sequences, and all waiting ones when the server stops.
    pub(crate) async fn watch(self: Arc<Self>, mut stage: watch::Receiver<Stage>) {
        // Often enough that a sequence ends soon after its idle time.
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
        let over = table.slots.extract_if(|_, slot| {
            let waiting = slot.waiting.as_ref();
            waiting.is_some_and(|(_, since)| is_over(*since))
        });
        let over: Vec<_> = over.collect();
        table.ended[why as usize] += over.len() as u64;
        drop(table);
        // Dropping the state of nodes may take long, and nothing waits for it.
        drop(over);
    }
}

/// A sequence in use by a request. It ends on drop, unless it was [left](Self::leave).
pub(crate) struct Hold {
    sequences: Arc<Sequences>,
    place: SequenceKey,
    /// Sequence; `None` before it has started.
    pub(super) sequence: Option<Sequence>,
    /// Reason for its end on drop; `None` before it has started.
    ends: Option<End>,
    stays: bool,
}

impl Hold {
    /// Marks the sequence as started.
    pub(super) fn begins(&mut self) {
        self.ends = Some(End::Failed);
        self.change(|slot| slot.has_begun = true);
    }

    fn change(&self, change: impl FnOnce(&mut Slot)) {
        if let Some(slot) = self.sequences.lock().slots.get_mut(&self.place) {
            change(slot);
        }
    }

    /// Returns the sequence, so that it waits for its next request.
    pub(super) fn leave(mut self, sequence: Sequence) {
        self.stays = true;
        let waiting = Some((Box::new(sequence), Instant::now()));
        self.change(|slot| slot.waiting = waiting);
    }

    /// Ends the sequence as done.
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
