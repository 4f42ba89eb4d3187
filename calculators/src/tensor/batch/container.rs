//! `DynamicBatchCalculator`: batches any node that computes tensors.

use graphmill_engine::{
    Container, Contract, codes::streams::BAD_PORTS, contract::Group, register_container,
};
use graphmill_grammar::{
    Diagnostic, GraphConfig, Node, OptionsMessage, PortSpec, Spanned,
    ast::{Field, Message, NameKind, ValueKind},
    graph::lower_node,
};
use schemars::JsonSchema;
use serde::{Deserialize, de::IgnoredAny};

use super::graph::NodeModel;
use super::options::DynamicBatchOptions;
use super::source::BatchedModel;
use crate::tensor::Tensor;

/// Name of the side packet with the batcher, inside of the expanded graph.
const BATCHER: &str = "batcher";

/// Nodes whose model already batches the requests of all sessions, with the options that limit its
/// batches.
const BATCHED_BY_ITSELF: [(&str, &str); 4] = [
    (
        "LLMCalculator",
        "`max_num_seqs` and `max_num_batched_tokens`",
    ),
    (
        "HttpLLMCalculator",
        "`max_num_seqs` and `max_num_batched_tokens`",
    ),
    ("EmbedCalculator", "`max_num_batched_tokens`"),
    ("RankCalculator", "`max_num_batched_tokens`"),
];

/// A node in the options of [`DynamicBatchContainer`].
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct NodeMessage(
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")] pub Option<IgnoredAny>,
);

/// Batches the requests of all sessions for one node, `model` in the options. The tensors of
/// several requests are joined along dimension 0, and the node is called once for all of them. Its
/// streams are those of the `DynamicBatchCalculator`. Each batch is a new session of the node, so
/// the node cannot keep state between calls.
///
/// ```pbtxt
/// input_stream: "pixels"
/// output_stream: "scores"
/// node {
///   calculator: "DynamicBatchCalculator"
///   input_stream: "pixels"
///   output_stream: "scores"
///   node_options {
///     [type.googleapis.com/graphmill.DynamicBatchCalculatorOptions] {
///       model { calculator: "PassThroughCalculator" }
///       max_batch_size: 32
///       preferred_batch_size: [8, 16]
///       max_queue_delay_microseconds: 500
///       instances: 2
///     }
///   }
/// }
/// ```
pub struct DynamicBatchContainer;

impl Container for DynamicBatchContainer {
    const NAME: &'static str = "DynamicBatchCalculator";
    const DOC: &'static str = "Batches the requests of all sessions for a node in its options.";
    type Options = DynamicBatchOptions<NodeMessage>;

    fn contract(c: &mut Contract) {
        c.inputs::<Tensor>("");
        c.outputs::<Tensor>("");
    }

    fn graph(
        node: &Node,
        options: &Self::Options,
        given: Option<&OptionsMessage>,
    ) -> (Option<GraphConfig>, Vec<Diagnostic>) {
        let mut found = Vec::new();
        let model = given.and_then(|given| {
            let field = given.body.fields_named("model").next()?;
            match &field.value.value {
                ValueKind::Message(message) => Some((given, field, message)),
                _ => None,
            }
        });
        let Some((given, field, contained)) = model else {
            let place = given.map_or(node.place(), |given| given.name.span);
            found.push(
                Diagnostic::error(&BAD_PORTS, place, "`DynamicBatchCalculator` has no `model`")
                    .label("nothing to compute with")
                    .hint("add `model { calculator: \"..\" }` to its options: the node whose calls are batched"),
            );
            return (None, found);
        };
        let (inner, problems) = lower_node(contained, field.name.span);
        found.extend(problems);
        refuse_streams(&inner, &mut found);
        refuse_batched_by_itself(&inner, &mut found);
        refuse_unknown_inputs(node, options, given, &mut found);
        if found.iter().any(Diagnostic::is_error) {
            return (None, found);
        }
        let label = inner.calculator.as_ref().map_or("", |it| it.as_str());
        let graph = inner_graph(node, &inner).to_string();
        let model = vec![
            plain("label", ValueKind::text(label)),
            plain("graph", ValueKind::text(graph)),
        ];
        let mut settings = with_model(given, field, message(model));
        let inputs = node.input_stream.iter();
        let inputs = inputs.map(|port| described(port, options));
        settings.body.fields.extend(inputs);
        let place = node.place();
        let batcher = PortSpec {
            tag: Spanned::new("BATCHER".to_owned(), place),
            index: 0,
            name: Spanned::new(BATCHER.to_owned(), place),
            span: place,
        };
        let inside = Node {
            calculator: Some(Spanned::new(NodeModel::NAME.to_owned(), place)),
            input_stream: untagged(&node.input_stream),
            output_stream: untagged(&node.output_stream),
            input_side_packet: vec![batcher],
            node_options: vec![settings],
            max_in_flight: node.max_in_flight,
            ..Node::default()
        };
        let graph = GraphConfig {
            input_stream: node.input_stream.clone(),
            output_stream: node.output_stream.clone(),
            node: vec![inside],
            ..GraphConfig::default()
        };
        (Some(graph), found)
    }
}
register_container!(DynamicBatchContainer);

/// Creates the graph of the node alone, with the streams of the outer one.
fn inner_graph(outer: &Node, inner: &Node) -> GraphConfig {
    let mut inner = inner.clone();
    inner.input_stream.clone_from(&outer.input_stream);
    inner.output_stream.clone_from(&outer.output_stream);
    GraphConfig {
        input_stream: untagged(&outer.input_stream),
        output_stream: untagged(&outer.output_stream),
        node: vec![inner],
        ..GraphConfig::default()
    }
}

/// Returns the options with another model and without the inputs.
fn with_model(given: &OptionsMessage, model: &Field, other: ValueKind) -> OptionsMessage {
    let mut options = given.clone();
    options
        .body
        .fields
        .retain(|field| !matches!(field.name.as_plain(), Some("model" | "input")));
    options.body.fields.push(Field {
        value: Spanned::new(other, model.value.span),
        ..model.clone()
    });
    options
}

/// Returns the description of an input from the options, or one with only its name.
fn described(port: &PortSpec, options: &DynamicBatchOptions<NodeMessage>) -> Field {
    let name = port.name.as_str();
    let mut fields = vec![plain("name", ValueKind::text(name))];
    if let Some(known) = options.input.iter().find(|it| it.name == name) {
        let datatype = known.datatype.map(|it| ValueKind::word(it.name()));
        fields.extend(datatype.map(|datatype| plain("datatype", datatype)));
        let lengths = known.shape.iter().copied().map(ValueKind::integer);
        fields.extend(lengths.map(|length| plain("shape", length)));
    }
    plain("input", message(fields))
}

fn plain(name: &str, value: ValueKind) -> Field {
    Field::new(NameKind::Plain(name.to_owned()), value)
}

fn message(fields: Vec<Field>) -> ValueKind {
    ValueKind::Message(Message {
        fields,
        ..Message::empty()
    })
}

fn refuse_unknown_inputs(
    node: &Node,
    options: &DynamicBatchOptions<NodeMessage>,
    given: &OptionsMessage,
    found: &mut Vec<Diagnostic>,
) {
    let place = given.body.fields_named("input").next();
    let place = place.map_or(given.name.span, |field| field.name.span);
    for described in &options.input {
        let name = &described.name;
        let mut ports = node.input_stream.iter();
        if !ports.any(|port| port.name.as_str() == name) {
            let message =
                format!("`input` describes `{name}`, which is not an input stream of the node");
            found.push(Diagnostic::error(&BAD_PORTS, place, message).label("no such input"));
        }
    }
}

/// Returns the same streams without tags, in order.
fn untagged(ports: &[PortSpec]) -> Vec<PortSpec> {
    let ports = ports.iter().zip(0..).map(|(port, index)| PortSpec {
        tag: Spanned::new(String::new(), port.tag.span),
        index,
        ..port.clone()
    });
    ports.collect()
}

fn refuse_streams(inner: &Node, found: &mut Vec<Diagnostic>) {
    let groups = [
        (Group::Inputs, &inner.input_stream),
        (Group::Outputs, &inner.output_stream),
    ];
    for (group, ports) in groups {
        if let Some(port) = ports.first() {
            let message = format!("the node of `model` has no {} of its own", group.noun());
            found.push(
                Diagnostic::error(&BAD_PORTS, port.span, message)
                    .label("not wired here")
                    .hint(
                        "its streams are those of the `DynamicBatchCalculator`: write them there",
                    ),
            );
        }
    }
}

fn refuse_batched_by_itself(inner: &Node, found: &mut Vec<Diagnostic>) {
    let Some(calculator) = &inner.calculator else {
        return;
    };
    let mut known = BATCHED_BY_ITSELF.iter();
    if let Some((name, options)) = known.find(|(name, _)| *name == calculator.as_str()) {
        let message =
            format!("`{name}` cannot be batched: its engine batches all requests already");
        found.push(
            Diagnostic::error(&BAD_PORTS, calculator.span, message)
                .label("batches by itself")
                .hint(format!("use the node alone; {options} of its own options say how much is computed at once")),
        );
    }
}
