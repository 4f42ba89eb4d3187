//! Metadata of the server, and of the input and output tensors of graphs.

use std::sync::Arc;

use graphmill_calculators::tensor::Datatype;
use graphmill_engine::{Plan, shortened};
use serde::{Serialize as _, Serializer};

use super::{
    proto::{
        DataType, ModelConfig, ModelInput, ModelMetadataResponse, ModelOutput,
        ModelTransactionPolicy, ServerMetadataResponse, model_input::Format,
        model_metadata_response::TensorMetadata,
    },
    repository::versions,
    run::loaded,
};
use crate::{
    errors::{Cause, Failure, Result},
    run::RequestContext,
    servable::{Ready, ResolvedGraph, Servable},
    tensors::{self, ImageFormat, Port},
};

/// Platform that is reported for all graphs.
pub(crate) const PLATFORM: &str = "graphmill";

/// Version of a graph without versions.
const VERSION: u64 = 1;

/// Supported extensions of the protocol.
const EXTENSIONS: [&str; 6] = [
    "classification",
    "binary_tensor_data",
    "model_repository",
    "statistics",
    "model_configuration",
    "logging",
];

/// Describes the server: name, version and extensions.
pub(crate) fn describe_server() -> ServerMetadataResponse {
    ServerMetadataResponse {
        name: "Graphmill".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        extensions: EXTENSIONS.map(str::to_owned).into(),
    }
}

/// Returns the inputs and outputs of a graph; none for a graph that takes HTTP requests, not
/// tensors.
fn ports(plan: &Plan) -> [Vec<Port>; 2] {
    if tensors::is_served(plan).unwrap_or(false) {
        return [tensors::inputs(plan), tensors::outputs(plan)];
    }
    Default::default()
}

/// Describes the tensors of a graph, and lists the versions that answer, or the one in the request.
pub(crate) async fn describe(
    who: &RequestContext,
    name: &str,
    version: &str,
) -> Result<ModelMetadataResponse> {
    let ready = loaded(who, name, version).await?;
    let servable = &*ready.servable;
    let versions = asked(who, name, version)?.into_iter();
    let versions = versions.filter(|it| it.answers() || it.name() == servable.name());
    let versions = versions.map(|it| Label::from(&*it).version).collect();
    let tensor = |port: Port| TensorMetadata {
        datatype: port.datatype.map_or("INVALID", Datatype::name).to_owned(),
        name: port.name,
        shape: port.shape,
    };
    let [inputs, outputs] = ports(ready.plan()).map(|it| it.into_iter().map(tensor).collect());
    Ok(ModelMetadataResponse {
        name: servable.graph().to_owned(),
        versions,
        platform: PLATFORM.to_owned(),
        inputs,
        outputs,
    })
}

/// Describes the tensors of a graph in the form of Triton's model configuration.
pub(crate) fn config(ready: &Ready) -> ModelConfig {
    let plan = ready.plan();
    let [inputs, outputs] = ports(plan);
    let max_batch_size = tensors::max_batch_size(plan);
    // Shapes in the configuration omit the batch dimension.
    let batch = usize::from(max_batch_size > 0);
    let dims = |shape: Vec<i64>| shape.into_iter().skip(batch).collect();
    let input = |port: Port| ModelInput {
        name: port.name,
        data_type: data_type(port.datatype).into(),
        format: match port.format {
            ImageFormat::None => Format::None,
            ImageFormat::Nhwc => Format::Nhwc,
            ImageFormat::Nchw => Format::Nchw,
        }
        .into(),
        dims: dims(port.shape),
    };
    let output = |port: Port| ModelOutput {
        name: port.name,
        data_type: data_type(port.datatype).into(),
        dims: dims(port.shape),
    };
    ModelConfig {
        name: ready.servable.graph().to_owned(),
        platform: PLATFORM.to_owned(),
        backend: PLATFORM.to_owned(),
        max_batch_size: i32::try_from(max_batch_size).unwrap_or(i32::MAX),
        input: inputs.into_iter().map(input).collect(),
        output: outputs.into_iter().map(output).collect(),
        model_transaction_policy: Some(ModelTransactionPolicy {
            decoupled: !plan.answers_once(),
        }),
    }
}

fn data_type(datatype: Option<Datatype>) -> DataType {
    let named = |datatype: Datatype| DataType::from_str_name(&format!("TYPE_{datatype}"));
    match datatype {
        Some(Datatype::Bytes) => DataType::TypeString,
        other => other.and_then(named).unwrap_or(DataType::TypeInvalid),
    }
}

/// Serializes a [`DataType`] as its name, not its number.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
pub(crate) fn serialize_data_type<S: Serializer>(
    number: &i32,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let data_type = DataType::try_from(*number).unwrap_or_default();
    data_type.as_str_name().serialize(serializer)
}

/// Serializes a [`Format`] as its name, not its number.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
pub(crate) fn serialize_format<S: Serializer>(
    number: &i32,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let format = Format::try_from(*number).unwrap_or_default();
    format.as_str_name().serialize(serializer)
}

/// The name and the version of a graph.
#[derive(Clone)]
pub(crate) struct Label {
    pub(crate) name: String,
    pub(crate) version: String,
}

impl From<&Servable> for Label {
    fn from(servable: &Servable) -> Self {
        let version = servable.version().unwrap_or(VERSION).to_string();
        let name = servable.graph().to_owned();
        Self { name, version }
    }
}

/// Returns the graph of this name and version, if the caller may use it.
pub(crate) fn find(who: &RequestContext, name: &str, version: &str) -> Result<Arc<Servable>> {
    find_version(|name| who.find(name), name, version).map(|(_, graph)| graph)
}

/// Returns the versions that a question is about, in ascending order: the named one, or else all.
pub(crate) fn asked(who: &RequestContext, name: &str, version: &str) -> Result<Vec<Arc<Servable>>> {
    if !NO_VERSION.contains(&version) {
        return Ok(vec![find(who, name, version)?]);
    }
    let mut all = versions(who, name)?;
    all.sort_by_key(|it| it.version());
    Ok(all)
}

/// Returns the graph of this name and version, found by `find`, and the name that `find` needs.
pub(crate) fn find_version(
    find: impl Fn(&str) -> Result<ResolvedGraph>,
    name: &str,
    version: &str,
) -> Result<(String, Arc<Servable>)> {
    let name = versioned(&find(name)?.servable, name, version)?;
    let graph = find(&name)?.servable;
    Ok((name, graph))
}

/// Values of a version that clients send for no version.
const NO_VERSION: [&str; 2] = ["", "0"];

/// Returns the name by which a version of a graph is found.
fn versioned(graph: &Servable, name: &str, version: &str) -> Result<String> {
    if NO_VERSION.contains(&version) {
        return Ok(name.to_owned());
    }
    let number = version.parse::<u64>().ok();
    match (graph.version(), number) {
        (None, Some(VERSION)) => Ok(name.to_owned()),
        (Some(_), Some(number)) => Ok(format!("{}@{number}", graph.graph())),
        _ => {
            let shown = shortened(version, 50);
            let message = format!("the graph `{}` has no version `{shown}`", graph.graph());
            Err(Failure::new(Cause::UnknownModel, message).with_field("model_version"))
        }
    }
}
