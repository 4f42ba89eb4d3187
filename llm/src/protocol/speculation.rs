//! How a request wants tokens to be drafted.

use super::SubmitError;

/// How tokens are drafted. The engine drafts fewer, or none, where that would not save time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpeculationParams {
    /// Most tokens drafted in a step, 1 to [`MAX_DRAFTS`](Self::MAX_DRAFTS).
    pub num_assistant_tokens: u32,
    /// Where drafts come from.
    pub source: DraftSource,
}

/// Where drafted tokens come from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DraftSource {
    /// The text itself: it is searched for an earlier place that ends as it does now, and what
    /// followed there is the draft.
    Text {
        /// Longest run of tokens searched for, 1 to
        /// [`LONGEST_NGRAM`](SpeculationParams::LONGEST_NGRAM); shorter ones are tried where it has
        /// not occurred.
        max_ngram_size: u32,
    },
    /// The engine's draft model, or the MTP layers of its model.
    Model {
        /// A token that it gives a lower probability ends the draft before it; 0 to 1.
        confidence_threshold: f32,
    },
}

impl SpeculationParams {
    /// The most that `num_assistant_tokens` can be: beyond that, a draft is hardly ever right to
    /// its end.
    pub const MAX_DRAFTS: u32 = 32;
    /// The most that `max_ngram_size` can be: where so many tokens agree, more of them change
    /// nothing.
    pub const LONGEST_NGRAM: u32 = 8;

    /// Checks the fields' ranges.
    ///
    /// # Errors
    /// [`SubmitError::InvalidParameter`] names the first field that is out of its range, and the
    /// range.
    pub fn validate(&self) -> Result<(), SubmitError> {
        let within = |field, value: u32, most: u32| {
            if (1..=most).contains(&value) {
                return Ok(());
            }
            let message = format!("must be between 1 and {most}, not {value}");
            Err(SubmitError::InvalidParameter { field, message })
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
                Err(SubmitError::InvalidParameter {
                    field: "assistant_confidence_threshold",
                    message,
                })
            }
            DraftSource::Model { .. } => Ok(()),
        }
    }
}

impl Default for SpeculationParams {
    /// Five tokens from the text, after a run of at most three.
    fn default() -> Self {
        Self {
            num_assistant_tokens: 5,
            source: DraftSource::Text { max_ngram_size: 3 },
        }
    }
}
