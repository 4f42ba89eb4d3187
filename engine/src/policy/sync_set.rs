//! Sync sets: the default policy within each set of inputs, independently of the other sets.
//!
//! One set is delivered per call, the one with the smallest timestamp that is ready; among equals,
//! the first. Timestamps ascend within a set only. The node closes when every set is done.

use crate::{
    input::{InputQueue, InputSet},
    timestamp::Timestamp,
};

use super::{InputPolicy, Readiness, Waiting, settle::Settled};

pub(super) struct SyncSets {
    sets: Vec<(Vec<u16>, Settled)>,
}

impl SyncSets {
    /// Inputs in no set form one more.
    pub(super) fn new(sets: &[Vec<u16>], inputs: usize, bounds: bool) -> Self {
        let mut all: Vec<Vec<u16>> = sets.to_vec();
        let listed = |input: &u16| sets.iter().any(|set| set.contains(input));
        let rest: Vec<u16> = (0..inputs as u16).filter(|input| !listed(input)).collect();
        if !rest.is_empty() {
            all.push(rest);
        }
        let sets = all
            .into_iter()
            .map(|set| (set, Settled::new(bounds)))
            .collect();
        Self { sets }
    }

    fn set_readiness(&self, set: usize, queues: &[InputQueue]) -> Readiness {
        let (members, settled) = &self.sets[set];
        settled.readiness(queues, members.iter().map(|&member| usize::from(member)))
    }
}

impl InputPolicy for SyncSets {
    fn readiness(&self, queues: &[InputQueue]) -> Readiness {
        let mut ready: Option<Timestamp> = None;
        let mut waiting: Option<Waiting> = None;
        for set in 0..self.sets.len() {
            match self.set_readiness(set, queues) {
                Readiness::Process(at) => ready = Some(ready.map_or(at, |first| first.min(at))),
                Readiness::Waiting(new) if waiting.is_none_or(|old| new.until < old.until) => {
                    waiting = Some(new);
                }
                Readiness::Waiting(_) | Readiness::Close => {}
            }
        }
        match (ready, waiting) {
            (Some(at), _) => Readiness::Process(at),
            (None, Some(waiting)) => Readiness::Waiting(waiting),
            (None, None) => Readiness::Close,
        }
    }

    fn waits_for(&self, queues: &[InputQueue]) -> Vec<Waiting> {
        let sets = (0..self.sets.len()).map(|set| self.set_readiness(set, queues));
        sets.filter_map(Readiness::waiting).collect()
    }

    fn fill(&mut self, at: Timestamp, queues: &mut [InputQueue], set: &mut InputSet) {
        let chosen = (0..self.sets.len())
            .find(|&set| self.set_readiness(set, queues) == Readiness::Process(at));
        for (number, (members, settled)) in self.sets.iter_mut().enumerate() {
            for &member in &*members {
                let member = usize::from(member);
                if chosen == Some(number) {
                    set.fill(member, &mut queues[member], at);
                } else {
                    set.hold_back(member, &queues[member]);
                }
            }
            if chosen == Some(number) {
                settled.reached(at);
            }
        }
    }
}
