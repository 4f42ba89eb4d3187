//! Truncation of prompts to a number of tokens that their request sets.

use graphmill_engine::Result;
use graphmill_llm::Token;

use super::wrong;
use crate::payload::{TokenPrompt, Truncation};

/// Cuts the prompts that are longer than the request allows, for a model with this context whose
/// texts begin with this token.
///
/// # Errors
/// The request allows more tokens than the model reads, or a prompt with images, sounds or vectors
/// would be cut.
pub(crate) fn cut(
    prompts: &mut [TokenPrompt],
    truncation: Option<Truncation>,
    context: usize,
    begin: Option<Token>,
) -> Result<()> {
    let Some(truncation) = truncation else {
        return Ok(());
    };
    let invalid = |message: &str| Err(wrong(truncation.field, message, "invalid_value"));
    let most = match truncation.tokens {
        Some(most) if most as usize > context => {
            let message = format!("is {most}, but the model's context has {context} tokens");
            return invalid(&message);
        }
        Some(most) => most as usize,
        None => context.saturating_sub(truncation.room as usize).max(1),
    };
    for prompt in prompts {
        let Some(excess) = prompt.tokens.len().checked_sub(most).filter(|it| *it > 0) else {
            continue;
        };
        if !prompt.tiles.is_empty() {
            return invalid("cannot cut a prompt with images, sounds or vectors");
        }
        if truncation.keeps_beginning {
            prompt.tokens.truncate(most);
            prompt.last_turn = prompt.last_turn.filter(|turn| (*turn as usize) < most);
        } else {
            // The token that begins every text is kept.
            let first = prompt.tokens.first().copied();
            let kept = usize::from(most > 1 && begin.is_some() && first == begin);
            prompt.tokens.drain(kept..kept + excess);
            let turn = prompt
                .last_turn
                .and_then(|it| it.checked_sub(excess as u32));
            prompt.last_turn = turn.filter(|turn| *turn > 0);
        }
        // A cut prompt is no longer that of the conversation, so its reply is not remembered.
        prompt.asked = None;
        prompt.is_cut = true;
    }
    Ok(())
}
