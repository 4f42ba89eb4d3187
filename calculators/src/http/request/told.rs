//! Details about tokens that a request asks for.

use graphmill_dialects::{Fields, bodies::told::TokenDetails};
use graphmill_engine::Result;

use crate::http::{
    dialect::TextDialect,
    fields::{code, invalid},
};
use crate::payload::GenerationParams;

/// Reads the fields for an answer in a dialect.
///
/// # Errors
/// The dialect's answers do not have such details, or not in streams.
pub(super) fn read(
    dialect: &dyn TextDialect,
    fields: &mut Fields,
    stream: bool,
) -> Result<TokenDetails> {
    let told: TokenDetails = fields.take()?;
    let asked = [
        ("return_token_ids", told.return_token_ids),
        (
            "return_tokens_as_token_ids",
            told.return_tokens_as_token_ids,
        ),
        ("prompt_logprobs", told.prompt_logprobs.is_some()),
    ];
    let asked = asked.into_iter().find(|(_, asked)| *asked);
    match asked {
        Some((field, _)) if !dialect.tells_tokens() => {
            let message = "is a field of `chat/completions` and `completions`";
            Err(invalid(field, message).with_code(code::UNSUPPORTED))
        }
        _ if stream && told.prompt_logprobs.is_some() => {
            let message = "is not supported in a stream";
            Err(invalid("prompt_logprobs", message).with_code(code::UNSUPPORTED))
        }
        _ => Ok(told),
    }
}

/// Refuses two different numbers of likeliest tokens for the same places.
pub(super) fn check(params: &GenerationParams) -> Result<()> {
    let echoed = params.sampling.logprobs.filter(|_| params.echo);
    match (params.prompt_logprobs, echoed) {
        (Some(asked), Some(echoed)) if asked != echoed => {
            let message = format!("must be equal to `logprobs` ({echoed}) with `echo`");
            Err(invalid("prompt_logprobs", message))
        }
        _ => Ok(()),
    }
}
