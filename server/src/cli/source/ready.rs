//! Models that are got ready before they have a graph: fetched by name, or quantized.

use std::path::{Path, PathBuf};

use graphmill_llm::projector_beside;

use super::{ModelFlags, quantized};
use crate::hub::{self, Order};

/// A model that is got ready.
#[derive(Clone, Debug)]
pub(in crate::cli) enum Wanted {
    /// A file, to be quantized.
    File(PathBuf),
    /// A model by its name.
    Named(Order),
}

/// Gets a model ready and writes its graph. Blocks until that is done.
pub(in crate::cli) fn text(wanted: &Wanted, flags: &ModelFlags) -> Result<String, String> {
    let mut flags = flags.clone();
    let model = match wanted {
        Wanted::File(path) => path.clone(),
        Wanted::Named(order) => named(order, &mut flags)?,
    };
    let model = match flags.quantization() {
        Some(kind) => quantized::of(&model, kind)?,
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
    let fetched = fetched
        .map_err(|why| format!("cannot get `{}`, which is no path here: {why}", order.name))?;
    // The one that is beside the model is found without a word.
    let is_found = |path: &Path| projector_beside(&fetched.model).as_deref() == Some(path);
    if cfg!(feature = "vision")
        && flags.mmproj.is_none()
        && let Some(projector) = fetched.projector.filter(|path| !is_found(path))
    {
        flags.mmproj = Some(projector);
    }
    Ok(fetched.model)
}
