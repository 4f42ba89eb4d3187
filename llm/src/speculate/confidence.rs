//! How often the tokens of a draft model come true, learned from those that were compared.

use super::share::Share;

/// Where classes of probability begin, after the first.
const EDGES: [f32; 7] = [0.1, 0.25, 0.45, 0.65, 0.8, 0.9, 0.97];
/// The assumption, by class: about what the draft model says of itself.
const PRIOR: [f32; 8] = [0.05, 0.15, 0.3, 0.5, 0.65, 0.8, 0.9, 0.95];
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
            classes: PRIOR.map(Share::assumed),
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
        self.classes[class(probability)].observe(came_true);
        self.all.observe(came_true);
    }

    /// The chance of a token that the draft model gives this probability.
    pub(crate) fn chance(&self, probability: f32) -> f32 {
        self.classes[class(probability)].chance()
    }

    /// The chance of a token that is not drafted yet.
    pub(crate) fn mean(&self) -> f32 {
        self.all.chance()
    }
}

fn class(probability: f32) -> usize {
    EDGES.partition_point(|edge| *edge <= probability)
}
