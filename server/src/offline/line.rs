//! Packets as lines of JSON.
//!
//! ```json
//! {"side": "threshold", "value": 3}
//! {"stream": "in", "timestamp": 0, "value": 5}
//! {"stream": "in", "timestamp": 10, "type": "uint", "value": 5}
//! {"bound": "in", "timestamp": 20}
//! {"close": "in"}
//! ```

use std::{collections::HashMap, sync::Arc};

use graphmill_engine::{Packet, Plan, Timestamp, codec};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The content of a line.
#[derive(Clone, Debug)]
pub(crate) enum Line {
    /// A packet for a graph input.
    Packet { stream: String, packet: Packet },
    /// A bound: no packet on this graph input has an earlier timestamp.
    Bound { stream: String, at: Timestamp },
    /// The end of a graph input.
    Close { stream: String },
    /// A side packet. Side packets come before all other lines.
    Side { name: String, packet: Packet },
}

/// A line as written. The fields that are set determine its kind.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LineFields {
    stream: Option<String>,
    bound: Option<String>,
    close: Option<String>,
    side: Option<String>,
    timestamp: Option<Value>,
    r#type: Option<String>,
    /// Value of a packet. It can be null if it is present.
    #[serde(deserialize_with = "some")]
    value: Option<Value>,
}

impl LineFields {
    /// Creates a line for a packet of the type that the graph input has.
    pub(crate) fn packet(stream: &str, value: Value) -> Self {
        Self {
            stream: Some(stream.to_owned()),
            value: Some(value),
            ..Self::default()
        }
    }
}

fn some<'d, D: serde::Deserializer<'d>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// Parser of lines for one plan.
pub(crate) struct Reader {
    plan: Arc<Plan>,
    /// For each stream, the timestamp after its last packet.
    next: HashMap<String, Timestamp>,
}

impl Reader {
    pub(crate) fn new(plan: &Arc<Plan>) -> Self {
        Self {
            plan: Arc::clone(plan),
            next: HashMap::new(),
        }
    }

    /// Parses a line. A packet without a timestamp follows the one before it, and the first has
    /// timestamp 0. A packet without a type has the type of the graph input.
    ///
    /// # Errors
    /// If the line is not valid for the plan.
    pub(crate) fn read(&mut self, text: &str) -> Result<Line, String> {
        let written: LineFields = serde_json::from_str(text).map_err(|error| error.to_string())?;
        self.line(written)
    }

    pub(crate) fn line(&mut self, written: LineFields) -> Result<Line, String> {
        match written {
            LineFields { stream: Some(stream), value: Some(value), timestamp, r#type, bound: None, close: None, side: None } => {
                let time = match timestamp {
                    Some(time) => codec::timestamp_from_json(&time)?,
                    None => self.next.get(&stream).copied().unwrap_or(Timestamp::ZERO),
                };
                let expected = self.plan.input_types(&stream).ok_or_else(|| self.unknown(&stream))?;
                let packet = codec::decode(&value, r#type.as_deref(), expected)
                    .map_err(|why| format!("stream `{stream}`: {why}"))?;
                self.next.insert(stream.clone(), time.next());
                Ok(Line::Packet { stream, packet: packet.at(time) })
            }
            LineFields { side: Some(name), value: Some(value), r#type, stream: None, bound: None, close: None, timestamp: None } => {
                let packet = self.side(&name, &value, r#type.as_deref())?;
                Ok(Line::Side { name, packet })
            }
            LineFields { bound: Some(stream), timestamp: Some(at), stream: None, close: None, side: None, r#type: None, value: None } => {
                let at = codec::timestamp_from_json(&at)?;
                Ok(Line::Bound { stream, at })
            }
            LineFields { close: Some(stream), stream: None, bound: None, side: None, timestamp: None, r#type: None, value: None } => {
                Ok(Line::Close { stream })
            }
            _ => Err(
                "expected `stream` and `value`, `bound` and `timestamp`, `close`, or `side` and `value`".to_owned(),
            ),
        }
    }

    /// Reads a side packet with the given type, or else with the type that the graph expects.
    pub(crate) fn side(
        &self,
        name: &str,
        value: &Value,
        of_type: Option<&str>,
    ) -> Result<Packet, String> {
        let declared = &self.plan.explain().side_inputs;
        let expected = match self.plan.side_types(name) {
            Some(types) => types,
            None if declared.iter().any(|side| side == name) => &[],
            None => return Err(format!("`{name}` is not a side packet of the graph")),
        };
        codec::decode(value, of_type, expected)
            .map_err(|why| format!("side packet `{name}`: {why}"))
    }

    fn unknown(&self, stream: &str) -> String {
        let inputs = self.plan.graph_inputs().map(|name| format!("`{name}`"));
        let inputs = inputs.collect::<Vec<_>>().join(", ");
        let inputs = if inputs.is_empty() { "none" } else { &inputs };
        format!("`{stream}` is not an input stream of the graph, which has {inputs}")
    }
}

/// A packet for display. Its value is JSON, or the output of Rust's `Debug` if its type has no JSON
/// form.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Shown {
    pub(crate) timestamp: Value,
    pub(crate) r#type: String,
    pub(crate) value: Value,
}

impl Shown {
    pub(crate) fn from_packet(packet: &Packet) -> Self {
        let value = codec::encode(packet);
        Self {
            timestamp: codec::timestamp_to_json(packet.time),
            r#type: packet.type_info().name(),
            value: value.unwrap_or_else(|| json!(format!("{:?}", packet.payload()))),
        }
    }

    /// Formats the line of a packet of a stream.
    pub(crate) fn stream_line(&self, stream: &str) -> String {
        json!({ "stream": stream, "timestamp": self.timestamp, "type": self.r#type, "value": self.value }).to_string()
    }

    /// Formats the line of a side packet.
    pub(crate) fn side_line(&self, name: &str) -> String {
        json!({ "side": name, "type": self.r#type, "value": self.value }).to_string()
    }
}
