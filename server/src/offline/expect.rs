//! What a test expects to come out of a stream, and how it differs from what did.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use similar::{ChangeTag, TextDiff};

use super::line::Shown;

/// What comes out of one stream.
#[derive(Clone, Debug)]
pub(crate) enum Expected {
    /// These packets, and no others.
    Packets(Vec<ExpectedPacket>),
    /// Packets whose texts make this text together.
    Text(String),
}

/// What one packet is. What is not given may be anything.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ExpectedPacket {
    timestamp: Option<Value>,
    r#type: Option<String>,
    value: Option<Value>,
    /// A part of the value: of an object some of its fields, of a list all elements, each in part.
    contains: Option<Value>,
}

impl<'d> Deserialize<'d> for Expected {
    fn deserialize<D: serde::Deserializer<'d>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Text {
            text: String,
        }
        let value = Value::deserialize(deserializer)?;
        let read = match value {
            Value::Array(_) => serde_json::from_value(value).map(Self::Packets),
            other => serde_json::from_value(other).map(|Text { text }| Self::Text(text)),
        };
        read.map_err(serde::de::Error::custom)
    }
}

impl ExpectedPacket {
    fn is(&self, found: &Shown) -> bool {
        let time = |wanted: &Value| match (wanted.as_str(), found.timestamp.as_str()) {
            (Some(wanted), Some(found)) => wanted.eq_ignore_ascii_case(found),
            _ => *wanted == found.timestamp,
        };
        self.timestamp.as_ref().is_none_or(time)
            && self
                .r#type
                .as_ref()
                .is_none_or(|wanted| *wanted == found.r#type)
            && self
                .value
                .as_ref()
                .is_none_or(|wanted| same(wanted, &found.value))
            && self
                .contains
                .as_ref()
                .is_none_or(|part| contains(&found.value, part))
    }

    fn line(&self) -> String {
        let mut fields = Map::new();
        for (name, value) in [
            ("timestamp", self.timestamp.clone()),
            ("type", self.r#type.clone().map(Value::from)),
            ("value", self.value.clone()),
            ("contains", self.contains.clone()),
        ] {
            fields.extend(value.map(|value| (name.to_owned(), value)));
        }
        Value::Object(fields).to_string()
    }
}

/// Whether two values are the same, numbers by what they are and not by how they are written.
pub(super) fn same(wanted: &Value, found: &Value) -> bool {
    match (wanted, found) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(name, a)| b.get(name).is_some_and(|b| same(a, b)))
        }
        _ => wanted == found,
    }
}

fn contains(found: &Value, part: &Value) -> bool {
    match (found, part) {
        (Value::Object(found), Value::Object(part)) => part
            .iter()
            .all(|(name, part)| found.get(name).is_some_and(|found| contains(found, part))),
        (Value::Array(found), Value::Array(part)) => {
            found.len() == part.len()
                && found
                    .iter()
                    .zip(part)
                    .all(|(found, part)| contains(found, part))
        }
        _ => same(part, found),
    }
}

/// The text of a packet: of a string, a text chunk, an answer to a chat or a completion, or a piece
/// of one.
fn text_of(packet: &Shown) -> String {
    let choices = |of: &Value| -> String {
        let texts = of["choices"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|choice| {
                let places = [
                    &choice["delta"]["content"],
                    &choice["message"]["content"],
                    &choice["text"],
                ];
                places
                    .into_iter()
                    .find_map(Value::as_str)
                    .unwrap_or_default()
            });
        texts.collect()
    };
    match &packet.value {
        Value::String(text) if packet.r#type == "string" => text.clone(),
        Value::Object(fields) => {
            match (fields.get("text"), fields.get("event"), fields.get("body")) {
                (Some(Value::String(text)), ..) => text.clone(),
                (_, Some(event), _) => choices(event),
                (_, _, Some(body)) => choices(body),
                _ => String::new(),
            }
        }
        _ => String::new(),
    }
}

/// How what came out of a stream differs from what was expected, line by line; none if it does not.
pub(crate) fn difference(expected: &Expected, found: &[Shown]) -> Option<String> {
    let found_line = |found: &Shown| {
        json!({ "timestamp": found.timestamp, "type": found.r#type, "value": found.value })
            .to_string()
    };
    let (wanted, got): (Vec<String>, Vec<String>) = match expected {
        Expected::Text(text) => {
            let whole: String = found.iter().map(text_of).collect();
            let lines = |text: &str| text.split('\n').map(str::to_owned).collect();
            (lines(text), lines(&whole))
        }
        Expected::Packets(packets) => {
            let got: Vec<String> = found.iter().map(found_line).collect();
            let line = |(at, packet): (usize, &ExpectedPacket)| match found.get(at) {
                Some(found) if packet.is(found) => got[at].clone(),
                _ => packet.line(),
            };
            (packets.iter().enumerate().map(line).collect(), got)
        }
    };
    if wanted == got {
        return None;
    }
    let (wanted, got): (Vec<&str>, Vec<&str>) = (
        wanted.iter().map(String::as_str).collect(),
        got.iter().map(String::as_str).collect(),
    );
    let diff = TextDiff::from_slices(&wanted, &got);
    let mut out = String::new();
    for change in diff.iter_all_changes() {
        let mark = match change.tag() {
            ChangeTag::Delete => "- ",
            ChangeTag::Insert => "+ ",
            ChangeTag::Equal => "  ",
        };
        out.push_str(mark);
        out.push_str(change.value());
        out.push('\n');
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(timestamp: i64, value: Value) -> Shown {
        Shown {
            timestamp: json!(timestamp),
            r#type: "json".to_owned(),
            value,
        }
    }

    fn expected(value: Value) -> Expected {
        serde_json::from_value(value).expect("an expectation")
    }

    #[test]
    fn what_is_not_given_may_be_anything() {
        let found = [
            shown(1, json!(5)),
            shown(2, json!({"a": {"b": 1, "c": 2}, "d": [1]})),
        ];
        for right in [
            json!([{"timestamp": 1, "value": 5.0}, {}]),
            json!([{}, {"contains": {"a": {"c": 2}}}]),
            json!([{"type": "json"}, {"contains": {"d": [1]}}]),
        ] {
            assert_eq!(difference(&expected(right), &found), None);
        }
        for wrong in [
            json!([{}]),
            json!([{}, {"value": {"a": {"b": 1, "c": 2}}}]),
            json!([{"timestamp": 2}, {}]),
            json!([{}, {"contains": {"d": []}}]),
        ] {
            assert!(difference(&expected(wrong), &found).is_some());
        }
    }

    #[test]
    fn the_texts_of_packets_make_one_text() {
        let found = [
            shown(
                0,
                json!({"event": {"choices": [{"delta": {"role": "assistant"}}]}}),
            ),
            shown(
                1,
                json!({"event": {"choices": [{"delta": {"content": "Hel"}}]}}),
            ),
            shown(
                2,
                json!({"event": {"choices": [{"delta": {"content": "lo"}}]}}),
            ),
            shown(3, json!("done")),
        ];
        assert_eq!(
            difference(&expected(json!({"text": "Hello"})), &found),
            None
        );
        let body = [shown(
            0,
            json!({"body": {"choices": [{"message": {"content": "Hello"}}]}}),
        )];
        assert_eq!(difference(&expected(json!({"text": "Hello"})), &body), None);
        let wrong = difference(&expected(json!({"text": "Hallo"})), &found);
        assert_eq!(wrong.as_deref(), Some("- Hallo\n+ Hello\n"));
    }

    #[test]
    fn a_difference_shows_what_is_missing_and_what_is_too_much() {
        let found = [shown(1, json!(1)), shown(3, json!(3))];
        let wanted = expected(json!([{"timestamp": 1, "value": 1}, {"timestamp": 2, "value": 2}]));
        assert_eq!(
            difference(&wanted, &found).as_deref(),
            Some(
                "  {\"timestamp\":1,\"type\":\"json\",\"value\":1}\n- {\"timestamp\":2,\"value\":2}\n+ {\"timestamp\":3,\"type\":\"json\",\"value\":3}\n"
            )
        );
        assert!(serde_json::from_value::<Expected>(json!([{"timestmp": 1}])).is_err());
    }
}
