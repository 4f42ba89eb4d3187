//! Tensors that a graph declares in its options:
//!
//! ```pbtxt
//! graph_options {
//!   [type.googleapis.com/graphmill.TensorOptions] {
//!     input { name: "image" datatype: FP32 shape: [-1, 3, 224, 224] }
//!     output { name: "scores" datatype: FP32 shape: [-1, 1000] }
//!   }
//! }
//! ```

use graphmill_calculators::tensor::{Datatype, Tensor, shown};
use graphmill_engine::Plan;
use graphmill_grammar::{Diagnostic, GraphConfig, de::from_options};
use serde::Deserialize;

use super::ResponseCache;

/// Name of the options' type.
const TYPE: &str = "TensorOptions";

/// The declared tensors of a graph.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct TensorDeclarations {
    input: Vec<TensorDeclaration>,
    output: Vec<TensorDeclaration>,
    /// Maximum number of rows in a request, if the first dimension of all tensors is the batch
    /// dimension; otherwise 0.
    pub(super) max_batch_size: u32,
    /// Response cache, if the graph declares one.
    pub(crate) response_cache: Option<ResponseCache>,
}

/// The declared tensor of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TensorDeclaration {
    /// Name of the tensor in requests.
    pub(crate) name: String,
    /// Name of the stream, if it differs.
    #[serde(default)]
    stream: String,
    /// Type of the tensor's elements.
    pub(crate) datatype: Datatype,
    /// Dimensions; -1 for any length.
    #[serde(default)]
    pub(crate) shape: Vec<i64>,
    /// Order of the dimensions of an image input, for clients.
    #[serde(default)]
    pub(crate) format: ImageFormat,
    /// Names of the classes of an output that has a value for each class.
    #[serde(default)]
    label: Vec<String>,
}

/// The order of an image's dimensions.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum ImageFormat {
    #[default]
    None,
    Nhwc,
    Nchw,
}

impl TensorDeclarations {
    /// Reads the declarations of a graph; empty if it has no such options.
    pub(crate) fn read(graph: &GraphConfig) -> Result<Self, Vec<Diagnostic>> {
        let mut all = graph.all_options();
        match all.find(|options| options.short_name() == TYPE) {
            Some(options) => from_options(options),
            None => Ok(Self::default()),
        }
    }

    /// Returns the declaration of an input stream.
    pub(super) fn input(&self, name: &str) -> Option<&TensorDeclaration> {
        self.input.iter().find(|it| it.stream() == name)
    }

    /// Returns the declaration of an output stream.
    pub(super) fn output(&self, name: &str) -> Option<&TensorDeclaration> {
        self.output.iter().find(|it| it.stream() == name)
    }

    /// Refuses a tensor with more rows than a request may have.
    pub(super) fn check_rows(&self, tensor: &Tensor) -> Result<(), String> {
        let most = self.max_batch_size as usize;
        match tensor.shape().first() {
            Some(rows) if most > 0 && *rows > most => Err(format!(
                "the tensor has {rows} rows, but the graph takes at most {most} (`max_batch_size`)"
            )),
            _ => Ok(()),
        }
    }

    /// Refuses declarations that do not fit the graph.
    pub(super) fn check(&self, plan: &Plan) -> Result<(), String> {
        if let Some(output) = self.output.iter().find(|it| it.format != ImageFormat::None) {
            let name = &output.name;
            return Err(format!(
                "TensorOptions has a `format` for the output `{name}`, but only inputs can have one"
            ));
        }
        if let Some(input) = self.input.iter().find(|it| !it.label.is_empty()) {
            let name = &input.name;
            return Err(format!(
                "TensorOptions has a `label` of the input `{name}`, but only outputs can have labels"
            ));
        }
        let inputs = self.input.iter().map(|it| ("input", it.stream()));
        let inputs = inputs.filter(|(_, name)| !plan.graph_inputs().any(|it| it == *name));
        let outputs = self.output.iter().map(|it| ("output", it.stream()));
        let outputs = outputs.filter(|(_, name)| !plan.graph_outputs().any(|it| it == *name));
        if let Some((side, name)) = inputs.chain(outputs).next() {
            return Err(format!(
                "TensorOptions declares the {side} `{name}`, but the graph has no {side} stream of that name"
            ));
        }
        let inputs = plan.graph_inputs().map(|name| (name, self.input(name)));
        let outputs = plan.graph_outputs().map(|name| (name, self.output(name)));
        let mut batched = inputs.chain(outputs).filter(|_| self.max_batch_size > 0);
        if let Some((name, _)) = batched.find(|(_, it)| it.is_none_or(|it| !it.has_rows())) {
            return Err(format!(
                "TensorOptions has `max_batch_size`, but declares no shape of `{name}` that begins with -1"
            ));
        }
        Ok(())
    }

    /// Returns the names of the classes of the output of this name in requests.
    pub(super) fn labels(&self, name: &str) -> &[String] {
        let mut outputs = self.output.iter();
        let found = outputs.find(|described| described.name == name);
        found.map_or(&[], |described| described.label.as_slice())
    }
}

impl TensorDeclaration {
    fn stream(&self) -> &str {
        match self.stream.as_str() {
            "" => &self.name,
            stream => stream,
        }
    }

    /// Returns true if the first dimension can be a batch dimension.
    fn has_rows(&self) -> bool {
        self.shape.first() == Some(&-1)
    }

    /// Checks that a tensor matches its declaration.
    pub(super) fn check(&self, tensor: &Tensor) -> Result<(), String> {
        let (sent, declared) = (tensor.datatype(), self.datatype);
        if sent != declared {
            let why = format!("the tensor is {sent}, but the graph declares {declared}");
            return Err(why);
        }
        let (sent, declared) = (tensor.shape(), &self.shape);
        let mut sides = declared.iter().zip(sent);
        let fits = sides.all(|(side, length)| *side < 0 || usize::try_from(*side) == Ok(*length));
        if fits && sent.len() == declared.len() {
            return Ok(());
        }
        let (sent, declared) = (shown(sent), shown(declared));
        let why = format!("the tensor's shape is {sent}, but the graph declares {declared}");
        Err(why)
    }
}
