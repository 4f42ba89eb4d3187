//! The head of a model that classifies texts or scores pairs of texts.

use std::sync::Arc;

/// The classes of a model's head, and the kind of numbers that it computes for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Names of the classes, in the order of the numbers; at least one.
    pub labels: Arc<[String]>,
    /// True if the numbers are probabilities, false if they are logits.
    pub is_probability: bool,
}

impl Default for Head {
    /// Returns a head with one probability, that of "answers".
    fn default() -> Self {
        Self {
            labels: [Self::label(0)].into(),
            is_probability: true,
        }
    }
}

impl Head {
    /// Returns the name for a class without a name of its own.
    pub fn label(number: usize) -> String {
        format!("LABEL_{number}")
    }

    /// Returns true if it can score documents for a query. Its numbers are then one logit, the logits
    /// of "does not answer" and "answers", or a probability of "answers", followed by others.
    pub fn ranks(&self) -> bool {
        self.is_probability || self.labels.len() <= 2
    }

    /// Computes the score from 0 to 1 of a head that [ranks](Self::ranks).
    pub fn score(&self, numbers: &[f32]) -> f32 {
        match numbers {
            [first, ..] if self.is_probability => *first,
            [no, yes, ..] => sigmoid(yes - no),
            [logit] => sigmoid(*logit),
            [] => f32::NAN,
        }
    }

    /// Computes the probabilities of the classes.
    pub fn probabilities(&self, numbers: &[f32]) -> Vec<f32> {
        match numbers {
            _ if self.is_probability => numbers.to_vec(),
            [logit] => vec![sigmoid(*logit)],
            logits => {
                let largest = logits.iter().copied().fold(f32::MIN, f32::max);
                let powers: Vec<f32> = logits.iter().map(|it| (it - largest).exp()).collect();
                let sum: f32 = powers.iter().sum();
                powers.into_iter().map(|power| power / sum).collect()
            }
        }
    }

    /// Computes the logits of the classes. The logits of probabilities are their logarithms.
    pub fn logits(&self, numbers: &[f32]) -> Vec<f32> {
        if !self.is_probability {
            return numbers.to_vec();
        }
        // A probability may be 0.
        let logit = |it: &f32| it.max(f32::MIN_POSITIVE).ln();
        numbers.iter().map(logit).collect()
    }
}

fn sigmoid(logit: f32) -> f32 {
    1.0 / (1.0 + (-logit).exp())
}
