//! How sequences come into the queue, and who is refused: places are counted, and can be had before the work that leads to a
//! submission. A request takes its place, then makes its prompt, so that nothing is computed for a request that is refused.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Engine;
use super::status::Shared;
use crate::protocol::{Entry, SubmitError};

/// A place in an engine's queue. Dropping it gives it back, unless a sequence has it by then.
pub struct QueuePlace {
    shared: Arc<Shared>,
    is_held: AtomicBool,
}

impl QueuePlace {
    /// Hands the place on to a sequence of an engine. False if it is not one of this engine's, or another one has it.
    fn hand_on(&self, to: &Arc<Shared>) -> bool {
        let is_held = Arc::ptr_eq(&self.shared, to) && self.is_held.swap(false, Ordering::Relaxed);
        if is_held {
            self.shared.preparing.fetch_sub(1, Ordering::Relaxed);
        }
        is_held
    }
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        if self.is_held.swap(false, Ordering::Relaxed) {
            self.shared.preparing.fetch_sub(1, Ordering::Relaxed);
            self.shared.leave_queue();
        }
    }
}

impl fmt::Debug for QueuePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueuePlace").finish_non_exhaustive()
    }
}

impl Shared {
    /// Takes a place of the queue's `limit`, if one is left.
    fn enter_queue(&self, limit: u32) -> Result<(), SubmitError> {
        let below_limit = |queued: u32| (queued < limit).then_some(queued + 1);
        let entered = self
            .queued
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, below_limit);
        entered.map(drop).map_err(|waiting| {
            self.refused.fetch_add(1, Ordering::Relaxed);
            SubmitError::QueueFull {
                waiting: waiting as usize,
                limit: limit as usize,
            }
        })
    }

    /// Gives a place back.
    pub(super) fn leave_queue(&self) {
        self.queued.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Engine {
    /// Takes a place in the queue for a request with this priority, before its prompt is made.
    ///
    /// # Errors
    /// [`SubmitError::QueueFull`] if none is left, and [`SubmitError::InvalidParameter`] for a priority out of its range.
    pub fn reserve(&self, priority: i32) -> Result<QueuePlace, SubmitError> {
        self.check_priority(priority)?;
        self.shared.enter_queue(self.spec.max_waiting)?;
        self.shared.preparing.fetch_add(1, Ordering::Relaxed);
        Ok(QueuePlace {
            shared: Arc::clone(&self.shared),
            is_held: AtomicBool::new(true),
        })
    }

    /// Most sequences that a request that comes now may have in the queue at the same time: as many as can run, and at most half of the
    /// places that are left, so that no request fills the queue, nor do a few of them. Further ones are submitted with
    /// [`Entry::Follows`], each when one before it has had its first output.
    pub fn places_of_a_request(&self) -> usize {
        let taken = self.shared.queued.load(Ordering::Relaxed);
        let left = self.spec.max_waiting.saturating_sub(taken);
        (left / 2).clamp(1, self.capacity.max_sequences) as usize
    }

    /// Counts a sequence in. At most one follows each that is admitted, so the queue is never longer than `max_waiting` and
    /// `max_num_seqs` together.
    pub(super) fn enter(&self, entry: &Entry) -> Result<(), SubmitError> {
        match entry {
            Entry::Reserved(place) if place.hand_on(&self.shared) => Ok(()),
            Entry::Follows => {
                self.shared.queued.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            Entry::Open | Entry::Reserved(_) => self.shared.enter_queue(self.spec.max_waiting),
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
