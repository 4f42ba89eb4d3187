//! The order of nodes: each is numbered after all nodes that it depends on. A valid order of the
//! file is kept.

use std::collections::HashMap;

use petgraph::{
    Direction,
    graph::NodeIndex,
    stable_graph::StableDiGraph,
    visit::{EdgeRef, IntoEdgeReferences},
};

use crate::{
    plan::Producer,
    {contract::Group, tags::TagEntry},
};

use super::{cycles, draft::Draft};

/// A dependency of one node on another.
pub(super) struct Dependency<'a> {
    /// Port of the dependent node, which names the stream or side packet.
    pub(super) port: &'a TagEntry,
    /// Position of the input; `None` for a side packet.
    pub(super) input: Option<usize>,
}

/// All nodes, each with edges to the nodes that it depends on.
pub(super) type Dependencies<'a> = StableDiGraph<(), Dependency<'a>>;

pub(super) fn sort(draft: &mut Draft<'_>) {
    let mut needs = needs(draft);
    // If the order of the file is valid, nodes keep their numbers.
    let mut edges = needs.edge_references();
    if edges.all(|need| need.target() < need.source()) {
        return;
    }
    let mut order = Vec::with_capacity(draft.nodes.len());
    while let Some(next) = needs.externals(Direction::Outgoing).next() {
        order.push(next.index());
        needs.remove_node(next);
    }
    if needs.node_count() > 0 {
        let found = cycles::report(draft, &needs);
        draft.diagnostics.extend(found);
    } else {
        apply(draft, &order);
    }
}

fn needs<'a>(draft: &'a Draft<'_>) -> Dependencies<'a> {
    let mut side_producers = HashMap::new();
    for (index, node) in draft.nodes.iter().enumerate() {
        for entry in node.contract.tag_map(Group::OutputSides).entries() {
            side_producers.entry(entry.name.as_str()).or_insert(index);
        }
    }
    let mut graph = Dependencies::new();
    for _ in &draft.nodes {
        graph.add_node(());
    }
    for (at, node) in draft.nodes.iter().enumerate() {
        // Its loops are inside and may be closed there: an unknown calculator may be a missing
        // subgraph.
        if node.is_wrong || node.is_unknown {
            continue;
        }
        let mut needs = Vec::new();
        for (input, stream) in node.inputs.iter().enumerate() {
            if let Some(stream) = stream
                && let Producer::Node(from) = draft.streams[*stream as usize].producer
                && !node.back_edges[input]
            {
                let port = node.port(Group::Inputs, input);
                needs.push((
                    usize::from(from),
                    Dependency {
                        port,
                        input: Some(input),
                    },
                ));
            }
        }
        for port in node.contract.tag_map(Group::InputSides).entries() {
            if let Some(&from) = side_producers.get(port.name.as_str()) {
                needs.push((from, Dependency { port, input: None }));
            }
        }
        // Walks visit the edges of a node from the last to the first.
        for (from, need) in needs.into_iter().rev() {
            graph.add_edge(NodeIndex::new(at), NodeIndex::new(from), need);
        }
    }
    graph
}

/// Renumbers the nodes. `order` lists their old numbers.
fn apply(draft: &mut Draft<'_>, order: &[usize]) {
    let mut new_number = vec![0u16; order.len()];
    for (new, &old) in order.iter().enumerate() {
        new_number[old] = new as u16;
    }
    let old = std::mem::take(&mut draft.nodes).into_iter();
    let mut old: Vec<Option<_>> = old.map(Some).collect();
    let node = |&at: &usize| old[at].take().expect("an order names each node once");
    draft.nodes = order.iter().map(node).collect();
    for stream in &mut draft.streams {
        if let Producer::Node(node) = &mut stream.producer {
            *node = new_number[usize::from(*node)];
        }
        for (node, _) in &mut stream.consumers {
            *node = new_number[usize::from(*node)];
        }
        stream.consumers.sort_unstable();
    }
}
