//! JSON forms of the parts of chunks, for tools that run a graph from a file and show its output.

use graphmill_engine::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{EchoedTokens, Finish, Token, TokenLogprob, ToolCallDelta, ToolCallStart};

impl Serialize for Finish {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// A piece of a tool call. Only the first one has `id` and `name`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolCallForm {
    #[serde(default)]
    index: u32,
    id: Option<String>,
    name: Option<String>,
    #[serde(default)]
    arguments: String,
}

impl From<ToolCallForm> for ToolCallDelta {
    fn from(form: ToolCallForm) -> Self {
        let id = form.id.unwrap_or_default().into();
        Self {
            index: form.index,
            arguments: form.arguments,
            start: form.name.map(|name| ToolCallStart { id, name }),
        }
    }
}

/// Returns true for the timestamp of prompts that needs no mention.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
pub(super) fn is_zero(time: &Timestamp) -> bool {
    *time == Timestamp::ZERO
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
pub(super) fn write_time<S: Serializer>(time: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_i64(time.value())
}

pub(super) fn write_tokens<S: Serializer>(tokens: &[Token], to: S) -> Result<S::Ok, S::Error> {
    tokens.serialize(to)
}

/// Reads a type by another one's form.
pub(super) fn read_as<'de, F, T, D>(from: D) -> Result<T, D::Error>
where
    F: Deserialize<'de> + Into<T>,
    D: Deserializer<'de>,
{
    F::deserialize(from).map(F::into)
}

pub(super) fn write_logprobs<S: Serializer>(
    logprobs: &[TokenLogprob],
    to: S,
) -> Result<S::Ok, S::Error> {
    to.collect_seq(logprobs.iter().map(LogprobForm::from))
}

pub(super) fn read_logprobs<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Vec<TokenLogprob>, D::Error> {
    let forms = Vec::<LogprobForm>::deserialize(from)?;
    Ok(forms.into_iter().map(TokenLogprob::from).collect())
}

/// A token with its log probability. Negative infinity is null, as JSON has none.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LogprobForm {
    token: Token,
    logprob: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rank: Option<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    top: Vec<(Token, Option<f64>)>,
}

/// A prompt that an answer repeats, with its log probabilities.
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

impl From<EchoedTokens> for EchoForm {
    fn from(echo: EchoedTokens) -> Self {
        let logprobs = echo.logprobs.as_ref();
        Self {
            logprobs: logprobs.map(|logprobs| logprobs.iter().map(LogprobForm::from).collect()),
            tokens: echo.tokens,
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
