//! Order: nodes are numbered so that each comes after all it depends on. The order of the file is kept where it will do.

use std::{cmp::Reverse, collections::BinaryHeap};

use graphmill_grammar::Span;

use crate::contract::Group;

use super::{Producer, cycles, draft::Draft};

/// One node needs what another makes.
pub(super) struct Need {
    pub(super) from: usize,
    /// The name of the stream or side packet, and where the needing node says so.
    pub(super) name: String,
    pub(super) span: Span,
    /// Which input it is; none for a side packet.
    pub(super) input: Option<usize>,
}

pub(super) fn sort(draft: &mut Draft<'_>) {
    let needs = needs(draft);
    let count = draft.nodes.len();
    let mut waiting: Vec<usize> = Vec::with_capacity(count);
    let mut feeds: Vec<Vec<usize>> = vec![Vec::new(); count];
    for (to, needs) in needs.iter().enumerate() {
        let mut from: Vec<usize> = needs.iter().map(|need| need.from).collect();
        from.sort_unstable();
        from.dedup();
        waiting.push(from.len());
        for from in from {
            feeds[from].push(to);
        }
    }
    let mut ready: BinaryHeap<Reverse<usize>> = (0..count)
        .filter(|&node| waiting[node] == 0)
        .map(Reverse)
        .collect();
    let mut order = Vec::with_capacity(count);
    while let Some(Reverse(node)) = ready.pop() {
        order.push(node);
        for &to in &feeds[node] {
            waiting[to] -= 1;
            if waiting[to] == 0 {
                ready.push(Reverse(to));
            }
        }
    }
    if order.len() < count {
        let found = cycles::report(draft, &needs, &feeds);
        draft.diagnostics.extend(found);
        return;
    }
    // The order of the file counts where it is valid: then nodes keep their numbers.
    let valid = needs
        .iter()
        .enumerate()
        .all(|(to, needs)| needs.iter().all(|need| need.from < to));
    if !valid {
        apply(draft, &order);
    }
}

fn needs(draft: &Draft<'_>) -> Vec<Vec<Need>> {
    let mut side_producers = std::collections::HashMap::new();
    for (index, node) in draft.nodes.iter().enumerate() {
        for entry in node.contract.tag_map(Group::OutputSides).entries() {
            side_producers.entry(entry.name.as_str()).or_insert(index);
        }
    }
    let of = |node: &super::draft::DraftNode| {
        let mut needs = Vec::new();
        // Its loops are inside of it, and nobody knows how they are closed: an unknown calculator may be a subgraph that is missing.
        if node.is_wrong || node.is_unknown {
            return needs;
        }
        for (input, stream) in node.inputs.iter().enumerate() {
            let Some(stream) = stream else { continue };
            let Producer::Node(from) = draft.streams[*stream as usize].producer else {
                continue;
            };
            if !node.back_edges[input] {
                let port = node.port(Group::Inputs, input);
                needs.push(Need {
                    from: usize::from(from),
                    name: port.name.clone(),
                    span: port.span,
                    input: Some(input),
                });
            }
        }
        for entry in node.contract.tag_map(Group::InputSides).entries() {
            if let Some(&from) = side_producers.get(entry.name.as_str()) {
                needs.push(Need {
                    from,
                    name: entry.name.clone(),
                    span: entry.span,
                    input: None,
                });
            }
        }
        needs
    };
    draft.nodes.iter().map(of).collect()
}

/// Renumbers the nodes; `order` lists old numbers.
fn apply(draft: &mut Draft<'_>, order: &[usize]) {
    let mut new_number = vec![0u16; order.len()];
    for (new, &old) in order.iter().enumerate() {
        new_number[old] = new as u16;
    }
    let mut old: Vec<Option<_>> = std::mem::take(&mut draft.nodes)
        .into_iter()
        .map(Some)
        .collect();
    draft.nodes = order
        .iter()
        .map(|&at| old[at].take().expect("an order names each node once"))
        .collect();
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
