//! The text of a model's graph, or of an ensemble's.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

use super::{
    super::{
        graph::quoted,
        tensors::{Streams, TensorPort, TensorStreams, formatted, head, onnx_node},
    },
    model::{MapEntry, ModelConfig, QueuePolicy, TensorConfig},
};

/// A model in a graph, with the streams of its inputs and outputs.
pub(super) struct PlacedModel<'a> {
    pub(super) model: &'a ModelConfig,
    pub(super) file: PathBuf,
    pub(super) inputs: TensorStreams,
    pub(super) outputs: TensorStreams,
}

/// Writes the graph of `config`, with a node for each of `placed`.
pub(super) fn text(
    file: &Path,
    config: &ModelConfig,
    mut streams: Streams,
    placed: &[PlacedModel<'_>],
) -> String {
    let port = |tensor: &TensorConfig| TensorPort {
        name: tensor.name.clone(),
        datatype: tensor.data_type.datatype(),
        shape: config.shape(tensor),
        format: tensor.format.order(),
        labels: tensor.labels.clone(),
    };
    let ports = [&config.input, &config.output].map(|it| it.iter().map(port).collect());
    let mut more = numbers(&[("max_batch_size", config.max_batch_size.into())]);
    if config.response_cache.enable {
        more.push_str("response_cache { }\n");
    }
    let head = head(&mut streams, &ports, &more);
    let mut text = format!("# Written for `{}`.\n\n{head}", file.display());
    for (position, placed) in placed.iter().enumerate() {
        text.push_str(&node(placed, &format!("model{position}")));
    }
    formatted(text)
}

/// Adds options to the node of a language model.
pub(super) fn with_options<'a>(
    graph: &str,
    options: impl Iterator<Item = (&'a str, &'a str)>,
) -> String {
    let mut text = String::new();
    for (name, value) in options {
        // Numbers and words of enums are written without quotes.
        let is_word =
            |it: char| it.is_ascii_digit() || it.is_ascii_uppercase() || "_.-".contains(it);
        let _ = match value {
            "true" | "false" => writeln!(text, "      {name}: {value}"),
            word if !word.is_empty() && word.chars().all(is_word) => {
                writeln!(text, "      {name}: {word}")
            }
            value => writeln!(text, "      {name}: {}", quoted(value)),
        };
    }
    let at = graph.find("models_path").unwrap_or(0);
    let line = graph[at..].find('\n');
    let line = line.map_or(graph.len(), |end| at + end + 1);
    format!("{}{text}{}", &graph[..line], &graph[line..])
}

/// Writes the node of a model. If it batches, a batching node contains it.
fn node(placed: &PlacedModel<'_>, resource: &str) -> String {
    let path = placed.file.to_string_lossy();
    let [ports, model] = onnx_node(&path, resource, [&placed.inputs, &placed.outputs]);
    if placed.model.max_batch_size == 0 {
        return format!("\nnode {{\n{ports}{model}}}\n");
    }
    let batching = batching(placed.model);
    format!(
        "\nnode {{\ncalculator: \"DynamicBatchCalculator\"\n{ports}node_options {{\n\
         [type.googleapis.com/graphmill.DynamicBatchCalculatorOptions] {{\nmodel {{\n{model}}}\n\
         {batching}}}\n}}\n}}\n"
    )
}

/// Writes the options of the batching node, without those that are not set.
fn batching(model: &ModelConfig) -> String {
    let rules = &model.dynamic_batching;
    let (delay, instances) = (rules.max_queue_delay_microseconds, model.instances());
    let instances = if instances > 1 { instances } else { 0 };
    let mut text = numbers(&[
        ("max_batch_size", model.max_batch_size.into()),
        ("max_queue_delay_microseconds", delay),
        ("instances", instances.into()),
        ("priority_levels", rules.priority_levels.into()),
        (
            "default_priority_level",
            rules.default_priority_level.into(),
        ),
    ]);
    for size in &rules.preferred_batch_size {
        let _ = writeln!(text, "preferred_batch_size: {size}");
    }
    text.push_str(&policy(&rules.default_queue_policy));
    for MapEntry { key, value } in &rules.priority_queue_policy {
        let value = policy(value);
        let _ = writeln!(
            text,
            "priority_queue_policy {{ key: {key} value {{ {value} }} }}"
        );
    }
    text
}

fn policy(policy: &QueuePolicy) -> String {
    let timeout = policy.default_timeout_microseconds;
    let mut text = numbers(&[
        ("default_timeout_microseconds", timeout),
        ("max_queue_size", policy.max_queue_size.into()),
    ]);
    if let Some(action) = policy.timeout_action {
        let action = format!("{action:?}").to_uppercase();
        let _ = writeln!(text, "timeout_action: {action}");
    }
    text
}

/// Writes the fields that are not 0.
fn numbers(fields: &[(&str, u64)]) -> String {
    let mut text = String::new();
    for (name, value) in fields.iter().filter(|(_, value)| *value > 0) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name}: {value}");
    }
    text
}
