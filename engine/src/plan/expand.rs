//! Expansion: nodes that name a subgraph are replaced by the subgraph's nodes.
//!
//! Streams, side packets and nodes inside a subgraph get the outer node's name as a prefix; what is at the subgraph's
//! border gets the outer names, matched by tag and index. A border port that the outer node leaves unconnected is taken
//! off the inner nodes. The primary inner node gets what the outer node says about a calculator.

use std::collections::HashMap;

use graphmill_grammar::{
    Diagnostic, GraphConfig, Node, PortSpec, SourceMap, Span, Spanned, diag,
    graph::{Extensions, OptionsMessage},
    parse_graph,
};

use crate::{
    codes::calculators,
    container::ContainerRegistration,
    contract::{Contract, Group},
    policy::Policy,
    registry::Subgraph,
};

use super::{
    Place, contracts,
    draft::{Draft, DraftNode},
};

/// A node on its way through expansion.
struct Unexpanded {
    config: Node,
    within: Vec<String>,
}

/// A subgraph's graph, once parsed; none if it has errors, which have been reported.
type Parsed = HashMap<String, Option<GraphConfig>>;

pub(super) fn expand(draft: &mut Draft<'_>, sources: &mut SourceMap) {
    let mut parsed = Parsed::new();
    let within = Vec::new;
    let mut nodes: Vec<Unexpanded> = draft
        .graph
        .node
        .iter()
        .map(|config| Unexpanded {
            config: config.clone(),
            within: within(),
        })
        .collect();
    loop {
        let names = canonical_names(&nodes);
        let (mut plain, mut expanded, mut found) = (Vec::new(), Vec::new(), false);
        for (node, name) in nodes.into_iter().zip(names) {
            let written = node
                .config
                .calculator
                .as_ref()
                .map_or("", |name| name.as_str());
            let (registry, package) = (&draft.environment.registry, draft.package());
            if let Some(container) = registry.container(written, package) {
                found = true;
                match unpack(&node, &name, container, &mut draft.diagnostics) {
                    Some(nodes) => expanded.extend(nodes),
                    None => draft.incomplete = true,
                }
                continue;
            }
            let Some(subgraph) = registry.subgraph(written, package).cloned() else {
                plain.push(node);
                continue;
            };
            found = true;
            if node.within.contains(&subgraph.name.to_string()) {
                draft.report(recursion(&node, &subgraph));
                continue;
            }
            let inner = parsed
                .entry(subgraph.name.to_string())
                .or_insert_with(|| parse(&subgraph, sources, &mut draft.diagnostics));
            if let Some(inner) = inner {
                let part = Part {
                    name: &subgraph.name,
                    primary: subgraph.primary.as_deref(),
                    reads_options: false,
                };
                expanded.extend(inline(&node, &name, &part, inner, &mut draft.diagnostics));
            } else {
                draft.incomplete = true;
            }
        }
        plain.extend(expanded);
        nodes = plain;
        if !found {
            break;
        }
    }
    // What is inside a subgraph that is used wrongly may seem to lack what its border lacks.
    draft.incomplete |= diag::has_errors(&draft.diagnostics);
    let names = canonical_names(&nodes);
    for (node, name) in nodes.into_iter().zip(names) {
        draft.nodes.push(DraftNode {
            config: node.config,
            name,
            within: node.within,
            contract: Contract::new(Default::default()),
            factory: None,
            inputs: Vec::new(),
            back_edges: Vec::new(),
            outputs: Vec::new(),
            policy: Policy::Default,
            place: Place::Inline,
        });
    }
}

/// The nodes' names: as written or that of the calculator, numbered from 1 where several are the same.
fn canonical_names(nodes: &[Unexpanded]) -> Vec<String> {
    let base = |node: &Unexpanded| {
        let own = node.config.name.as_ref().filter(|name| !name.is_empty());
        own.or(node.config.calculator.as_ref())
            .map_or(String::new(), |name| name.value.clone())
    };
    let mut counts: HashMap<String, (usize, usize)> = HashMap::new();
    for node in nodes {
        counts.entry(base(node)).or_default().0 += 1;
    }
    let mut names = Vec::with_capacity(nodes.len());
    for node in nodes {
        let base = base(node);
        let (total, used) = counts.get_mut(&base).expect("all names were just counted");
        *used += 1;
        names.push(if *total == 1 {
            base
        } else {
            format!("{base}_{used}")
        });
    }
    names
}

fn parse(
    subgraph: &Subgraph,
    sources: &mut SourceMap,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<GraphConfig> {
    let parsed = parse_graph(sources, subgraph.file.as_ref(), subgraph.text.as_ref());
    let usable = !diag::has_errors(&parsed.diagnostics);
    diagnostics.extend(parsed.diagnostics);
    parsed.graph.filter(|_| usable)
}

fn recursion(node: &Unexpanded, subgraph: &Subgraph) -> Diagnostic {
    let mut path = node.within.clone();
    path.push(subgraph.name.to_string());
    Diagnostic::error(
        &calculators::RECURSION,
        node.config.place(),
        format!("subgraph `{}` contains itself", subgraph.name),
    )
    .label(format!("by way of {}", path.join(" > ")))
}

/// The nodes of a container; none if it could not be read, which has been reported.
fn unpack(
    outer: &Unexpanded,
    name: &str,
    container: &ContainerRegistration,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Vec<Unexpanded>> {
    let (own, others) = (container.name, container.option_names);
    let options = contracts::options(&outer.config, own, others, diagnostics);
    let (graph, found) = (container.expand)(&outer.config, options.as_ref());
    let usable = !diag::has_errors(&found);
    diagnostics.extend(found);
    let part = Part {
        name: container.name,
        primary: None,
        reads_options: true,
    };
    let graph = graph.filter(|_| usable)?;
    Some(inline(outer, name, &part, &graph, diagnostics))
}

/// What a node that is expanded stands for.
struct Part<'a> {
    name: &'a str,
    /// The inner node that gets what the outer node says about a calculator.
    primary: Option<&'a str>,
    /// The inner graph was made from the outer node's options.
    reads_options: bool,
}

/// The nodes of one use of a subgraph or container.
fn inline(
    outer: &Unexpanded,
    name: &str,
    part: &Part<'_>,
    inner: &GraphConfig,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<Unexpanded> {
    let prefix = format!("{}__", name.to_lowercase().replace(['.', ' ', ':'], "_"));
    let outer_node = &outer.config;
    let of = part.name;
    let inputs = Border::new(
        Group::Inputs,
        &outer_node.input_stream,
        &inner.input_stream,
        of,
        diagnostics,
    );
    let outputs = Border::new(
        Group::Outputs,
        &outer_node.output_stream,
        &inner.output_stream,
        of,
        diagnostics,
    );
    let (outer_sides, inner_sides) = (&outer_node.input_side_packet, &inner.input_side_packet);
    let side_inputs = Border::new(Group::InputSides, outer_sides, inner_sides, of, diagnostics);
    let (outer_sides, inner_sides) = (&outer_node.output_side_packet, &inner.output_side_packet);
    let side_outputs = Border::new(
        Group::OutputSides,
        outer_sides,
        inner_sides,
        of,
        diagnostics,
    );

    let mut within = outer.within.clone();
    within.push(part.name.to_owned());
    let mut nodes = Vec::new();
    let names = canonical_names(
        &inner
            .node
            .iter()
            .map(|config| Unexpanded {
                config: config.clone(),
                within: Vec::new(),
            })
            .collect::<Vec<_>>(),
    );
    let primary = part.primary;
    let mut has_primary = false;
    for (config, inner_name) in inner.node.iter().zip(&names) {
        let mut config = config.clone();
        let is_primary = !has_primary
            && primary.is_some_and(|primary| {
                inner_name == primary
                    || config
                        .calculator
                        .as_ref()
                        .is_some_and(|name| name.as_str() == primary)
            });
        let streams = [&inputs, &outputs];
        rename(&mut config.input_stream, &streams, &prefix);
        rename(&mut config.output_stream, &streams, &prefix);
        let sides = [&side_inputs, &side_outputs];
        rename(&mut config.input_side_packet, &sides, &prefix);
        rename(&mut config.output_side_packet, &sides, &prefix);
        let span = config
            .name
            .as_ref()
            .map_or(config.place(), |name| name.span);
        config.name = Some(Spanned::new(format!("{prefix}{inner_name}"), span));
        if is_primary {
            has_primary = true;
            hand_over(outer_node, &mut config);
        }
        nodes.push(Unexpanded {
            config,
            within: within.clone(),
        });
    }
    refuse_fields(outer_node, part, has_primary, diagnostics);
    nodes
}

/// The ports of one group at the border of a subgraph: from inner names to outer ones.
struct Border<'a> {
    /// Absent if the outer node leaves the port unconnected.
    outer: HashMap<&'a str, Option<PortSpec>>,
    /// Unconnected inputs are taken off the inner nodes; unconnected outputs stay, as private streams.
    is_input: bool,
}

impl<'a> Border<'a> {
    fn new(
        group: Group,
        outer: &[PortSpec],
        inner: &'a [PortSpec],
        subgraph: &str,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Self {
        let same = |a: &PortSpec, b: &PortSpec| a.tag.value == b.tag.value && a.index == b.index;
        let mut map = HashMap::new();
        for port in inner {
            let outer = outer.iter().find(|outer| same(outer, port));
            map.entry(port.name.as_str()).or_insert(outer.cloned());
        }
        for port in outer {
            if !inner.iter().any(|inner| same(inner, port)) {
                diagnostics.push(no_such_port(group, port, inner, subgraph));
            }
        }
        let is_input = matches!(group, Group::Inputs | Group::InputSides);
        Self {
            outer: map,
            is_input,
        }
    }
}

fn no_such_port(group: Group, port: &PortSpec, inner: &[PortSpec], subgraph: &str) -> Diagnostic {
    let noun = group.noun();
    let what = match port.tag.as_str() {
        "" => format!("{noun} {} without a tag", port.index),
        tag if port.index == 0 => format!("{noun} `{tag}`"),
        tag => format!("{noun} `{tag}:{}`", port.index),
    };
    let diagnostic = Diagnostic::error(
        &calculators::SUBGRAPH_PORT,
        port.span,
        format!("subgraph `{subgraph}` has no {what}"),
    )
    .label("no such port");
    let known: Vec<String> = inner.iter().map(|port| format!("`{port}`")).collect();
    if known.is_empty() {
        diagnostic.hint(format!("it has no {noun}s"))
    } else {
        diagnostic.hint(format!("its {noun}s are {}", known.join(", ")))
    }
}

fn rename(ports: &mut Vec<PortSpec>, borders: &[&Border<'_>], prefix: &str) {
    let before = ports.len();
    ports.retain_mut(|port| {
        for border in borders {
            match border.outer.get(port.name.as_str()) {
                Some(Some(outer)) => {
                    // What is wrong with this wire is wrong where the user wrote it, not in the subgraph's file.
                    port.name.clone_from(&outer.name);
                    port.span = outer.span;
                    return true;
                }
                Some(None) if border.is_input => return false,
                Some(None) | None => {}
            }
        }
        port.name.value.insert_str(0, prefix);
        true
    });
    if ports.len() < before {
        close_gaps(ports);
    }
}

/// Numbers the ports of each tag from 0 again, in the same order.
fn close_gaps(ports: &mut [PortSpec]) {
    let mut order: Vec<usize> = (0..ports.len()).collect();
    order.sort_by_key(|&at| (ports[at].tag.value.clone(), ports[at].index));
    let mut next: HashMap<String, u32> = HashMap::new();
    for at in order {
        let next = next.entry(ports[at].tag.value.clone()).or_default();
        ports[at].index = *next;
        *next += 1;
    }
}

/// Gives the primary inner node what the outer node says about a calculator.
fn hand_over(outer: &Node, inner: &mut Node) {
    let outer_options: Vec<&OptionsMessage> = outer.all_options().collect();
    let given = |message: &OptionsMessage| {
        outer_options
            .iter()
            .any(|outer| outer.type_name() == message.type_name())
    };
    inner.node_options.retain(|message| !given(message));
    if let Some(options) = &mut inner.options {
        options.messages.retain(|message| !given(message));
    }
    inner
        .node_options
        .extend(outer.node_options.iter().cloned());
    if let Some(options) = &outer.options {
        let target = inner.options.get_or_insert_with(Extensions::default);
        target.messages.extend(options.messages.iter().cloned());
        target.head = target.head.or(options.head);
    }
    if !outer.input_stream_info.is_empty() {
        inner.input_stream_info.clone_from(&outer.input_stream_info);
    }
    if outer.input_stream_handler.is_some() {
        inner
            .input_stream_handler
            .clone_from(&outer.input_stream_handler);
    }
    if outer.executor.is_some() {
        inner.executor.clone_from(&outer.executor);
    }
    if outer.max_in_flight.is_some() {
        inner.max_in_flight = outer.max_in_flight;
    }
}

/// Refuses what would be ignored.
fn refuse_fields(
    outer: &Node,
    part: &Part<'_>,
    has_primary: bool,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let mut refuse = |field: &str, span: Option<Span>| {
        let Some(span) = span else { return };
        let message = format!(
            "`{field}` cannot be set on a node that is the subgraph `{}`",
            part.name
        );
        diagnostics.push(
            Diagnostic::error(&calculators::SUBGRAPH_FIELD, span, message)
                .label("only calculators have this"),
        );
    };
    refuse(
        "source_layer",
        outer.source_layer.as_ref().map(|layer| layer.span),
    );
    refuse(
        "buffer_size_hint",
        outer.buffer_size_hint.as_ref().map(|hint| hint.span),
    );
    refuse(
        "output_stream_handler",
        outer
            .output_stream_handler
            .as_ref()
            .map(|handler| handler.span),
    );
    if has_primary {
        return;
    }
    refuse(
        "input_stream_info",
        outer.input_stream_info.first().map(|info| info.span),
    );
    refuse(
        "input_stream_handler",
        outer
            .input_stream_handler
            .as_ref()
            .map(|handler| handler.span),
    );
    refuse(
        "executor",
        outer.executor.as_ref().map(|executor| executor.span),
    );
    refuse(
        "max_in_flight",
        outer.max_in_flight.as_ref().map(|limit| limit.span),
    );
    let options = outer.all_options().filter(|_| !part.reads_options);
    for options in options {
        refuse("options", Some(options.name.span));
    }
}
