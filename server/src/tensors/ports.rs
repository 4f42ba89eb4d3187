//! Streams of a graph as tensors. A stream carries tensors themselves, or one of a few types that
//! correspond to a tensor of one element.

use graphmill_calculators::tensor::{Datatype, Tensor, shown};
use graphmill_engine::{Packet, Plan, TypeInfo};

use super::{ImageFormat, ResponseCache, TensorDeclaration, TensorDeclarations};

/// Tag of streams that carry text if no node declares their type.
const TEXT: &str = "TEXT";

/// Suffix of the tags of streams that carry HTTP requests.
const HTTP_REQUEST: &str = "REQUEST_PAYLOAD";

/// The content of a stream that can be a tensor.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum StreamContent {
    Tensor,
    Text,
    Int,
    Float,
    Bool,
}

impl StreamContent {
    /// Returns the content of a stream that can have one of these types, or any type if there are
    /// none. `None` if it cannot be a tensor.
    fn from_types(types: &[TypeInfo], tag: &str) -> Option<Self> {
        if types.is_empty() {
            return match tag {
                TEXT => Some(Self::Text),
                _ if tag.ends_with(HTTP_REQUEST) => None,
                _ => Some(Self::Tensor),
            };
        }
        let known = [
            (TypeInfo::new::<Tensor>(), Self::Tensor),
            (TypeInfo::new::<String>(), Self::Text),
            (TypeInfo::new::<i64>(), Self::Int),
            (TypeInfo::new::<f64>(), Self::Float),
            (TypeInfo::new::<bool>(), Self::Bool),
        ];
        let mut known = known.into_iter();
        known.find_map(|(of, carried)| types.contains(&of).then_some(carried))
    }

    /// Returns the datatype of the tensor of one element that corresponds to the type.
    fn datatype(self) -> Option<Datatype> {
        match self {
            Self::Tensor => None,
            Self::Text => Some(Datatype::Bytes),
            Self::Int => Some(Datatype::Int64),
            Self::Float => Some(Datatype::Fp64),
            Self::Bool => Some(Datatype::Bool),
        }
    }
}

/// An input or output of a graph, as described to clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Port {
    /// Name of the tensor in requests.
    pub(crate) name: String,
    /// Name of the stream, which is the same unless the graph declares another.
    pub(crate) stream: String,
    /// Datatype of the tensor; `None` if unknown.
    pub(crate) datatype: Option<Datatype>,
    /// Shape, with -1 for any length; empty if unknown.
    pub(crate) shape: Vec<i64>,
    /// Order of the dimensions, for an image.
    pub(crate) format: ImageFormat,
}

impl Port {
    fn new(
        stream: &str,
        declared: Option<&TensorDeclaration>,
        carried: Option<StreamContent>,
    ) -> Self {
        let of_type = carried.and_then(StreamContent::datatype);
        let (datatype, shape) = match declared {
            Some(declared) => (Some(declared.datatype), declared.shape.clone()),
            None => (of_type, of_type.map_or(Vec::new(), |_| vec![1])),
        };
        let name = declared.map_or(stream, |declared| &declared.name);
        Self {
            name: name.to_owned(),
            stream: stream.to_owned(),
            datatype,
            shape,
            format: declared.map_or_else(ImageFormat::default, |declared| declared.format),
        }
    }
}

/// Returns the response cache of a graph, if it has one.
pub(crate) fn response_cache(plan: &Plan) -> Option<&ResponseCache> {
    let declared = plan.attached::<TensorDeclarations>()?;
    declared.response_cache.as_ref()
}

/// Returns the maximum number of rows in a request, if the first dimension of all tensors is the
/// batch dimension; otherwise 0.
pub(crate) fn max_batch_size(plan: &Plan) -> u32 {
    let declared = plan.attached::<TensorDeclarations>();
    declared.map_or(0, |declared| declared.max_batch_size)
}

/// Returns the declared names of the classes of an output; they can be fewer than the classes.
pub(crate) fn labels<'a>(plan: &'a Plan, output: &str) -> &'a [String] {
    let declared = plan.attached::<TensorDeclarations>();
    declared.map_or(&[], |declared| declared.labels(output))
}

/// Returns the inputs of a graph with their tensors.
pub(crate) fn inputs(plan: &Plan) -> Vec<Port> {
    let port = |name: &str| Port::new(name, declared_input(plan, name), carried(plan, name));
    plan.graph_inputs().map(port).collect()
}

/// Returns the outputs of a graph with their tensors.
pub(crate) fn outputs(plan: &Plan) -> Vec<Port> {
    let ports = plan.tagged_outputs().map(|(tag, name)| {
        let carried = match plan.output_types(name).unwrap_or_default() {
            // Of several possible types, the actual one is known only from a packet.
            [_, _, ..] => None,
            types => StreamContent::from_types(types, tag),
        };
        Port::new(name, declared_output(plan, name), carried)
    });
    ports.collect()
}

/// Returns the content of an input stream, if it can be a tensor.
fn carried(plan: &Plan, name: &str) -> Option<StreamContent> {
    let mut tagged = plan.tagged_inputs();
    let (tag, _) = tagged.find(|(_, other)| *other == name)?;
    StreamContent::from_types(plan.input_types(name).unwrap_or_default(), tag)
}

fn declared_input<'a>(plan: &'a Plan, stream: &str) -> Option<&'a TensorDeclaration> {
    plan.attached::<TensorDeclarations>()?.input(stream)
}

fn declared_output<'a>(plan: &'a Plan, stream: &str) -> Option<&'a TensorDeclaration> {
    plan.attached::<TensorDeclarations>()?.output(stream)
}

/// Returns the input stream with this name in requests.
pub(crate) fn input_stream<'a>(plan: &'a Plan, name: &str) -> Option<&'a str> {
    plan.graph_inputs()
        .find(|stream| input_name(plan, stream) == name)
}

/// Returns the name in requests of an input stream.
pub(crate) fn input_name<'a>(plan: &'a Plan, stream: &'a str) -> &'a str {
    declared_input(plan, stream).map_or(stream, |declared| &declared.name)
}

/// Returns the name in answers of an output stream.
pub(crate) fn output_name<'a>(plan: &'a Plan, stream: &'a str) -> &'a str {
    declared_output(plan, stream).map_or(stream, |declared| &declared.name)
}

/// Returns true if requests with tensors can enter a graph, and answers leave it. The error is
/// about its declarations.
pub(crate) fn is_served(plan: &Plan) -> Result<bool, String> {
    if let Some(declared) = plan.attached::<TensorDeclarations>() {
        declared.check(plan)?;
    }
    let mut inputs = plan.graph_inputs().peekable();
    let any = inputs.peek().is_some() && plan.graph_outputs().next().is_some();
    Ok(any && inputs.all(|name| carried(plan, name).is_some()))
}

/// Returns the first input stream that no tensor can enter, with its types.
pub(crate) fn foreign_input(plan: &Plan) -> Option<(&str, Vec<String>)> {
    let mut inputs = plan.graph_inputs();
    let name = inputs.find(|name| carried(plan, name).is_none())?;
    let types = plan.input_types(name).unwrap_or_default();
    Some((name, types.iter().map(|kind| kind.name()).collect()))
}

/// Returns true if an input stream carries tensors themselves.
pub(crate) fn takes_tensors(plan: &Plan, name: &str) -> bool {
    carried(plan, name) == Some(StreamContent::Tensor)
}

/// Converts a tensor to the packet of an input stream, without a timestamp. The error is about the
/// tensor.
pub(crate) fn to_packet(plan: &Plan, name: &str, tensor: Tensor) -> Result<Packet, String> {
    if let Some(declared) = plan.attached::<TensorDeclarations>()
        && let Some(described) = declared.input(name)
    {
        described.check(&tensor)?;
        declared.check_rows(&tensor)?;
    }
    let carried = carried(plan, name).ok_or("the stream carries no tensors")?;
    if let Some(datatype) = carried.datatype()
        && (tensor.datatype() != datatype || tensor.elements() != 1)
    {
        let (sent, shape) = (tensor.datatype(), shown(tensor.shape()));
        let why =
            format!("the stream takes {datatype} with one element, not {sent} of shape {shape}");
        return Err(why);
    }
    let bytes = tensor.data();
    Ok(match carried {
        StreamContent::Tensor => Packet::side(tensor),
        StreamContent::Text => {
            let element = tensor.strings().next().unwrap_or_default();
            let text = std::str::from_utf8(element).map_err(|_| "the text is not UTF-8")?;
            Packet::side(text.to_owned())
        }
        StreamContent::Bool => Packet::side(bytes.first().is_some_and(|byte| *byte != 0)),
        StreamContent::Int => Packet::side(i64::from_le_bytes(eight(bytes))),
        StreamContent::Float => Packet::side(f64::from_le_bytes(eight(bytes))),
    })
}

/// Returns the bytes of the only element, of eight bytes.
fn eight(bytes: &[u8]) -> [u8; 8] {
    bytes.first_chunk().copied().unwrap_or_default()
}

/// Converts an output packet to a tensor. The error is the type of a packet that cannot be one.
pub(crate) fn to_tensor(packet: Packet) -> Result<Tensor, TypeInfo> {
    let of = packet.type_info();
    if let Some(text) = packet.get::<String>() {
        return Ok(Tensor::from_strings([text]));
    }
    if let Some(number) = packet.get::<i64>() {
        return Ok(Tensor::scalar(Datatype::Int64, &number.to_le_bytes()));
    }
    if let Some(number) = packet.get::<f64>() {
        return Ok(Tensor::scalar(Datatype::Fp64, &number.to_le_bytes()));
    }
    if let Some(value) = packet.get::<bool>() {
        return Ok(Tensor::scalar(Datatype::Bool, &[u8::from(*value)]));
    }
    packet.into_value::<Tensor>().ok_or(of)
}
