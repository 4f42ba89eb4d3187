//! Ports and options: compares the fields of a node with the declarations of its contract.

use graphmill_grammar::{Code, Diagnostic, OptionsMessage, Span, ast, codes::fields, suggest};

use crate::{
    codes::streams,
    contract::{Group, PortDeclaration, Problem},
    registry::Registration,
    tags::TagEntry,
};

use super::DraftNode;

/// Maximum number of ports in a hint.
const MAX_LISTED: usize = 12;

/// Compares the connected ports with the declared ones. With `in_doubt`, streams of the graph may
/// be missing only because of a mistake that has been reported.
pub(crate) fn compare(node: &DraftNode, in_doubt: bool, found: &mut Vec<Diagnostic>) {
    for group in Group::ALL {
        let map = node.contract.tag_map(group);
        let mut unknown: Vec<usize> = (0..map.len())
            .filter(|&index| node.contract.spec(group, index).is_none())
            .collect();
        let missing = node.contract.missing.iter();
        let mut missing: Vec<&PortDeclaration> =
            missing.filter(|missing| missing.group == group).collect();
        // A port with a wrong tag is one mistake, not an unknown port and a missing one.
        unknown.retain(|&index| {
            let port = &map.entries()[index];
            let Some(at) = meant(port, &missing) else {
                return true;
            };
            let meant = missing.swap_remove(at);
            found.push(misnamed(node, group, index, meant));
            false
        });
        if let (&[index], &[meant]) = (&*unknown, &*missing) {
            found.push(misnamed(node, group, index, meant));
            continue;
        }
        for index in unknown {
            found.push(unexpected(node, group, index));
        }
        let in_doubt =
            node.config.refused.may_be(group.field()) || (in_doubt && !node.is_top_level());
        for missing in missing.into_iter().filter(|_| !in_doubt) {
            found.push(self::missing(node, missing));
        }
    }
}

/// Returns the position of the missing port whose tag is misspelled in `port`.
fn meant(port: &TagEntry, missing: &[&PortDeclaration]) -> Option<usize> {
    if port.tag.is_empty() {
        return None;
    }
    let tags = missing.iter().map(|missing| missing.tag.as_str());
    let near = suggest::nearest(&port.tag, tags.filter(|tag| !tag.is_empty()))?;
    missing.iter().position(|missing| missing.tag == near)
}

fn declared_of(node: &DraftNode, group: Group) -> impl Iterator<Item = &PortDeclaration> {
    let declared = node.contract.declared.iter();
    declared.filter(move |declared| declared.group == group)
}

/// Describes a port of a node for messages.
fn describe(node: &DraftNode, group: Group, index: usize) -> String {
    let noun = group.noun();
    let port = node.port(group, index);
    if port.tag.is_empty() {
        format!("{noun} without a tag")
    } else {
        format!("{noun} `{}`", node.port_label(group, index))
    }
}

/// Describes a declared port for messages.
fn describe_declared(declared: &PortDeclaration) -> String {
    let noun = declared.group.noun();
    match declared.tag.strip_prefix(':').unwrap_or(&declared.tag) {
        "" => format!("{noun} without a tag"),
        _ if declared.tag.starts_with(':') => format!("{noun} `{}`", declared.tag),
        tag => format!("{noun} `{tag}`"),
    }
}

/// Returns the text that connects `name` to a declared port in a graph file.
fn spelling(declared: &PortDeclaration, name: &str) -> String {
    match declared.tag.as_str() {
        "" => name.to_owned(),
        tag if tag.starts_with(':') => name.to_owned(),
        tag => format!("{tag}:{name}"),
    }
}

/// Reports a port that the calculator does not have, next to one that it needs.
fn misnamed(node: &DraftNode, group: Group, index: usize, meant: &PortDeclaration) -> Diagnostic {
    let port = node.port(group, index);
    let (calculator, given) = (node.calculator(), describe(node, group, index));
    let wanted = describe_declared(meant);
    let message = format!("`{calculator}` has no {given}, but needs the {wanted}");
    let diagnostic =
        Diagnostic::error(&streams::UNEXPECTED_PORT, port.span, message).label("no such port");
    did_you_mean(diagnostic, port, &spelling(meant, &port.name))
}

fn did_you_mean(diagnostic: Diagnostic, port: &TagEntry, meant: &str) -> Diagnostic {
    let edit = port.whole_span().map(|span| (span, meant.to_owned()));
    diagnostic.did_you_mean(meant, edit)
}

fn unexpected(node: &DraftNode, group: Group, index: usize) -> Diagnostic {
    let calculator = node.calculator();
    let noun = group.noun();
    let port = node.port(group, index);
    let what = describe(node, group, index);
    let follows = port.index > 0 && index > 0 && node.contract.spec(group, index - 1).is_some();
    let message = if follows {
        format!("`{calculator}` takes no further {what}")
    } else {
        format!("`{calculator}` has no {what}")
    };
    let diagnostic =
        Diagnostic::error(&streams::UNEXPECTED_PORT, port.span, message).label("no such port");
    let others = declared_of(node, group)
        .filter(|declared| declared.tag != port.tag && !declared.tag.contains(':'));
    let tags = others.map(|declared| declared.tag.as_str());
    if let Some(near) = suggest::nearest(&port.tag, tags.filter(|tag| !tag.is_empty()))
        && node.contract.count(group, near) == 0
    {
        return did_you_mean(diagnostic, port, &format!("{near}:{}", port.name));
    }
    let mut listed: Vec<String> = declared_of(node, group)
        .map(|declared| match declared.tag.as_str() {
            "" => "one without a tag".to_owned(),
            tag => format!("`{tag}`"),
        })
        .collect();
    listed.dedup();
    if listed.is_empty() {
        return diagnostic.hint(format!("it has no {noun}s"));
    }
    if listed.len() > MAX_LISTED {
        listed.truncate(MAX_LISTED);
        listed.push("..".to_owned());
    }
    diagnostic.hint(format!("its {noun}s: {}", listed.join(", ")))
}

fn missing(node: &DraftNode, missing: &PortDeclaration) -> Diagnostic {
    let (calculator, wanted) = (node.calculator(), describe_declared(missing));
    let message = format!("`{calculator}` needs the {wanted}");
    let (field, port) = (missing.group.field(), spelling(missing, "name"));
    Diagnostic::error(&streams::MISSING_PORT, node.config.place(), message)
        .label("not connected here")
        .hint(format!(
            "add `{field}: \"{port}\"` with the name of the stream or side packet"
        ))
}

/// Reports a tag and index that is not an input of the node. `span` is the text, with or without
/// quotes.
pub(crate) fn no_such_input(
    node: &DraftNode,
    code: &'static Code,
    wanted: &str,
    span: Span,
) -> Diagnostic {
    let message = format!("`{wanted}` is not an input of `{}`", node.calculator());
    let diagnostic = Diagnostic::error(code, span, message).label("no such input");
    let map = node.contract.tag_map(Group::Inputs);
    let references: Vec<String> = (0..map.len().min(MAX_LISTED))
        .map(|input| map.reference(input))
        .collect();
    if references.is_empty() {
        return diagnostic.hint("the node has no inputs");
    }
    // If the text is the name of a stream, suggest its port.
    let name = wanted.to_lowercase();
    let by_name = map.entries().iter().position(|entry| entry.name == name);
    let near = by_name.map(|input| map.reference(input)).or_else(|| {
        let names = references.iter().map(String::as_str);
        suggest::nearest(wanted, names).map(str::to_owned)
    });
    let Some(near) = near else {
        let listed: Vec<String> = references.iter().map(|name| format!("`{name}`")).collect();
        return diagnostic.hint(format!("its inputs are {}", listed.join(", ")));
    };
    // Replace the text only if the span holds nothing but the reference.
    let text = match span.len().checked_sub(wanted.len()) {
        Some(0) => Some(near.clone()),
        Some(2) => Some(format!("\"{near}\"")),
        _ => None,
    };
    let text = text.filter(|_| node.is_top_level());
    diagnostic.did_you_mean(&near, text.map(|text| (span, text)))
}

/// Reports the problems that the calculator itself has found.
pub(crate) fn problems(
    node: &DraftNode,
    registration: &Registration,
    options: Option<&OptionsMessage>,
    found: &mut Vec<Diagnostic>,
) {
    // Missing ports lead to further problems that would not help.
    if !node.contract.missing.is_empty() {
        return;
    }
    let calculator = node.calculator();
    let place = node.config.place();
    found.extend(node.contract.problems.iter().map(|problem| match problem {
        Problem::Combination(message) => {
            // A node of a subgraph may have its options from the node that stands for the subgraph.
            let options = options.filter(|_| !node.is_top_level());
            let place = options.map_or(place, |options| options.name.span);
            let message = format!("`{calculator}`: {message}");
            Diagnostic::error(&streams::BAD_PORTS, place, message)
        }
        Problem::Option { path, message } => {
            let place = options.map_or(place, |options| {
                value_span(&options.body, path).unwrap_or(options.name.span)
            });
            let message = format!("`{calculator}`: {message}");
            Diagnostic::error(&fields::INVALID_VALUE, place, message)
        }
        Problem::MissingOption { name, example } => {
            missing_option(node, registration, options, name, example)
        }
    }));
}

/// Returns the location of the value at a path such as `field` or `message.field`.
pub(crate) fn value_span(message: &ast::Message, path: &str) -> Option<Span> {
    let (name, rest) = path.split_once('.').unwrap_or((path, ""));
    let field = message.fields_named(name).last()?;
    match &field.value.value {
        ast::ValueKind::Message(inner) if !rest.is_empty() => value_span(inner, rest),
        _ if rest.is_empty() => Some(field.value.span),
        _ => None,
    }
}

fn missing_option(
    node: &DraftNode,
    registration: &Registration,
    options: Option<&OptionsMessage>,
    name: &str,
    example: &str,
) -> Diagnostic {
    let place = options.map_or(node.config.place(), |options| options.name.span);
    let message = format!("`{}` needs the option `{name}`", node.calculator());
    let diagnostic = Diagnostic::error(&fields::MISSING_FIELD, place, message)
        .label(format!("`{name}` is missing"));
    let field = format!("{name}: {example}");
    let given = options.and_then(|options| options.body.delimiters);
    let (advice, addition) = if let Some((open, _)) = given {
        let edit = node
            .is_top_level()
            .then(|| (open.at_end(), format!(" {field}")));
        (format!("add `{field}`"), edit)
    } else {
        let own = format!("mediapipe.{}Options", registration.name);
        let of = registration.option_names.first();
        let of = of.map_or(own.as_str(), |name| name);
        let text = format!("node_options {{ [type.googleapis.com/{of}] {{ {field} }} }}");
        (format!("add `{text}`"), node.addition(&text))
    };
    diagnostic.advise(advice, addition)
}
