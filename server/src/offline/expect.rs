//! Expected outputs of tests, and their differences from actual ones.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use similar::TextDiff;

use super::line::Shown;

/// The expected packets of one stream.
#[derive(Clone, Debug)]
pub(crate) enum Expectation {
    /// Exactly these packets, in this order.
    Packets(Vec<ExpectedPacket>),
    /// Packets whose texts form this text together.
    Text(String),
}

/// The expected properties of a packet. Properties that are not set are not checked.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ExpectedPacket {
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    r#type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Value>,
    /// Part of the value: some fields of an object, or all elements of a list, each in part.
    #[serde(skip_serializing_if = "Option::is_none")]
    contains: Option<Value>,
}

impl<'d> Deserialize<'d> for Expectation {
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
        self.timestamp.iter().all(time)
            && self.r#type.iter().all(|wanted| *wanted == found.r#type)
            && self.value.iter().all(|wanted| same(wanted, &found.value))
            && self
                .contains
                .iter()
                .all(|part| matches(part, &found.value, false))
    }
}

/// Returns true if two values are equal. Numbers are compared by value, not by notation.
pub(super) fn same(wanted: &Value, found: &Value) -> bool {
    matches(wanted, found, true)
}

/// Returns true if a value is the wanted one. Unless `whole`, its objects may have more fields.
fn matches(wanted: &Value, found: &Value, whole: bool) -> bool {
    match (wanted, found) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| matches(a, b, whole))
        }
        (Value::Object(a), Value::Object(b)) => {
            let has = |(name, a)| b.get(name).is_some_and(|b| matches(a, b, whole));
            (!whole || a.len() == b.len()) && a.iter().all(has)
        }
        _ => wanted == found,
    }
}

/// Returns the text in a packet: a string, a text chunk, an answer to a chat or completion, or a
/// piece of one.
fn text_of(packet: &Shown) -> String {
    let choice = |choice: &Value| {
        let pointers = ["/delta/content", "/message/content", "/text"];
        let mut places = pointers
            .iter()
            .filter_map(|place| choice.pointer(place)?.as_str());
        places.next().unwrap_or_default().to_owned()
    };
    let value = &packet.value;
    match value.get("text").unwrap_or(value) {
        Value::String(text) if value.is_object() || packet.r#type == "string" => text.clone(),
        _ => {
            let answer = value.get("event").or_else(|| value.get("body"));
            let choices = answer.and_then(|answer| answer["choices"].as_array());
            choices.into_iter().flatten().map(choice).collect()
        }
    }
}

/// Describes the differences between expected and actual packets, line by line; `None` if there are
/// none.
pub(crate) fn difference(expected: &Expectation, found: &[Shown]) -> Option<String> {
    let (wanted, got): (Vec<String>, Vec<String>) = match expected {
        Expectation::Text(text) => {
            let whole: String = found.iter().map(text_of).collect();
            let lines = |text: &str| text.split('\n').map(str::to_owned).collect();
            (lines(text), lines(&whole))
        }
        Expectation::Packets(packets) => {
            let got: Vec<String> = found.iter().map(|found| json!(found).to_string()).collect();
            let line = |(at, packet): (usize, &ExpectedPacket)| match found.get(at) {
                Some(found) if packet.is(found) => got[at].clone(),
                _ => json!(packet).to_string(),
            };
            (packets.iter().enumerate().map(line).collect(), got)
        }
    };
    if wanted == got {
        return None;
    }
    let lines =
        [&wanted, &got].map(|lines| -> Vec<&str> { lines.iter().map(String::as_str).collect() });
    let diff = TextDiff::from_slices(&lines[0], &lines[1]);
    let changes = diff.iter_all_changes();
    let lines = changes.map(|change| format!("{} {}\n", change.tag(), change.value()));
    Some(lines.collect())
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

    fn expected(value: Value) -> Expectation {
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
        assert!(serde_json::from_value::<Expectation>(json!([{"timestmp": 1}])).is_err());
    }
}
