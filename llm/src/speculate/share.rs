//! How often something came true, with recent observations counting most.

/// What an observation's weight is multiplied with at each later one of its kind: the last fifty or
/// so decide.
const MEMORY: f32 = 0.98;
/// How many observations the assumption made beforehand counts for.
const PRIOR_WEIGHT: f32 = 6.0;

#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    hits: f32,
    total: f32,
}

impl Share {
    /// Nothing was observed, and this is assumed.
    pub(super) const fn assumed(share: f32) -> Self {
        Self {
            hits: share * PRIOR_WEIGHT,
            total: PRIOR_WEIGHT,
        }
    }

    /// What this one knows, as an assumption for another.
    pub(super) fn as_assumption(self) -> Self {
        Self::assumed(self.chance())
    }

    pub(super) fn observe(&mut self, came_true: bool) {
        self.hits = self.hits * MEMORY + f32::from(u8::from(came_true));
        self.total = self.total * MEMORY + 1.0;
    }

    /// The probability that it comes true the next time.
    pub(super) fn chance(self) -> f32 {
        self.hits / self.total
    }
}
