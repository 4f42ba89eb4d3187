//! Cycles of nodes that wait for each other, reported node by node.

use graphmill_grammar::Diagnostic;
use petgraph::{
    Direction,
    algo::kosaraju_scc,
    graph::NodeIndex,
    visit::{Bfs, EdgeRef as _, NodeIndexable as _, Walker as _},
};

use crate::{codes::cycles, contract::Group};

use super::{
    draft::Draft,
    order::{Dependencies, Dependency},
};

/// Reports one cycle for each group of nodes that wait for each other.
pub(super) fn report(draft: &Draft<'_>, needs: &Dependencies<'_>) -> Vec<Diagnostic> {
    let first = |group: Vec<NodeIndex>| {
        let first = group.iter().copied().min()?;
        (group.len() > 1 || needs.contains_edge(first, first)).then_some(first)
    };
    let groups = kosaraju_scc(needs).into_iter();
    let mut firsts: Vec<NodeIndex> = groups.filter_map(first).collect();
    firsts.sort_unstable();
    let shown = |first| cycle(draft, &shortest(needs, first));
    firsts.into_iter().map(shown).collect()
}

/// Returns the steps of a shortest cycle through a node, in the direction of packets. Each step is
/// a node and its need. The last step leads to `first`.
fn shortest<'a>(
    needs: &'a Dependencies<'_>,
    first: NodeIndex,
) -> Vec<(NodeIndex, &'a Dependency<'a>)> {
    // Rank of each node in a search from `first` against the direction of packets.
    let mut rank = vec![usize::MAX; needs.node_bound()];
    for (at, node) in Bfs::new(needs, first).iter(needs).enumerate() {
        rank[node.index()] = at;
    }
    let mut steps = Vec::new();
    let mut node = first;
    while let Some(step) = needs
        .edges_directed(node, Direction::Incoming)
        .min_by_key(|step| rank[step.source().index()])
    {
        node = step.source();
        steps.push((node, step.weight()));
        if node == first {
            break;
        }
    }
    steps
}

fn cycle(draft: &Draft<'_>, steps: &[(NodeIndex, &Dependency<'_>)]) -> Diagnostic {
    let (first, closing) = steps[steps.len() - 1];
    let node = &draft.nodes[first.index()];
    let mut shown: Vec<String> = std::iter::once(first)
        .chain(steps.iter().map(|step| step.0))
        .map(|node| format!("`{}`", draft.nodes[node.index()].name))
        .collect();
    if shown.len() > MAX_SHOWN {
        let left_out = shown.len() - MAX_SHOWN;
        let cut = MAX_SHOWN - 2;
        shown.splice(cut..cut + left_out, [format!(".. {left_out} more ..")]);
    }
    let message = format!("nodes wait for each other: {}", shown.join(" > "));
    let mut diagnostic = Diagnostic::error(&cycles::CYCLE, closing.port.span, message)
        .label(format!("`{}` needs `{}`", node.name, closing.port.name));
    for (node, need) in steps.iter().take(steps.len().min(MAX_SHOWN) - 1) {
        let who = &draft.nodes[node.index()].name;
        let needs = format!("`{who}` needs `{}`", need.port.name);
        diagnostic = diagnostic.also(need.port.span, needs);
    }
    let Some(input) = closing.input else {
        return diagnostic.hint("side packets cannot form loops");
    };
    let reference = node.contract.tag_map(Group::Inputs).reference(input);
    let field = format!("input_stream_info {{ tag_index: \"{reference}\" back_edge: true }}");
    let name = &node.name;
    let advice =
        format!("if this input brings back what an earlier round made, add `{field}` to `{name}`");
    diagnostic.advise(advice, node.addition(&field))
}

/// Maximum number of nodes shown in a cycle.
const MAX_SHOWN: usize = 12;
