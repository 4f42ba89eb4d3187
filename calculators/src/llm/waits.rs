//! Descriptions of the waits of nodes around a language model.

use graphmill_llm::{LlmEngine, Vision};

use super::generations::RunningChoice;

/// Maximum number of choices that are described one by one.
const MOST: usize = 4;

/// Describes the tokens of an engine for which choices wait. `running` also counts choices that are
/// not submitted yet. Returns `None` if every choice waits for credit instead.
pub(super) fn tokens<'a>(
    engine: &LlmEngine,
    choices: impl Iterator<Item = &'a RunningChoice>,
    running: usize,
) -> Option<String> {
    let standing = |choice: &RunningChoice| match choice.sequence.standing() {
        Some(standing) => standing.to_string(),
        None => "the last ones are being delivered".to_owned(),
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

/// Describes the wait for an engine's encoder of images and sounds. `has_begun` is true while it
/// encodes those of the request.
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

/// Describes the wait for an engine's preview of a prompt.
pub(crate) fn preview(engine: &LlmEngine) -> String {
    let model = &engine.info().model;
    format!("the preview of a prompt from engine `{model}`, which answers between two steps")
}
