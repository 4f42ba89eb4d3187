//! What the server is, and what tensors a graph takes and gives.

use std::sync::Arc;

use graphmill_engine::shortened;

use crate::{
    errors::{Cause, Failure},
    run::RequestContext,
    servable::{Named, Servable},
    tensors::{self, Port},
};

/// The name of the server.
pub(crate) const NAME: &str = "Graphmill";

/// What runs a graph.
pub(crate) const PLATFORM: &str = "graphmill";

/// The version of a graph without versions.
const VERSION: u64 = 1;

/// What is served besides the protocol itself.
pub(crate) const EXTENSIONS: [&str; 4] = [
    "binary_tensor_data",
    "model_repository",
    "statistics",
    "model_configuration",
];

/// The tensors of a graph: none of one that takes HTTP requests, as no tensor can enter it.
pub(crate) struct Metadata {
    pub(crate) label: Label,
    pub(crate) inputs: Vec<Port>,
    pub(crate) outputs: Vec<Port>,
}

impl Metadata {
    /// Those of a graph that is available.
    pub(crate) fn of(servable: &Servable) -> Result<Self, Failure> {
        let plan = servable.plan()?;
        let is_of_tensors = tensors::is_served(&plan).is_ok_and(|is_served| is_served);
        let (inputs, outputs) = if is_of_tensors {
            (tensors::inputs(&plan), tensors::outputs(&plan))
        } else {
            (Vec::new(), Vec::new())
        };
        Ok(Self {
            label: Label::of(servable),
            inputs,
            outputs,
        })
    }
}

/// The name of a graph and its version.
#[derive(Clone)]
pub(crate) struct Label {
    pub(crate) name: String,
    pub(crate) version: String,
}

impl Label {
    pub(crate) fn of(servable: &Servable) -> Self {
        Self {
            name: servable.graph().to_owned(),
            version: servable.version().unwrap_or(VERSION).to_string(),
        }
    }
}

/// The graph of this name and version, if the caller may use it.
pub(crate) fn find(
    who: &RequestContext,
    name: &str,
    version: &str,
) -> Result<Arc<Servable>, Failure> {
    find_version(|name| who.find(name), name, version).map(|(_, graph)| graph)
}

/// The graph of this name and version as `find` finds it, with the name under which it does.
pub(crate) fn find_version(
    find: impl Fn(&str) -> Result<Named, Failure>,
    name: &str,
    version: &str,
) -> Result<(String, Arc<Servable>), Failure> {
    let name = versioned(&find(name)?.servable, name, version)?;
    let graph = find(&name)?.servable;
    Ok((name, graph))
}

/// The name under which a version of a graph is found. Clients write none as `0`, too.
fn versioned(graph: &Servable, name: &str, version: &str) -> Result<String, Failure> {
    if ["", "0"].contains(&version) {
        return Ok(name.to_owned());
    }
    let number = version.parse::<u64>().ok();
    match (graph.version(), number) {
        (None, Some(VERSION)) => Ok(name.to_owned()),
        (Some(_), Some(number)) => Ok(format!("{}@{number}", graph.graph())),
        _ => {
            let shown = shortened(version, 50);
            let message = format!("the graph `{}` has no version `{shown}`", graph.graph());
            Err(Failure::new(Cause::UnknownModel, message).of_field("model_version"))
        }
    }
}
