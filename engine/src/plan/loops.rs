//! Loops: what is odd about back edges, and nodes that nothing ever starts.
//!
//! A node under the default policy runs at a timestamp once all its inputs are settled at it. If one of them comes back
//! from the node's own output, through nodes of the same kind that emit at the timestamps of their inputs, it cannot be
//! settled before the node has run, unless a node of the loop emits when it opens.

use graphmill_grammar::Diagnostic;

use crate::{
    codes::cycles,
    contract::{Group, Offset},
    policy::Policy,
};

use super::{
    Producer,
    draft::{Draft, DraftNode},
};

/// The strongly connected components of a graph, as the number of each node's: two nodes are in the same one if each can be
/// reached from the other. `feeds` lists the nodes that follow each node.
pub(super) fn components(feeds: &[Vec<usize>]) -> Vec<usize> {
    const NONE: usize = usize::MAX;
    let mut component = vec![NONE; feeds.len()];
    let mut index = vec![NONE; feeds.len()];
    let mut low = vec![0; feeds.len()];
    let (mut seen, mut complete) = (0, 0);
    // The nodes being looked at, each with the number of its edges that were followed; and those not yet in a component.
    let (mut path, mut open): (Vec<(usize, usize)>, Vec<usize>) = (Vec::new(), Vec::new());
    for root in 0..feeds.len() {
        if index[root] == NONE {
            path.push((root, 0));
        }
        while let Some((node, edges)) = path.last_mut() {
            let node = *node;
            if index[node] == NONE {
                (index[node], low[node]) = (seen, seen);
                seen += 1;
                open.push(node);
            }
            if let Some(&to) = feeds[node].get(*edges) {
                *edges += 1;
                if index[to] == NONE {
                    path.push((to, 0));
                } else if component[to] == NONE {
                    low[node] = low[node].min(index[to]);
                }
                continue;
            }
            path.pop();
            if let Some(&(parent, _)) = path.last() {
                low[parent] = low[parent].min(low[node]);
            }
            if low[node] == index[node] {
                while let Some(member) = open.pop() {
                    component[member] = complete;
                    if member == node {
                        break;
                    }
                }
                complete += 1;
            }
        }
    }
    component
}

/// Warns of back edges that close no loop or that their node waits for, and of loops that nothing starts. The loops of a
/// graph that is itself a subgraph may go through the graph that uses it.
pub(super) fn check(draft: &mut Draft<'_>) {
    let is_subgraph = draft.graph.r#type.is_some();
    let links = links(draft);
    let all = feeds(draft, links.iter());
    let loops = components(&all);
    let waiting = feeds(draft, links.iter().filter(|link| link.waits));
    let waits = components(&waiting);
    let mut found = Vec::new();
    for link in links.iter().filter(|link| link.back_edge) {
        let node = &draft.nodes[link.to];
        if loops[link.from] != loops[link.to] {
            if !is_subgraph {
                found.push(closes_no_loop(node, link.input));
            }
        } else if link.waits && waits[link.from] == waits[link.to] {
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
    found.extend(never_started(draft, &all, &loops));
    draft.diagnostics.extend(found);
}

/// A stream from one node to an input of another.
struct Link {
    from: usize,
    to: usize,
    input: usize,
    back_edge: bool,
    /// The consumer runs at no timestamp before this input is settled at it, and the producer settles it at none before it
    /// has run at that timestamp itself.
    waits: bool,
}

fn links(draft: &Draft<'_>) -> Vec<Link> {
    let mut links = Vec::new();
    for (to, node) in draft.nodes.iter().enumerate() {
        let waits = waits_for_all(draft, node);
        for (input, stream) in node.inputs.iter().enumerate() {
            let Some(stream) = stream.map(|stream| &draft.streams[stream as usize]) else {
                continue;
            };
            let Producer::Node(from) = stream.producer else {
                continue;
            };
            let from = usize::from(from);
            let lasts = |offset: Option<i64>| offset.is_some_and(|offset| offset <= 0);
            links.push(Link {
                from,
                to,
                input,
                back_edge: node.back_edges[input],
                waits: waits && lasts(offset(&draft.nodes[from], &stream.name)),
            });
        }
    }
    links
}

/// Whether a node runs at a timestamp only when all of its inputs are settled at it, and its author left it at that.
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

/// The timestamp offset of a node's output.
fn offset(node: &DraftNode, stream: &str) -> Option<i64> {
    let entries = node.contract.tag_map(Group::Outputs).entries();
    let own = node.contract.output_offsets.iter().rev();
    let mut own = own.filter(|(output, _)| entries[usize::from(*output)].name == stream);
    let offset = own
        .next()
        .map_or(node.contract.offset, |(_, offset)| *offset);
    Offset::value(offset)
}

fn feeds<'a>(draft: &Draft<'_>, links: impl Iterator<Item = &'a Link>) -> Vec<Vec<usize>> {
    let mut feeds = vec![Vec::new(); draft.nodes.len()];
    for link in links {
        feeds[link.from].push(link.to);
    }
    feeds
}

fn closes_no_loop(node: &DraftNode, input: usize) -> Diagnostic {
    let port = node.port(Group::Inputs, input);
    let message = format!(
        "stream `{}` closes no loop, but is marked as a back edge",
        port.name
    );
    let diagnostic = Diagnostic::warning(&cycles::BACK_EDGE_UNNEEDED, port.span, message);
    let advice = "leave out its `input_stream_info`";
    let map = node.contract.tag_map(Group::Inputs);
    let info = node.config.input_stream_info.iter().find(|info| {
        let wanted = info
            .tag_index
            .as_ref()
            .map_or(":0".to_owned(), ToString::to_string);
        map.position(&wanted) == Some(input)
    });
    match info.filter(|_| node.is_top_level()) {
        Some(info) => diagnostic.fix(advice, info.head.to(info.span), ""),
        None => diagnostic.hint(advice),
    }
}

fn waits_for_itself(node: &DraftNode, input: usize) -> Diagnostic {
    let port = node.port(Group::Inputs, input);
    let message = format!(
        "`{}` waits for what it has not made yet: `{}` comes back from its own output",
        node.name, port.name
    );
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
    match addition.filter(|_| node.config.input_stream_handler.is_none()) {
        Some((span, text)) => diagnostic.fix(advice, span, text),
        None => diagnostic.hint(advice),
    }
}

/// Loops of which every input comes from another such loop: no packet ever gets in.
fn never_started(draft: &Draft<'_>, feeds: &[Vec<usize>], loops: &[usize]) -> Vec<Diagnostic> {
    let starts = |node: &DraftNode| {
        let of_graph =
            |stream: &u32| matches!(draft.streams[*stream as usize].producer, Producer::Graph(_));
        node.inputs.is_empty()
            || !node.contract.event_types.is_empty()
            || node.inputs.iter().flatten().any(of_graph)
    };
    let mut started: Vec<bool> = draft.nodes.iter().map(starts).collect();
    let mut queue: Vec<usize> = (0..started.len()).filter(|&node| started[node]).collect();
    while let Some(node) = queue.pop() {
        for &to in &feeds[node] {
            if !std::mem::replace(&mut started[to], true) {
                queue.push(to);
            }
        }
    }
    let mut shown = vec![false; started.len()];
    let mut found = Vec::new();
    for (number, node) in draft.nodes.iter().enumerate() {
        let returns = |to: &usize| loops[*to] == loops[number];
        if started[number] || shown[loops[number]] || !feeds[number].iter().any(returns) {
            continue;
        }
        shown[loops[number]] = true;
        let message = format!("nothing ever starts the loop of `{}`", node.name);
        found.push(
            Diagnostic::warning(&cycles::NEVER_STARTED, node.config.place(), message)
                .label("never called, unless a node of the loop emits when it opens")
                .hint("connect an input of the loop to a stream from outside of it"),
        );
    }
    found
}
