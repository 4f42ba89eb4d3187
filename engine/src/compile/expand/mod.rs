//! Expansion: replaces nodes that name a subgraph or container by the nodes inside it.
//!
//! Streams, side packets and nodes inside a subgraph get the outer node's name as a prefix. Ports
//! at the border get the outer names, matched by tag and index. A border port that the outer node
//! leaves unconnected is removed from the inner nodes. The outer node's options reach inner nodes
//! through `option_value`, or go to the primary inner node with the outer node's other settings.

mod border;
mod handover;
mod options;
mod path;

use std::{collections::HashMap, sync::Arc};

use graphmill_grammar::{
    Diagnostic, GraphConfig, Node, OptionsMessage, SourceMap, Span, Spanned, diag, parse_graph,
};

use crate::{
    codes::{calculators, subgraphs},
    contract::{Contract, Group},
    plan::NodePlace,
    policy::Policy,
    registry::container::ContainerRegistration,
    registry::subgraph::Subgraph,
};

use super::draft::{Draft, DraftNode, contracts};
use border::{Border, rename};
use options::GraphOptions;

/// Maximum nesting of subgraphs. It is far beyond what people write, and bounds the length of
/// names.
const MAX_NESTING: usize = 64;

/// Maximum number of nodes that are expanded. A graph with this many is refused in the check of
/// contracts.
const MAX_NODES: usize = u16::MAX as usize;

/// A node that may still have to be expanded.
struct PendingNode {
    config: Node,
    within: Vec<String>,
}

/// Returns the location of an option of a node. `way` is its path: `models_path`, `parts/0/path`.
pub(super) fn option_place(node: &Node, way: &str) -> Option<Span> {
    let way = Spanned::new(way.to_owned(), Span::NONE);
    let path = path::Path::new(&way);
    node.all_options().find_map(|message| {
        let values = path::values(&message.body, &path.steps).ok()?;
        values.first().map(|value| value.span)
    })
}

/// A subgraph or container that replaces a node.
enum Replacement {
    Subgraph(Arc<Subgraph>),
    Container(ContainerRegistration),
}

impl Replacement {
    fn name(&self) -> &str {
        match self {
            Self::Subgraph(subgraph) => &subgraph.name,
            Self::Container(container) => container.name,
        }
    }

    /// Finds the primary inner node by name or calculator.
    fn primary(&self, nodes: &[Node], names: &[String]) -> Option<usize> {
        let Self::Subgraph(subgraph) = self else {
            return None;
        };
        let primary = subgraph.primary.as_deref()?;
        let mut candidates = nodes.iter().zip(names);
        candidates.position(|(node, name)| {
            let calculator = node.calculator.as_ref();
            name == primary || calculator.is_some_and(|calculator| calculator.as_str() == primary)
        })
    }
}

/// State of the expansion of one graph.
struct Expansion<'a, 'g> {
    draft: &'a mut Draft<'g>,
    sources: &'a mut SourceMap,
    /// Parsed graphs of subgraphs; `None` for one with errors, which have been reported.
    parsed: HashMap<String, Option<Arc<GraphConfig>>>,
    /// Nodes that could not be expanded, which has been reported. They stay, so that other nodes
    /// find their streams.
    unexpandable: Vec<PendingNode>,
}

pub(super) fn expand(draft: &mut Draft<'_>, sources: &mut SourceMap) {
    let graph = draft.graph;
    let mut expansion = Expansion {
        draft,
        sources,
        parsed: HashMap::new(),
        unexpandable: Vec::new(),
    };
    let mut configs = graph.node.clone();
    let mut own = GraphOptions::new(graph.all_options(), []);
    expansion.substitute(&mut configs, &mut own);
    let pending = |config| PendingNode {
        config,
        within: Vec::new(),
    };
    let mut nodes: Vec<PendingNode> = configs.into_iter().map(pending).collect();
    while let Some(expanded) = expansion.round(&mut nodes) {
        nodes.extend(expanded);
        if nodes.len() >= MAX_NODES {
            break;
        }
    }
    let wrong_from = nodes.len();
    nodes.append(&mut expansion.unexpandable);
    draft.incomplete |= diag::has_errors(&draft.diagnostics);
    let names = canonical_names(nodes.iter().map(|node| &node.config));
    for (at, (node, name)) in nodes.into_iter().zip(names).enumerate() {
        draft.nodes.push(DraftNode {
            is_wrong: at >= wrong_from,
            is_unknown: false,
            has_lines: sources.slice(node.config.span).contains('\n'),
            config: node.config,
            name,
            within: node.within,
            contract: Contract::new(Default::default()),
            factory: None,
            is_async: false,
            inputs: Vec::new(),
            back_edges: Vec::new(),
            outputs: Vec::new(),
            policy: Policy::Default,
            place: NodePlace::Inline,
            lanes: 1,
        });
    }
}

/// Returns the names of nodes: their own or those of their calculators. Equal names are numbered
/// from 1.
fn canonical_names<'a>(nodes: impl Iterator<Item = &'a Node> + Clone) -> Vec<String> {
    let base = |node: &'a Node| {
        let own = node.name.as_ref().filter(|name| !name.is_empty());
        own.or(node.calculator.as_ref())
            .map_or("", |name| name.as_str())
    };
    let mut counts: HashMap<&str, (usize, usize)> = HashMap::new();
    for node in nodes.clone() {
        counts.entry(base(node)).or_default().0 += 1;
    }
    let named = nodes.map(|node| {
        let base = base(node);
        let (total, used) = counts.get_mut(base).expect("all names were just counted");
        *used += 1;
        if *total == 1 {
            base.to_owned()
        } else {
            format!("{base}_{used}")
        }
    });
    named.collect()
}

impl Expansion<'_, '_> {
    /// Removes the subgraphs and containers from the list and returns the nodes inside them.
    /// Returns `None` if there are none in the list.
    fn round(&mut self, nodes: &mut Vec<PendingNode>) -> Option<Vec<PendingNode>> {
        let names = canonical_names(nodes.iter().map(|node| &node.config));
        let (mut plain, mut expanded, mut found) = (Vec::new(), Vec::new(), false);
        for (node, name) in std::mem::take(nodes).into_iter().zip(names) {
            let part = self.part_of(&node.config);
            match part.filter(|_| plain.len() + expanded.len() < MAX_NODES) {
                Some(part) => {
                    found = true;
                    let before = self.draft.diagnostics.len();
                    let inner = self.inline(&node, &name, &part);
                    let mut reported = self.draft.diagnostics[before..].iter();
                    let is_misused = reported.any(|it| it.code == &calculators::SUBGRAPH_PORT);
                    match inner.filter(|_| !is_misused) {
                        Some(inner) => expanded.extend(inner),
                        None => self.unexpandable.push(node),
                    }
                }
                None => plain.push(node),
            }
        }
        *nodes = plain;
        found.then_some(expanded)
    }

    fn part_of(&self, node: &Node) -> Option<Replacement> {
        let written = node.calculator.as_ref()?.as_str();
        let (registry, package) = (&self.draft.environment.registry, self.draft.package());
        if let Some(container) = registry.container(written, package) {
            return Some(Replacement::Container(*container));
        }
        let subgraph = registry.subgraph(written, package);
        subgraph.cloned().map(Replacement::Subgraph)
    }

    /// Returns the inner nodes of one use of a subgraph or container. Returns `None` on errors,
    /// which have been reported.
    fn inline(
        &mut self,
        outer: &PendingNode,
        name: &str,
        part: &Replacement,
    ) -> Option<Vec<PendingNode>> {
        if let Some(endless) = endless(outer, part) {
            self.draft.report(endless);
            return None;
        }
        let graph = match part {
            Replacement::Subgraph(subgraph) => self.parsed(subgraph),
            Replacement::Container(container) => self.unpacked(container, &outer.config),
        };
        let Some(inner) = graph else {
            self.draft.incomplete = true;
            return None;
        };
        let outer_node = &outer.config;
        // Side packets may be missing inside only because the node's options could not be read.
        let refused = &outer_node.refused;
        self.draft.sides_in_doubt |= refused.may_be("options") || refused.may_be("node_options");
        let mut configs = inner.node.clone();
        let inner_names = canonical_names(inner.node.iter());
        let primary = part.primary(&configs, &inner_names);
        let mut options = GraphOptions::new(inner.all_options(), outer_node.all_options());
        self.substitute(&mut configs, &mut options);

        let diagnostics = &mut self.draft.diagnostics;
        // A container has read its node's options already.
        if let Replacement::Subgraph(subgraph) = part {
            options.refuse_rest(outer_node, &subgraph.name, primary.is_some(), diagnostics);
        }
        handover::refuse_fields(outer_node, part.name(), primary.is_some(), diagnostics);
        if let Some(primary) = primary {
            let declared = |message: &OptionsMessage| options.declares(message);
            handover::hand_over(outer_node, &mut configs[primary], declared);
        }

        let prefix = format!("{}__", name.to_lowercase().replace(['.', ' ', ':'], "_"));
        let mut border =
            |group, outer, inner| Border::new(group, outer, inner, part.name(), diagnostics);
        let (read, written) = (&outer_node.input_stream, &outer_node.output_stream);
        let streams = [
            &border(Group::Inputs, read, &inner.input_stream),
            &border(Group::Outputs, written, &inner.output_stream),
        ];
        let taken = &outer_node.input_side_packet;
        let made = &outer_node.output_side_packet;
        let sides = [
            &border(Group::InputSides, taken, &inner.input_side_packet),
            &border(Group::OutputSides, made, &inner.output_side_packet),
        ];
        let mut within = outer.within.clone();
        within.push(part.name().to_owned());
        for (config, inner_name) in configs.iter_mut().zip(&inner_names) {
            rename(&mut config.input_stream, &streams, &prefix);
            rename(&mut config.output_stream, &streams, &prefix);
            rename(&mut config.input_side_packet, &sides, &prefix);
            rename(&mut config.output_side_packet, &sides, &prefix);
            let own = config.name.as_ref().map(|name| name.span);
            let span = own.unwrap_or_else(|| config.place());
            config.name = Some(Spanned::new(format!("{prefix}{inner_name}"), span));
        }
        let nodes = configs.into_iter().map(|config| PendingNode {
            config,
            within: within.clone(),
        });
        Some(nodes.collect())
    }

    /// Returns the graph that a container makes for a node; `None` if the node is wrong, which has
    /// been reported.
    fn unpacked(
        &mut self,
        container: &ContainerRegistration,
        node: &Node,
    ) -> Option<Arc<GraphConfig>> {
        let found = &mut self.draft.diagnostics;
        let options = contracts::options(node, container.name, container.option_names, found);
        let (graph, wrong) = (container.expand)(node, options.as_ref());
        found.extend(wrong);
        graph.map(Arc::new)
    }

    /// Returns the graph of a subgraph; `None` if the file has errors, which have been reported.
    fn parsed(&mut self, subgraph: &Subgraph) -> Option<Arc<GraphConfig>> {
        if let Some(parsed) = self.parsed.get(&*subgraph.name) {
            return parsed.clone();
        }
        let parsed = parse_graph(self.sources, subgraph.file.as_ref(), subgraph.text.as_ref());
        let usable = !diag::has_errors(&parsed.diagnostics);
        let diagnostics = &mut self.draft.diagnostics;
        diagnostics.extend(parsed.diagnostics);
        let graph = parsed.graph.filter(|_| usable).map(Arc::new);
        if let Some(graph) = &graph {
            handover::warn_of_settings(graph, &subgraph.name, diagnostics);
        }
        self.parsed.insert(subgraph.name.to_string(), graph.clone());
        graph
    }

    /// Copies values of a graph's options as the `option_value` fields of its nodes specify.
    fn substitute(&mut self, nodes: &mut [Node], options: &mut GraphOptions) {
        for node in nodes {
            if node.option_value.is_empty() {
                continue;
            }
            let values = std::mem::take(&mut node.option_value);
            let own_type = self.options_type(node);
            for value in &values {
                if let Err(wrong) = options.copy(value, node, &own_type) {
                    self.draft.report(*wrong);
                }
            }
        }
    }

    /// Returns the type of options for a node that has none yet.
    fn options_type(&mut self, node: &Node) -> String {
        let calculator = node.calculator.as_ref().map_or("", |name| name.as_str());
        let by_name = format!("mediapipe.{calculator}Options");
        let other_names = match self.part_of(node) {
            Some(Replacement::Subgraph(subgraph)) => {
                let graph = self.parsed(&subgraph);
                let declared = graph.as_ref().and_then(|graph| graph.all_options().next());
                return declared.map_or(by_name, |message| message.type_name().to_owned());
            }
            Some(Replacement::Container(container)) => container.option_names,
            None => {
                let registry = &self.draft.environment.registry;
                let registration = registry.calculator(calculator, self.draft.package());
                registration.map_or(&[][..], |registration| registration.option_names)
            }
        };
        let other_name = other_names.first();
        other_name.map_or(by_name, |name| (*name).to_owned())
    }
}

/// Reports a subgraph whose expansion would not end.
fn endless(node: &PendingNode, part: &Replacement) -> Option<Diagnostic> {
    let place = node.config.place();
    let contains_itself =
        |subgraph: &Subgraph| node.within.iter().any(|within| *within == subgraph.name);
    // Containers end, because their contents are in their options.
    if let Replacement::Subgraph(subgraph) = part
        && contains_itself(subgraph)
    {
        let mut path = node.within.clone();
        path.push(subgraph.name.to_string());
        let message = format!("subgraph `{}` contains itself", subgraph.name);
        let diagnostic = Diagnostic::error(&calculators::RECURSION, place, message);
        return Some(diagnostic.label(format!("through {}", path.join(" > "))));
    }
    if node.within.len() >= MAX_NESTING {
        let message = format!("subgraphs are nested more than {MAX_NESTING} deep");
        return Some(Diagnostic::error(&subgraphs::NESTING, place, message).label("one too many"));
    }
    None
}
