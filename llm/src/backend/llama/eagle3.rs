//! EAGLE3: a draft model of one layer that computes a token from hidden states of several layers of
//! the main model. It may use the main model's token embeddings and output layer.

use std::collections::HashMap;

use super::device_memory::MACHINE;
use super::ffi::{HiddenOf, check_layers, target_layers};
use super::model::Weights;
use crate::protocol::LoadError;
use crate::settings::LlmEngineSpec;

/// Architecture of EAGLE3 models in model files.
const ARCHITECTURE: &str = "eagle3";
/// Other architectures that draft for one main model only. They are not supported.
const OTHERS: [&str; 2] = ["dflash", "gemma4-assistant"];

/// Tokens computed at once. Each takes memory for a row of logits.
const UBATCH: u32 = 64;

/// Refuses to generate with a model that can only draft.
pub(super) fn check_main(spec: &LlmEngineSpec, weights: &Weights) -> Result<(), LoadError> {
    let architecture = weights.model.architecture();
    if architecture != ARCHITECTURE && !OTHERS.contains(&architecture.as_str()) {
        return Ok(());
    }
    let message = format!("it is a `{architecture}` model, which can only draft for another model");
    Err(LoadError::model(&spec.model, message))
}

/// Adds the buffers for the main model's hidden states to the bytes that it takes of main memory.
pub(super) fn count_buffers(
    takes: &mut HashMap<String, u64>,
    spec: &LlmEngineSpec,
    main: &Weights,
    hidden: Option<&HiddenOf>,
) {
    if let Some(HiddenOf::Layers(layers)) = hidden
        && let Some(bytes) = takes.get_mut(MACHINE)
    {
        let elements = layers.len() as u64 * u64::from(main.model.n_embd());
        *bytes += 4 * elements * u64::from(spec.max_num_batched_tokens);
    }
}

/// Prepares the spec of a draft model if that is an EAGLE3 model, and returns the hidden states
/// that the main model must provide.
pub(super) fn prepare(
    spec: &LlmEngineSpec,
    main: &Weights,
    draft_spec: &mut LlmEngineSpec,
    draft: &Weights,
) -> Result<Option<HiddenOf>, LoadError> {
    let refused = |field, why: String| {
        let model = draft_spec.model.display();
        let message = format!("cannot be used with `{model}`: {why}");
        Err(LoadError::spec(field, message))
    };
    let architecture = draft.model.architecture();
    if OTHERS.contains(&architecture.as_str()) {
        let why = format!("drafts of `{architecture}` models are not supported");
        return refused("draft_models_path", why);
    }
    if architecture != ARCHITECTURE {
        return match &spec.draft {
            Some(draft) if draft.eagle3 => {
                let why = format!("it is a model of `{architecture}`");
                refused("draft_eagle3_mode", why)
            }
            _ => Ok(None),
        };
    }
    let key = format!("{ARCHITECTURE}.target_hidden_size");
    let width = draft.model.metadata(&key).unwrap_or_default();
    let found = main.model.n_embd().to_string();
    if width != found {
        let why = format!(
            "it drafts from hidden states of {width} numbers, and the model's have {found}"
        );
        return refused("draft_models_path", why);
    }
    let layers = target_layers(&draft.model);
    if let Err(why) = check_layers(&main.model, &layers) {
        return refused("draft_models_path", why);
    }
    // Its cells hold only the end of a text, and their positions count from 0.
    draft_spec.max_context = None;
    draft_spec.plugin_config.kv_unified = Some(true);
    draft_spec.plugin_config.ubatch = Some(UBATCH);
    Ok(Some(HiddenOf::Layers(layers)))
}
