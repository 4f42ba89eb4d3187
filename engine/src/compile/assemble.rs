//! Assembly of the plan from a draft without errors.

use std::sync::{Arc, OnceLock};

use crossbeam_utils::CachePadded;
use graphmill_grammar::SourceMap;

use crate::{
    contract::{Group, Offset},
    plan::{GraphPort, Plan, PlanInput, PlanNode, PlanSide, PlanStream, Producer, SideSource},
    policy::Policy,
};

use super::{
    draft::{Draft, DraftNode},
    explain, sides,
};

/// Default of `max_queue_size` in the text format: large enough for bursts, small enough to notice
/// a stuck consumer.
const QUEUE_LIMIT: usize = 100;

pub(super) fn assemble(mut draft: Draft<'_>, sources: &SourceMap) -> Plan {
    let explain = explain::explain(&draft, sources);
    let queue_limit = queue_limit(&draft);
    let mut unloaded = None;
    let (mut nodes, mut inputs, mut outputs) = (Vec::new(), Vec::new(), Vec::new());
    let mut input_ids: Vec<usize> = Vec::new();
    let drafted = std::mem::take(&mut draft.nodes);
    for (number, node) in drafted.iter().enumerate() {
        input_ids.push(inputs.len());
        for (input, stream) in node.inputs.iter().enumerate() {
            inputs.push(PlanInput {
                node: number as u16,
                stream: stream.expect("every input of a plan without errors has a stream"),
                back_edge: node.back_edges[input],
                // Packets that wait for the rest of their batch do not count.
                limit: queue_limit.saturating_add(node.policy.batch() - 1),
            });
        }
    }
    let is_immediate =
        |&(node, _): &(u16, u16)| matches!(drafted[usize::from(node)].policy, Policy::Immediate);
    let immediate = draft.streams.iter();
    let immediate = immediate.map(|stream| stream.consumers.iter().any(is_immediate));
    let immediate: Vec<bool> = immediate.collect();
    for (number, mut node) in drafted.into_iter().enumerate() {
        let first_output = outputs.len();
        outputs.extend(&node.outputs);
        let upstream = upstream(&draft, &node, number);
        let sides = side_sources(&draft, &node, &mut unloaded);
        let side_outputs = node.contract.tag_map(Group::OutputSides).entries().iter();
        let side_outputs = side_outputs.map(|entry| draft.side_ids[&entry.name]);
        let side_outputs = side_outputs.collect();
        let factory = node.factory.take();
        let first_input = input_ids[number];
        let mut output_streams = node.outputs.iter();
        let reaches_immediate = output_streams.any(|&stream| immediate[stream as usize]);
        nodes.push(PlanNode {
            inputs: first_input..first_input + node.inputs.len(),
            outputs: first_output..outputs.len(),
            offsets: offsets(&node),
            lanes: node.lanes,
            by_stream: node.outputs.len() > 1 && reaches_immediate,
            batches: node.policy.batch() > 1,
            policy: node.policy.clone(),
            bounds: node.contract.bounds,
            place: node.place,
            sides,
            side_outputs,
            layer: node.config.source_layer.map_or(0, |layer| layer.value),
            has_events: !node.contract.event_types.is_empty(),
            upstream,
            name: node.name.into(),
            factory: factory.expect("every node of a plan without errors has a factory"),
        });
    }
    let input_id =
        |&(node, input): &(u16, u16)| (input_ids[usize::from(node)] + usize::from(input)) as u32;
    let streams = draft.streams.iter().map(|stream| PlanStream {
        name: stream.name.as_str().into(),
        producer: stream.producer,
        consumers: stream.consumers.iter().map(input_id).collect(),
        check: if stream.check {
            stream.types.as_slice().into()
        } else {
            Box::default()
        },
    });
    let streams: Vec<PlanStream> = streams.collect();
    let sides = draft.sides.iter().map(|side| PlanSide {
        name: side.name.as_str().into(),
        produced: side.producer.is_some(),
        required: side.required,
        check: side.types.as_slice().into(),
    });
    let sides = sides.collect();
    let port = |port: &graphmill_grammar::PortSpec| {
        let stream = *draft.stream_ids.get(port.name.as_str())?;
        Some(GraphPort {
            tag: port.tag.value.clone(),
            index: port.index,
            name: Arc::clone(&streams[stream as usize].name),
            stream,
            types: draft.streams[stream as usize].types.as_slice().into(),
        })
    };
    Plan {
        graph_inputs: draft.graph.input_stream.iter().filter_map(port).collect(),
        graph_outputs: draft.graph.output_stream.iter().filter_map(port).collect(),
        sources: (0..nodes.len() as u16)
            .filter(|&node| nodes[usize::from(node)].is_source())
            .collect(),
        nodes,
        inputs,
        outputs,
        streams,
        sides,
        executors: draft.executors.into_iter().map(|it| it.1).collect(),
        report_deadlock: draft.graph.report_deadlock.is_some_and(|it| it.value),
        explain,
        unloaded,
        attached: OnceLock::new(),
        open_sessions: CachePadded::default(),
        ledger: CachePadded::default(),
    }
}

/// Returns the limit of packets in each queue; `usize::MAX` for no limit.
pub(super) fn queue_limit(draft: &Draft<'_>) -> usize {
    let limit = draft.graph.max_queue_size.map_or(0, |limit| limit.value);
    let nodes = draft.nodes.iter();
    let hints = nodes.filter_map(|node| node.config.buffer_size_hint);
    let hints = hints.filter_map(|hint| usize::try_from(hint.value).ok());
    let hint = hints.max().unwrap_or(0);
    match usize::try_from(limit) {
        Ok(0) => QUEUE_LIMIT.max(hint),
        Ok(limit) => limit.max(hint),
        Err(_) => usize::MAX,
    }
}

fn offsets(node: &DraftNode) -> Box<[Option<i64>]> {
    let mut offsets: Box<[Option<i64>]> =
        vec![node.contract.offset.value(); node.outputs.len()].into();
    for &(output, offset) in &node.contract.output_offsets {
        offsets[usize::from(output)] = Offset::value(offset);
    }
    offsets
}

fn upstream(draft: &Draft<'_>, node: &DraftNode, number: usize) -> Box<[u16]> {
    let mut upstream: Vec<u16> = Vec::new();
    for (input, stream) in node.inputs.iter().enumerate() {
        let producer = stream.map(|stream| draft.streams[stream as usize].producer);
        if let Some(Producer::Node(from)) = producer
            && !node.back_edges[input]
            && usize::from(from) != number
        {
            upstream.push(from);
        }
    }
    upstream.sort_unstable();
    upstream.dedup();
    upstream.into()
}

fn side_sources(
    draft: &Draft<'_>,
    node: &DraftNode,
    unloaded: &mut Option<String>,
) -> Box<[SideSource]> {
    let source = |(input, entry): (usize, &crate::tags::TagEntry)| {
        let id = draft.side_ids[&entry.name];
        let side = &draft.sides[id as usize];
        if !sides::is_resource(node, input) {
            return SideSource::Packet(id);
        }
        if let Some(loaded) = side.resource.as_ref().and_then(|it| it.loaded.clone()) {
            return SideSource::Resource(loaded);
        }
        unloaded.get_or_insert_with(|| side.name.clone());
        SideSource::Unloaded
    };
    let entries = node.contract.tag_map(Group::InputSides).entries();
    entries.iter().enumerate().map(source).collect()
}
