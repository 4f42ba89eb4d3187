//! Loops: problems with back edges, and nodes that nothing can start.
//!
//! A node under the default policy runs at a timestamp once all its inputs are settled at it.
//! Suppose one input comes from the node's own output, through nodes of the same kind that emit at
//! the timestamps of their inputs. Then it cannot be settled before the node has run, unless a node
//! of the loop emits when it opens.

use graphmill_grammar::Diagnostic;
use petgraph::{
    algo::kosaraju_scc,
    graph::{DiGraph, NodeIndex},
    visit::{
        Dfs, EdgeFiltered, EdgeRef as _, IntoNeighborsDirected, IntoNodeIdentifiers, NodeIndexable,
        VisitMap as _, Visitable,
    },
};

use crate::{
    codes::cycles,
    contract::{Group, Offset},
    plan::Producer,
    policy::Policy,
};

use super::draft::{Draft, DraftNode};

/// Returns the number of each node's strongly connected component. Two nodes have the same number
/// if each can be reached from the other.
fn components<G>(graph: G) -> Vec<usize>
where
    G: IntoNeighborsDirected<NodeId = NodeIndex> + IntoNodeIdentifiers + Visitable + NodeIndexable,
{
    let mut numbers = vec![0; graph.node_bound()];
    for (number, nodes) in kosaraju_scc(graph).into_iter().enumerate() {
        for node in nodes {
            numbers[node.index()] = number;
        }
    }
    numbers
}

/// Warns about back edges that close no loop, back edges that their own node waits for, and loops
/// that nothing starts. Loops of a subgraph may go through the graph that uses it.
pub(super) fn check(draft: &mut Draft<'_>) {
    let is_subgraph = draft.graph.r#type.is_some();
    let links = links(draft);
    let loops = components(&links);
    let waiting = EdgeFiltered::from_fn(&links, |link| link.weight().waits);
    let waits = components(&waiting);
    let mut found = Vec::new();
    let edges = links.edge_references();
    for edge in edges.filter(|edge| edge.weight().back_edge) {
        let (from, to, link) = (edge.source().index(), edge.target().index(), edge.weight());
        let node = &draft.nodes[to];
        if loops[from] != loops[to] {
            if !is_subgraph {
                found.push(closes_no_loop(node, link.input));
            }
        } else if link.waits && waits[from] == waits[to] {
            found.push(waits_for_itself(node, link.input));
        }
    }
    for node in draft.nodes.iter().filter(|_| !is_subgraph) {
        let of_graph = |input: usize| {
            let stream = node.inputs[input].map(|stream| &draft.streams[stream as usize]);
            stream.is_some_and(|stream| matches!(stream.producer, Producer::Graph(_)))
        };
        let outside =
            (0..node.inputs.len()).filter(|&input| node.back_edges[input] && of_graph(input));
        found.extend(outside.map(|input| closes_no_loop(node, input)));
    }
    found.extend(never_started(draft, &links, &loops));
    draft.diagnostics.extend(found);
}

/// A stream from one node to an input of another.
struct Link {
    input: usize,
    back_edge: bool,
    /// Set if the consumer runs at a timestamp only after this input is settled at it, and the
    /// producer settles it only after running at that timestamp.
    waits: bool,
}

/// Makes a graph of all nodes and the streams between them, in the direction of packets.
fn links(draft: &Draft<'_>) -> DiGraph<(), Link> {
    let mut links = DiGraph::new();
    for _ in &draft.nodes {
        links.add_node(());
    }
    for (to, node) in draft.nodes.iter().enumerate() {
        let waits = waits_for_all(draft, node);
        for (input, stream) in node.inputs.iter().enumerate() {
            if let Some(stream) = stream.map(|stream| &draft.streams[stream as usize])
                && let Producer::Node(from) = stream.producer
            {
                let from = usize::from(from);
                let offset = offset(&draft.nodes[from], &stream.name);
                let link = Link {
                    input,
                    back_edge: node.back_edges[input],
                    waits: waits && offset.is_some_and(|offset| offset <= 0),
                };
                links.add_edge(NodeIndex::new(from), NodeIndex::new(to), link);
            }
        }
    }
    links
}

/// Returns `true` if a node runs at a timestamp only when all inputs are settled at it, and if its
/// author has not chosen a policy.
fn waits_for_all(draft: &Draft<'_>, node: &DraftNode) -> bool {
    let chosen = node.handler(draft.graph).is_some();
    let authors_own = !chosen && node.contract.policy.is_some();
    let one_set = match &node.policy {
        Policy::Default | Policy::Batch(_) => true,
        Policy::SyncSet(sets) => sets.iter().any(|set| set.len() == node.inputs.len()),
        _ => false,
    };
    one_set && !authors_own
}

/// Returns the timestamp offset of a node's output.
fn offset(node: &DraftNode, stream: &str) -> Option<i64> {
    let entries = node.contract.tag_map(Group::Outputs).entries();
    let own = node.contract.output_offsets.iter().rev();
    let mut own = own.filter(|(output, _)| entries[usize::from(*output)].name == stream);
    let own = own.next().map(|(_, offset)| *offset);
    Offset::value(own.unwrap_or(node.contract.offset))
}

fn closes_no_loop(node: &DraftNode, input: usize) -> Diagnostic {
    let port = node.port(Group::Inputs, input);
    let name = &port.name;
    let message = format!("stream `{name}` closes no loop, but is marked as a back edge");
    let diagnostic = Diagnostic::warning(&cycles::BACK_EDGE_UNNEEDED, port.span, message);
    let advice = "leave out its `input_stream_info`";
    let map = node.contract.tag_map(Group::Inputs);
    let info = node.config.input_stream_info.iter().find(|info| {
        let wanted = info.tag_index.as_ref().map(ToString::to_string);
        map.position(wanted.as_deref().unwrap_or(":0")) == Some(input)
    });
    let info = info.filter(|_| node.is_top_level());
    let edit = info.map(|info| (info.head.to(info.span), String::new()));
    diagnostic.advise(advice, edit)
}

fn waits_for_itself(node: &DraftNode, input: usize) -> Diagnostic {
    let port = node.port(Group::Inputs, input);
    let (name, stream) = (&node.name, &port.name);
    let message = format!("`{name}` waits for its own output: `{stream}` depends on it");
    let diagnostic = Diagnostic::warning(&cycles::BACK_EDGE_WAITS, port.span, message)
        .label("no timestamp is settled here before the node has run at it");
    let reference = node.contract.tag_map(Group::Inputs).reference(input);
    let handler = format!(
        "input_stream_handler {{ input_stream_handler: \"SyncSetInputStreamHandler\" \
         options {{ [mediapipe.SyncSetInputStreamHandlerOptions.ext] {{ sync_set {{ tag_index: \"{reference}\" }} }} }} }}"
    );
    let advice =
        "unless a node of the loop emits when it opens, give this input a sync set of its own";
    let addition = node.addition(&handler);
    let edit = addition.filter(|_| node.config.input_stream_handler.is_none());
    diagnostic.advise(advice, edit)
}

/// Reports loops that get input only from other such loops, so that no packet can ever arrive.
fn never_started(draft: &Draft<'_>, links: &DiGraph<(), Link>, loops: &[usize]) -> Vec<Diagnostic> {
    let starts = |node: &DraftNode| {
        let of_graph =
            |stream: &u32| matches!(draft.streams[*stream as usize].producer, Producer::Graph(_));
        node.inputs.is_empty()
            || !node.contract.event_types.is_empty()
            || node.inputs.iter().flatten().any(of_graph)
    };
    let mut started = Dfs::empty(links);
    let first = |node: &NodeIndex| starts(&draft.nodes[node.index()]);
    started.stack.extend(links.node_indices().filter(first));
    while started.next(links).is_some() {}
    let mut shown = vec![false; loops.len()];
    let mut found = Vec::new();
    for node in links.node_indices() {
        let of = |node: NodeIndex| loops[node.index()];
        let returns = |to: NodeIndex| of(to) == of(node);
        if started.discovered.is_visited(&node)
            || shown[of(node)]
            || !links.neighbors(node).any(returns)
        {
            continue;
        }
        shown[of(node)] = true;
        let node = &draft.nodes[node.index()];
        let message = format!("nothing ever starts the loop of `{}`", node.name);
        found.push(
            Diagnostic::warning(&cycles::NEVER_STARTED, node.config.place(), message)
                .label("never called, unless a node of the loop emits when it opens")
                .hint("connect an input of the loop to a stream from outside it"),
        );
    }
    found
}
