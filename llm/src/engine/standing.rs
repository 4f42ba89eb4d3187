//! Standing of each sequence of an engine, for people who inspect why a request waits. The engine
//! thread updates it once per step.

use std::fmt;
use std::sync::Mutex;

use super::sequence::Sequence;
use crate::lock::lock;
use crate::protocol::SequenceId;

/// Position of a sequence in its engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It waits for a slot.
    Queued {
        /// Its place in the queue, counted from 1.
        place: usize,
        /// True if it had a slot before.
        preempted: bool,
    },
    /// The engine computes the tokens of its prompt.
    Prefills {
        /// Number of its slot, from 0.
        slot: u32,
        /// Number of prompt tokens that are computed.
        computed: u32,
        /// Number of tokens in the prompt.
        prompt: u32,
    },
    /// The engine generates its tokens.
    Generates {
        /// Number of its slot, from 0.
        slot: u32,
        /// Number of tokens generated so far.
        generated: u32,
        /// Maximum number of tokens of its answer.
        limit: u32,
    },
}

impl Standing {
    /// Returns its slot, if it has one.
    pub fn slot(self) -> Option<u32> {
        match self {
            Self::Queued { .. } => None,
            Self::Prefills { slot, .. } | Self::Generates { slot, .. } => Some(slot),
        }
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (slot, done, all, of) = match *self {
            Self::Queued { place, preempted } => {
                let state = if preempted { "preempted, " } else { "" };
                return write!(f, "{state}{} in its queue", Ordinal(place));
            }
            Self::Prefills {
                slot,
                computed,
                prompt,
            } => (slot, computed, prompt, "prompt tokens"),
            Self::Generates {
                slot,
                generated,
                limit,
            } => (slot, generated, limit, "tokens"),
        };
        let (done, all) = (GroupedDigits(done), GroupedDigits(all));
        write!(f, "slot {slot}, {done} of {all} {of}")
    }
}

/// Formats a number as 1st, 2nd, 3rd.
struct Ordinal(usize);

impl fmt::Display for Ordinal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ending = match (self.0 % 10, self.0 % 100) {
            (_, 11..=13) => "th",
            (1, _) => "st",
            (2, _) => "nd",
            (3, _) => "rd",
            _ => "th",
        };
        write!(f, "{}{ending}", self.0)
    }
}

/// Formats a number with a comma before each three digits.
struct GroupedDigits(u32);

impl fmt::Display for GroupedDigits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0 / 1_000, self.0 % 1_000) {
            (0, rest) => write!(f, "{rest}"),
            (thousands, rest) => write!(f, "{},{rest:03}", GroupedDigits(thousands)),
        }
    }
}

/// The standings of all sequences of an engine. Its size is bounded by the queue and the slots.
#[derive(Debug, Default)]
pub(super) struct Standings(Mutex<StandingsState>);

#[derive(Debug, Default)]
struct StandingsState {
    /// Running sequences in order of arrival.
    running: Vec<(SequenceId, Standing)>,
    /// Waiting sequences, in the order in which they get slots if that is known.
    waiting: Vec<SequenceId>,
    /// The waiting sequences that had a slot before, in order of arrival.
    preempted: Vec<SequenceId>,
    /// Sequences that were submitted but not yet received by the thread.
    submitted: Vec<SequenceId>,
}

impl Standings {
    /// Returns the standing of a sequence; `None` once it has ended and its last output is on its
    /// way.
    pub(super) fn get(&self, id: SequenceId) -> Option<Standing> {
        let content = lock(&self.0);
        if let Ok(index) = content.running.binary_search_by_key(&id, |(id, _)| *id) {
            return Some(content.running[index].1);
        }
        let mut queue = content.waiting.iter().chain(&content.submitted);
        let ahead = queue.position(|other| *other == id)?;
        Some(Standing::Queued {
            place: ahead + 1,
            preempted: content.preempted.binary_search(&id).is_ok(),
        })
    }

    /// Returns the standings of the sequences that have a slot.
    pub(super) fn running(&self) -> Vec<Standing> {
        lock(&self.0).running.iter().map(|(_, it)| *it).collect()
    }

    pub(super) fn submitted(&self, id: SequenceId) {
        lock(&self.0).submitted.push(id);
    }

    /// Notes that the thread has received a sequence, which is behind all others.
    pub(super) fn taken_in(&self, id: SequenceId) {
        let mut content = lock(&self.0);
        content.submitted.retain(|other| *other != id);
        content.waiting.push(id);
    }

    /// Replaces the running, the waiting and the preempted sequences.
    pub(super) fn set(
        &self,
        running: &[Sequence],
        waiting: impl Iterator<Item = SequenceId>,
        preempted: impl Iterator<Item = SequenceId>,
    ) {
        let mut content = lock(&self.0);
        content.running.clear();
        let standing = |sequence: &Sequence| Some((sequence.id, sequence.standing()?));
        content.running.extend(running.iter().filter_map(standing));
        content.waiting.clear();
        content.waiting.extend(waiting);
        content.preempted.clear();
        content.preempted.extend(preempted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standings_are_words() {
        let place = |place| {
            let preempted = false;
            Standing::Queued { place, preempted }.to_string()
        };
        assert_eq!(place(1), "1st in its queue");
        assert_eq!(place(22), "22nd in its queue");
        assert_eq!(place(113), "113th in its queue");
        let preempted = Standing::Queued {
            place: 2,
            preempted: true,
        };
        assert_eq!(preempted.to_string(), "preempted, 2nd in its queue");
        let generates = Standing::Generates {
            slot: 3,
            generated: 120,
            limit: 1_200,
        };
        assert_eq!(generates.to_string(), "slot 3, 120 of 1,200 tokens");
        let prefills = Standing::Prefills {
            slot: 0,
            computed: 2_048,
            prompt: 1_048_576,
        };
        assert_eq!(
            prefills.to_string(),
            "slot 0, 2,048 of 1,048,576 prompt tokens"
        );
    }
}
