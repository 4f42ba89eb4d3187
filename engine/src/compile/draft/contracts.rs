//! Contracts: finds each node's calculator, reads its options, lets it declare its ports, and
//! compares the declarations with the connected ports.

use graphmill_grammar::{Diagnostic, Node, OptionsMessage, PortSpec as Port, Span, suggest};

use crate::{
    codes::calculators,
    contract::Contract,
    registry::LeftOut,
    tags::{TagEntry, TagMap},
};

use super::{Draft, DraftNode, ports};

/// Maximum number of nodes, of graph inputs, and of ports of a node: all are numbered with 16 bits.
pub(crate) const MOST: usize = u16::MAX as usize - 1;

pub(crate) fn resolve(draft: &mut Draft<'_>) {
    let package = draft.package();
    if let Some(diagnostic) = too_large(draft) {
        draft.report(diagnostic);
        draft.nodes.clear();
        return;
    }
    let registry = &draft.environment.registry;
    let in_doubt = draft.streams_in_doubt || draft.sides_in_doubt;
    let mut found = Vec::new();
    for node in &mut draft.nodes {
        node.contract = Contract::new(ports_of(&node.config).map(tag_map));
        if node.is_wrong {
            continue;
        }
        let Some(registration) = registry.calculator(node.calculator(), package) else {
            node.is_unknown = true;
            if !node.calculator().is_empty() {
                found.push(unknown(node, registry.names()));
            }
            continue;
        };
        let (own, others) = (registration.name, registration.option_names);
        let options = options(&node.config, own, others, &mut found);
        match (registration.compile)(&mut node.contract, options.as_ref()) {
            Ok(factory) => {
                ports::compare(node, in_doubt, &mut found);
                ports::problems(node, registration, options.as_ref(), &mut found);
                node.factory = Some(factory);
                node.is_async = registration.is_async;
            }
            Err(diagnostics) => found.extend(diagnostics),
        }
    }
    // Unreadable options have been reported by the grammar.
    draft.incomplete |= draft.nodes.iter().any(|node| node.factory.is_none());
    draft.diagnostics.extend(found);
}

fn too_large(draft: &Draft<'_>) -> Option<Diagnostic> {
    let refuse = |span: Span, what: &str, count: usize| {
        let message = format!("too many {what}: {count}");
        Diagnostic::error(&calculators::TOO_LARGE, span, message)
            .label(format!("expected at most {MOST}"))
    };
    let graph = draft.graph;
    if draft.nodes.len() > MOST {
        return Some(refuse(graph.head, "nodes", draft.nodes.len()));
    }
    if graph.input_stream.len() > MOST {
        let span = graph.input_stream[MOST].span;
        return Some(refuse(span, "graph inputs", graph.input_stream.len()));
    }
    draft.nodes.iter().find_map(|node| {
        let mut ports = ports_of(&node.config).into_iter();
        let many = ports.find(|ports| ports.len() > MOST)?;
        Some(refuse(many[MOST].span, "ports of a kind", many.len()))
    })
}

/// Returns the ports of a node, indexed by [`Group`](crate::contract::Group).
fn ports_of(config: &Node) -> [&[Port]; 4] {
    [
        &config.input_stream,
        &config.output_stream,
        &config.input_side_packet,
        &config.output_side_packet,
    ]
}

fn tag_map(ports: &[Port]) -> TagMap {
    let entry = |port: &Port| TagEntry {
        tag: port.tag.value.clone(),
        index: port.index as usize,
        name: port.name.value.clone(),
        span: port.span,
    };
    TagMap::new(ports.iter().map(entry).collect())
}

fn unknown<'a>(node: &DraftNode, names: impl Iterator<Item = &'a str>) -> Diagnostic {
    let name = node.calculator();
    let place = node.config.place();
    let message = format!("unknown calculator `{name}`");
    let diagnostic = Diagnostic::error(&calculators::UNKNOWN_CALCULATOR, place, message);
    if let Some(feature) = LeftOut::feature_of(name) {
        return diagnostic.label("not in this build").hint(format!(
            "this program was built without the feature `{feature}`, which the default build has"
        ));
    }
    let diagnostic = diagnostic.label("not registered in this program");
    match nearest_name(name, names) {
        Some(near) => diagnostic.fix(format!("did you mean `{near}`?"), place, format!("\"{near}\"")),
        None => diagnostic.hint(
            "`graphmill calculators` lists those that there are; if it is in a crate of your own, name that \
             crate in the program with `use my_nodes as _;`: a crate that nothing names is not linked",
        ),
    }
}

/// Returns the registered name that is nearest to `name`. All names end alike, so only names with
/// the same first three letters count.
fn nearest_name<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let begins_alike = |other: &&str| {
        other
            .chars()
            .zip(name.chars())
            .take_while(|(a, b)| a.eq_ignore_ascii_case(b))
            .count()
            >= 3
    };
    suggest::nearest(name, names.filter(begins_alike))
}

/// Returns the message with the calculator's options, and reports other messages.
pub(crate) fn options(
    node: &Node,
    calculator: &str,
    option_names: &[&str],
    found: &mut Vec<Diagnostic>,
) -> Option<OptionsMessage> {
    let own = format!("{calculator}Options");
    let mut chosen: Option<OptionsMessage> = None;
    for message in node.all_options() {
        let is_meant = |name: &&str| name.rsplit('.').next() == Some(message.short_name());
        if message.short_name() == own || option_names.iter().any(is_meant) {
            // If both forms have the same type, the extension comes first and wins.
            chosen.get_or_insert_with(|| message.clone());
        } else {
            let taken = option_names.first().copied().unwrap_or(&own);
            let given = message.type_name();
            let text = format!("`{calculator}` takes no options of type `{given}`");
            found.push(
                Diagnostic::error(&calculators::FOREIGN_OPTIONS, message.name.span, text)
                    .label("these options would have no effect")
                    .hint(format!("the type of its options is `{taken}`")),
            );
        }
    }
    chosen
}
