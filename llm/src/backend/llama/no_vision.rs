//! A build without libmtmd: no model reads images.

use std::sync::Arc;

use super::device_memory::Available;
use super::model::Weights;
use crate::backend::interface::Projector;
use crate::protocol::LoadError;
use crate::settings::LlmEngineSpec;

/// Refuses a spec that names a projector.
pub(super) fn load(
    spec: &LlmEngineSpec,
    _: &Weights,
    _: &mut Available,
) -> Result<Option<Arc<dyn Projector>>, LoadError> {
    match &spec.vision {
        None => Ok(None),
        Some(vision) => Err(LoadError::BackendMissing {
            path: vision.mmproj.clone(),
            backend: "libmtmd",
            feature: "vision",
        }),
    }
}
