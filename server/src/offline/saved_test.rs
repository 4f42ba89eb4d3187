//! Tests of graphs made from recorded sessions.

use std::path::PathBuf;

use graphmill_engine::Plan;
use serde_json::{Value, json};

use super::{
    difference::TIMES,
    recording::{PacketRecord, Recording},
};

/// The graph of a test. Paths are relative to the test file.
pub(crate) enum Graph {
    /// Graph file, by its path.
    File(PathBuf),
    /// Graph in the recording, and the folder that its paths are relative to.
    Recorded { base: PathBuf },
}

/// Writes a test file: the inputs, the tokens that language models generated, and the outputs of
/// the replay. The plans are those of the recorded graph and of the replayed one.
pub(crate) fn format(
    recording: &Recording,
    played: &Recording,
    (recorded, plan): (&Plan, &Plan),
    graph: Graph,
) -> Result<String, String> {
    let mut case = json!({ "name": format!("session {}", recording.head.id) });
    let inputs: Vec<&str> = plan.graph_inputs().collect();
    let packets = || recording.packets.iter();
    let input = packets().filter(|it| !it.side && inputs.contains(&it.stream.as_str()));
    case["input"] = input.map(PacketRecord::line).collect();
    for packet in packets().filter(|packet| packet.side) {
        case["side"][&packet.stream] = packet.payload.clone();
    }
    for (node, stream) in Recording::models(recorded) {
        let steps = packets().filter(|packet| !packet.side && packet.stream == stream);
        case["tokens"][node] = steps.map(PacketRecord::timed).collect();
    }
    let outputs: Vec<&str> = plan.graph_outputs().collect();
    for (stream, packets) in played.by_stream() {
        if outputs.contains(&stream) {
            case["expect"][stream] = packets.into_iter().map(PacketRecord::expected).collect();
        }
    }
    let mut file = match graph {
        Graph::File(path) => json!({ "graph": path }),
        Graph::Recorded { base } => json!({ "text": recording.head.text, "base_path": base }),
    };
    file["case"] = json!([without_null(case)]);
    toml_edit::ser::to_string_pretty(&file)
        .map_err(|error| format!("the test cannot be written as TOML: {error}"))
}

impl PacketRecord {
    /// Returns the packet as an element of `input`.
    fn line(&self) -> Value {
        json!({ "stream": self.stream, "timestamp": self.timestamp, "type": self.r#type, "value": self.payload })
    }

    fn timed(&self) -> Value {
        json!({ "timestamp": self.timestamp, "value": self.payload })
    }

    /// Returns the packet as an element of `expect`. In answers, fields that differ between runs
    /// are left out.
    fn expected(&self) -> Value {
        if self.r#type == "http_response" {
            let names = [TIMES, &["id", "system_fingerprint"]].concat();
            return json!({ "timestamp": self.timestamp, "contains": self.without(&names) });
        }
        self.timed()
    }
}

/// Removes null fields. TOML has no null, and a missing field means the same.
fn without_null(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter(|(_, value)| !value.is_null());
            let fields = fields.map(|(name, value)| (name, without_null(value)));
            fields.collect()
        }
        Value::Array(elements) => elements.into_iter().map(without_null).collect(),
        other => other,
    }
}
