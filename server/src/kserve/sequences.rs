//! Sequences: runs of graphs that stay between requests, so that what their nodes keep does. A
//! request says which by `sequence_id`, begins it with `sequence_start` and ends it with
//! `sequence_end`.
//!
//! A sequence is of the key that began it, and nobody else's. While a request works with one, it is
//! the request's: whatever ends the request early ends the sequence, too.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use graphmill_engine::shortened;
use tokio::{sync::watch, time::sleep};

use super::{Feeder, Inference, Label, Parameter, Parameters, wrong};
use crate::{
    rescue::{Cause, Failure},
    servable::Stage,
};

/// Most bytes of an id: longer ones are no ids, and each is kept.
const MAX_ID_BYTES: usize = 128;

/// The parameters that say what of a sequence a request is.
const ID: &str = "sequence_id";
const START: &str = "sequence_start";
const END: &str = "sequence_end";

/// Whether a parameter is one of these.
pub(super) fn is_parameter(name: &str) -> bool {
    [ID, START, END].contains(&name)
}

/// How many sequences there may be. Each is a session: what its nodes keep is in memory, and its
/// graph stays loaded.
#[derive(Clone, Debug)]
pub struct SequenceLimits {
    /// Most sequences at once.
    pub all: usize,
    /// Most of one key.
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

/// What names a sequence among those of a key and a graph.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Id {
    Number(u64),
    Text(String),
}

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => write!(f, "`{text}`"),
        }
    }
}

/// What a request is of a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    id: Id,
    /// Whether it is the first.
    pub(crate) starts: bool,
    /// Whether it is the last.
    pub(crate) ends: bool,
}

impl Part {
    /// What the parameters say; none where the request is of no sequence, which clients write as
    /// the id 0 or an empty one, too.
    pub(crate) fn read(parameters: &Parameters) -> Result<Option<Self>, Failure> {
        let find = |name: &str| {
            let mut parameters = parameters.iter();
            parameters.find_map(|(other, value)| (other == name).then_some(value))
        };
        let field = |name: &str| format!("parameters.{name}");
        let flag = |name: &'static str| match find(name) {
            None => Ok(false),
            Some(Parameter::Bool(value)) => Ok(*value),
            Some(_) => Err(wrong(field(name), "it is true or false")),
        };
        let (starts, ends) = (flag(START)?, flag(END)?);
        let id = match find(ID) {
            None => None,
            Some(Parameter::Text(text)) if text.len() > MAX_ID_BYTES => {
                let why = format_args!("it has at most {MAX_ID_BYTES} bytes");
                return Err(wrong(field(ID), why));
            }
            Some(Parameter::Text(text)) => (!text.is_empty()).then(|| Id::Text(text.clone())),
            Some(number) => {
                let number = match number {
                    Parameter::Uint(number) => Some(*number),
                    other => other
                        .integer()
                        .and_then(|number| u64::try_from(number).ok()),
                };
                let why = "it is a text, or a whole number of at least 0";
                let number = number.ok_or_else(|| wrong(field(ID), why))?;
                (number > 0).then_some(Id::Number(number))
            }
        };
        match id {
            Some(id) => Ok(Some(Self { id, starts, ends })),
            None if starts || ends => {
                let name = if starts { START } else { END };
                Err(wrong(field(name), "there is no `sequence_id`"))
            }
            None => Ok(None),
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

enum State {
    /// It waits for a request since then.
    Waiting(Box<Sequence>, Instant),
    /// A request works with it.
    InUse,
}

/// All sequences.
pub(crate) struct Sequences {
    limits: SequenceLimits,
    all: Mutex<HashMap<Place, State>>,
}

impl Sequences {
    pub(crate) fn new(limits: SequenceLimits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            all: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Place, State>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sequence of a request, for as long as the request works with it; of the first one a
    /// place for it.
    pub(crate) fn take(
        self: &Arc<Self>,
        key: Option<Arc<str>>,
        graph: &str,
        part: &Part,
    ) -> Result<Taken, Failure> {
        let Part { id, starts, .. } = part;
        let place = Place {
            key,
            graph: graph.to_owned(),
            id: id.clone(),
        };
        let mut all = self.lock();
        let sequence = match all.get_mut(&place) {
            Some(State::InUse) => {
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
                State::InUse => None,
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
                self.check_room(&all, place.key.as_ref())?;
                all.insert(place.clone(), State::InUse);
                None
            }
        };
        drop(all);
        Ok(Taken {
            sequences: Arc::clone(self),
            place,
            sequence,
            stays: false,
        })
    }

    fn check_room(
        &self,
        all: &HashMap<Place, State>,
        key: Option<&Arc<str>>,
    ) -> Result<(), Failure> {
        let full = |whose: String, most: usize| {
            let why = format!("{whose} {most} sequences, as many as there may be");
            Err(Failure::new(Cause::QueueFull, why).with_code("too_many_sequences"))
        };
        let SequenceLimits {
            all: most,
            of_a_key,
            ..
        } = self.limits;
        if let Some(key) = key
            && all
                .keys()
                .filter(|place| place.key.as_ref() == Some(key))
                .count()
                >= of_a_key
        {
            return full(format!("the key `{key}` has"), of_a_key);
        }
        if all.len() >= most {
            return full("there are".to_owned(), most);
        }
        Ok(())
    }

    /// Ends sequences that nobody uses, and all that wait when the server stops.
    pub(crate) async fn watch(self: Arc<Self>, mut stage: watch::Receiver<Stage>) {
        // Often enough that none lives much longer than it may.
        let look = (self.limits.idle / 10).clamp(Duration::from_millis(10), Duration::from_secs(1));
        loop {
            tokio::select! {
                () = sleep(look) => self.end_those(|since| since.elapsed() >= self.limits.idle),
                _ = stage.wait_for(|stage| *stage >= Stage::Draining) => {
                    self.end_those(|_| true);
                    return;
                }
            }
        }
    }

    fn end_those(&self, is_over: impl Fn(Instant) -> bool) {
        let mut all = self.lock();
        let over = all.extract_if(|_, state| match state {
            State::Waiting(_, since) => is_over(*since),
            State::InUse => false,
        });
        let over: Vec<_> = over.collect();
        drop(all);
        // What nodes keep may take a while to drop: nobody waits for it.
        drop(over);
    }
}

fn field(name: &str) -> String {
    format!("parameters.{name}")
}

/// A sequence that a request works with. It ends when this is dropped, unless it was
/// [left](Self::leave).
pub(crate) struct Taken {
    sequences: Arc<Sequences>,
    place: Place,
    /// None before it has begun.
    pub(crate) sequence: Option<Sequence>,
    stays: bool,
}

impl Taken {
    /// Lets the sequence wait for its next request.
    pub(crate) fn leave(mut self) {
        if let Some(sequence) = self.sequence.take() {
            self.stays = true;
            let waiting = State::Waiting(Box::new(sequence), Instant::now());
            self.sequences.lock().insert(self.place.clone(), waiting);
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if !self.stays {
            self.sequences.lock().remove(&self.place);
        }
    }
}
