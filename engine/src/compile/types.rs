//! Types of streams, found by unification.
//!
//! Every port and every stream has a type variable. A contract gives some variables a type or makes
//! two of them equal. A connection makes the variables of producer and consumer equal. If this
//! fails, the two ends have different types.

use graphmill_grammar::{Diagnostic, Span};
use petgraph::unionfind::UnionFind;

use crate::{
    codes::types,
    contract::{Group, PortSpec},
    packet::{TypeInfo, type_names},
    plan::Producer,
};

use super::{
    draft::{Draft, DraftStream},
    streams::producer_name,
};

/// Possible types of a variable, and the location that decides them. `None` if every type is
/// possible.
#[derive(Clone, Default)]
struct TypeKnowledge {
    types: Option<Vec<TypeInfo>>,
    origin: Option<Span>,
}

/// Type variables, and the equalities between them.
#[derive(Default)]
pub(super) struct Types {
    same: UnionFind<usize>,
    /// Knowledge about each variable, valid for the representative of equal variables.
    known: Vec<TypeKnowledge>,
}

impl Types {
    /// Makes a variable of any type.
    pub(super) fn fresh(&mut self) -> usize {
        self.variable(TypeKnowledge::default())
    }

    fn variable(&mut self, known: TypeKnowledge) -> usize {
        self.known.push(known);
        self.same.new_set()
    }

    /// Returns the possible types of a variable; empty if every type is possible.
    pub(super) fn known(&mut self, variable: usize) -> Vec<TypeInfo> {
        let root = self.same.find_mut(variable);
        self.known[root].types.clone().unwrap_or_default()
    }

    /// Returns the location of the port that decided the type of a variable.
    pub(super) fn origin(&mut self, variable: usize) -> Option<Span> {
        let root = self.same.find_mut(variable);
        self.known[root].origin
    }

    /// Makes two variables equal. If no type fits both, changes nothing and returns `false`.
    pub(super) fn unify(&mut self, a: usize, b: usize) -> bool {
        let (a, b) = (self.same.find_mut(a), self.same.find_mut(b));
        if a == b {
            return true;
        }
        let (left, right) = (&self.known[a], &self.known[b]);
        let both = match (&left.types, &right.types) {
            (None, _) => right.clone(),
            (_, None) => left.clone(),
            (Some(types), Some(others)) => {
                let common = types.iter().filter(|of| others.contains(of));
                let common: Vec<TypeInfo> = common.copied().collect();
                if common.is_empty() {
                    return false;
                }
                TypeKnowledge {
                    types: Some(common),
                    origin: left.origin,
                }
            }
        };
        self.same.union(a, b);
        let root = self.same.find_mut(a);
        self.known[root] = both;
        true
    }

    /// Makes one variable for each port of a group of a node. Ports that must equal others are
    /// unified later.
    pub(super) fn ports(&mut self, draft: &Draft<'_>, node: usize, group: Group) -> Vec<usize> {
        let contract = &draft.nodes[node].contract;
        (0..contract.tag_map(group).len())
            .map(|index| {
                let types = match contract.spec(group, index) {
                    Some(PortSpec::Exact(of)) => Some(vec![*of]),
                    Some(PortSpec::OneOf(types)) => Some(types.clone()),
                    Some(PortSpec::Any | PortSpec::SameAs(..)) | None => None,
                };
                let origin = types
                    .is_some()
                    .then(|| draft.nodes[node].port(group, index).span);
                self.variable(TypeKnowledge { types, origin })
            })
            .collect()
    }

    /// Unifies the ports of `group` that have the type of a port of `with`.
    pub(super) fn same(
        &mut self,
        draft: &Draft<'_>,
        node: usize,
        group: Group,
        ports: &[usize],
        with: (Group, &[usize]),
    ) {
        for (index, &port) in ports.iter().enumerate() {
            if let Some(PortSpec::SameAs(other, at)) = draft.nodes[node].contract.spec(group, index)
                && *other == with.0
            {
                self.unify(port, with.1[usize::from(*at)]);
            }
        }
    }
}

pub(super) fn check(draft: &mut Draft<'_>) {
    let mut types = Types::default();
    let streams: Vec<usize> = draft.streams.iter().map(|_| types.fresh()).collect();
    let mut inputs = Vec::new();
    for node in 0..draft.nodes.len() {
        let ins = types.ports(draft, node, Group::Inputs);
        let outs = types.ports(draft, node, Group::Outputs);
        types.same(draft, node, Group::Inputs, &ins, (Group::Inputs, &ins));
        types.same(draft, node, Group::Outputs, &outs, (Group::Inputs, &ins));
        types.same(draft, node, Group::Outputs, &outs, (Group::Outputs, &outs));
        for (output, &stream) in draft.nodes[node].outputs.iter().enumerate() {
            types.unify(streams[stream as usize], outs[output]);
        }
        inputs.push(ins);
    }
    let mut found = Vec::new();
    for (id, stream) in draft.streams.iter().enumerate() {
        for &(node, input) in &stream.consumers {
            let port = inputs[usize::from(node)][usize::from(input)];
            if !types.unify(streams[id], port) {
                let (carried, wanted) = (types.known(streams[id]), types.known(port));
                let origins = [types.origin(streams[id]), types.origin(port)];
                let diagnostic = mismatch(draft, id, (node, input), &carried, &wanted);
                found.push(with_origins(diagnostic, origins, [&carried, &wanted]));
            }
        }
    }
    for (stream, &variable) in draft.streams.iter_mut().zip(&streams) {
        stream.types = types.known(variable);
        stream.check = true;
    }
    // Packets from a port of exactly one type need no check.
    for node in &draft.nodes {
        for (output, &stream) in node.outputs.iter().enumerate() {
            let spec = node.contract.spec(Group::Outputs, output);
            draft.streams[stream as usize].check = !matches!(spec, Some(PortSpec::Exact(_)));
        }
    }
    draft.diagnostics.extend(found);
}

fn mismatch(
    draft: &Draft<'_>,
    stream: usize,
    (node, input): (u16, u16),
    carried: &[TypeInfo],
    wanted: &[TypeInfo],
) -> Diagnostic {
    let stream = &draft.streams[stream];
    let node = &draft.nodes[usize::from(node)];
    let input = usize::from(input);
    let port = node.port(Group::Inputs, input);
    let place = match port.tag.as_str() {
        "" => format!("input `{}`", port.name),
        _ => format!("port `{}`", node.port_label(Group::Inputs, input)),
    };
    let (name, calculator) = (&stream.name, node.calculator());
    let (has, takes) = (type_names(carried), type_names(wanted));
    if let Producer::Graph(_) = stream.producer
        && let Some((other, span)) = first_reader(draft, stream, carried)
    {
        let message = format!("graph input `{name}` cannot be both {has} and {takes}");
        return Diagnostic::error(&types::INPUT_OF_TWO_TYPES, port.span, message)
            .label(format!("`{calculator}` takes {takes} here"))
            .also(span, format!("`{other}` takes {has} here"))
            .also(stream.span, "comes into the graph here");
    }
    let message =
        format!("stream `{name}` carries {has}, but {place} of `{calculator}` takes {takes}");
    let origin = format!("produced here {}", producer_name(draft, stream.producer));
    Diagnostic::error(&types::TYPE_MISMATCH, port.span, message)
        .label(format!("expected {takes}"))
        .also(stream.span, origin)
}

/// Shows the locations that decided the conflicting types, if they are not shown already.
fn with_origins(
    mut diagnostic: Diagnostic,
    origins: [Option<Span>; 2],
    types: [&[TypeInfo]; 2],
) -> Diagnostic {
    for (origin, types) in origins.into_iter().zip(types) {
        let Some(origin) = origin else { continue };
        let mut shown = std::iter::once(&diagnostic.primary).chain(&diagnostic.secondary);
        if !shown.any(|label| label.span == origin) {
            diagnostic = diagnostic.also(origin, format!("because this is {}", type_names(types)));
        }
    }
    diagnostic
}

/// Returns the calculator and input that decided the type of a stream that enters the graph.
fn first_reader<'b>(
    draft: &'b Draft<'_>,
    stream: &DraftStream,
    carried: &[TypeInfo],
) -> Option<(&'b str, Span)> {
    stream.consumers.iter().find_map(|&(node, input)| {
        let node = &draft.nodes[usize::from(node)];
        let spec = node.contract.spec(Group::Inputs, usize::from(input));
        let decides = match spec {
            Some(PortSpec::Exact(of)) => carried.contains(of),
            Some(PortSpec::OneOf(types)) => types.iter().any(|of| carried.contains(of)),
            _ => false,
        };
        let span = node.port(Group::Inputs, usize::from(input)).span;
        decides.then_some((node.calculator(), span))
    })
}
