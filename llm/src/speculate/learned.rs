//! Frequencies with which drafts come true, learned while texts grow.
//!
//! One frequency in the place of one for each length of a match, or for each class of a draft
//! model's probability, loses more than 5 % in 5 of 192 and 9 of 256 simulated cases, at most 13 %
//! (`bench/results/2026-11-24-speculation.md`).

use super::lookup::LONGEST_MATCH;

/// Factor on the weight of earlier observations at each new one of their kind: about the last fifty
/// count.
const MEMORY: f32 = 0.98;
/// Number of observations that the prior assumption counts for.
const PRIOR_WEIGHT: f32 = 6.0;

/// Frequency of an event; recent observations count most.
#[derive(Clone, Copy, Debug)]
struct Frequency {
    hits: f32,
    total: f32,
}

impl Frequency {
    /// Creates a frequency without observations, with this assumption.
    const fn assumed(share: f32) -> Self {
        Self {
            hits: share * PRIOR_WEIGHT,
            total: PRIOR_WEIGHT,
        }
    }

    /// Converts this frequency into an assumption for another one.
    fn as_assumption(self) -> Self {
        Self::assumed(self.chance())
    }

    fn observe(&mut self, came_true: bool) {
        self.hits = self.hits * MEMORY + f32::from(u8::from(came_true));
        self.total = self.total * MEMORY + 1.0;
    }

    /// Returns the probability that the event happens the next time.
    fn chance(self) -> f32 {
        self.hits / self.total
    }
}

/// Prior assumption by length of the match. After a single token, the prediction is mostly chance;
/// after a long passage, mostly not. The values are low, so that a text without repetitions costs
/// next to nothing before it is recognized as one.
const MATCH_PRIOR: [f32; LONGEST_MATCH] = [0.05, 0.1, 0.25, 0.4, 0.55, 0.65, 0.75, 0.8];

/// Frequencies with which predictions came true, by the number of matching tokens.
#[derive(Clone, Debug)]
pub(super) struct Acceptance {
    classes: [Frequency; LONGEST_MATCH],
}

impl Acceptance {
    /// Creates the assumptions of a new text.
    pub(super) fn new() -> Self {
        Self {
            classes: MATCH_PRIOR.map(Frequency::assumed),
        }
    }

    /// Records a prediction after a match of this many tokens.
    pub(super) fn observe(&mut self, matched: usize, came_true: bool) {
        self.classes[match_class(matched)].observe(came_true);
    }

    /// Returns the probability that a prediction after a match of this many tokens comes true.
    pub(super) fn chance(&self, matched: usize) -> f32 {
        self.classes[match_class(matched)].chance()
    }
}

fn match_class(matched: usize) -> usize {
    matched.clamp(1, LONGEST_MATCH) - 1
}

/// Lower edges of the classes of probability, without the first.
const EDGES: [f32; 7] = [0.1, 0.25, 0.45, 0.65, 0.8, 0.9, 0.97];
/// Prior assumption by class: roughly the draft model's own probabilities.
const PROBABILITY_PRIOR: [f32; 8] = [0.05, 0.15, 0.3, 0.5, 0.65, 0.8, 0.9, 0.95];
/// Prior assumption about a token whose probability is not known yet.
const MEAN: f32 = 0.6;

/// Frequencies with which drafted tokens came true after those before them had, by the draft
/// model's probability.
#[derive(Clone, Debug)]
pub(crate) struct Confidence {
    classes: [Frequency; 8],
    all: Frequency,
}

impl Confidence {
    /// Creates the assumptions of a new text.
    pub(crate) fn new() -> Self {
        Self {
            classes: PROBABILITY_PRIOR.map(Frequency::assumed),
            all: Frequency::assumed(MEAN),
        }
    }

    /// Converts these frequencies into assumptions for another text, which may be of another kind.
    pub(crate) fn as_assumption(&self) -> Self {
        Self {
            classes: self.classes.map(Frequency::as_assumption),
            all: self.all.as_assumption(),
        }
    }

    /// Records a token with this probability in the draft model.
    pub(crate) fn observe(&mut self, probability: f32, came_true: bool) {
        self.classes[probability_class(probability)].observe(came_true);
        self.all.observe(came_true);
    }

    /// Returns the chance of a token with this probability in the draft model.
    pub(crate) fn chance(&self, probability: f32) -> f32 {
        self.classes[probability_class(probability)].chance()
    }

    /// Returns the chance of a token that is not drafted yet.
    pub(crate) fn mean(&self) -> f32 {
        self.all.chance()
    }
}

fn probability_class(probability: f32) -> usize {
    EDGES.partition_point(|edge| *edge <= probability)
}
