//! `TopLabelsCalculator`: labels of the highest scores.

use std::path::PathBuf;
use std::sync::Arc;

use graphmill_engine::{
    Calculator, Contract, Cx, Error, FileSource, Flow, Group, In, OpenCx, Out, Res, Resource,
    Result, Run, register,
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Datatype, Tensor, shown};

/// Options of a `TopLabelsCalculator` node.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TopLabelsOptions {
    /// Labels, in the order of the scores.
    pub label: Vec<String>,
    /// File with the labels instead, one per line, relative to the graph's folder. Requires the
    /// side packet `LABELS`, whose name identifies the labels.
    pub labels_path: String,
    /// Number of labels for each row of scores, highest first. Default: 1.
    #[schemars(range(min = 1))]
    pub top_k: usize,
    /// Applies softmax to the scores, so that they add up to 1. Use it for models that do not end
    /// in softmax.
    pub softmax: bool,
}

impl Default for TopLabelsOptions {
    fn default() -> Self {
        Self {
            label: Vec::new(),
            labels_path: String::new(),
            top_k: 1,
            softmax: false,
        }
    }
}

/// Lines of a file of labels, shared by all graphs that name it.
#[derive(Debug)]
pub struct Labels(Vec<String>);

impl Resource for Labels {
    type Spec = PathBuf;

    fn resolve(path: PathBuf, files: &dyn FileSource) -> Result<PathBuf> {
        Ok(files.resolve(&path))
    }

    fn check(path: &PathBuf, files: &dyn FileSource) -> Result<()> {
        Self::load(path, files).map(drop)
    }

    fn load(path: &PathBuf, files: &dyn FileSource) -> Result<Self> {
        let unreadable = |error: &dyn std::fmt::Display| {
            let message = format!("cannot read the labels `{}`: {error}", path.display());
            Error::not_found(message).with_field("labels_path")
        };
        let bytes = files.read(path).map_err(|error| unreadable(&error))?;
        let text = String::from_utf8(bytes).map_err(|error| unreadable(&error))?;
        let labels: Vec<String> = text.lines().map(|line| line.trim().to_owned()).collect();
        if labels.is_empty() {
            return Err(unreadable(&"it is empty"));
        }
        Ok(Self(labels))
    }
}

/// Finds the labels of the highest scores, and these scores.
///
/// Scores are FP32 of shape `[labels]`, or `[rows, labels]` for a batch. The outputs have `top_k`
/// entries in their last dimension. NaN counts as the lowest score.
///
/// ```pbtxt
/// input_stream: "scores"
/// output_stream: "label"
/// output_stream: "score"
/// node {
///   calculator: "TopLabelsCalculator"
///   input_stream: "SCORES:scores"
///   output_stream: "LABELS:label"
///   output_stream: "SCORES:score"
///   node_options {
///     [type.googleapis.com/graphmill.TopLabelsCalculatorOptions] { label: ["cat", "dog"] softmax: true }
///   }
/// }
/// ```
pub struct TopLabels {
    labels: Arc<Labels>,
    top_k: usize,
    softmax: bool,
}

/// The streams of a [`TopLabels`] node, and the labels of its file.
#[derive(Clone)]
pub struct TopLabelsPorts {
    scores: In<Tensor>,
    top_labels: Out<Tensor>,
    top_scores: Out<Tensor>,
    labels: Res<Labels>,
}

impl Calculator for TopLabels {
    const NAME: &'static str = "TopLabelsCalculator";
    const DOC: &'static str = "Finds the labels of the highest scores.";
    type Options = TopLabelsOptions;
    type Ports = TopLabelsPorts;

    fn contract(c: &mut Contract, options: &TopLabelsOptions) -> TopLabelsPorts {
        c.run(Run::Offload("cpu"));
        c.parallel();
        let from_file = !options.labels_path.is_empty();
        if from_file != options.label.is_empty() {
            c.error("expected labels in either `label` or `labels_path`");
        }
        if from_file && c.count(Group::InputSides, "LABELS") == 0 {
            c.error(
                "`labels_path` needs a name for the labels: `input_side_packet: \"LABELS:labels\"`",
            );
        }
        let spec = from_file.then(|| PathBuf::from(&options.labels_path));
        TopLabelsPorts {
            scores: c.input("SCORES"),
            top_labels: c.output("LABELS"),
            top_scores: c.optional_output("SCORES"),
            labels: c.optional_resource("LABELS", spec),
        }
    }

    fn open(options: &TopLabelsOptions, io: TopLabelsPorts, cx: &mut OpenCx<'_>) -> Result<Self> {
        let labels = cx.optional_resource(io.labels);
        Ok(Self {
            labels: labels.unwrap_or_else(|| Arc::new(Labels(options.label.clone()))),
            top_k: options.top_k,
            softmax: options.softmax,
        })
    }

    fn process(&mut self, io: TopLabelsPorts, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(scores) = cx.get(io.scores) {
            let (labels, scores) = self.top(scores)?;
            cx.emit(io.top_labels, labels);
            cx.emit(io.top_scores, scores);
        }
        Ok(Flow::Continue)
    }
}
register!(TopLabels);

impl TopLabels {
    fn top(&self, scores: &Tensor) -> Result<(Tensor, Tensor)> {
        let names = &self.labels.0;
        let width = names.len();
        let rows = match (scores.datatype(), scores.shape()) {
            (Datatype::Fp32, [rows @ .., length]) if rows.len() < 2 && *length == width => rows,
            (datatype, shape) => {
                return Err(Error::invalid(format!(
                    "expected scores of {width} labels, FP32 of shape [{width}] or [-1, {width}], but the tensor is {datatype} of shape {}",
                    shown(shape)
                )));
            }
        };
        let top_k = self.top_k.min(width);
        let (mut top_labels, mut top_scores) = (Vec::new(), Vec::new());
        let numbers = scores.data().as_chunks().0.iter();
        let numbers: Vec<f32> = numbers.map(|bytes| f32::from_le_bytes(*bytes)).collect();
        for row in numbers.chunks_exact(width) {
            let highest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let sum: f32 = row.iter().map(|score| (score - highest).exp()).sum();
            // The larger one of NaN and a number is the number.
            let rank = |index: &usize| row[*index].max(f32::NEG_INFINITY);
            let mut order: Vec<usize> = (0..width).collect();
            // Of equal scores, the first one comes first.
            order.sort_by(|a, b| rank(b).total_cmp(&rank(a)));
            for &index in &order[..top_k] {
                let score = row[index];
                let share = (score - highest).exp() / sum;
                top_labels.push(names[index].as_str());
                top_scores
                    .extend_from_slice(&if self.softmax { share } else { score }.to_le_bytes());
            }
        }
        let shape = [rows, &[top_k]].concat();
        let labels = Tensor::from_strings(top_labels).into_data();
        let made = |datatype, data: bytes::Bytes| {
            Tensor::new(datatype, shape.clone(), data)
                .map_err(|error| Error::internal(error.to_string()))
        };
        Ok((
            made(Datatype::Bytes, labels)?,
            made(Datatype::Fp32, top_scores.into())?,
        ))
    }
}
