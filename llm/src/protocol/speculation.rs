//! Parameters of a request for drafted tokens.

use super::SubmitError;

/// Parameters of drafting. The engine drafts fewer tokens, or none, if more would not save time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpeculationParams {
    /// Maximum number of tokens drafted in a step, 1 to [`MAX_DRAFTS`](Self::MAX_DRAFTS).
    pub num_assistant_tokens: u32,
    /// Source of the drafts, with its limit.
    pub source: DraftSource,
}

/// Source of drafted tokens, with its limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DraftSource {
    /// The text itself: the draft is the continuation of an earlier place with the same last
    /// tokens.
    Text {
        /// Maximum number of last tokens to search for, 1 to
        /// [`LONGEST_NGRAM`](SpeculationParams::LONGEST_NGRAM). If they do not occur, shorter runs
        /// are tried.
        max_ngram_size: u32,
    },
    /// The engine's draft model, or the MTP layers of its model.
    Model {
        /// Minimum probability of a drafted token, 0 to 1. The draft ends before a less likely
        /// token.
        confidence_threshold: f32,
    },
}

impl SpeculationParams {
    /// Maximum value of `num_assistant_tokens`. Longer drafts are hardly ever right to their end.
    pub const MAX_DRAFTS: u32 = 32;
    /// Maximum value of `max_ngram_size`. Longer runs hardly change the match.
    pub const LONGEST_NGRAM: u32 = 8;

    /// Checks the fields' ranges.
    ///
    /// # Errors
    /// [`SubmitError::InvalidParameter`] with the first field that is out of its range, and the
    /// range.
    pub fn validate(&self) -> Result<(), SubmitError> {
        let within = |field, value: u32, most: u32| {
            if (1..=most).contains(&value) {
                return Ok(());
            }
            let message = format!("must be between 1 and {most}, not {value}");
            Err(SubmitError::parameter(field, message))
        };
        within(
            "num_assistant_tokens",
            self.num_assistant_tokens,
            Self::MAX_DRAFTS,
        )?;
        match self.source {
            DraftSource::Text { max_ngram_size } => {
                within("max_ngram_size", max_ngram_size, Self::LONGEST_NGRAM)
            }
            DraftSource::Model {
                confidence_threshold,
            } if !(0.0..=1.0).contains(&confidence_threshold) => {
                let message = format!("must be between 0 and 1, not {confidence_threshold}");
                Err(SubmitError::parameter(
                    "assistant_confidence_threshold",
                    message,
                ))
            }
            DraftSource::Model { .. } => Ok(()),
        }
    }
}

impl Default for SpeculationParams {
    /// Drafts five tokens from the text, after a run of at most three.
    fn default() -> Self {
        Self {
            num_assistant_tokens: 5,
            source: DraftSource::Text { max_ngram_size: 3 },
        }
    }
}
