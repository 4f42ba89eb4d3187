//! Why a session does not go on, in terms of its graph.

use std::{fmt, time::Duration};

use crate::{
    plan::{Plan, Producer},
    policy::Readiness,
    timestamp::Timestamp,
};

use super::running::{Running, Status, TapTo};

/// What a session waits for: one entry for each node that is not done.
#[derive(Clone, Debug)]
pub struct Why {
    /// The nodes that wait, in the order of the plan.
    pub stalls: Vec<Stall>,
    /// Graph inputs that are open.
    pub open_inputs: Vec<String>,
    /// The session has ended.
    pub ended: bool,
}

/// What one node waits for.
#[derive(Clone, Debug)]
pub struct Stall {
    /// The node.
    pub node: String,
    /// What it waits for, in words.
    pub waits_for: String,
    /// How long ago its last call ended; absent if it was never called.
    pub idle: Option<Duration>,
}

impl Why {
    pub(crate) fn ended() -> Self {
        Self {
            stalls: Vec::new(),
            open_inputs: Vec::new(),
            ended: true,
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.ended {
            return f.write_str("the session has ended");
        }
        for stall in &self.stalls {
            write!(f, "`{}` waits for {}", stall.node, stall.waits_for)?;
            if let Some(idle) = stall.idle {
                write!(f, " ({:.1} s since its last call)", idle.as_secs_f64())?;
            }
            writeln!(f)?;
        }
        if !self.open_inputs.is_empty() {
            let inputs: Vec<String> = self
                .open_inputs
                .iter()
                .map(|input| format!("`{input}`"))
                .collect();
            writeln!(f, "open graph inputs: {}", inputs.join(", "))?;
        }
        Ok(())
    }
}

pub(super) fn why(plan: &Plan, running: &Running) -> Why {
    if running.nodes.is_empty() && !plan.nodes.is_empty() {
        return Why::ended();
    }
    let mut stalls = Vec::new();
    for (number, state) in running.nodes.iter().enumerate() {
        let waits_for = match state.status {
            Status::Closed => continue,
            Status::Unopened => unopened(plan, running, number),
            Status::Busy if state.future.is_some() => "its own future".to_owned(),
            Status::Busy => "its call on an executor".to_owned(),
            Status::Open => open(plan, running, number),
        };
        stalls.push(Stall {
            node: plan.nodes[number].name.to_string(),
            waits_for,
            idle: state.since.map(|since| since.elapsed()),
        });
    }
    let open = |port: &&crate::plan::GraphPort| !running.streams[port.stream as usize].closed;
    Why {
        stalls,
        open_inputs: plan
            .graph_inputs
            .iter()
            .filter(open)
            .map(|port| port.name.to_string())
            .collect(),
        ended: false,
    }
}

fn unopened(plan: &Plan, running: &Running, node: usize) -> String {
    for source in &plan.nodes[node].sides {
        if let crate::plan::SideSource::Packet(side) = source
            && plan.sides[*side as usize].produced
            && running.sides[*side as usize].is_none()
        {
            return format!("side packet `{}`", plan.sides[*side as usize].name);
        }
    }
    "the nodes before it to open".to_owned()
}

fn open(plan: &Plan, running: &Running, node: usize) -> String {
    let (plan_node, state) = (&plan.nodes[node], &running.nodes[node]);
    if state.full_edges > 0 {
        return full(plan, running, node);
    }
    if plan_node.inputs.is_empty() {
        return if state.holds > 0 {
            "an event".to_owned()
        } else {
            "the end of the session".to_owned()
        };
    }
    match state
        .policy
        .readiness(&running.queues[plan_node.inputs.clone()])
    {
        Readiness::Waiting(waiting) => {
            let input = plan_node.inputs.start + usize::from(waiting.stream);
            let stream = &plan.streams[plan.inputs[input].stream as usize];
            let by = match stream.producer {
                Producer::Graph(_) => "the graph's input".to_owned(),
                Producer::Node(node) => format!("`{}`", plan.nodes[usize::from(node)].name),
            };
            let queues = plan_node.inputs.clone().map(|input| &running.queues[input]);
            let held: usize = queues.map(crate::InputQueue::len).sum();
            let bound = running.queues[input].bound();
            let known = if bound == Timestamp::PRE_STREAM {
                "nothing came yet".to_owned()
            } else {
                format!("known before {bound}")
            };
            let mut text = format!(
                "stream `{}` from {by}, {known}; {held} packets wait with it",
                stream.name
            );
            if state.holds > 0 {
                text.push_str(", or an event");
            }
            text
        }
        Readiness::Close if state.holds > 0 => "an event, or the release of its holds".to_owned(),
        Readiness::Close | Readiness::Process(_) => "its turn".to_owned(),
    }
}

fn full(plan: &Plan, running: &Running, node: usize) -> String {
    for &stream in &plan.outputs[plan.nodes[node].outputs.clone()] {
        let name = &plan.streams[stream as usize].name;
        for &input in &plan.streams[stream as usize].consumers {
            if running.limits[input as usize].full {
                let consumer = &plan.nodes[usize::from(plan.inputs[input as usize].node)].name;
                let held = running.queues[input as usize].len();
                return format!(
                    "room in the queue of stream `{name}` at `{consumer}`, full with {held} packets"
                );
            }
        }
        let full = |tap: &&super::running::Tap| {
            tap.stream == stream && matches!(tap.to, TapTo::Output { full: true, .. })
        };
        if running.taps.iter().any(|tap| full(&tap)) {
            return format!("the reader of output `{name}`, whose queue is full");
        }
    }
    "room in a queue".to_owned()
}
