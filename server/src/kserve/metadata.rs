//! What the server is, and what tensors a graph takes and gives.

use crate::{
    rescue::{Cause, Failure},
    servable::Servable,
    tensors,
};
use graphmill_engine::shortened;

/// The name of the server.
pub(crate) const NAME: &str = "Graphmill";

/// What runs a graph.
pub(crate) const PLATFORM: &str = "graphmill";

/// The version that each graph has.
pub(crate) const VERSION: &str = "1";

/// What is served besides the protocol itself.
pub(crate) const EXTENSIONS: [&str; 4] = [
    "binary_tensor_data",
    "model_repository",
    "statistics",
    "model_configuration",
];

/// The tensors of a graph.
pub(crate) struct Metadata {
    pub(crate) name: String,
    pub(crate) inputs: Vec<tensors::Port>,
    pub(crate) outputs: Vec<tensors::Port>,
}

impl Metadata {
    /// Those of a graph that is available.
    pub(crate) fn of(servable: &Servable) -> Result<Self, Failure> {
        let plan = servable.plan()?;
        Ok(Self {
            name: servable.name().to_owned(),
            inputs: tensors::inputs(&plan),
            outputs: tensors::outputs(&plan),
        })
    }
}

/// Refuses a version that no graph has. Clients write none as `0`, too.
pub(crate) fn version(asked: &str) -> Result<(), Failure> {
    if ["", "0", VERSION].contains(&asked) {
        return Ok(());
    }
    let shown = shortened(asked, 50);
    let message = format!("graphs have the version {VERSION} and no version `{shown}`");
    Err(Failure::new(Cause::UnknownModel, message).of_field("model_version"))
}
