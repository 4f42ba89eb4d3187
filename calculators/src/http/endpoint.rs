//! The field that names the model, for nodes that have no defaults of a graph.

use std::sync::Arc;

use graphmill_engine::Result;

use super::fields::missing;

/// The model as the request names it.
pub(super) fn model(model: Option<String>) -> Result<Arc<str>> {
    model.map(Arc::from).ok_or_else(|| missing("model"))
}
