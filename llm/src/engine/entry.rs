//! How sequences come into the queue, and who is refused: places are counted, and can be had before
//! the work that leads to a submission. A request takes its place, then makes its prompt, so that
//! nothing is computed for a request that is refused.

use super::{Entry, LlmEngine};
use crate::protocol::{SubmitError, Tenant};
use crate::worker::QueuePlace;

impl LlmEngine {
    /// Takes a place in the queue for a request with this priority, before its prompt is made. A
    /// tenant has at most as many as it leaves to others.
    ///
    /// # Errors
    /// [`SubmitError::QueueFull`] if none is left, and [`SubmitError::InvalidParameter`] for a
    /// priority out of its range.
    pub fn reserve(
        &self,
        priority: i32,
        tenant: Option<Tenant>,
    ) -> Result<QueuePlace, SubmitError> {
        self.check_priority(priority)?;
        let place = self.shared.places.reserve(self.spec.max_waiting, tenant);
        place.map_err(|waiting| self.full(waiting))
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

    /// Counts a sequence in. At most one follows each that is admitted, so the queue is never
    /// longer than `max_waiting` and `max_num_seqs` together.
    pub(super) fn enter(&self, entry: &Entry, tenant: Option<Tenant>) -> Result<(), SubmitError> {
        let places = &self.shared.places;
        match entry {
            Entry::Reserved(place) if place.hand_on(places) => Ok(()),
            Entry::Follows => {
                places.follow(tenant);
                Ok(())
            }
            Entry::Open | Entry::Reserved(_) => places
                .enter(self.spec.max_waiting, tenant)
                .map_err(|waiting| self.full(waiting)),
        }
    }

    fn full(&self, waiting: u32) -> SubmitError {
        SubmitError::QueueFull {
            waiting: waiting as usize,
            limit: self.spec.max_waiting as usize,
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
