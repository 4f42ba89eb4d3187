//! The parts of a `SwitchContainer`: its ports under the names they have inside, and the nodes at
//! the ends of the channels.

use std::collections::HashSet;

use graphmill_engine::codes::streams::BAD_PORTS;
use graphmill_grammar::{
    Diagnostic, GraphConfig, Node, OptionsMessage, PortSpec, Spanned,
    graph::{InputStreamHandlerConfig, TagIndex},
};

use super::{
    channel_tag,
    container::{SwitchContainerOptions, option, port},
};

/// Inner name of the stream or side packet on `SELECT`.
pub(super) const SELECT: &str = "gate_select";
/// Inner name of the stream or side packet on `ENABLE`.
pub(super) const ENABLE: &str = "gate_enable";

/// The ports of a container under the names they have inside.
pub(super) struct Wiring<'a> {
    outer: &'a Node,
    inputs: Vec<PortSpec>,
    outputs: Vec<PortSpec>,
    side_inputs: Vec<PortSpec>,
    side_outputs: Vec<PortSpec>,
}

impl<'a> Wiring<'a> {
    pub(super) fn new(outer: &'a Node) -> Self {
        Self {
            outer,
            inputs: inner_names(&outer.input_stream),
            outputs: inner_names(&outer.output_stream),
            side_inputs: inner_names(&outer.input_side_packet),
            side_outputs: inner_names(&outer.output_side_packet),
        }
    }

    /// Creates the graph with its border and without nodes.
    pub(super) fn border(&self) -> GraphConfig {
        let with_control = |inner: &[PortSpec], outer: &[PortSpec]| {
            let mut ports = controls(outer, str::to_owned);
            ports.extend_from_slice(inner);
            ports
        };
        GraphConfig {
            input_stream: with_control(&self.inputs, &self.outer.input_stream),
            output_stream: self.outputs.clone(),
            input_side_packet: with_control(&self.side_inputs, &self.outer.input_side_packet),
            output_side_packet: self.side_outputs.clone(),
            ..GraphConfig::default()
        }
    }

    /// Returns the inputs among whose timestamps choices are ordered.
    pub(super) fn ticks(
        &self,
        options: &SwitchContainerOptions,
        given: Option<&OptionsMessage>,
        found: &mut Vec<Diagnostic>,
    ) -> Vec<PortSpec> {
        let place =
            option(given, "tick_input_stream").map_or(self.outer.place(), |field| field.value.span);
        let mut wanted = Vec::new();
        for text in &options.tick_input_stream {
            match TagIndex::parse(text, place) {
                Ok(tick) if self.inputs.iter().any(|port| is_at(port, &tick)) => wanted.push(tick),
                Ok(_) => {
                    let message = format!("`{text}` is not an input of the `SwitchContainer`");
                    found
                        .push(Diagnostic::error(&BAD_PORTS, place, message).label("no such input"));
                }
                Err(diagnostic) => found.push(*diagnostic),
            }
        }
        let is_tick =
            |port: &&PortSpec| wanted.is_empty() || wanted.iter().any(|tick| is_at(port, tick));
        let ticks = self.inputs.iter().filter(is_tick).zip(0..);
        ticks
            .map(|(port, index)| PortSpec {
                index,
                ..tagged(port, "TICK", port.name.value.clone())
            })
            .collect()
    }

    /// Creates the nodes at the two ends of the channels.
    pub(super) fn ends(&self, channels: usize, settings: Option<&OptionsMessage>) -> (Node, Node) {
        let end = |calculator: &str| {
            let place = self.outer.place();
            let (streams, sides) = (&self.outer.input_stream, &self.outer.input_side_packet);
            Node {
                calculator: Some(Spanned::new(calculator.to_owned(), place)),
                input_stream: controls(streams, timed),
                input_side_packet: controls(sides, str::to_owned),
                node_options: settings.cloned().into_iter().collect(),
                ..Node::default()
            }
        };
        let mut demux = end("SwitchDemuxCalculator");
        demux.input_stream.extend_from_slice(&self.inputs);
        demux.input_side_packet.extend_from_slice(&self.side_inputs);
        let mut mux = end("SwitchMuxCalculator");
        mux.output_stream.clone_from(&self.outputs);
        mux.output_side_packet.clone_from(&self.side_outputs);
        for channel in 0..channels {
            let prefixed = |port: &PortSpec| in_channel(port, channel, true);
            demux.output_stream.extend(self.inputs.iter().map(prefixed));
            demux
                .output_side_packet
                .extend(self.side_inputs.iter().map(prefixed));
            mux.input_stream.extend(self.outputs.iter().map(prefixed));
            mux.input_side_packet
                .extend(self.side_outputs.iter().map(prefixed));
        }
        (demux, mux)
    }

    /// Gives a contained node its streams.
    pub(super) fn connect(&self, mut inner: Node, channel: usize) -> Node {
        let ports = |ports: &[PortSpec]| {
            let ports = ports.iter().map(|port| in_channel(port, channel, false));
            ports.collect::<Vec<PortSpec>>()
        };
        inner.input_stream = ports(&self.inputs);
        inner.output_stream = ports(&self.outputs);
        inner.input_side_packet = ports(&self.side_inputs);
        inner.output_side_packet = ports(&self.side_outputs);
        inner
    }
}

/// Returns the ports of a group without the choices. A name that occurs twice gets a number,
/// because one name inside is one stream.
fn inner_names(ports: &[PortSpec]) -> Vec<PortSpec> {
    let mut used: HashSet<String> = [SELECT, ENABLE]
        .into_iter()
        .flat_map(|gate| [gate.to_owned(), timed(gate)])
        .collect();
    let mut inner = Vec::new();
    for port in ports.iter().filter(|port| !is_control(port)) {
        let mut name = port.name.value.clone();
        let mut number = 2;
        while !used.insert(name.clone()) {
            name = format!("{}_{number}", port.name.value);
            number += 1;
        }
        inner.push(named(port, name));
    }
    inner
}

/// Returns a port's stream in a channel, with or without the channel in its tag.
fn in_channel(port: &PortSpec, channel: usize, with_tag: bool) -> PortSpec {
    let tag = if with_tag {
        channel_tag(channel, &port.tag)
    } else {
        port.tag.value.clone()
    };
    tagged(port, tag, format!("c{channel}__{}", port.name.value))
}

fn is_at(port: &PortSpec, reference: &TagIndex) -> bool {
    port.tag.value == reference.tag && port.index == reference.index
}

/// Returns `SELECT` and `ENABLE`, as far as the container has them.
fn controls(outer: &[PortSpec], name: impl Fn(&str) -> String) -> Vec<PortSpec> {
    let controls = [("SELECT", SELECT), ("ENABLE", ENABLE)];
    let control = |(tag, gate)| port(outer, tag).map(|port| named(port, name(gate)));
    controls.into_iter().filter_map(control).collect()
}

/// Creates the node that orders a choice among the timestamps of the other inputs.
pub(super) fn sequencer(
    control: &PortSpec,
    gate: &str,
    ticks: &[PortSpec],
    options: &SwitchContainerOptions,
) -> Node {
    let handler = InputStreamHandlerConfig {
        input_stream_handler: Some(Spanned::new(
            "DefaultInputStreamHandler".to_owned(),
            control.span,
        )),
        ..InputStreamHandlerConfig::default()
    };
    let mut inputs = vec![tagged(control, "INPUT", gate)];
    inputs.extend_from_slice(ticks);
    Node {
        calculator: Some(Spanned::new(
            "PacketSequencerCalculator".to_owned(),
            control.span,
        )),
        input_stream: inputs,
        output_stream: vec![tagged(control, "OUTPUT", timed(gate))],
        input_stream_handler: (!options.async_selection).then_some(handler),
        ..Node::default()
    }
}

/// Returns the inner name of a choice with a place on the time line.
fn timed(gate: &str) -> String {
    format!("{gate}_timed")
}

fn is_control(port: &PortSpec) -> bool {
    matches!(port.tag.as_str(), "SELECT" | "ENABLE")
}

/// Returns the port at the same place under another name.
fn named(port: &PortSpec, name: impl Into<String>) -> PortSpec {
    PortSpec {
        name: Spanned::new(name.into(), port.name.span),
        ..port.clone()
    }
}

/// Returns the port at the same place under another name and tag.
fn tagged(port: &PortSpec, tag: impl Into<String>, name: impl Into<String>) -> PortSpec {
    PortSpec {
        tag: Spanned::new(tag.into(), port.tag.span),
        ..named(port, name)
    }
}
