//! How often predictions come true, learned while the text grows.

use super::lookup::LONGEST_MATCH;

/// What an observation's weight is multiplied with at each later one of its kind: the last fifty or so decide.
const MEMORY: f32 = 0.98;
/// How many observations the assumption made beforehand counts for.
const PRIOR_WEIGHT: f32 = 6.0;
/// The assumption, by length of the match: what follows a single token is mostly chance, what follows a long passage mostly not.
/// Low, so that a text without repetitions costs next to nothing before it is known for one.
const PRIOR: [f32; LONGEST_MATCH] = [0.05, 0.1, 0.25, 0.4, 0.55, 0.65, 0.75, 0.8];

/// The share of predictions that came true, by how many tokens matched when they were made.
#[derive(Clone, Debug)]
pub(super) struct Acceptance {
    classes: [Share; LONGEST_MATCH],
}

#[derive(Clone, Copy, Debug)]
struct Share {
    hits: f32,
    total: f32,
}

impl Acceptance {
    /// Nothing observed yet.
    pub(super) fn new() -> Self {
        let assumed = |share: f32| Share {
            hits: share * PRIOR_WEIGHT,
            total: PRIOR_WEIGHT,
        };
        Self {
            classes: PRIOR.map(assumed),
        }
    }

    /// Counts a prediction after a match of that many tokens.
    pub(super) fn observe(&mut self, matched: usize, came_true: bool) {
        let share = &mut self.classes[class(matched)];
        share.hits = share.hits * MEMORY + f32::from(u8::from(came_true));
        share.total = share.total * MEMORY + 1.0;
    }

    /// The probability that a prediction after a match of that many tokens comes true.
    pub(super) fn chance(&self, matched: usize) -> f32 {
        let share = self.classes[class(matched)];
        share.hits / share.total
    }
}

fn class(matched: usize) -> usize {
    matched.clamp(1, LONGEST_MATCH) - 1
}
