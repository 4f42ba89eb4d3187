//! Stateful sequences: runs of graphs that persist between requests, with the state of their nodes.
//!
//! A sequence belongs to the key that began it. While a request uses it, the request owns it: if
//! the request ends early, the sequence ends too.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use graphmill_engine::shortened;
use tokio::{sync::watch, time::sleep};

use super::{
    Label, SequenceControl,
    sequence_control::{ID, Id, START, field},
    wrong,
};
use crate::{
    errors::{Cause, Failure},
    owner::Owner,
    run::{Feeder, Inference},
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
pub(crate) struct Sequence {
    /// What logs and counts call its graph.
    pub(crate) name: String,
    pub(crate) label: Label,
    pub(crate) inference: Inference,
    pub(crate) feeder: Feeder,
}

/// Where a sequence is.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Place {
    /// The name of the key, where there are keys.
    key: Option<Arc<str>>,
    graph: String,
    id: Id,
}

/// A place that is taken.
struct Held {
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
enum Ended {
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
    limits: SequenceLimits,
    all: Mutex<HashMap<Place, Held>>,
    /// By [`Ended`].
    ended: [AtomicU64; 4],
    refused: AtomicU64,
}

impl Sequences {
    pub(crate) fn new(limits: SequenceLimits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            all: Mutex::default(),
            ended: Default::default(),
            refused: AtomicU64::default(),
        })
    }

    pub(crate) fn limits(&self) -> &SequenceLimits {
        &self.limits
    }

    pub(crate) fn counts(&self) -> SequenceCounts {
        let ended = |why: Ended| self.ended[why as usize].load(Relaxed);
        let mut counts = SequenceCounts {
            ended: [
                ("done", ended(Ended::Done)),
                ("failed", ended(Ended::Failed)),
                ("idle", ended(Ended::Idle)),
                ("stopped", ended(Ended::Stopped)),
            ],
            refused: self.refused.load(Relaxed),
            ..SequenceCounts::default()
        };
        for (place, Held { state, .. }) in &*self.lock() {
            // What has not begun may name a graph that there is not.
            if !matches!(state, State::Begins) {
                *counts.open.entry(place.graph.clone()).or_default() += 1;
            }
            counts.in_use += usize::from(matches!(state, State::InUse));
        }
        counts
    }

    fn have_ended(&self, count: usize, why: Ended) {
        self.ended[why as usize].fetch_add(count as u64, Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Place, Held>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sequence of a request, for as long as the request works with it; of the first one a
    /// place for it.
    pub(crate) fn take(
        self: &Arc<Self>,
        owner: Option<Owner>,
        graph: &str,
        part: &SequenceControl,
    ) -> Result<Taken, Failure> {
        let SequenceControl { id, starts, .. } = part;
        let place = Place {
            key: owner.as_ref().and_then(Owner::key).cloned(),
            graph: graph.to_owned(),
            id: id.clone(),
        };
        let mut all = self.lock();
        let sequence = match all.get_mut(&place).map(|held| &mut held.state) {
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
                let graph = shortened(graph, 100);
                let why = format!(
                    "`{ID}`: the graph `{graph}` has no sequence {id}: it begins with `{START}`, and ends after {} s without a request",
                    self.limits.idle.as_secs()
                );
                return Err(Failure::new(Cause::NotFound, why).of_field(field(ID)));
            }
            None => {
                self.check_room(&all, owner.as_ref())?;
                let state = State::Begins;
                all.insert(place.clone(), Held { owner, state });
                None
            }
        };
        drop(all);
        Ok(Taken {
            sequences: Arc::clone(self),
            place,
            ends: sequence.is_some().then_some(Ended::Failed),
            sequence,
            stays: false,
        })
    }

    fn check_room(&self, all: &HashMap<Place, Held>, owner: Option<&Owner>) -> Result<(), Failure> {
        let full = |whose: String, most: usize| {
            self.refused.fetch_add(1, Relaxed);
            let why = format!("{whose} {most} sequences, as many as there may be");
            Err(Failure::new(Cause::QueueFull, why).with_code("too_many_sequences"))
        };
        let (most, of_a_key) = (self.limits.all, self.limits.of_a_key);
        if let Some(owner) = owner {
            let own = all.values();
            let own = own.filter(|held| held.owner.as_ref() == Some(owner));
            if own.count() >= of_a_key {
                return full(format!("{owner} has"), of_a_key);
            }
        }
        if all.len() >= most {
            return full("there are".to_owned(), most);
        }
        Ok(())
    }

    /// Ends unused sequences, and all that wait when the server stops.
    pub(crate) async fn watch(self: Arc<Self>, mut stage: watch::Receiver<Stage>) {
        // Often enough that none lives much longer than it may.
        let look = (self.limits.idle / 10).clamp(Duration::from_millis(10), Duration::from_secs(1));
        loop {
            tokio::select! {
                () = sleep(look) => {
                    self.end_those(Ended::Idle, |since| since.elapsed() >= self.limits.idle);
                }
                _ = stage.wait_for(|stage| *stage >= Stage::Draining) => {
                    self.end_those(Ended::Stopped, |_| true);
                    return;
                }
            }
        }
    }

    fn end_those(&self, why: Ended, is_over: impl Fn(Instant) -> bool) {
        let mut all = self.lock();
        let over = all.extract_if(|_, held| match &held.state {
            State::Waiting(_, since) => is_over(*since),
            State::InUse | State::Begins => false,
        });
        let over: Vec<_> = over.collect();
        drop(all);
        self.have_ended(over.len(), why);
        // What nodes keep may take a while to drop: nobody waits for it.
        drop(over);
    }
}

/// A sequence that a request works with. It ends when this is dropped, unless it was
/// [left](Self::leave).
pub(crate) struct Taken {
    sequences: Arc<Sequences>,
    place: Place,
    /// None before it has begun.
    pub(crate) sequence: Option<Sequence>,
    /// How it ends when this is dropped; none before it has begun.
    ends: Option<Ended>,
    stays: bool,
}

impl Taken {
    /// Says that the sequence has begun.
    pub(crate) fn begins(&mut self) {
        self.ends = Some(Ended::Failed);
        self.is(State::InUse);
    }

    fn is(&self, state: State) {
        if let Some(held) = self.sequences.lock().get_mut(&self.place) {
            held.state = state;
        }
    }

    /// Lets the sequence wait for its next request.
    pub(crate) fn leave(mut self, sequence: Sequence) {
        self.stays = true;
        self.is(State::Waiting(Box::new(sequence), Instant::now()));
    }

    /// Ends the sequence well.
    pub(crate) fn done(mut self) {
        self.ends = Some(Ended::Done);
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if self.stays {
            return;
        }
        self.sequences.lock().remove(&self.place);
        if let Some(why) = self.ends {
            self.sequences.have_ended(1, why);
        }
    }
}
