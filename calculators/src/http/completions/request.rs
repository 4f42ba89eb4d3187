//! What a completion asks: its prompts.

use graphmill_engine::Result;

use crate::http::{
    fields::{Fields, invalid},
    limits::MAX_PROMPTS,
    prompts,
};
use crate::payload::{Prompt, RequestInput};

/// Reads the prompts of a completion: a string, strings, token ids, or lists of token ids.
pub(in crate::http) fn prompts(body: Fields<'_>) -> Result<RequestInput> {
    let mut prompts = prompts::read(
        body,
        prompts::Form {
            field: "prompt",
            most: MAX_PROMPTS,
            empty_text: false,
            only_tokens: false,
        },
    )?;
    if let Some(suffix) = body.str("suffix")?.filter(|suffix| !suffix.is_empty()) {
        if body.bool("echo")? == Some(true) {
            return Err(invalid("suffix", "cannot be used together with `echo`"));
        }
        for prompt in &mut prompts {
            let Prompt::Text(before) = prompt else {
                return Err(invalid("suffix", "needs a `prompt` that is text"));
            };
            *prompt = Prompt::Gap {
                before: std::mem::take(before),
                after: suffix.to_owned(),
            };
        }
    }
    Ok(RequestInput::Prompts(prompts.into()))
}
