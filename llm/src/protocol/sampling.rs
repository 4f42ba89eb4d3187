//! Parameters of the choice of tokens.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use super::{LogitBias, SubmitError, Token, TokenSet};

/// Parameters for choosing a token from the model's logits. Requests have the same fields.
///
/// The steps, in order: `logit_bias`; the penalties; `dry`. Then a temperature of 0 takes the
/// highest logit. Otherwise follow `top_n_sigma`, the temperature, `top_k`, `top_p` (over the
/// tokens left by `top_k`), `min_p`, `typical_p` and XTC (each over the tokens left by those before
/// it), and a draw from the remaining tokens. `mirostat` replaces `top_n_sigma` and all steps
/// between the temperature and the draw.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SamplingParams {
    /// Divides the logits; 0 always takes the most likely token.
    #[schemars(range(min = 0, max = 2))]
    pub temperature: f32,
    /// Keeps this many of the most likely tokens; 0 and -1 keep all.
    #[schemars(range(min = -1, max = i32::MAX))]
    pub top_k: i32,
    /// Keeps the most likely tokens until their probabilities sum to this; 1 keeps all.
    #[schemars(range(min = 0, max = 1))]
    pub top_p: f32,
    /// Drops tokens that are less likely than this fraction of the most likely token.
    #[schemars(range(min = 0, max = 1))]
    pub min_p: f32,
    /// Keeps the tokens whose logits are at most this many standard deviations of all logits below
    /// the highest one; 0 and -1 keep all.
    #[schemars(range(min = -1, max = 100))]
    pub top_n_sigma: f32,
    /// Subtracted from the logit of every token that was generated before. The prompt does not
    /// count.
    #[schemars(range(min = -2, max = 2))]
    pub presence_penalty: f32,
    /// Subtracted from a token's logit once per earlier occurrence in the generated text. The
    /// prompt does not count.
    #[schemars(range(min = -2, max = 2))]
    pub frequency_penalty: f32,
    /// Divides positive logits, and multiplies negative ones, of tokens that occur in the prompt or
    /// the text; 1 changes nothing.
    #[schemars(range(min = 0.01, max = 100))]
    pub repetition_penalty: f32,
    /// Locally typical sampling: keeps the tokens closest to the entropy until their probabilities
    /// sum to this; 1 keeps all.
    #[schemars(range(min = 0, max = 1))]
    pub typical_p: f32,
    /// Probability that XTC is applied to a token.
    #[schemars(range(min = 0, max = 1))]
    pub xtc_probability: f32,
    /// XTC removes every token at or above this probability except the least likely of them; 0.1
    /// when left out.
    #[schemars(range(min = 0, max = 1))]
    pub xtc_threshold: f32,
    /// Lowers the temperature by up to this where the model is sure of the next token, and raises
    /// it by up to this where it is not.
    #[schemars(range(min = 0, max = 100))]
    pub dynatemp_range: f32,
    /// Growth of the temperature with the entropy; 1 (in proportion) when left out.
    #[schemars(range(min = 0, max = 100))]
    pub dynatemp_exponent: f32,
    /// Keeps the surprise of chosen tokens near a target; off by default.
    #[serde(flatten)]
    pub mirostat: Option<MirostatParams>,
    /// Makes repetitions less likely; off by default.
    #[serde(flatten, deserialize_with = "dry")]
    pub dry: Option<DryParams>,
    /// Seed of the choice: the same seed gives the same choice. Choice n of a prompt, counted from
    /// 0, uses the seed plus n. -1 is no seed.
    ///
    /// Kernels add floats in an order that depends on the rest of the batch. So logits of a busy
    /// engine can differ in their last bits, and with them a draw that falls between two tokens.
    #[serde(deserialize_with = "seed")]
    #[schemars(with = "i128", range(min = -1, max = u64::MAX))]
    pub seed: Option<u64>,
    /// Added to the logits of tokens. In an array, `false` bans a token.
    #[schemars(schema_with = "LogitBias::schema", extend("x-beyond" = true))]
    pub logit_bias: LogitBias,
    /// The only tokens that may be chosen. The end token is allowed only if it is listed.
    #[schemars(schema_with = "TokenSet::schema", extend("x-beyond" = true))]
    pub allowed_token_ids: Option<TokenSet>,
    /// Reports the log probability of each chosen token and of this many most likely ones, before
    /// any of the steps above.
    #[serde(skip)]
    pub logprobs: Option<u8>,
}

impl SamplingParams {
    /// Parameters that always take the most likely token and apply nothing else.
    pub fn greedy() -> Self {
        Self {
            temperature: 0.0,
            ..Self::default()
        }
    }

    /// Checks every field's range.
    ///
    /// # Errors
    /// [`SubmitError::InvalidParameter`] with the first field that is out of its range, and the
    /// range.
    pub fn validate(&self, n_vocab: usize) -> Result<(), SubmitError> {
        let invalid = |field, message: String| Err(SubmitError::parameter(field, message));
        if self.top_k < -1 {
            let message = "must be -1 (all tokens), 0 (all tokens) or positive, not";
            return invalid("top_k", format!("{message} {}", self.top_k));
        }
        let mirostat = self.mirostat.as_ref();
        let dry = self.dry.as_ref();
        let (tau, eta) = mirostat.map_or((0.0, 0.0), |mirostat| (mirostat.tau, mirostat.eta));
        let (multiplier, base) = dry.map_or((0.0, 1.0), |dry| (dry.multiplier, dry.base));
        let from_0 = (0.0..=f32::MAX, "a number of at least 0");
        let from_1 = (1.0..=f32::MAX, "a number of at least 1");
        let above_0 = (0.0_f32.next_up()..=f32::MAX, "a number above 0");
        let finite = (f32::MIN..=f32::MAX, "a finite number");
        let share = (0.0..=1.0, "in [0, 1]");
        for (field, value, (range, expected)) in [
            ("temperature", self.temperature, &from_0),
            ("top_p", self.top_p, &share),
            ("min_p", self.min_p, &share),
            ("typical_p", self.typical_p, &share),
            ("xtc_probability", self.xtc_probability, &share),
            ("xtc_threshold", self.xtc_threshold, &share),
            ("dynatemp_range", self.dynatemp_range, &from_0),
            ("dynatemp_exponent", self.dynatemp_exponent, &from_0),
            ("mirostat_tau", tau, &from_0),
            ("mirostat_eta", eta, &from_0),
            ("dry_multiplier", multiplier, &from_0),
            ("dry_base", base, &from_1),
            ("presence_penalty", self.presence_penalty, &finite),
            ("frequency_penalty", self.frequency_penalty, &finite),
            ("top_n_sigma", self.top_n_sigma, &finite),
            ("repetition_penalty", self.repetition_penalty, &above_0),
        ] {
            if !range.contains(&value) {
                return invalid(field, format!("must be {expected}, not {value}"));
            }
        }
        let is_known = |token: Token| usize::try_from(token).is_ok_and(|token| token < n_vocab);
        for (token, bias) in self.logit_bias.iter() {
            if !is_known(*token) {
                return invalid(
                    "logit_bias",
                    format!("token {token} is not in the vocabulary of {n_vocab} tokens"),
                );
            }
            if bias.is_nan() {
                let message = format!("the bias of token {token} is not a number");
                return invalid("logit_bias", message);
            }
        }
        let allowed = self.allowed_token_ids.as_deref().unwrap_or_default();
        match allowed.iter().find(|token| !is_known(**token)) {
            None => Ok(()),
            Some(token) => invalid(
                "allowed_token_ids",
                format!("has {token}, which is not in the vocabulary of {n_vocab} tokens"),
            ),
        }
    }
}

impl Default for SamplingParams {
    /// Draws from the model's own distribution: temperature 1, no truncation, no penalties, a
    /// random seed.
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            top_n_sigma: 0.0,
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
            allowed_token_ids: None,
            logprobs: None,
        }
    }
}

/// DRY: makes tokens that would continue a repetition less likely, the more the longer it is.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DryParams {
    /// Subtracted from the logit of a token that makes a repetition longer than is allowed; 0 turns
    /// DRY off.
    #[serde(rename = "dry_multiplier")]
    #[schemars(range(min = 0, max = 1000))]
    pub multiplier: f32,
    /// Factor on `dry_multiplier` for each token beyond the allowed length; 1.75 when left out.
    #[serde(rename = "dry_base")]
    #[schemars(range(min = 1, max = 1000))]
    pub base: f32,
    /// Length of a repetition that is not penalized, in tokens; 2 when left out.
    #[serde(rename = "dry_allowed_length")]
    pub allowed_length: u32,
    /// Number of last tokens that are searched for repetitions, prompt and generated; -1 (all) when
    /// left out.
    #[serde(rename = "dry_penalty_last_n", deserialize_with = "limit")]
    #[schemars(with = "i64", range(min = -1, max = u32::MAX))]
    pub last_tokens: Option<u32>,
    /// Texts that no repetition crosses, at most 32 of at most 64 characters; newline, colon,
    /// quotation mark and star when left out.
    #[serde(rename = "dry_sequence_breakers")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 64)))]
    pub breakers: Vec<String>,
}

impl Default for DryParams {
    fn default() -> Self {
        Self {
            multiplier: 0.0,
            base: 1.75,
            allowed_length: 2,
            last_tokens: None,
            breakers: ["\n", ":", "\"", "*"].map(String::from).into(),
        }
    }
}

/// Reads the fields of DRY; `None` if they turn it off.
fn dry<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<DryParams>, D::Error> {
    let dry = DryParams::deserialize(deserializer)?;
    Ok(Some(dry).filter(|dry| dry.multiplier > 0.0 && dry.last_tokens != Some(0)))
}

/// Reads a number; -1 means no limit.
fn limit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    Ok(u32::try_from(i64::deserialize(deserializer)?).ok())
}

/// Reads a seed; -1 means no seed.
fn seed<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Ok(serde_json::Number::deserialize(deserializer)?.as_u64())
}

/// Mirostat: keeps the surprise of the chosen tokens near a target. It replaces `top_n_sigma`,
/// `top_k`, `top_p`, `min_p`, `typical_p` and XTC.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
pub struct MirostatParams {
    /// 1 and 2 keep the surprise of chosen tokens near a target, instead of `top_n_sigma`, `top_k`,
    /// `top_p`, `min_p`, `typical_p` and XTC; 0 is off.
    #[serde(rename = "mirostat")]
    #[schemars(with = "u8", range(min = 0, max = 2))]
    pub version: MirostatVersion,
    /// Target surprise, in bits; 5 when left out.
    #[serde(rename = "mirostat_tau", default = "usual_tau")]
    #[schemars(range(min = 0, max = 100))]
    pub tau: f32,
    /// Fraction of each deviation from the target that is corrected; 0.1 when left out.
    #[serde(rename = "mirostat_eta", default = "usual_eta")]
    #[schemars(range(min = 0, max = 100))]
    pub eta: f32,
}

fn usual_tau() -> f32 {
    5.0
}

fn usual_eta() -> f32 {
    0.1
}

/// The two published versions of Mirostat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "u8")]
pub enum MirostatVersion {
    /// Keeps as many of the most likely tokens as a fit of Zipf's law gives.
    One,
    /// Keeps the tokens whose surprise is below a bound.
    Two,
}

impl TryFrom<u8> for MirostatVersion {
    type Error = &'static str;

    fn try_from(number: u8) -> Result<Self, &'static str> {
        match number {
            1 => Ok(Self::One),
            2 => Ok(Self::Two),
            _ => Err("mirostat is off"),
        }
    }
}
