//! Types: what each stream carries, by unification.
//!
//! Every port of every node and every stream has a type variable. A contract gives some of them a type or makes two of them
//! the same; a connection makes the producer's and the consumer's the same. Where that fails, the two ends disagree.

use graphmill_grammar::Diagnostic;

use crate::{
    codes::types,
    contract::{Group, PortSpec},
    packet::TypeInfo,
};

use super::{Producer, draft::Draft, streams::producer_name};

/// What is known of a variable: nothing, or the types it may have.
type Known = Option<Vec<TypeInfo>>;

/// Union-find over type variables.
#[derive(Default)]
pub(super) struct Types {
    parents: Vec<usize>,
    known: Vec<Known>,
}

impl Types {
    pub(super) fn fresh(&mut self, known: Known) -> usize {
        self.parents.push(self.parents.len());
        self.known.push(known);
        self.parents.len() - 1
    }

    fn root(&mut self, mut variable: usize) -> usize {
        while self.parents[variable] != variable {
            self.parents[variable] = self.parents[self.parents[variable]];
            variable = self.parents[variable];
        }
        variable
    }

    pub(super) fn known(&mut self, variable: usize) -> Known {
        let root = self.root(variable);
        self.known[root].clone()
    }

    /// Makes two variables the same; false, and nothing done, if no type fits both.
    pub(super) fn unify(&mut self, a: usize, b: usize) -> bool {
        let (a, b) = (self.root(a), self.root(b));
        if a == b {
            return true;
        }
        let both = match (&self.known[a], &self.known[b]) {
            (None, other) | (other, None) => other.clone(),
            (Some(left), Some(right)) => {
                let common: Vec<TypeInfo> = left
                    .iter()
                    .filter(|of| right.contains(of))
                    .copied()
                    .collect();
                if common.is_empty() {
                    return false;
                }
                Some(common)
            }
        };
        self.parents[b] = a;
        self.known[a] = both;
        true
    }

    /// Makes one variable for each port of a group of a node; ports that are the same as another follow later.
    pub(super) fn ports(&mut self, draft: &Draft<'_>, node: usize, group: Group) -> Vec<usize> {
        let contract = &draft.nodes[node].contract;
        (0..contract.tag_map(group).len())
            .map(|index| match contract.spec(group, index) {
                Some(PortSpec::Exact(of)) => self.fresh(Some(vec![*of])),
                Some(PortSpec::OneOf(types)) => self.fresh(Some(types.clone())),
                Some(PortSpec::Any | PortSpec::SameAs(..)) | None => self.fresh(None),
            })
            .collect()
    }

    /// Unifies the ports of `group` that are the same as a port of `with`.
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

pub(super) fn names(types: &[TypeInfo]) -> String {
    let names: Vec<String> = types.iter().map(|of| format!("`{of}`")).collect();
    names.join(" or ")
}

pub(super) fn check(draft: &mut Draft<'_>) {
    let mut types = Types::default();
    let streams: Vec<usize> = draft.streams.iter().map(|_| types.fresh(None)).collect();
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
                found.push(mismatch(
                    draft,
                    id,
                    (node, input),
                    &carried.unwrap_or_default(),
                    &wanted.unwrap_or_default(),
                ));
            }
        }
    }
    for (id, &variable) in streams.iter().enumerate() {
        let stream = &draft.streams[id];
        let guaranteed = match stream.producer {
            Producer::Graph(_) => false,
            Producer::Node(node) => {
                let node = &draft.nodes[usize::from(node)];
                let output = node
                    .outputs
                    .iter()
                    .position(|&stream| stream as usize == id);
                output.is_some_and(|output| {
                    matches!(
                        node.contract.spec(Group::Outputs, output),
                        Some(PortSpec::Exact(_))
                    )
                })
            }
        };
        let known = types.known(variable).unwrap_or_default();
        draft.streams[id].types = known;
        draft.streams[id].check = !guaranteed;
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
    let port = node.port(Group::Inputs, usize::from(input));
    let place = match node.port(Group::Inputs, usize::from(input)).tag.as_str() {
        "" => format!("input `{}`", port.name),
        _ => format!(
            "port `{}`",
            node.port_label(Group::Inputs, usize::from(input))
        ),
    };
    let message = format!(
        "stream `{}` carries {}, but {place} of `{}` takes {}",
        stream.name,
        names(carried),
        node.calculator(),
        names(wanted)
    );
    let mut diagnostic = Diagnostic::error(&types::TYPE_MISMATCH, port.span, message)
        .label(format!("expected {}", names(wanted)))
        .also(
            stream.span,
            format!("produced here {}", producer_name(draft, stream.producer)),
        );
    if let Producer::Graph(_) = stream.producer
        && let Some(&(other, other_input)) = stream.consumers.iter().find(|&&(other, at)| {
            let spec = draft.nodes[usize::from(other)]
                .contract
                .spec(Group::Inputs, usize::from(at));
            matches!(spec, Some(PortSpec::Exact(of)) if carried.contains(of))
        })
    {
        let other = &draft.nodes[usize::from(other)];
        let span = other.port(Group::Inputs, usize::from(other_input)).span;
        diagnostic = diagnostic.also(span, format!("taken as {} here", names(carried)));
    }
    diagnostic
}
