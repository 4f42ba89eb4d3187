//! Admission of sequences to the queue. Places are counted, and are reserved before the work that
//! leads to a submission: a request takes its place first and makes its prompt then, so nothing is
//! computed for a refused request.

use super::{Entry, LlmEngine};
use crate::protocol::{SubmitError, Tenant};
use crate::worker::QueuePlace;

impl LlmEngine {
    /// Reserves a place in the queue for a request with this priority, before its prompt is made. A
    /// tenant gets only as many places as it leaves to others.
    ///
    /// # Errors
    /// [`SubmitError::QueueFull`] if the queue is full, [`SubmitError::ShareTaken`] if the tenant's
    /// share is used up, [`SubmitError::QueuedTokens`] if the waiting prompts have too many tokens,
    /// and [`SubmitError::InvalidParameter`] for a priority out of its range.
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
            places.refused.add(1);
            let waiting = places.tokens();
            return Err(SubmitError::QueuedTokens { waiting, limit });
        }
        places.reserve(self.spec.max_waiting, tenant)
    }

    /// Maximum number of sequences that a new request may have in the queue at the same time: as
    /// many as can run, and at most half of the free places, so that a few requests cannot fill the
    /// queue. Further sequences are submitted with [`Entry::Follows`], each when an earlier one has
    /// had its first output.
    pub fn places_of_a_request(&self) -> usize {
        let taken = self.shared.places.taken();
        let left = self.spec.max_waiting.saturating_sub(taken);
        (left / 2).clamp(1, self.capacity.max_sequences) as usize
    }

    /// Counts a sequence in, with the tokens of its prompt. At most one sequence follows each
    /// admitted one, so the queue is never longer than `max_waiting` plus `max_num_seqs`.
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
            Entry::Open | Entry::Reserved(_) => places.enter(self.spec.max_waiting, tenant)?,
        }
        places.add_tokens(tokens, limit).inspect_err(|_| {
            places.refused.add(1);
            places.leave(tenant);
        })
    }

    /// Counts a sequence out, with the tokens of its prompt.
    pub(super) fn leave(&self, tenant: Option<Tenant>, tokens: u64) {
        self.shared.places.leave(tenant);
        self.shared.places.remove_tokens(tokens);
    }

    /// Checks that a request may have this priority.
    ///
    /// # Errors
    /// [`SubmitError::InvalidParameter`] for a priority outside `min_priority` to `max_priority` of
    /// the spec.
    pub fn check_priority(&self, priority: i32) -> Result<(), SubmitError> {
        let (min, max) = (self.spec.min_priority, self.spec.max_priority);
        if (min..=max).contains(&priority) {
            return Ok(());
        }
        let message = format!("must be between {min} and {max}, not {priority}");
        Err(SubmitError::parameter("priority", message))
    }
}
