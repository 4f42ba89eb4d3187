//! Queues that fill up before their node can run. Such graphs deadlock, or their queues exceed the
//! limit.

use graphmill_grammar::Diagnostic;

use crate::{
    plan::Producer,
    {codes::streams, contract::Group, policy::Policy},
};

use super::{
    assemble,
    draft::{Draft, DraftNode},
};

/// Warns about queues that are certain to fill up.
pub(super) fn check(draft: &mut Draft<'_>) {
    let limit = assemble::queue_limit(draft);
    if limit == usize::MAX {
        return;
    }
    let layers = layers(draft);
    let nodes = draft.nodes.iter();
    let triggers = nodes.filter_map(|node| trigger_beyond_limit(draft, node, limit));
    let nodes = draft.nodes.iter();
    let joins = nodes.filter_map(|node| joined_layers(draft, node, &layers, limit));
    let found: Vec<Diagnostic> = triggers.chain(joins).collect();
    draft.diagnostics.extend(found);
}

fn trigger_beyond_limit(draft: &Draft<'_>, node: &DraftNode, limit: usize) -> Option<Diagnostic> {
    let Policy::FixedSize(sizes) = &node.policy else {
        return None;
    };
    if sizes.trigger <= limit {
        return None;
    }
    let handler = node.handler(draft.graph);
    let place = handler.map_or(node.config.place(), |handler| handler.head);
    let (name, trigger) = (&node.name, sizes.trigger);
    let message = format!(
        "the queues of `{name}` are full before any is cut: `trigger_queue_size` is {trigger}, `max_queue_size` is {limit}"
    );
    let diagnostic = Diagnostic::warning(&streams::QUEUE_TOO_SMALL, place, message);
    let diagnostic = match &draft.graph.max_queue_size {
        Some(size) => diagnostic.also(size.span, "limited here"),
        None => diagnostic,
    };
    Some(diagnostic.hint(format!(
        "give `max_queue_size` at least {trigger}, or lower `trigger_queue_size`"
    )))
}

/// Lowest and highest layer of the sources of a node's packets; `None` without a source.
type Layers = Option<(i32, i32)>;

/// Returns the layers of each node. Back edges are left out: their packets come from the same
/// sources.
fn layers(draft: &Draft<'_>) -> Vec<Layers> {
    let mut layers: Vec<Layers> = Vec::with_capacity(draft.nodes.len());
    for node in &draft.nodes {
        let own = node.config.source_layer.map_or(0, |layer| layer.value);
        let is_source = node.inputs.is_empty() && node.contract.event_types.is_empty();
        let inputs =
            (0..node.inputs.len()).filter_map(|input| input_layers(draft, node, input, &layers));
        layers.push(if is_source {
            Some((own, own))
        } else {
            inputs.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
        });
    }
    layers
}

fn input_layers(draft: &Draft<'_>, node: &DraftNode, input: usize, layers: &[Layers]) -> Layers {
    let stream = &draft.streams[node.inputs[input]? as usize];
    match stream.producer {
        Producer::Node(from) if !node.back_edges[input] => *layers.get(usize::from(from))?,
        Producer::Node(_) | Producer::Graph(_) => None,
    }
}

/// Reports a join of a source with one of a higher layer, which starts only after the first has
/// ended.
fn joined_layers(
    draft: &Draft<'_>,
    node: &DraftNode,
    layers: &[Layers],
    limit: usize,
) -> Option<Diagnostic> {
    let together: Vec<Vec<usize>> = match &node.policy {
        Policy::Default | Policy::Batch(_) | Policy::Barrier => {
            vec![(0..node.inputs.len()).collect()]
        }
        Policy::SyncSet(sets) => {
            let inputs = |set: &Vec<u16>| set.iter().map(|&input| usize::from(input)).collect();
            sets.iter().map(inputs).collect()
        }
        _ => return None,
    };
    together.iter().find_map(|set| {
        let with = |input: &usize| Some((*input, input_layers(draft, node, *input, layers)?));
        let (early, (_, ends)) = set.iter().filter_map(with).min_by_key(|(_, layers)| layers.1)?;
        let (late, (begins, _)) = set.iter().filter_map(with).max_by_key(|(_, layers)| layers.0)?;
        if ends >= begins {
            return None;
        }
        let (early, late) = (node.port(Group::Inputs, early), node.port(Group::Inputs, late));
        let message = format!(
            "all packets of `{}` must wait for `{}`: source layer {begins} starts when layer {ends} has ended",
            early.name, late.name
        );
        Some(
            Diagnostic::warning(&streams::LAYERS_JOINED, early.span, message)
                .label(format!("this queue holds {limit} packets"))
                .also(late.span, format!("of layer {begins}"))
                .hint("give both sources the same `source_layer`, or the node the policy `ImmediateInputStreamHandler`"),
        )
    })
}
