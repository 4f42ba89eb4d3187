//! Cycles: nodes that wait for each other, shown node by node.

use std::collections::VecDeque;

use graphmill_grammar::Diagnostic;

use crate::{codes::cycles, contract::Group};

use super::{draft::Draft, loops::components, order::Need};

/// Shows one cycle of each group of nodes that wait for each other. `needs` lists by node what it needs, `feeds` the nodes
/// that need something of it.
pub(super) fn report(
    draft: &Draft<'_>,
    needs: &[Vec<Need>],
    feeds: &[Vec<usize>],
) -> Vec<Diagnostic> {
    let component = components(feeds);
    let mut shown = vec![false; needs.len()];
    let mut found = Vec::new();
    for first in 0..needs.len() {
        let inside = |need: &&Need| component[need.from] == component[first];
        if needs[first].iter().any(|need| inside(&need)) && !shown[component[first]] {
            shown[component[first]] = true;
            found.push(cycle(draft, &shortest(needs, &component, first)));
        }
    }
    found
}

/// The steps of a shortest way from a node back to itself, in the direction in which packets flow. Each is the node that
/// needs something, and what it needs; the last one is the step into `first`.
fn shortest<'a>(
    needs: &'a [Vec<Need>],
    component: &[usize],
    first: usize,
) -> Vec<(usize, &'a Need)> {
    let mut queue = VecDeque::from([first]);
    // By node: the step by which the search came to it, against the flow.
    let mut reached: Vec<Option<(usize, &Need)>> = vec![None; needs.len()];
    'search: while let Some(node) = queue.pop_front() {
        for need in &needs[node] {
            if component[need.from] == component[first] && reached[need.from].is_none() {
                reached[need.from] = Some((node, need));
                if need.from == first {
                    break 'search;
                }
                queue.push_back(need.from);
            }
        }
    }
    let mut steps = Vec::new();
    let mut node = first;
    while let Some(step) = reached[node] {
        steps.push(step);
        node = step.0;
        if node == first {
            break;
        }
    }
    steps
}

fn cycle(draft: &Draft<'_>, steps: &[(usize, &Need)]) -> Diagnostic {
    let (first, closing) = steps[steps.len() - 1];
    let node = &draft.nodes[first];
    let mut shown: Vec<String> = std::iter::once(first)
        .chain(steps.iter().map(|step| step.0))
        .map(|node| format!("`{}`", draft.nodes[node].name))
        .collect();
    if shown.len() > MOST_SHOWN {
        let left_out = shown.len() - MOST_SHOWN;
        let cut = MOST_SHOWN - 2;
        shown.splice(cut..cut + left_out, [format!(".. {left_out} more ..")]);
    }
    let mut diagnostic = Diagnostic::error(
        &cycles::CYCLE,
        closing.span,
        format!("nodes wait for each other: {}", shown.join(" > ")),
    )
    .label(format!("`{}` needs `{}`", node.name, closing.name));
    for (node, need) in steps.iter().take(steps.len().min(MOST_SHOWN) - 1) {
        let who = &draft.nodes[*node].name;
        diagnostic = diagnostic.also(need.span, format!("`{who}` needs `{}`", need.name));
    }
    let Some(input) = closing.input else {
        return diagnostic.hint("side packets cannot form loops");
    };
    let reference = node.contract.tag_map(Group::Inputs).reference(input);
    let field = format!("input_stream_info {{ tag_index: \"{reference}\" back_edge: true }}");
    let advice = format!(
        "if this input brings back what an earlier round made, add `{field}` to `{}`",
        node.name
    );
    match node.addition(&field) {
        Some((span, text)) => diagnostic.fix(advice, span, text),
        None => diagnostic.hint(advice),
    }
}

/// How many nodes of a cycle are shown.
const MOST_SHOWN: usize = 12;
