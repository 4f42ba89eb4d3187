//! The border of a subgraph, where the outer node's ports replace the subgraph's own inputs and
//! outputs.

use std::collections::HashMap;

use graphmill_grammar::{Diagnostic, PortSpec};

use crate::{codes::calculators, contract::Group};

/// Ports of one group at the border of a subgraph: a map from inner names to outer ones.
pub(super) struct Border<'a> {
    /// Outer ports by inner name; `None` if the outer node leaves the port unconnected.
    outer: HashMap<&'a str, Option<PortSpec>>,
    /// Set for inputs. Unconnected inputs are removed from the inner nodes; unconnected outputs
    /// stay as private streams.
    is_input: bool,
}

impl<'a> Border<'a> {
    pub(super) fn new(
        group: Group,
        outer: &[PortSpec],
        inner: &'a [PortSpec],
        subgraph: &str,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Self {
        let (outer_ports, inner_ports) = (by_place(outer), by_place(inner));
        let mut map = HashMap::new();
        for port in inner {
            let outer = outer_ports.get(&(port.tag.as_str(), port.index));
            map.entry(port.name.as_str())
                .or_insert(outer.map(|&outer| outer.clone()));
        }
        for port in outer {
            if !inner_ports.contains_key(&(port.tag.as_str(), port.index)) {
                diagnostics.push(no_such_port(group, port, inner, subgraph));
            }
        }
        let is_input = matches!(group, Group::Inputs | Group::InputSides);
        Self {
            outer: map,
            is_input,
        }
    }
}

fn by_place(ports: &[PortSpec]) -> HashMap<(&str, u32), &PortSpec> {
    let ports = ports.iter();
    let placed = ports.map(|port| ((port.tag.as_str(), port.index), port));
    placed.collect()
}

fn no_such_port(group: Group, port: &PortSpec, inner: &[PortSpec], subgraph: &str) -> Diagnostic {
    let noun = group.noun();
    let what = match port.tag.as_str() {
        "" => format!("{noun} {} without a tag", port.index),
        tag if port.index == 0 => format!("{noun} `{tag}`"),
        tag => format!("{noun} `{tag}:{}`", port.index),
    };
    let message = format!("subgraph `{subgraph}` has no {what}");
    let diagnostic =
        Diagnostic::error(&calculators::SUBGRAPH_PORT, port.span, message).label("no such port");
    let known: Vec<String> = inner.iter().map(|port| format!("`{port}`")).collect();
    if known.is_empty() {
        diagnostic.hint(format!("it has no {noun}s"))
    } else {
        diagnostic.hint(format!("its {noun}s are {}", known.join(", ")))
    }
}

/// Renames ports: at the border to the outer node's names, elsewhere with a prefix.
pub(super) fn rename(ports: &mut Vec<PortSpec>, borders: &[&Border<'_>], prefix: &str) {
    let before = ports.len();
    ports.retain_mut(|port| {
        for border in borders {
            match border.outer.get(port.name.as_str()) {
                Some(Some(outer)) => {
                    // A mistake in this connection is the user's, not one in the subgraph's file.
                    port.name.clone_from(&outer.name);
                    port.span = outer.span;
                    return true;
                }
                Some(None) if border.is_input => return false,
                Some(None) | None => {}
            }
        }
        port.name.value.insert_str(0, prefix);
        true
    });
    if ports.len() < before {
        close_gaps(ports);
    }
}

/// Numbers the ports of each tag from 0 again, in the same order.
fn close_gaps(ports: &mut [PortSpec]) {
    let mut order: Vec<usize> = (0..ports.len()).collect();
    order.sort_by_key(|&at| (ports[at].tag.value.clone(), ports[at].index));
    let mut next: HashMap<String, u32> = HashMap::new();
    for at in order {
        let next = next.entry(ports[at].tag.value.clone()).or_default();
        ports[at].index = *next;
        *next += 1;
    }
}
