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
        self.input
            .iter()
            .find(|described| described.stream() == name)
    }

    /// Returns the declaration of an output stream.
    pub(super) fn output(&self, name: &str) -> Option<&TensorDeclaration> {
        self.output
            .iter()
            .find(|described| described.stream() == name)
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

    /// Returns the first output that has a `format`, which only inputs can have.
    pub(super) fn formatted_output(&self) -> Option<&str> {
        let mut outputs = self.output.iter();
        let found = outputs.find(|it| it.format != ImageFormat::None);
        found.map(|it| it.name.as_str())
    }

    /// Returns the first input that has labels, which are for outputs.
    pub(super) fn labeled_input(&self) -> Option<&str> {
        let mut inputs = self.input.iter();
        let found = inputs.find(|it| !it.label.is_empty());
        found.map(|it| it.name.as_str())
    }

    /// Returns the names of the classes of the output of this name in requests.
    pub(super) fn labels(&self, name: &str) -> &[String] {
        let mut outputs = self.output.iter();
        let found = outputs.find(|described| described.name == name);
        found.map_or(&[], |described| described.label.as_slice())
    }

    /// Returns the declared input streams and output streams.
    pub(super) fn streams(&self) -> [impl Iterator<Item = &str>; 2] {
        [&self.input, &self.output].map(|all| all.iter().map(TensorDeclaration::stream))
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
    pub(super) fn has_rows(&self) -> bool {
        self.shape.first() == Some(&-1)
    }

    /// Checks that a tensor matches its declaration.
    pub(super) fn check(&self, tensor: &Tensor) -> Result<(), String> {
        if tensor.datatype() != self.datatype {
            return Err(format!(
                "the tensor is {}, but the graph declares {}",
                tensor.datatype(),
                self.datatype
            ));
        }
        let fits = self.shape.len() == tensor.shape().len()
            && self
                .shape
                .iter()
                .zip(tensor.shape())
                .all(|(wanted, length)| {
                    *wanted < 0 || usize::try_from(*wanted).is_ok_and(|wanted| wanted == *length)
                });
        if fits {
            return Ok(());
        }
        Err(format!(
            "the tensor's shape is {}, but the graph declares {}",
            shown(tensor.shape()),
            shown(&self.shape)
        ))
    }
}
