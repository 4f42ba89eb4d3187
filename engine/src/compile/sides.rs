//! Side packets and resources: connects each input side packet to its producer or resource. The
//! others must be given when a session starts.

use std::collections::HashSet;

use graphmill_grammar::{Diagnostic, Span};

use crate::{
    codes::sides,
    contract::{Arity, Group, PortSpec, ResourceNeed},
    error::Error,
    packet::type_names,
    registry::environment::Loading,
    resource::INVALID_RESOURCE,
    tags::TagEntry,
};

use super::{
    draft::{Draft, DraftNode, DraftResource, DraftSide},
    expand::option_place,
    types::Types,
};

pub(super) fn connect(draft: &mut Draft<'_>) {
    produce(draft);
    consume(draft);
    check_types(draft);
    define_resources(draft);
}

fn side(draft: &mut Draft<'_>, name: &str, span: Span) -> u32 {
    if let Some(&id) = draft.side_ids.get(name) {
        return id;
    }
    let id = draft.sides.len() as u32;
    draft.side_ids.insert(name.to_owned(), id);
    draft.sides.push(DraftSide {
        name: name.to_owned(),
        producer: None,
        span,
        required: false,
        types: Vec::new(),
        resource: None,
    });
    id
}

fn produce(draft: &mut Draft<'_>) {
    for node in 0..draft.nodes.len() {
        for output in 0..draft.nodes[node].contract.tag_map(Group::OutputSides).len() {
            let port = draft.nodes[node].port(Group::OutputSides, output).clone();
            let known = draft.side_ids.get(&port.name).copied();
            let id = side(draft, &port.name, port.span);
            if let Some(first) = known {
                let first = draft.sides[first as usize].span;
                let message = format!("side packet `{}` is produced twice", port.name);
                draft.report(
                    Diagnostic::error(&sides::TWO_SIDE_PRODUCERS, port.span, message)
                        .label("produced again here")
                        .also(first, "first produced here"),
                );
            } else if !needs_resource(&draft.nodes[node], Group::OutputSides, output) {
                draft.sides[id as usize].producer = Some((node as u16, output as u16));
            }
        }
    }
}

fn consume(draft: &mut Draft<'_>) {
    for node in 0..draft.nodes.len() {
        for input in 0..draft.nodes[node].contract.tag_map(Group::InputSides).len() {
            let port = draft.nodes[node].port(Group::InputSides, input).clone();
            let id = side(draft, &port.name, port.span);
            let required = is_required(&draft.nodes[node], input);
            let side = &mut draft.sides[id as usize];
            side.required |= required && side.producer.is_none();
        }
    }
}

/// Returns `true` if the contract requires the input side packet.
fn is_required(node: &DraftNode, input: usize) -> bool {
    let port = node.port(Group::InputSides, input);
    let declared = node.contract.declared.iter();
    let mut same = declared.filter(|declared| {
        declared.group == Group::InputSides
            && declared.tag.split(':').next().unwrap_or("") == port.tag
    });
    same.any(|declared| matches!(declared.arity, Arity::Required | Arity::Repeated))
}

fn check_types(draft: &mut Draft<'_>) {
    let mut types = Types::default();
    let variables: Vec<usize> = draft.sides.iter().map(|_| types.fresh()).collect();
    let mut inputs = Vec::new();
    for node in 0..draft.nodes.len() {
        let ins = types.ports(draft, node, Group::InputSides);
        let outs = types.ports(draft, node, Group::OutputSides);
        let sides = (Group::InputSides, ins.as_slice());
        types.same(draft, node, Group::InputSides, &ins, sides);
        types.same(draft, node, Group::OutputSides, &outs, sides);
        for (output, &variable) in outs.iter().enumerate() {
            let id = draft.side_ids[&draft.nodes[node].port(Group::OutputSides, output).name];
            types.unify(variables[id as usize], variable);
        }
        inputs.push(ins);
    }
    let mut found = Vec::new();
    for (node, ins) in inputs.iter().enumerate() {
        for (input, &variable) in ins.iter().enumerate() {
            let port = draft.nodes[node].port(Group::InputSides, input);
            let id = draft.side_ids[&port.name] as usize;
            if !types.unify(variables[id], variable) {
                let carried = type_names(&types.known(variables[id]));
                let wanted = type_names(&types.known(variable));
                let (name, calculator) = (&port.name, draft.nodes[node].calculator());
                let message =
                    format!("side packet `{name}` is {carried}, but `{calculator}` takes {wanted}");
                let first = draft.sides[id].span;
                let diagnostic = Diagnostic::error(&sides::SIDE_TYPE, port.span, message)
                    .label(format!("expected {wanted}"));
                found.push(if first == port.span {
                    diagnostic
                } else {
                    diagnostic.also(first, format!("{carried} here"))
                });
            }
        }
    }
    for (id, &variable) in variables.iter().enumerate() {
        draft.sides[id].types = types.known(variable);
    }
    draft.diagnostics.extend(found);
}

/// Finds the node that defines each resource.
fn define_resources(draft: &mut Draft<'_>) {
    let mut found = Vec::new();
    for node in 0..draft.nodes.len() {
        for at in 0..draft.nodes[node].contract.resources.len() {
            let need = draft.nodes[node].contract.resources[at].clone();
            let port = draft.nodes[node]
                .port(need.group, usize::from(need.side))
                .clone();
            let id = draft.side_ids[&port.name] as usize;
            let resource = draft.sides[id].resource.get_or_insert(DraftResource {
                of: need.kind.of,
                defined: None,
                loaded: None,
            });
            let Some(key) = &need.key else { continue };
            let Some(first) = resource.defined else {
                resource.defined = Some((node as u16, at as u16));
                continue;
            };
            let (first_need, first_span) = definition(draft, first);
            if first_need.key.as_ref() != Some(key) {
                let message = format!("resource `{}` is defined in two ways", port.name);
                found.push(
                    Diagnostic::error(&sides::TWO_RESOURCES, port.span, message)
                        .label(format!("`{}` defines it again here, with other options", draft.nodes[node].calculator()))
                        .also(first_span, "first defined here")
                        .hint("give one of them another side packet name, or make their options equal"),
                );
            }
        }
    }
    // A node with unreadable options may define the resource.
    let unread: HashSet<&str> = draft
        .nodes
        .iter()
        .filter(|node| node.factory.is_none())
        .flat_map(|node| {
            let sides = [Group::InputSides, Group::OutputSides];
            sides.map(|group| node.contract.tag_map(group).entries())
        })
        .flatten()
        .map(|entry| entry.name.as_str())
        .collect();
    for side in &draft.sides {
        if let Some(resource) = &side.resource
            && resource.defined.is_none()
            && !draft.environment.provided.contains_key(&side.name)
            && !unread.contains(side.name.as_str())
            && !draft.sides_in_doubt
        {
            found.push(no_resource(draft, side, resource));
        }
    }
    for side in &mut draft.sides {
        side.required &= side.resource.is_none();
    }
    draft.diagnostics.extend(found);
}

fn no_resource(draft: &Draft<'_>, side: &DraftSide, resource: &DraftResource) -> Diagnostic {
    let message = format!("no node defines the resource `{}`", side.name);
    let diagnostic = Diagnostic::error(&sides::NO_RESOURCE, side.span, message)
        .label(format!("a `{}` is used here", resource.of));
    let mut defined = draft.sides.iter().filter_map(|other| {
        let same = other.resource.as_ref().filter(|it| it.of == resource.of)?;
        Some((other, definition(draft, same.defined?).1))
    });
    let Some((other, span)) = defined.next() else {
        let advice =
            "give this side packet the same name as it has at the node that loads the resource";
        return diagnostic.hint(advice);
    };
    let diagnostic = diagnostic.also(span, format!("`{}` is defined here", other.name));
    let nodes = draft.nodes.iter();
    let mut ports = nodes.flat_map(|node| node.contract.tag_map(Group::InputSides).entries());
    let port = ports.find(|port| port.span == side.span);
    let place = port.and_then(TagEntry::name_span);
    diagnostic.did_you_mean(&other.name, place.map(|span| (span, other.name.clone())))
}

fn definition<'b>(draft: &'b Draft<'_>, (node, at): (u16, u16)) -> (&'b ResourceNeed, Span) {
    let node = &draft.nodes[usize::from(node)];
    let need = &node.contract.resources[usize::from(at)];
    (need, node.port(need.group, usize::from(need.side)).span)
}

/// Loads the resources, or checks that they can be loaded. This is the last phase, because only it
/// is expensive.
pub(super) fn load(draft: &mut Draft<'_>) {
    look(draft);
    for id in 0..draft.sides.len() {
        let side = &draft.sides[id];
        let Some(resource) = &side.resource else {
            continue;
        };
        let environment = draft.environment;
        let (resources, files) = (&environment.resources, &*environment.files);
        let defined = resource.defined.and_then(|defined| {
            let need = definition(draft, defined).0;
            Some((&need.kind, environment.amended(need.key.as_ref()?)))
        });
        let found = match (environment.provided.get(&side.name), &defined) {
            (Some(provided), _) => {
                let key = defined.as_ref().map(|(_, key)| key);
                provided.load(resource.of, key, files)
            }
            (None, Some((kind, key))) if environment.loading == Loading::All => {
                resources.get(kind, key, files)
            }
            (None, Some((kind, key))) if environment.loading == Loading::Shared => {
                resources.shared(kind, key, files)
            }
            (None, _) => continue,
        };
        match found {
            Ok(loaded) => {
                if let Some(resource) = &mut draft.sides[id].resource {
                    resource.loaded = Some(loaded);
                }
            }
            Err(error) => {
                let failed = failed(draft, side, resource.defined, &error);
                draft.report(failed);
            }
        }
    }
    fit(draft);
}

/// Reports loaded resources that fail a node's check.
fn fit(draft: &mut Draft<'_>) {
    let mut found = Vec::new();
    for node in &draft.nodes {
        for need in &node.contract.resources {
            let port = node.port(need.group, usize::from(need.side));
            let side = &draft.sides[draft.side_ids[&port.name] as usize];
            let loaded = side.resource.as_ref().and_then(|it| it.loaded.as_ref());
            let (Some(fits), Some(loaded)) = (&need.fits, loaded) else {
                continue;
            };
            if let Err(error) = fits.check(loaded) {
                let (calculator, name) = (node.calculator(), &side.name);
                let message = format!("`{calculator}` cannot use resource `{name}`: {error}");
                let place = place_of(&error, node).unwrap_or(port.span);
                found.push(Diagnostic::error(&sides::RESOURCE_FAILED, place, message));
            }
        }
    }
    draft.diagnostics.extend(found);
}

/// Reports resources that cannot be loaded, if the environment asks for that check. Done even after
/// other mistakes.
pub(super) fn look(draft: &mut Draft<'_>) {
    let environment = draft.environment;
    if environment.loading != Loading::Look {
        return;
    }
    let files = &*environment.files;
    let mut found = Vec::new();
    for side in &draft.sides {
        if let Some(defined) = side.resource.as_ref().and_then(|it| it.defined)
            && !environment.provided.contains_key(&side.name)
        {
            let (need, _) = definition(draft, defined);
            let key = need.key.as_ref().expect("a definition has a key");
            let wrong = need.kind.look(&environment.amended(key), files).err();
            found.extend(wrong.map(|error| failed(draft, side, Some(defined), &error)));
        }
    }
    draft.diagnostics.extend(found);
}

/// Reports a resource that cannot be loaded, at the option that the error names, if any.
fn failed(
    draft: &Draft<'_>,
    side: &DraftSide,
    defined: Option<(u16, u16)>,
    error: &Error,
) -> Diagnostic {
    let place = defined.map_or(side.span, |defined| {
        let option = place_of(error, &draft.nodes[usize::from(defined.0)]);
        option.unwrap_or_else(|| definition(draft, defined).1)
    });
    let message = format!("cannot load resource `{}`: {error}", side.name);
    let code = match error.code.as_deref() {
        Some(INVALID_RESOURCE) => &sides::RESOURCE_INVALID,
        _ => &sides::RESOURCE_FAILED,
    };
    Diagnostic::error(code, place, message)
}

/// Returns the location of the option that an error names.
fn place_of(error: &Error, node: &DraftNode) -> Option<Span> {
    option_place(&node.config, error.field.as_deref()?)
}

/// Returns `true` if a side packet of a node names one of its resources. Sessions do not set it.
fn needs_resource(node: &DraftNode, group: Group, side: usize) -> bool {
    let mut needs = node.contract.resources.iter();
    needs.any(|need| need.group == group && usize::from(need.side) == side)
}

/// Returns `true` if an input side packet of a node is one of its resources.
pub(super) fn is_resource(node: &DraftNode, input: usize) -> bool {
    let spec = node.contract.spec(Group::InputSides, input);
    needs_resource(node, Group::InputSides, input) && matches!(spec, Some(PortSpec::Exact(_)))
}
