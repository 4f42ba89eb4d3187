//! Spec of a LoRA adapter.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{LlmEngineSpec, Number, SpecError};

/// A LoRA adapter: a small change of the model's weights that requests can select by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdapterSpec {
    /// Unique name by which requests select it.
    pub name: String,
    /// The adapter's file, in GGUF.
    pub path: PathBuf,
    /// Strength of the change; 1 applies it as trained. From `-MAX_SCALE` to `MAX_SCALE`.
    pub scale: Number,
}

impl AdapterSpec {
    /// Largest absolute value of a scale. Far larger ones make a model compute infinite logits.
    pub const MAX_SCALE: f32 = 10.0;

    /// Checks the names and scales of a spec's adapters. Requests must be able to write each name,
    /// also after a graph's name and a colon.
    pub(super) fn validate(spec: &LlmEngineSpec) -> Result<(), SpecError> {
        let wrong = |message| Err(SpecError::out_of_range("lora_adapters", message));
        for (index, adapter) in spec.adapters.iter().enumerate() {
            let name = &adapter.name;
            if name.is_empty() || name.contains(':') {
                return wrong(format!(
                    "must have names of at least one character and without colons, not `{name}`"
                ));
            }
            let mut before = spec.adapters[..index].iter();
            if before.any(|other| other.name == *name) {
                return wrong(format!("has two adapters with the name `{name}`"));
            }
            let (scale, most) = (adapter.scale.get(), Self::MAX_SCALE);
            if scale.abs() > most {
                return wrong(format!(
                    "must have scales between -{most} and {most}, not {scale} for `{name}`"
                ));
            }
        }
        Ok(())
    }
}
