//! Ways of sampling that few requests ask for.

/// Makes tokens that would go on with a repetition less likely, the more the longer it is.
#[derive(Clone, Debug, PartialEq)]
pub struct DryParams {
    /// What is subtracted from the logit of a token that would make a repetition one longer than `allowed_length`; above 0.
    pub multiplier: f32,
    /// How many times more is subtracted for each token that the repetition is longer; at least 1.
    pub base: f32,
    /// Tokens that may repeat without any penalty.
    pub allowed_length: u32,
    /// How many of the last tokens, prompt and generated, are searched for repetitions; `None` searches all.
    pub last_tokens: Option<u32>,
    /// Texts that no repetition goes across.
    pub breakers: Vec<String>,
}

/// Keeps the surprise of the chosen tokens near a target, in the place of `top_k`, `top_p`, `min_p`, `typical_p` and XTC.
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
