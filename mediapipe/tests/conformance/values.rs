//! Timestamps and packets as the recordings write them.

use graphmill_engine::{Packet, Timestamp};
use serde_json::{Value, json};

const NAMES: [(&str, Timestamp); 7] = [
    ("UNSET", Timestamp::UNSET),
    ("UNSTARTED", Timestamp::UNSTARTED),
    ("PRESTREAM", Timestamp::PRE_STREAM),
    ("MIN", Timestamp::MIN),
    ("MAX", Timestamp::MAX),
    ("POSTSTREAM", Timestamp::POST_STREAM),
    ("DONE", Timestamp::DONE),
];

pub(crate) fn time(value: &Value) -> Timestamp {
    let named = value
        .as_str()
        .and_then(|name| NAMES.iter().find(|(known, _)| *known == name));
    named.map_or_else(
        || Timestamp::new(value.as_i64().unwrap_or_default()),
        |(_, time)| *time,
    )
}

pub(crate) fn time_name(time: Timestamp) -> Value {
    let named = NAMES.iter().find(|(_, known)| *known == time);
    named.map_or_else(|| Value::from(time.value()), |(name, _)| Value::from(*name))
}

/// A packet of a recorded type. Signed integers of all widths are `i64` here, and both widths of
/// floats `f64`.
pub(crate) fn packet(kind: &Value, value: &Value, time: Timestamp) -> Packet {
    fn items<T>(value: &Value, item: impl Fn(&Value) -> Option<T>) -> Vec<T> {
        let items = value.as_array().into_iter().flatten();
        items.filter_map(item).collect()
    }
    let text = |value: &Value| value.as_str().map(str::to_owned);
    match kind.as_str() {
        Some("bool") => Packet::new(time, value.as_bool().unwrap_or_default()),
        Some("float" | "double") => Packet::new(time, value.as_f64().unwrap_or_default()),
        Some("string") => Packet::new(time, text(value).unwrap_or_default()),
        Some("uint64") => Packet::new(time, value.as_u64().unwrap_or_default()),
        Some("int_vector") => Packet::new(time, items(value, Value::as_i64)),
        Some("float_vector") => Packet::new(time, items(value, Value::as_f64)),
        Some("bool_vector") => Packet::new(time, items(value, Value::as_bool)),
        Some("string_vector") => Packet::new(time, items(value, text)),
        _ => Packet::new(time, value.as_i64().unwrap_or_default()),
    }
}

/// A packet as the recordings show it.
pub(crate) fn shown(packet: &Packet) -> Value {
    let (kind, value) = if let Some(value) = packet.get::<i64>() {
        ("int", Value::from(*value))
    } else if let Some(value) = packet.get::<u64>() {
        ("uint", Value::from(*value))
    } else if let Some(value) = packet.get::<bool>() {
        ("bool", Value::from(*value))
    } else if let Some(value) = packet.get::<f64>() {
        ("float", Value::from(*value))
    } else if let Some(value) = packet.get::<String>() {
        ("string", Value::from(value.as_str()))
    } else if let Some(value) = packet.get::<Vec<i64>>() {
        ("int_vector", Value::from(value.clone()))
    } else if let Some(value) = packet.get::<Vec<f64>>() {
        ("float_vector", Value::from(value.clone()))
    } else if let Some(value) = packet.get::<Vec<bool>>() {
        ("bool_vector", Value::from(value.clone()))
    } else if let Some(value) = packet.get::<Vec<String>>() {
        ("string_vector", Value::from(value.clone()))
    } else {
        ("other", Value::Null)
    };
    json!({"ts": time_name(packet.time), "type": kind, "value": value})
}
