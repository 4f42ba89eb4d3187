//! The results of compilation, for people and tools.

use graphmill_grammar::{SourceMap, fmt};

use crate::{
    contract::Group,
    packet::type_names,
    plan::{Explain, ExplainNode, ExplainPort, NodePlace},
    tags::TagEntry,
};

use super::draft::{Draft, DraftNode};

pub(super) fn explain(draft: &Draft<'_>, sources: &SourceMap) -> Explain {
    let names = |ports: &[graphmill_grammar::PortSpec]| {
        ports.iter().map(|port| port.name.value.clone()).collect()
    };
    let nodes = draft.nodes.iter();
    let nodes = nodes.map(|node| explain_node(draft, node, sources));
    Explain {
        nodes: nodes.collect(),
        inputs: names(&draft.graph.input_stream),
        outputs: names(&draft.graph.output_stream),
        side_inputs: names(&draft.graph.input_side_packet),
        side_outputs: names(&draft.graph.output_side_packet),
    }
}

fn explain_node(draft: &Draft<'_>, node: &DraftNode, sources: &SourceMap) -> ExplainNode {
    let ports = |group: Group| -> Vec<ExplainPort> {
        let map = node.contract.tag_map(group);
        let port = |(index, entry): (usize, &TagEntry)| {
            let known = match group {
                Group::Inputs | Group::Outputs => {
                    let id = draft.stream_ids.get(&entry.name);
                    id.map(|&id| &draft.streams[id as usize].types)
                }
                Group::InputSides | Group::OutputSides => {
                    let id = draft.side_ids.get(&entry.name);
                    id.map(|&id| &draft.sides[id as usize].types)
                }
            };
            let ty = match known {
                Some(known) if !known.is_empty() => type_names(known).replace('`', ""),
                _ => "any".to_owned(),
            };
            ExplainPort {
                port: map.label(index),
                name: entry.name.clone(),
                ty,
                back_edge: group == Group::Inputs && node.back_edges[index],
            }
        };
        map.entries().iter().enumerate().map(port).collect()
    };
    let options = node.config.all_options();
    ExplainNode {
        name: node.name.clone(),
        calculator: node.calculator().to_owned(),
        within: node.within.clone(),
        place: sources.locate(node.config.place()),
        policy: format!("{:?}", node.policy),
        runs: match node.place {
            NodePlace::Inline => "inline".to_owned(),
            NodePlace::Executor(number) => match draft.executors[usize::from(number)].0.as_str() {
                "" => "on the default executor".to_owned(),
                name => format!("on `{name}`"),
            },
        },
        options: options.map(|options| fmt::print(&options.body)).collect(),
        inputs: ports(Group::Inputs),
        outputs: ports(Group::Outputs),
        side_inputs: ports(Group::InputSides),
        side_outputs: ports(Group::OutputSides),
    }
}
