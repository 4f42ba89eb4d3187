//! Drafting with the MTP layers of a model (multi-token prediction): a second context on the same
//! weights, with KV cells for these layers only. It predicts a token from the model's hidden state
//! for the token before it. If there are several such layers, the first one drafts.

use super::LlamaCpp;
use super::device_memory;
use super::ffi::Context;
use super::model::Weights;
use super::plan::ContextPlan;
use super::process::Environment;
use crate::protocol::LoadError;
use crate::settings::LlmEngineSpec;

/// Architectures whose MTP layers llama.cpp can compute. It can load those of other architectures,
/// but not compute them.
const ARCHITECTURES: [&str; 16] = [
    "bailingmoe3",
    "cohere2moe",
    "deepseek2",
    "deepseek32",
    "deepseek4",
    "glm-dsa",
    "glm4moe",
    "glm5-next",
    "hy_v3",
    "mimo2",
    "nemotron_h_moe",
    "qwen35",
    "qwen35moe",
    "qwen3next",
    "qwen4exp",
    "step35",
];

/// Refuses a model that has no MTP layers, if the spec wants to draft with them.
pub(super) fn check(spec: &LlmEngineSpec, weights: &Weights) -> Result<(), LoadError> {
    if !spec.plugin_config.mtp {
        return Ok(());
    }
    let architecture = weights.model.architecture();
    let why = if weights.model.mtp_layers() == 0 {
        "it has no MTP layers".to_owned()
    } else if !ARCHITECTURES.contains(&architecture.as_str()) {
        format!("llama.cpp does not compute the MTP layers of `{architecture}`")
    } else {
        return Ok(());
    };
    Err(refused(spec, &why))
}

fn refused(spec: &LlmEngineSpec, why: &str) -> LoadError {
    let model = spec.model.display();
    LoadError::spec("mtp", format!("cannot be used with `{model}`: {why}"))
}

/// Returns the size of a cell in the context of the MTP layers, in bytes; 0 if the spec does not
/// use them.
pub(super) fn bytes_per_cell(spec: &LlmEngineSpec, weights: &Weights) -> u64 {
    if !spec.plugin_config.mtp {
        return 0;
    }
    let (model, knobs) = (&weights.model, &spec.plugin_config);
    let all = device_memory::bytes_per_cell(model, knobs.kv_type_k, knobs.kv_type_v);
    all / u64::from(model.n_layer().max(1)) * u64::from(model.mtp_layers())
}

/// Creates the context of the MTP layers. `main` is the model's context, and `plan` its plan.
pub(super) fn open<'a>(
    spec: &LlmEngineSpec,
    weights: &'a Weights,
    plan: &ContextPlan<'a>,
    main: &Context<'a>,
    environment: Environment,
) -> Result<Option<LlamaCpp<'a>>, LoadError> {
    if !spec.plugin_config.mtp {
        return Ok(None);
    }
    let plan = plan.for_mtp(spec, main, bytes_per_cell(spec, weights));
    match LlamaCpp::new(&spec.mtp_spec(), weights, &plan, environment) {
        Ok(context) => Ok(Some(context)),
        Err(LoadError::Model { message, .. }) => Err(refused(spec, &message)),
        Err(other) => Err(other),
    }
}
