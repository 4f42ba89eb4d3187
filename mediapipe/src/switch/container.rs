//! `SwitchContainer`: runs one of several nodes at a time.

use graphmill_engine::{
    Container, Contract, Payload, codes::streams::BAD_PORTS, contract::Group, register_container,
};
use graphmill_grammar::{
    Diagnostic, GraphConfig, Node, OptionsMessage, PortSpec, Span,
    ast::{Field, Message, ValueKind},
    graph::lower_node,
};
use schemars::JsonSchema;
use serde::{Deserialize, de::IgnoredAny};

use super::wiring::{ENABLE, SELECT, Wiring, sequencer};

/// Options of a `SwitchContainer` node, and of the nodes that it is expanded to.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SwitchContainerOptions {
    /// Nodes to choose from, each a calculator or subgraph with its options. They have no streams:
    /// theirs are those of the container.
    #[schemars(with = "Vec<serde_json::Map<String, serde_json::Value>>")]
    pub contained_node: Vec<IgnoredAny>,
    /// Number of the node that is chosen at first.
    pub select: Option<i32>,
    /// Starts with node 1 if true, with node 0 if false.
    pub enable: Option<bool>,
    /// Passes on the packets of all inputs together instead of each as it comes.
    pub synchronize_io: bool,
    /// Applies a choice when it comes, instead of when the other inputs are known up to its
    /// timestamp.
    pub async_selection: bool,
    /// Inputs whose timestamps order the choices, as `TAG` or `TAG:index`: a choice holds after the
    /// newest of them. Default: all inputs.
    pub tick_input_stream: Vec<String>,
}

impl SwitchContainerOptions {
    pub(super) fn refuse_contained(&self, c: &mut Contract) {
        if !self.contained_node.is_empty() {
            c.error("only a `SwitchContainer` contains nodes: `contained_node` has no effect here");
        }
    }
}

/// Runs one of the nodes in its options: the packets of its inputs go to the chosen node, and that
/// node's outputs come out. `SELECT` chooses by number, `ENABLE` between nodes 0 and 1. Each is a
/// stream, a side packet or an option, and without any of them node 0 is chosen. A choice on a
/// stream holds for the packets after it. The other inputs, outputs and side packets are those of
/// each contained node.
///
/// ```pbtxt
/// input_stream: "frames"
/// input_stream: "thorough"
/// output_stream: "result"
/// node {
///   calculator: "SwitchContainer"
///   input_stream: "ENABLE:thorough"
///   input_stream: "frames"
///   output_stream: "result"
///   options {
///     [mediapipe.SwitchContainerOptions.ext] {
///       contained_node { calculator: "PassThroughCalculator" }
///       contained_node {
///         calculator: "GateCalculator"
///         options { [mediapipe.GateCalculatorOptions.ext] { allow: true } }
///       }
///     }
///   }
/// }
/// ```
pub struct SwitchContainer;

impl Container for SwitchContainer {
    const NAME: &'static str = "SwitchContainer";
    const DOC: &'static str = "Runs one of the nodes in its options at a time.";
    type Options = SwitchContainerOptions;

    fn contract(c: &mut Contract) {
        c.optional::<i64>("SELECT");
        c.optional::<bool>("ENABLE");
        c.optional_inputs::<dyn Payload>("");
        c.optional_outputs::<dyn Payload>("");
        c.optional_side::<i64>("SELECT");
        c.optional_side::<bool>("ENABLE");
        c.optional_sides::<dyn Payload>("");
        c.optional_output_sides::<dyn Payload>("");
    }

    fn graph(
        node: &Node,
        options: &SwitchContainerOptions,
        given: Option<&OptionsMessage>,
    ) -> (Option<GraphConfig>, Vec<Diagnostic>) {
        let mut found = check(node, options, given);
        let contained = contained_nodes(given, &mut found);
        if contained.is_empty() {
            let place = given.map_or(node.place(), |given| given.name.span);
            found.push(
                Diagnostic::error(&BAD_PORTS, place, "`SwitchContainer` contains no node")
                    .label("nothing to choose from")
                    .hint("add `contained_node { calculator: \"..\" }` to its options, once for each choice"),
            );
            return (None, found);
        }
        let wiring = Wiring::new(node);
        let ticks = wiring.ticks(options, given, &mut found);
        let mut graph = wiring.border();
        for (tag, gate) in [("SELECT", SELECT), ("ENABLE", ENABLE)] {
            if let Some(port) = port(&node.input_stream, tag) {
                graph.node.push(sequencer(port, gate, &ticks, options));
            }
        }
        let settings = given.map(without_nodes);
        let (demux, mux) = wiring.ends(contained.len(), settings.as_ref());
        graph.node.extend([demux, mux]);
        for (channel, inner) in contained.into_iter().enumerate() {
            graph.node.push(wiring.connect(inner, channel));
        }
        (Some(graph), found)
    }
}
register_container!(SwitchContainer);

pub(super) fn port<'a>(ports: &'a [PortSpec], tag: &str) -> Option<&'a PortSpec> {
    ports.iter().find(|port| port.tag.as_str() == tag)
}

/// Reports choices that contradict each other.
fn check(
    node: &Node,
    options: &SwitchContainerOptions,
    given: Option<&OptionsMessage>,
) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let mut both = |what: &str, first: Span, second: Span| {
        let message = format!("`SwitchContainer` has both {what}");
        found.push(
            Diagnostic::error(&BAD_PORTS, second, message)
                .label("the second choice")
                .also(first, "the first choice")
                .hint(
                    "keep one of them: `SELECT` chooses by number, `ENABLE` between nodes 0 and 1",
                ),
        );
    };
    let groups = [
        ("input streams", &node.input_stream),
        ("side packets", &node.input_side_packet),
    ];
    for (noun, ports) in groups {
        if let (Some(select), Some(enable)) = (port(ports, "SELECT"), port(ports, "ENABLE")) {
            both(
                &format!("{noun} `SELECT` and `ENABLE`"),
                select.span,
                enable.span,
            );
        }
    }
    if options.select.is_some() && options.enable.is_some() {
        let place = |name| option(given, name).map_or(node.place(), |field| field.name.span);
        both(
            "options `select` and `enable`",
            place("select"),
            place("enable"),
        );
    }
    found
}

pub(super) fn option<'a>(given: Option<&'a OptionsMessage>, name: &'a str) -> Option<&'a Field> {
    given?.body.fields_named(name).next()
}

/// Returns the nodes in the options, without their streams.
fn contained_nodes(given: Option<&OptionsMessage>, found: &mut Vec<Diagnostic>) -> Vec<Node> {
    let mut nodes = Vec::new();
    let fields = given.map(|given| given.body.fields_named("contained_node"));
    for field in fields.into_iter().flatten() {
        for message in messages(&field.value.value) {
            let (inner, problems) = lower_node(message, field.name.span);
            found.extend(problems);
            refuse_streams(&inner, found);
            nodes.push(inner);
        }
    }
    nodes
}

fn messages(value: &ValueKind) -> Vec<&Message> {
    match value {
        ValueKind::Message(message) => vec![message],
        ValueKind::List(values) => values
            .iter()
            .flat_map(|value| messages(&value.value))
            .collect(),
        _ => Vec::new(),
    }
}

fn refuse_streams(inner: &Node, found: &mut Vec<Diagnostic>) {
    let groups = [
        (Group::Inputs, &inner.input_stream),
        (Group::Outputs, &inner.output_stream),
        (Group::InputSides, &inner.input_side_packet),
        (Group::OutputSides, &inner.output_side_packet),
    ];
    for (group, ports) in groups {
        if let Some(port) = ports.first() {
            let message = format!("a contained node has no {} of its own", group.noun());
            found.push(
                Diagnostic::error(&BAD_PORTS, port.span, message)
                    .label("not wired here")
                    .hint("its ports are those of the `SwitchContainer`: write them there"),
            );
        }
    }
}

/// Returns the options for the two ends of the switch, which contain no nodes.
fn without_nodes(given: &OptionsMessage) -> OptionsMessage {
    let mut settings = given.clone();
    let is_setting = |field: &Field| field.name.as_plain() != Some("contained_node");
    settings.body.fields.retain(is_setting);
    settings
}
