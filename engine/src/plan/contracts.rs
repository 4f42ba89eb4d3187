//! Contracts: each node's calculator is looked up, reads its options and declares its ports, and the ports that the graph
//! connects are compared with those.

use graphmill_grammar::{Diagnostic, Node, OptionsMessage, PortSpec as Port, suggest};

use crate::{
    codes::{calculators, streams},
    contract::{Contract, Declared, Group},
    tags::{TagEntry, TagMap},
};

use super::draft::{Draft, DraftNode};

const GROUPS: [Group; 4] = [
    Group::Inputs,
    Group::Outputs,
    Group::InputSides,
    Group::OutputSides,
];

pub(super) fn resolve(draft: &mut Draft<'_>) {
    let package = draft.package();
    if draft.nodes.len() >= usize::from(u16::MAX) {
        let message = format!("a graph of {} nodes is too large", draft.nodes.len());
        draft.report(Diagnostic::error(
            &calculators::TOO_LARGE,
            draft.graph.head,
            message,
        ));
        draft.nodes.clear();
        return;
    }
    let registry = &draft.environment.registry;
    let incomplete = draft.incomplete;
    let mut found = Vec::new();
    for node in &mut draft.nodes {
        let ports = [
            &node.config.input_stream,
            &node.config.output_stream,
            &node.config.input_side_packet,
            &node.config.output_side_packet,
        ];
        node.contract = Contract::new(ports.map(|ports| tag_map(ports)));
        let Some(registration) = registry.calculator(node.calculator(), package) else {
            if !node.calculator().is_empty() {
                found.push(unknown(node, registry.names()));
            }
            continue;
        };
        let (own, others) = (registration.name, registration.option_names);
        let options = options(&node.config, own, others, &mut found);
        match (registration.compile)(&mut node.contract, options.as_ref()) {
            Ok(factory) => {
                compare(node, incomplete, &mut found);
                node.factory = Some(factory);
                node.is_async = registration.is_async;
            }
            Err(diagnostics) => found.extend(diagnostics),
        }
    }
    draft.diagnostics.extend(found);
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
    let diagnostic = Diagnostic::error(
        &calculators::UNKNOWN_CALCULATOR,
        place,
        format!("unknown calculator `{name}`"),
    )
    .label("not registered in this program");
    match nearest_name(name, names) {
        Some(near) => diagnostic.fix(format!("did you mean `{near}`?"), place, format!("\"{near}\"")),
        None => diagnostic.hint(
            "if it is in a crate of your own, name that crate in the program with `use my_nodes as _;`: \
             a crate that nothing names is not linked",
        ),
    }
}

/// The registered name that is nearest to `name`. All names end alike, so what they begin with decides whether they are
/// near at all.
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

/// The message with the calculator's options; any other is refused.
pub(super) fn options(
    node: &Node,
    calculator: &str,
    option_names: &[&str],
    found: &mut Vec<Diagnostic>,
) -> Option<OptionsMessage> {
    let own = format!("{calculator}Options");
    let mut chosen: Option<OptionsMessage> = None;
    for message in node.all_options() {
        let short = |name: &str| {
            name.rsplit_once('.')
                .map_or(name, |(_, last)| last)
                .to_owned()
        };
        let taken = message.short_name() == own
            || option_names
                .iter()
                .any(|name| short(name) == message.short_name());
        if taken {
            // Of the same options in both forms, the extension comes first and counts.
            chosen.get_or_insert_with(|| message.clone());
        } else {
            let mut names: Vec<&str> = option_names.to_vec();
            names.push(&own);
            let given = message.type_name();
            found.push(
                Diagnostic::error(
                    &calculators::FOREIGN_OPTIONS,
                    message.name.span,
                    format!("`{calculator}` takes no options of type `{given}`"),
                )
                .label("these options would have no effect")
                .hint(format!("the type of its options is `{}`", names[0])),
            );
        }
    }
    chosen
}

/// Compares the ports that the graph connects with those that the contract declares.
fn compare(node: &DraftNode, incomplete: bool, found: &mut Vec<Diagnostic>) {
    let calculator = node.calculator();
    let contract = &node.contract;
    for group in GROUPS {
        for (index, port) in contract.tag_map(group).entries().iter().enumerate() {
            if contract.spec(group, index).is_none() {
                found.push(unexpected(node, group, index, port));
            }
        }
    }
    let in_doubt = node.config.incomplete || (incomplete && !node.within.is_empty());
    for missing in contract.missing.iter().filter(|_| !in_doubt) {
        // A misspelt tag is one mistake, not two.
        if !misspelt(node, missing) {
            found.push(self::missing(node, missing));
        }
    }
    // A calculator that misses ports has an opinion about the rest that helps nobody.
    if contract.missing.is_empty() {
        for problem in &contract.problems {
            let message = format!("`{calculator}`: {problem}");
            found.push(Diagnostic::error(
                &streams::BAD_PORTS,
                node.config.place(),
                message,
            ));
        }
    }
}

fn declared_of(node: &DraftNode, group: Group) -> impl Iterator<Item = &Declared> {
    node.contract
        .declared
        .iter()
        .filter(move |declared| declared.group == group)
}

fn unexpected(node: &DraftNode, group: Group, index: usize, port: &TagEntry) -> Diagnostic {
    let calculator = node.calculator();
    let noun = group.noun();
    let what = if port.tag.is_empty() {
        format!("{noun} without a tag")
    } else {
        format!("{noun} `{}`", node.port_label(group, index))
    };
    let message = if port.index > 0 && node.contract.spec(group, index - 1).is_some() {
        format!("`{calculator}` takes no further {what}")
    } else {
        format!("`{calculator}` has no {what}")
    };
    let diagnostic =
        Diagnostic::error(&streams::UNEXPECTED_PORT, port.span, message).label("no such port");
    let tags: Vec<&str> = declared_of(node, group)
        .map(|declared| declared.tag.as_str())
        .collect();
    if let Some(near) = nearest_tag(node, group, &port.tag) {
        return diagnostic.hint(format!("did you mean `{near}:{}`?", port.name));
    }
    if tags.is_empty() {
        return diagnostic.hint(format!("it has no {noun}s"));
    }
    let list: Vec<String> = tags
        .iter()
        .map(|tag| {
            if tag.is_empty() {
                "one without a tag".into()
            } else {
                format!("`{tag}`")
            }
        })
        .collect();
    diagnostic.hint(format!("its {noun}s: {}", list.join(", ")))
}

/// The declared tag that a tag the calculator does not have may be meant for.
fn nearest_tag<'a>(node: &'a DraftNode, group: Group, tag: &str) -> Option<&'a str> {
    let tags = declared_of(node, group).map(|declared| declared.tag.as_str());
    suggest::nearest(tag, tags.filter(|other| !other.is_empty() && *other != tag))
}

/// Whether a port that is missing seems to be there under a misspelt tag.
fn misspelt(node: &DraftNode, missing: &Declared) -> bool {
    let map = node.contract.tag_map(missing.group);
    let mut unknown =
        (0..map.len()).filter(|&index| node.contract.spec(missing.group, index).is_none());
    unknown.any(|index| {
        nearest_tag(node, missing.group, &map.entries()[index].tag) == Some(&missing.tag)
    })
}

fn missing(node: &DraftNode, missing: &Declared) -> Diagnostic {
    let noun = missing.group.noun();
    let field = missing.group.field();
    let (what, example) = if missing.tag.is_empty() {
        (format!("{noun} without a tag"), "name".to_owned())
    } else {
        (
            format!("{noun} `{}`", missing.tag),
            format!("{}:name", missing.tag),
        )
    };
    Diagnostic::error(
        &streams::MISSING_PORT,
        node.config.place(),
        format!("`{}` needs the {what}", node.calculator()),
    )
    .label("not connected here")
    .hint(format!("add `{field}: \"{example}\"`"))
}
