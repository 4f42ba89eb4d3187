//! Recovery from a step that gave a row without a finite logit.
//!
//! A sequence whose numbers overflow leaves NaN in its cells. Other sequences give these cells a
//! weight of 0, but 0 times NaN is NaN: their rows are bad, too, and so are those of sequences that
//! get the freed cells. So a bad row does not show its cause. All cells are zeroed, and each
//! sequence that had a slot becomes a suspect: it is computed again, alone in its batch, until it
//! gives a finite row. A suspect that gives a bad row is the cause, and fails.

use super::sequence::Sequence;
use super::step::Core;
use crate::protocol::{ErrorKind, FinishReason, GenerationError};

/// Confidence in the numbers that a sequence computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Soundness {
    /// The last rows were finite, or there were none yet.
    #[default]
    Sound,
    /// They must prove finite without others in the batch.
    Suspect,
    /// The step gave a bad row, perhaps because of another sequence.
    Bad,
    /// The step gave a bad row without others in the batch.
    Failed,
}

impl Soundness {
    /// Returns the soundness after a step that gave rows, all of them finite or not.
    pub(super) fn after(self, is_finite: bool) -> Self {
        match self {
            _ if is_finite => Self::Sound,
            Self::Suspect => Self::Failed,
            _ => Self::Bad,
        }
    }
}

impl Core<'_> {
    /// Clears all cells if the step gave a bad row. Ends the sequence that caused it, or makes all
    /// running sequences suspects until it is found.
    pub(super) fn recover(&mut self) {
        let running = self.slots.running();
        let is_found = running.iter().any(|it| it.soundness == Soundness::Failed);
        if !is_found && !running.iter().any(|it| it.soundness == Soundness::Bad) {
            return;
        }
        tracing::error!(
            step = self.slots.step(),
            sequences = running.len(),
            is_found,
            "a step gave no finite logit; all cells are cleared"
        );
        self.shared.published().failed_steps += 1;
        while let Some(mut sequence) = self.slots.pop() {
            if sequence.soundness == Soundness::Failed {
                let finish = FinishReason::Error(sequence.no_finite_logit());
                self.fail(sequence, &finish);
                continue;
            }
            if !is_found || sequence.soundness == Soundness::Bad {
                sequence.soundness = Soundness::Suspect;
            }
            self.requeue(sequence);
        }
        self.prefixes.shrink();
        self.backend.clear();
        self.drafts.clear();
    }
}

impl Sequence {
    /// Returns true if it must be computed alone in its batch.
    pub(super) fn is_suspect(&self) -> bool {
        self.soundness == Soundness::Suspect
    }

    /// Explains that the model computes no usable numbers for it.
    pub(super) fn no_finite_logit(&self) -> GenerationError {
        if self.request.adapters.iter().any(|it| it.scale.is_some()) {
            GenerationError::new(
                ErrorKind::Adapters,
                "the model gives no finite logit with the adapters at these scales",
            )
        } else {
            GenerationError::new(ErrorKind::Internal, "the model gave no finite logit")
        }
    }
}
