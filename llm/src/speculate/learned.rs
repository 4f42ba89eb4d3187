//! How often drafts come true, learned while texts grow.

use super::lookup::LONGEST_MATCH;

/// What an observation's weight is multiplied with at each later one of its kind: the last fifty or
/// so decide.
const MEMORY: f32 = 0.98;
/// How many observations the assumption made beforehand counts for.
const PRIOR_WEIGHT: f32 = 6.0;

/// How often something came true, with recent observations counting most.
#[derive(Clone, Copy, Debug)]
struct Share {
    hits: f32,
    total: f32,
}

impl Share {
    /// Nothing was observed, and this is assumed.
    const fn assumed(share: f32) -> Self {
        Self {
            hits: share * PRIOR_WEIGHT,
            total: PRIOR_WEIGHT,
        }
    }

    /// What this one knows, as an assumption for another.
    fn as_assumption(self) -> Self {
        Self::assumed(self.chance())
    }

    fn observe(&mut self, came_true: bool) {
        self.hits = self.hits * MEMORY + f32::from(u8::from(came_true));
        self.total = self.total * MEMORY + 1.0;
    }

    /// The probability that it comes true the next time.
    fn chance(self) -> f32 {
        self.hits / self.total
    }
}

/// The assumption, by length of the match: what follows a single token is mostly chance, what
/// follows a long passage mostly not. Low, so that a text without repetitions costs next to nothing
/// before it is known for one.
const MATCH_PRIOR: [f32; LONGEST_MATCH] = [0.05, 0.1, 0.25, 0.4, 0.55, 0.65, 0.75, 0.8];

/// The share of predictions that came true, by how many tokens matched when they were made.
#[derive(Clone, Debug)]
pub(super) struct Acceptance {
    classes: [Share; LONGEST_MATCH],
}

impl Acceptance {
    /// Nothing observed yet.
    pub(super) fn new() -> Self {
        Self {
            classes: MATCH_PRIOR.map(Share::assumed),
        }
    }

    /// Counts a prediction after a match of that many tokens.
    pub(super) fn observe(&mut self, matched: usize, came_true: bool) {
        self.classes[match_class(matched)].observe(came_true);
    }

    /// The probability that a prediction after a match of that many tokens comes true.
    pub(super) fn chance(&self, matched: usize) -> f32 {
        self.classes[match_class(matched)].chance()
    }
}

fn match_class(matched: usize) -> usize {
    matched.clamp(1, LONGEST_MATCH) - 1
}

/// Where classes of probability begin, after the first.
const EDGES: [f32; 7] = [0.1, 0.25, 0.45, 0.65, 0.8, 0.9, 0.97];
/// The assumption, by class: about what the draft model says of itself.
const PROBABILITY_PRIOR: [f32; 8] = [0.05, 0.15, 0.3, 0.5, 0.65, 0.8, 0.9, 0.95];
/// The assumption about a token whose probability is not known yet.
const MEAN: f32 = 0.6;

/// The share of drafted tokens that came true after those before them had, by the probability that
/// the draft model gave them.
#[derive(Clone, Debug)]
pub(crate) struct Confidence {
    classes: [Share; 8],
    all: Share,
}

impl Confidence {
    /// Nothing observed yet.
    pub(crate) fn new() -> Self {
        Self {
            classes: PROBABILITY_PRIOR.map(Share::assumed),
            all: Share::assumed(MEAN),
        }
    }

    /// Where another text begins, which may be of another kind.
    pub(crate) fn as_assumption(&self) -> Self {
        Self {
            classes: self.classes.map(Share::as_assumption),
            all: self.all.as_assumption(),
        }
    }

    /// Counts a token that the draft model gave this probability.
    pub(crate) fn observe(&mut self, probability: f32, came_true: bool) {
        self.classes[probability_class(probability)].observe(came_true);
        self.all.observe(came_true);
    }

    /// The chance of a token that the draft model gives this probability.
    pub(crate) fn chance(&self, probability: f32) -> f32 {
        self.classes[probability_class(probability)].chance()
    }

    /// The chance of a token that is not drafted yet.
    pub(crate) fn mean(&self) -> f32 {
        self.all.chance()
    }
}

fn probability_class(probability: f32) -> usize {
    EDGES.partition_point(|edge| *edge <= probability)
}
