//! How tokens are chosen.

use super::{LogitBias, SubmitError};

/// How a token is chosen from the model's logits.
///
/// The steps, in order: `logit_bias`; the penalties; `dry`; then with a temperature of 0 the
/// highest logit, else the temperature, `top_k`, `top_p` (over what `top_k` left), `min_p`,
/// `typical_p` and XTC (each over what those before it left), and a draw from what is left.
/// `mirostat` takes the place of all steps between the temperature and the draw.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplingParams {
    /// Divides the logits; 0 always takes the most likely token.
    pub temperature: f32,
    /// Keeps the `top_k` most likely tokens; 0 or -1 keeps all.
    pub top_k: i32,
    /// Keeps the smallest set of most likely tokens whose probabilities sum to at least this; 1
    /// keeps all.
    pub top_p: f32,
    /// Drops tokens less likely than this share of the most likely one; 0 drops none.
    pub min_p: f32,
    /// Keeps the smallest set of tokens whose probabilities are nearest to what is expected of a
    /// token and sum to more than this; 1 keeps all.
    pub typical_p: f32,
    /// How often XTC is applied: the probability, for each token.
    pub xtc_probability: f32,
    /// XTC drops the tokens that are at least so likely, but for the least likely of them.
    pub xtc_threshold: f32,
    /// The temperature varies by this in both directions: low where the model is sure of the next
    /// token, high where it is not.
    pub dynatemp_range: f32,
    /// How: 1 in proportion to the entropy, higher values keep it low for longer.
    pub dynatemp_exponent: f32,
    /// Keeps the surprise near a target.
    pub mirostat: Option<MirostatParams>,
    /// Makes repetitions less likely.
    pub dry: Option<DryParams>,
    /// Subtracted from the logit of every token that was generated before. The prompt does not
    /// count.
    pub presence_penalty: f32,
    /// Subtracted from a token's logit as often as it was generated before. The prompt does not
    /// count.
    pub frequency_penalty: f32,
    /// Divides positive and multiplies negative logits of every token in the prompt or generated
    /// before; 1 changes nothing.
    pub repetition_penalty: f32,
    /// Seed of the draw; `None` takes a random one. The same seed on the same model and prompt
    /// gives the same tokens, as far as the logits are the same: kernels add floats in an order
    /// that depends on what else is in the batch, so a busy engine can differ in their last bits,
    /// and then in a draw that falls between two tokens.
    pub seed: Option<u64>,
    /// Added to the logits of single tokens.
    pub logit_bias: LogitBias,
    /// Reports the log probability of each chosen token and of this many most likely ones, before
    /// any of the steps above.
    pub logprobs: Option<u8>,
}

impl SamplingParams {
    /// Always the most likely token, nothing else applied.
    pub fn greedy() -> Self {
        Self {
            temperature: 0.0,
            ..Self::default()
        }
    }

    /// Checks every field's range.
    ///
    /// # Errors
    /// [`SubmitError::InvalidParameter`] names the first field that is out of its range, and the
    /// range.
    pub fn validate(&self, n_vocab: usize) -> Result<(), SubmitError> {
        let invalid =
            |field, message: String| Err(SubmitError::InvalidParameter { field, message });
        if !(self.temperature.is_finite() && self.temperature >= 0.0) {
            return invalid(
                "temperature",
                format!("must be a number of at least 0, not {}", self.temperature),
            );
        }
        if self.top_k < -1 {
            return invalid(
                "top_k",
                format!(
                    "must be -1 (all tokens), 0 (all tokens) or positive, not {}",
                    self.top_k
                ),
            );
        }
        for (field, value) in [
            ("top_p", self.top_p),
            ("min_p", self.min_p),
            ("typical_p", self.typical_p),
            ("xtc_probability", self.xtc_probability),
            ("xtc_threshold", self.xtc_threshold),
        ] {
            if !(0.0..=1.0).contains(&value) {
                return invalid(field, format!("must be in [0, 1], not {value}"));
            }
        }
        let mirostat = self.mirostat.as_ref();
        let dry = self.dry.as_ref();
        for (field, value, least) in [
            ("dynatemp_range", self.dynatemp_range, 0.0),
            ("dynatemp_exponent", self.dynatemp_exponent, 0.0),
            (
                "mirostat_tau",
                mirostat.map_or(0.0, |mirostat| mirostat.tau),
                0.0,
            ),
            (
                "mirostat_eta",
                mirostat.map_or(0.0, |mirostat| mirostat.eta),
                0.0,
            ),
            ("dry_multiplier", dry.map_or(0.0, |dry| dry.multiplier), 0.0),
            ("dry_base", dry.map_or(1.0, |dry| dry.base), 1.0),
        ] {
            if !(value.is_finite() && value >= least) {
                return invalid(
                    field,
                    format!("must be a number of at least {least}, not {value}"),
                );
            }
        }
        for (field, value) in [
            ("presence_penalty", self.presence_penalty),
            ("frequency_penalty", self.frequency_penalty),
        ] {
            if !value.is_finite() {
                return invalid(field, format!("must be a finite number, not {value}"));
            }
        }
        if !(self.repetition_penalty.is_finite() && self.repetition_penalty > 0.0) {
            return invalid(
                "repetition_penalty",
                format!("must be a number above 0, not {}", self.repetition_penalty),
            );
        }
        for (token, bias) in self.logit_bias.iter() {
            if usize::try_from(*token).is_ok_and(|token| token < n_vocab) {
                if bias.is_nan() {
                    return invalid(
                        "logit_bias",
                        format!("the bias of token {token} is not a number"),
                    );
                }
            } else {
                return invalid(
                    "logit_bias",
                    format!("token {token} is not in the vocabulary of {n_vocab} tokens"),
                );
            }
        }
        Ok(())
    }
}

impl Default for SamplingParams {
    /// Draws from the model's own distribution: temperature 1, nothing cut, nothing penalised, a
    /// random seed.
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            typical_p: 1.0,
            xtc_probability: 0.0,
            xtc_threshold: 0.1,
            dynatemp_range: 0.0,
            dynatemp_exponent: 1.0,
            mirostat: None,
            dry: None,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            repetition_penalty: 1.0,
            seed: None,
            logit_bias: LogitBias::default(),
            logprobs: None,
        }
    }
}

/// Makes tokens that would go on with a repetition less likely, the more the longer it is.
#[derive(Clone, Debug, PartialEq)]
pub struct DryParams {
    /// What is subtracted from the logit of a token that would make a repetition one longer than
    /// `allowed_length`; above 0.
    pub multiplier: f32,
    /// How many times more is subtracted for each token that the repetition is longer; at least 1.
    pub base: f32,
    /// Tokens that may repeat without any penalty.
    pub allowed_length: u32,
    /// How many of the last tokens, prompt and generated, are searched for repetitions; `None`
    /// searches all.
    pub last_tokens: Option<u32>,
    /// Texts that no repetition goes across.
    pub breakers: Vec<String>,
}

/// Keeps the surprise of the chosen tokens near a target, in the place of `top_k`, `top_p`,
/// `min_p`, `typical_p` and XTC.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MirostatParams {
    /// How the tokens that can be drawn are found.
    pub version: MirostatVersion,
    /// The target, in bits.
    pub tau: f32,
    /// How fast it is approached: the share of each difference that is corrected.
    pub eta: f32,
}

/// The two published forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MirostatVersion {
    /// So many of the likeliest tokens as a fit of Zipf's law says.
    One,
    /// Those whose surprise is below a bound.
    Two,
}
