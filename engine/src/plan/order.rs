//! Order: nodes are numbered so that each comes after all it depends on. The order of the file is kept where it will do.

use std::{cmp::Reverse, collections::BinaryHeap};

use graphmill_grammar::{Diagnostic, Span, diag::has_errors};

use crate::{codes::cycles, contract::Group};

use super::{Producer, draft::Draft};

/// One node needs what another makes.
struct Need {
    from: usize,
    /// The name of the stream or side packet, and where the needing node says so.
    name: String,
    span: Span,
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
        let diagnostic = cycle(draft, &needs, &waiting);
        draft.report(diagnostic);
        return;
    }
    if !has_errors(&draft.diagnostics) {
        warn_of_needless_back_edges(draft, &feeds);
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
                });
            }
        }
        for entry in node.contract.tag_map(Group::InputSides).entries() {
            if let Some(&from) = side_producers.get(entry.name.as_str()) {
                needs.push(Need {
                    from,
                    name: entry.name.clone(),
                    span: entry.span,
                });
            }
        }
        needs
    };
    draft.nodes.iter().map(of).collect()
}

/// Shows one concrete cycle. Every node that still waits needs another that still waits, so walking back comes around.
fn cycle(draft: &Draft<'_>, needs: &[Vec<Need>], waiting: &[usize]) -> Diagnostic {
    let start = waiting
        .iter()
        .position(|&count| count > 0)
        .expect("a cycle leaves nodes waiting");
    let mut path: Vec<usize> = vec![start];
    let mut steps: Vec<&Need> = Vec::new();
    let around = loop {
        let node = path[path.len() - 1];
        let need = needs[node]
            .iter()
            .find(|need| waiting[need.from] > 0)
            .expect("a waiting node needs a waiting node");
        steps.push(need);
        if let Some(at) = path.iter().position(|&seen| seen == need.from) {
            break at;
        }
        path.push(need.from);
    };
    let (path, mut steps) = (&path[around..], steps.split_off(around));
    // In the direction in which packets flow, beginning with the node that comes first in the file.
    let mut names: Vec<usize> = path.to_vec();
    names.reverse();
    steps.reverse();
    let first = names
        .iter()
        .enumerate()
        .min_by_key(|(_, node)| **node)
        .map_or(0, |(at, _)| at);
    names.rotate_left(first);
    let mut shown: Vec<String> = names
        .iter()
        .map(|&node| format!("`{}`", draft.nodes[node].name))
        .collect();
    shown.push(shown[0].clone());
    // The step into the first node is the one a reader would mark.
    let closing = steps.iter().find(|need| {
        need.from == names[names.len() - 1]
            && needs[names[0]]
                .iter()
                .any(|other| std::ptr::eq(other, **need))
    });
    let closing = closing.copied().unwrap_or(steps[0]);
    let node = &draft.nodes[names[0]];
    let label = node
        .contract
        .tag_map(Group::Inputs)
        .entries()
        .iter()
        .position(|entry| entry.span == closing.span)
        .map(|input| node.port_label(Group::Inputs, input));
    let mut diagnostic = Diagnostic::error(
        &cycles::CYCLE,
        closing.span,
        format!("nodes wait for each other: {}", shown.join(" > ")),
    )
    .label(format!("`{}` needs `{}`", node.name, closing.name));
    for need in steps {
        if need.span != closing.span {
            diagnostic = diagnostic.also(need.span, format!("which needs `{}`", need.name));
        }
    }
    match label {
        Some(label) => {
            let label = if node
                .contract
                .tag_map(Group::Inputs)
                .position(&label)
                .is_some()
            {
                label
            } else {
                ":0".to_owned()
            };
            diagnostic.hint(format!(
                "if this input brings back what an earlier round made, add `input_stream_info {{ tag_index: \"{label}\" back_edge: true }}` to `{}`",
                node.name
            ))
        }
        None => diagnostic.hint("side packets cannot form loops"),
    }
}

fn warn_of_needless_back_edges(draft: &mut Draft<'_>, feeds: &[Vec<usize>]) {
    let mut found = Vec::new();
    for (index, node) in draft.nodes.iter().enumerate() {
        for (input, stream) in node.inputs.iter().enumerate() {
            if !node.back_edges[input] {
                continue;
            }
            let closes =
                stream.is_none_or(|stream| match draft.streams[stream as usize].producer {
                    Producer::Graph(_) => false,
                    Producer::Node(from) => reaches(feeds, index, usize::from(from)),
                });
            if !closes {
                let port = node.port(Group::Inputs, input);
                let message = format!(
                    "stream `{}` closes no loop, but is marked as a back edge",
                    port.name
                );
                found.push(
                    Diagnostic::warning(&cycles::BACK_EDGE_UNNEEDED, port.span, message)
                        .hint("leave out its `input_stream_info`"),
                );
            }
        }
    }
    draft.diagnostics.extend(found);
}

fn reaches(feeds: &[Vec<usize>], from: usize, to: usize) -> bool {
    let mut seen = vec![false; feeds.len()];
    let mut stack = vec![from];
    while let Some(node) = stack.pop() {
        if node == to {
            return true;
        }
        if !std::mem::replace(&mut seen[node], true) {
            stack.extend(&feeds[node]);
        }
    }
    false
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
