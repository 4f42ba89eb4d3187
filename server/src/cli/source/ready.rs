//! Models that are prepared before they have a graph: downloaded, or quantized.

use std::path::{Path, PathBuf};

use graphmill_llm::projector_beside;

use super::{ModelFlags, quantized};
use crate::hub::{self, Order};

/// A model to prepare before its graph can be written.
#[derive(Clone, Debug)]
pub(in crate::cli) enum PendingModel {
    /// A model file, which is quantized into a copy.
    File(PathBuf),
    /// A model to download by its name.
    Named(Order),
}

/// Prepares a model and returns the text of its graph. Blocks until that is done.
pub(in crate::cli) fn text(wanted: &PendingModel, flags: &ModelFlags) -> Result<String, String> {
    let mut flags = flags.clone();
    let model = match wanted {
        PendingModel::File(path) => path.clone(),
        PendingModel::Named(order) => named(order, &mut flags)?,
    };
    let model = match flags.quantization() {
        Some(kind) => quantized::ensure(&model, kind)?,
        None => model,
    };
    super::text(&model, &flags)
}

fn named(order: &Order, flags: &mut ModelFlags) -> Result<PathBuf, String> {
    let mut order = order.clone();
    if order.name.wanted.is_none() {
        order.name.wanted = flags.weights().map(str::to_owned);
    }
    let fetched = hub::fetch(&order);
    let fetched = fetched.map_err(|why| {
        format!(
            "cannot download `{}`, which is not a local path: {why}",
            order.name
        )
    })?;
    // A projector beside the model is found without an option.
    let is_found = |path: &Path| projector_beside(&fetched.model).as_deref() == Some(path);
    if cfg!(feature = "vision")
        && flags.mmproj.is_none()
        && let Some(projector) = fetched.projector.filter(|path| !is_found(path))
    {
        flags.mmproj = Some(projector);
    }
    Ok(fetched.model)
}
