//! Recordings of sessions as files: a line with the head, then a line for each packet. Servers
//! (`GET /v3/sessions/{id}/recording`) and replays write them.

use std::{collections::BTreeSet, fs, iter, path::Path};

use graphmill_calculators::llm::RecordedTokens;
use graphmill_engine::{Packet, Plan, SidePackets, codec};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::line::{Line, Shown};

/// Calculator whose output is replayed, not computed.
const MODEL: &str = "LLMCalculator";

/// The first line of a recording. Readers ignore unknown fields.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Head {
    /// Version of the format, which must be 1.
    graphmill_recording: u32,
    /// Name of the graph on the server.
    pub(crate) graph: String,
    /// Id of the recorded session.
    pub(crate) id: String,
    /// Text of the graph file.
    pub(crate) text: String,
    /// Number of packets that did not fit into the recording.
    #[serde(default)]
    dropped: u64,
}

/// A recorded packet of a stream, or side packet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PacketRecord {
    /// Name of the stream or side packet.
    pub(crate) stream: String,
    pub(crate) timestamp: Value,
    pub(crate) r#type: String,
    pub(crate) payload: Value,
    #[serde(default)]
    pub(crate) side: bool,
}

/// A recorded session: its head and its packets.
#[derive(Clone, Debug)]
pub(crate) struct Recording {
    pub(crate) head: Head,
    pub(crate) packets: Vec<PacketRecord>,
}

impl Recording {
    /// Reads a recording from a file. The error names the line.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let name = path.display();
        let text =
            fs::read_to_string(path).map_err(|error| format!("cannot read `{name}`: {error}"))?;
        let mut lines = (1..).zip(text.lines());
        let head = lines.next().map_or("", |(_, line)| line);
        let head: Head = serde_json::from_str(head)
            .map_err(|error| format!("{name}:1: not a recording: {error}"))?;
        if head.graphmill_recording != 1 {
            return Err(format!(
                "{name}:1: the recording has version {}: expected version 1",
                head.graphmill_recording
            ));
        }
        let packets = lines.map(|(number, line)| {
            serde_json::from_str(line).map_err(|error| format!("{name}:{number}: {error}"))
        });
        let packets = packets.collect::<Result<_, String>>()?;
        Ok(Self { head, packets })
    }

    /// Formats the recording as the lines of a file.
    pub(crate) fn lines(&self) -> Result<String, String> {
        let head = serde_json::to_string(&self.head);
        let packets = self.packets.iter().map(serde_json::to_string);
        let lines: Result<Vec<String>, _> = iter::once(head).chain(packets).collect();
        let lines = lines.map_err(|error| format!("cannot be written as JSON: {error}"))?;
        Ok(lines.join("\n") + "\n")
    }

    /// Returns a recording of the same session with the packets of a replay.
    pub(crate) fn with_packets(&self, text: String, packets: Vec<PacketRecord>) -> Self {
        let head = Head {
            text,
            dropped: 0,
            ..self.head.clone()
        };
        Self { head, packets }
    }

    /// Returns the reason why it cannot be replayed; `None` if it can.
    pub(crate) fn gaps(&self) -> Option<String> {
        let why = "packets did not fit into the recording, so it cannot be replayed";
        let dropped = self.head.dropped;
        (dropped > 0).then(|| format!("{dropped} {why}"))
    }

    /// Returns the side packets and the input packets for a plan, which may be that of a changed
    /// graph.
    pub(crate) fn input(&self, plan: &Plan) -> Result<(SidePackets, Vec<(usize, Line)>), String> {
        let mut sides = SidePackets::new();
        let mut lines = Vec::new();
        let is_input = |name: &str| plan.graph_inputs().any(|input| input == name);
        let declared = &plan.explain().side_inputs;
        // The first line is the head.
        for (number, packet) in (2..).zip(&self.packets) {
            if packet.side && declared.contains(&packet.stream) {
                let read = packet.read()?;
                sides = sides.with_packet(packet.stream.clone(), read);
            } else if !packet.side && is_input(&packet.stream) {
                let (stream, packet) = (packet.stream.clone(), packet.read()?);
                lines.push((number, Line::Packet { stream, packet }));
            }
        }
        Ok((sides, lines))
    }

    /// Returns the recorded inputs and side packets of one graph that the other graph does not
    /// have.
    pub(crate) fn lost(&self, recorded: &Plan, played: &Plan) -> Vec<&str> {
        let has = |plan: &Plan, packet: &PacketRecord| {
            let explained = plan.explain();
            let inputs = if packet.side {
                &explained.side_inputs
            } else {
                &explained.inputs
            };
            inputs.contains(&packet.stream)
        };
        let packets = self.packets.iter();
        let lost = packets.filter(|packet| has(recorded, packet) && !has(played, packet));
        let lost: BTreeSet<&str> = lost.map(|packet| packet.stream.as_str()).collect();
        lost.into_iter().collect()
    }

    /// Returns the nodes of a graph that generate, each with the stream of its tokens.
    pub(crate) fn models(plan: &Plan) -> impl Iterator<Item = (&str, &str)> {
        let nodes = plan.explain().nodes.iter();
        let models = nodes.filter(|node| node.calculator == MODEL);
        models.filter_map(|node| {
            let mut outputs = node.outputs.iter();
            let tokens = outputs.find(|port| port.port.starts_with("TOKENS"))?;
            Some((node.name.as_str(), tokens.name.as_str()))
        })
    }

    /// Returns the tokens that language models generated. `recorded` is the plan of the recorded
    /// graph.
    pub(crate) fn tokens(&self, recorded: &Plan) -> Result<RecordedTokens, String> {
        let mut tokens = RecordedTokens::default();
        for (node, stream) in Self::models(recorded) {
            let packets = self.packets.iter();
            for packet in packets.filter(|it| !it.side && it.stream == stream) {
                let added = tokens.add(node, &packet.read()?);
                added.map_err(|error| error.to_string())?;
            }
        }
        Ok(tokens)
    }

    /// Groups the packets by stream, in the order of the first packet of each.
    pub(crate) fn by_stream(&self) -> Vec<(&str, Vec<&PacketRecord>)> {
        let mut streams: Vec<(&str, Vec<&PacketRecord>)> = Vec::new();
        for packet in self.packets.iter().filter(|packet| !packet.side) {
            match streams.iter_mut().find(|(name, _)| *name == packet.stream) {
                Some((_, packets)) => packets.push(packet),
                None => streams.push((&packet.stream, vec![packet])),
            }
        }
        streams
    }
}

impl PacketRecord {
    /// Creates the record of a packet in a replay.
    pub(crate) fn from_packet(stream: &str, packet: &Packet) -> Self {
        let shown = Shown::from_packet(packet);
        Self {
            stream: stream.to_owned(),
            timestamp: shown.timestamp,
            r#type: shown.r#type,
            // Encoded in the same way as on a server.
            payload: codec::encode(packet).unwrap_or_default(),
            side: false,
        }
    }

    fn read(&self) -> Result<Packet, String> {
        let at = |why: String| format!("stream `{}`: {why}", self.stream);
        let packet = codec::decode(&self.payload, Some(&self.r#type), &[]).map_err(at)?;
        let time = codec::timestamp_from_json(&self.timestamp).map_err(at)?;
        Ok(packet.at(time))
    }
}
