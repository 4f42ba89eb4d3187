//! How sequences enter the queue, and which are refused. Places are counted, and are reserved
//! before the work that leads to a submission: a request takes its place, then makes its prompt, so
//! that nothing is computed for a request that is refused.

use super::{Entry, LlmEngine};
use crate::protocol::{SubmitError, Tenant};
use crate::worker::{Full, QueuePlace};

impl LlmEngine {
    /// Takes a place in the queue for a request with this priority, before its prompt is made. A
    /// tenant has at most as many as it leaves to others.
    ///
    /// # Errors
    /// [`SubmitError::QueueFull`] if none is left, [`SubmitError::ShareTaken`] if none is for the
    /// tenant, [`SubmitError::QueuedTokens`] if the prompts that wait have too many tokens, and
    /// [`SubmitError::InvalidParameter`] for a priority out of its range.
    pub fn reserve(
        &self,
        priority: i32,
        tenant: Option<Tenant>,
    ) -> Result<QueuePlace, SubmitError> {
        self.check_priority(priority)?;
        let places = &self.shared.places;
        if let Some(limit) = self.spec.max_queued_prompt_tokens
            && places.tokens() >= limit
        {
            places.refuse();
            return Err(self.full(Full::Tokens(places.tokens())));
        }
        let place = places.reserve(self.spec.max_waiting, tenant);
        place.map_err(|full| self.full(full))
    }

    /// Most sequences that a request that comes now may have in the queue at the same time: as many
    /// as can run, and at most half of the places that are left, so that no request fills the
    /// queue, nor do a few of them. Further ones are submitted with [`Entry::Follows`], each when
    /// one before it has had its first output.
    pub fn places_of_a_request(&self) -> usize {
        let taken = self.shared.places.taken();
        let left = self.spec.max_waiting.saturating_sub(taken);
        (left / 2).clamp(1, self.capacity.max_sequences) as usize
    }

    /// Counts a sequence in, with the tokens of its prompt. At most one follows each that is
    /// admitted, so the queue is never longer than `max_waiting` and `max_num_seqs` together.
    pub(super) fn enter(
        &self,
        entry: &Entry,
        tenant: Option<Tenant>,
        tokens: u64,
    ) -> Result<(), SubmitError> {
        let places = &self.shared.places;
        let mut limit = self.spec.max_queued_prompt_tokens;
        match entry {
            Entry::Reserved(place) if place.hand_on(places) => {}
            Entry::Follows => {
                places.follow(tenant);
                limit = None;
            }
            Entry::Open | Entry::Reserved(_) => places
                .enter(self.spec.max_waiting, tenant)
                .map_err(|full| self.full(full))?,
        }
        places.add_tokens(tokens, limit).map_err(|full| {
            places.refuse();
            places.leave(tenant);
            self.full(full)
        })
    }

    /// Counts a sequence out.
    pub(super) fn leave(&self, tenant: Option<Tenant>, tokens: u64) {
        self.shared.places.leave(tenant);
        self.shared.places.remove_tokens(tokens);
    }

    fn full(&self, full: Full) -> SubmitError {
        match full {
            Full::All(waiting) => SubmitError::QueueFull {
                waiting: waiting as usize,
                limit: self.spec.max_waiting as usize,
            },
            Full::Share(waiting) => SubmitError::ShareTaken {
                waiting: waiting as usize,
            },
            Full::Tokens(waiting) => SubmitError::QueuedTokens {
                waiting,
                limit: self.spec.max_queued_prompt_tokens.unwrap_or_default(),
            },
        }
    }

    /// Checks that a request may have this priority.
    ///
    /// # Errors
    /// A priority outside of `min_priority` to `max_priority` of the spec.
    pub fn check_priority(&self, priority: i32) -> Result<(), SubmitError> {
        let (min, max) = (self.spec.min_priority, self.spec.max_priority);
        if (min..=max).contains(&priority) {
            return Ok(());
        }
        let message = format!("must be between {min} and {max}, not {priority}");
        Err(SubmitError::InvalidParameter {
            field: "priority",
            message,
        })
    }
}
