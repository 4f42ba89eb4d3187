//! JSON form of the log probabilities of tokens, and of prompts that are repeated with them.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::payload::{EchoedTokens, Token, TokenLogprob};

/// A token with its log probability. Negative infinity is null, as JSON has none.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LogprobForm {
    token: Token,
    logprob: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rank: Option<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    top: Vec<(Token, Option<f64>)>,
}

/// A repeated prompt.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EchoForm {
    tokens: Vec<Token>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    logprobs: Option<Vec<LogprobForm>>,
}

/// Converts a log probability to the shortest decimal that means the same 32-bit number.
/// `serde_json` may read the last digits of a longer one differently.
fn possible(logprob: f32) -> Option<f64> {
    let digits = logprob.is_finite().then(|| logprob.to_string());
    digits.and_then(|digits| digits.parse().ok())
}

fn given(logprob: Option<f64>) -> f32 {
    logprob.map_or(f32::NEG_INFINITY, |logprob| logprob as f32)
}

impl LogprobForm {
    pub(super) fn json(of: &TokenLogprob) -> Value {
        json!(Self::from(of))
    }
}

impl From<&TokenLogprob> for LogprobForm {
    fn from(of: &TokenLogprob) -> Self {
        let top = of.top.iter();
        Self {
            token: of.token,
            logprob: possible(of.logprob),
            rank: of.rank,
            top: top.map(|(token, of)| (*token, possible(*of))).collect(),
        }
    }
}

impl From<LogprobForm> for TokenLogprob {
    fn from(form: LogprobForm) -> Self {
        let top = form.top.into_iter();
        Self {
            token: form.token,
            logprob: given(form.logprob),
            rank: form.rank,
            top: top.map(|(token, of)| (token, given(of))).collect(),
        }
    }
}

impl From<&EchoedTokens> for EchoForm {
    fn from(echo: &EchoedTokens) -> Self {
        let logprobs = echo.logprobs.as_ref();
        Self {
            tokens: echo.tokens.clone(),
            logprobs: logprobs.map(|logprobs| logprobs.iter().map(LogprobForm::from).collect()),
        }
    }
}

impl From<EchoForm> for EchoedTokens {
    fn from(form: EchoForm) -> Self {
        let logprobs = form.logprobs.map(Vec::into_iter);
        Self {
            tokens: form.tokens,
            logprobs: logprobs.map(|forms| forms.map(TokenLogprob::from).collect()),
        }
    }
}
