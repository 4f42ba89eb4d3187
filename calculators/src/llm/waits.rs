//! Descriptions of the waits of nodes around a language model.

use graphmill_llm::{LlmEngine, Vision};

use super::generations::Choice;

/// Choices that are told of one by one.
const MOST: usize = 4;

/// The tokens of an engine that choices wait for; `running` counts those that are not submitted
/// yet, too. None if no choice may go on before the graph has taken what it gave.
pub(super) fn tokens<'a>(
    engine: &LlmEngine,
    choices: impl Iterator<Item = &'a Choice>,
    running: usize,
) -> Option<String> {
    let standing = |choice: &Choice| match choice.sequence.standing() {
        Some(standing) => standing.to_string(),
        None => "the last ones are on their way".to_owned(),
    };
    let able = choices.filter(|choice| choice.credits > 0);
    let mut told: Vec<String> = able.take(MOST).map(standing).collect();
    if told.is_empty() {
        return None;
    }
    if running > told.len() {
        told.push(format!("and {} more", running - told.len()));
    }
    let model = &engine.info().model;
    Some(format!("tokens of engine `{model}`: {}", told.join("; ")))
}

/// The images and sounds of a request, from an engine's encoder; `has_begun` where it is at them.
pub(crate) fn encoder(engine: &LlmEngine, has_begun: bool) -> String {
    let model = &engine.info().model;
    let state = if has_begun {
        "which encodes them".to_owned()
    } else {
        let waiting = engine.vision().map_or(0, Vision::waiting);
        format!("requests in its queue: {waiting}")
    };
    format!("images and sounds from the encoder of engine `{model}`, {state}")
}

/// Describes the wait for a prompt's first look at an engine.
pub(crate) fn preview(engine: &LlmEngine) -> String {
    let model = &engine.info().model;
    format!("engine `{model}` to say what it has of the prompt, which it does between two steps")
}
