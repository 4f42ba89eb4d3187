//! Sync sets: the default policy within each set of inputs, independently of the other sets.
//!
//! Each call delivers one set: the first of those with the smallest ready timestamp. Timestamps
//! ascend within a set only. The node closes when all sets are done. In bounds mode, when one set
//! is done while others continue, there is one more call without packets, so that the node can
//! notice.

use crate::{
    input::{InputQueue, InputSet},
    timestamp::Timestamp,
};

use super::{InputPolicy, Readiness, Waiting, settle::SettledTime};

pub(super) struct SyncSets {
    sets: Vec<Set>,
}

struct Set {
    members: Vec<u16>,
    settled: SettledTime,
    /// Set once the node has been called after the set was done.
    done_seen: bool,
}

impl SyncSets {
    /// Makes the policy. Inputs in no set form a further set.
    pub(super) fn new(sets: &[Vec<u16>], inputs: usize, bounds: bool) -> Self {
        let mut all: Vec<Vec<u16>> = sets.to_vec();
        let listed = |input: &u16| sets.iter().any(|set| set.contains(input));
        let rest: Vec<u16> = (0..inputs as u16).filter(|input| !listed(input)).collect();
        if !rest.is_empty() {
            all.push(rest);
        }
        let sets = all.into_iter().map(|members| Set {
            members,
            settled: SettledTime::new(bounds),
            done_seen: false,
        });
        Self {
            sets: sets.collect(),
        }
    }

    fn set_readiness(&self, set: usize, queues: &[InputQueue]) -> Readiness {
        let set = &self.sets[set];
        let members = set.members.iter();
        set.settled
            .readiness(queues, members.map(|&member| usize::from(member)))
    }
}

impl InputPolicy for SyncSets {
    fn readiness(&self, queues: &[InputQueue]) -> Readiness {
        let mut ready: Option<Timestamp> = None;
        let mut waiting: Option<Waiting> = None;
        let mut newly_done = false;
        for (number, set) in self.sets.iter().enumerate() {
            match self.set_readiness(number, queues) {
                Readiness::Process(at) => ready = Some(ready.map_or(at, |first| first.min(at))),
                Readiness::Waiting(new) if waiting.is_none_or(|old| new.until < old.until) => {
                    waiting = Some(new);
                }
                Readiness::Close => newly_done |= set.settled.with_bounds() && !set.done_seen,
                Readiness::Waiting(_) => {}
            }
        }
        match (ready, waiting) {
            (Some(at), _) => Readiness::Process(at),
            (None, Some(waiting)) if newly_done => Readiness::Process(waiting.until),
            (None, Some(waiting)) => Readiness::Waiting(waiting),
            (None, None) => Readiness::Close,
        }
    }

    fn waits_for(&self, queues: &[InputQueue]) -> Vec<Waiting> {
        let sets = (0..self.sets.len()).map(|set| self.set_readiness(set, queues));
        sets.filter_map(Readiness::waiting).collect()
    }

    fn fill(&mut self, at: Timestamp, queues: &mut [InputQueue], set: &mut InputSet) {
        let mut is_chosen = false;
        for number in 0..self.sets.len() {
            let readiness = self.set_readiness(number, queues);
            let fills = !is_chosen && readiness == Readiness::Process(at);
            is_chosen |= fills;
            let sync_set = &mut self.sets[number];
            sync_set.done_seen |= readiness == Readiness::Close;
            for &member in &sync_set.members {
                let member = usize::from(member);
                if fills {
                    set.fill(member, &mut queues[member], at);
                } else {
                    set.hold_back(member, &queues[member]);
                }
            }
            if fills {
                sync_set.settled.reached(at);
            }
        }
    }
}
