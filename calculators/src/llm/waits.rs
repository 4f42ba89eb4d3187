//! Descriptions of the waits of nodes around a language model.

use graphmill_llm::{LlmEngine, Vision};

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
