//! How often predictions of prompt lookup come true, learned while the text grows.

use super::lookup::LONGEST_MATCH;
use super::share::Share;

/// The assumption, by length of the match: what follows a single token is mostly chance, what
/// follows a long passage mostly not. Low, so that a text without repetitions costs next to nothing
/// before it is known for one.
const PRIOR: [f32; LONGEST_MATCH] = [0.05, 0.1, 0.25, 0.4, 0.55, 0.65, 0.75, 0.8];

/// The share of predictions that came true, by how many tokens matched when they were made.
#[derive(Clone, Debug)]
pub(super) struct Acceptance {
    classes: [Share; LONGEST_MATCH],
}

impl Acceptance {
    /// Nothing observed yet.
    pub(super) fn new() -> Self {
        Self {
            classes: PRIOR.map(Share::assumed),
        }
    }

    /// Counts a prediction after a match of that many tokens.
    pub(super) fn observe(&mut self, matched: usize, came_true: bool) {
        self.classes[class(matched)].observe(came_true);
    }

    /// The probability that a prediction after a match of that many tokens comes true.
    pub(super) fn chance(&self, matched: usize) -> f32 {
        self.classes[class(matched)].chance()
    }
}

fn class(matched: usize) -> usize {
    matched.clamp(1, LONGEST_MATCH) - 1
}
