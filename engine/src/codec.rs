//! Names and JSON forms of payload types, for tools that read and write packets.
//!
//! Sessions never convert packets to JSON; this module serves packets in files. `register_payload!`
//! makes a type known here.

use std::{any::TypeId, collections::HashMap, sync::LazyLock};

use graphmill_grammar::suggest;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

#[doc(hidden)]
pub use inventory;

use crate::{
    packet::{Packet, Payload, TypeInfo},
    timestamp::Timestamp,
};

/// A payload type with its name and its conversion to and from JSON.
pub struct PayloadCodec {
    /// Name of the type, such as `int`.
    pub name: &'static str,
    #[doc(hidden)]
    pub of: TypeInfo,
    #[doc(hidden)]
    pub encode: fn(&Packet) -> Option<Value>,
    #[doc(hidden)]
    pub decode: fn(&Value) -> Result<Packet, String>,
}

impl PayloadCodec {
    /// Makes the codec of a type from its serde implementation.
    pub const fn serde<T: Payload + Serialize + DeserializeOwned>(name: &'static str) -> Self {
        Self {
            name,
            of: TypeInfo::new::<T>(),
            encode: |packet| serde_json::to_value(packet.get::<T>()?).ok(),
            decode: |value| {
                let read = T::deserialize(value).map_err(|error| error.to_string());
                read.map(Packet::side)
            },
        }
    }
}

inventory::collect!(PayloadCodec);

/// Gives a payload type a name and a JSON form for `graphmill run` and `graphmill test`. The form
/// comes from serde, or from two functions `fn(&T) -> Value` and `fn(&Value) -> Result<T, String>`.
///
/// ```
/// use graphmill_engine::register_payload;
///
/// #[derive(Debug, serde::Serialize, serde::Deserialize)]
/// struct Face { x: f64, y: f64 }
/// register_payload!(Face as "face");
/// ```
#[macro_export]
macro_rules! register_payload {
    ($payload:ty as $name:literal) => {
        $crate::codec::inventory::submit! { $crate::packet::TypeName::new::<$payload>($name) }
        $crate::codec::inventory::submit! { $crate::codec::PayloadCodec::serde::<$payload>($name) }
    };
    ($payload:ty as $name:literal, $encode:expr, $decode:expr) => {
        $crate::codec::inventory::submit! { $crate::packet::TypeName::new::<$payload>($name) }
        $crate::codec::inventory::submit! {
            $crate::codec::PayloadCodec {
                name: $name,
                of: $crate::packet::TypeInfo::new::<$payload>(),
                encode: |packet| packet.get::<$payload>().map($encode),
                decode: |value| $decode(value).map($crate::packet::Packet::side::<$payload>),
            }
        }
    };
}

register_payload!(i64 as "int");
register_payload!(i32 as "int32");
register_payload!(u64 as "uint");
register_payload!(u32 as "uint32");
register_payload!(f64 as "float", |value: &f64| float_to_json(*value), float_from_json);
register_payload!(bool as "bool");
register_payload!(String as "string");
register_payload!(() as "empty");
register_payload!(Vec<i64> as "int_vector");
register_payload!(Vec<u64> as "uint_vector");
register_payload!(Vec<bool> as "bool_vector");
register_payload!(Vec<String> as "string_vector");
register_payload!(Vec<u8> as "bytes");
register_payload!(
    Vec<f64> as "float_vector",
    |values: &Vec<f64>| values.iter().copied().map(float_to_json).collect(),
    floats_from_json
);
register_payload!(Value as "json");
register_payload!(
    Timestamp as "timestamp",
    |time: &Timestamp| timestamp_to_json(*time),
    timestamp_from_json
);

struct Codecs {
    by_type: HashMap<TypeId, &'static PayloadCodec>,
    by_name: HashMap<&'static str, &'static PayloadCodec>,
}

static CODECS: LazyLock<Codecs> = LazyLock::new(|| {
    let all = || inventory::iter::<PayloadCodec>.into_iter();
    Codecs {
        by_type: all().map(|codec| (codec.of.id(), codec)).collect(),
        by_name: all().map(|codec| (codec.name, codec)).collect(),
    }
});

/// Converts a packet's value to JSON. Returns `None` if its type is not registered.
pub fn encode(packet: &Packet) -> Option<Value> {
    let codec = CODECS.by_type.get(&packet.type_info().id())?;
    (codec.encode)(packet)
}

/// Makes a packet without a timestamp from a JSON value. Its type is `named`; without a name, it is
/// the first of the `expected` types that the value fits; if none are expected, it is the closest
/// type. The error says why no type fits.
pub fn decode(value: &Value, named: Option<&str>, expected: &[TypeInfo]) -> Result<Packet, String> {
    if let Some(name) = named {
        let codec = CODECS.by_name.get(name).ok_or_else(|| unknown(name))?;
        return (codec.decode)(value).map_err(|why| format!("not a value of type `{name}`: {why}"));
    }
    let mut problems = Vec::new();
    for of in expected {
        let Some(codec) = CODECS.by_type.get(&of.id()) else {
            problems.push(format!("values of type `{of}` cannot be read from JSON: the type is not registered with `register_payload!`"));
            continue;
        };
        match (codec.decode)(value) {
            Ok(packet) => return Ok(packet),
            Err(why) => problems.push(format!("not a value of type `{}`: {why}", codec.name)),
        }
    }
    if problems.is_empty() {
        Ok(infer(value))
    } else {
        Err(problems.join("; "))
    }
}

fn unknown(name: &str) -> String {
    let mut names: Vec<&str> = CODECS.by_name.keys().copied().collect();
    names.sort_unstable();
    match suggest::nearest(name, names.iter().copied()) {
        Some(near) => format!("unknown type `{name}`; did you mean `{near}`?"),
        None => format!("unknown type `{name}`; the types are {}", names.join(", ")),
    }
}

/// Makes a packet of the type that is closest to a JSON value.
fn infer(value: &Value) -> Packet {
    let all = |is: fn(&Value) -> bool| {
        value
            .as_array()
            .is_some_and(|items| !items.is_empty() && items.iter().all(is))
    };
    let name = match value {
        Value::Null => "empty",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int",
        Value::Number(number) if number.is_u64() => "uint",
        Value::Number(_) => "float",
        Value::String(_) => "string",
        Value::Array(_) if all(Value::is_i64) => "int_vector",
        Value::Array(_) if all(Value::is_number) => "float_vector",
        Value::Array(_) if all(Value::is_string) => "string_vector",
        Value::Array(_) if all(Value::is_boolean) => "bool_vector",
        Value::Array(_) | Value::Object(_) => "json",
    };
    let fitting = CODECS.by_name.get(name).map(|codec| (codec.decode)(value));
    match fitting {
        Some(Ok(packet)) => packet,
        Some(Err(_)) | None => Packet::side(value.clone()),
    }
}

/// Converts a timestamp to JSON: a number, or the name of a special value such as `"PreStream"`.
pub fn timestamp_to_json(time: Timestamp) -> Value {
    json!(time)
}

/// Reads a timestamp: a number, or the name of a special value in any case. The error says what is
/// expected.
pub fn timestamp_from_json(value: &Value) -> Result<Timestamp, String> {
    let special = [
        Timestamp::UNSET,
        Timestamp::UNSTARTED,
        Timestamp::PRE_STREAM,
        Timestamp::MIN,
        Timestamp::MAX,
        Timestamp::POST_STREAM,
        Timestamp::ONE_OVER_POST_STREAM,
        Timestamp::DONE,
    ];
    let found = match value {
        Value::Number(number) => number.as_i64().map(Timestamp::new),
        Value::String(name) => {
            let mut special = special.into_iter();
            special.find(|time| time.to_string().eq_ignore_ascii_case(name))
        }
        _ => None,
    };
    found.ok_or_else(|| {
        format!("{value} is not a timestamp: expected an integer, or \"PreStream\", \"Min\", \"Max\" or \"PostStream\"")
    })
}

/// Names of the numbers that JSON cannot express.
const NOT_FINITE: [&str; 3] = ["inf", "-inf", "nan"];

fn float_to_json(value: f64) -> Value {
    if value.is_finite() {
        json!(value)
    } else {
        json!(value.to_string().to_lowercase())
    }
}

fn float_from_json(value: &Value) -> Result<f64, String> {
    let named = value.as_str().filter(|text| NOT_FINITE.contains(text));
    let number = named.map_or_else(|| value.as_f64(), |text| text.parse().ok());
    number.ok_or_else(|| format!("{value} is not a number"))
}

fn floats_from_json(value: &Value) -> Result<Vec<f64>, String> {
    match value {
        Value::Array(values) => values.iter().map(float_from_json).collect(),
        other => Err(format!("{other} is not a list of numbers")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(value: &Value, named: Option<&str>) -> (String, Value) {
        let packet = decode(value, named, &[]).expect("a value");
        (
            packet.type_info().name(),
            encode(&packet).expect("registered"),
        )
    }

    #[test]
    fn a_value_without_a_type_is_what_it_looks_like() {
        for (value, name) in [
            (json!(null), "empty"),
            (json!(true), "bool"),
            (json!(-3), "int"),
            (json!(2.5), "float"),
            (json!("x"), "string"),
            (json!([1, 2]), "int_vector"),
            (json!([1.5, 2.0]), "float_vector"),
            (json!(["a"]), "string_vector"),
            (json!([true]), "bool_vector"),
            (json!([1, "a"]), "json"),
            (json!({"a": []}), "json"),
        ] {
            assert_eq!(round_trip(&value, None), (name.to_owned(), value));
        }
    }

    #[test]
    fn a_named_or_expected_type_decides() {
        assert_eq!(round_trip(&json!(3), Some("uint")).0, "uint");
        assert_eq!(
            round_trip(&json!("inf"), Some("float")),
            ("float".to_owned(), json!("inf"))
        );
        assert_eq!(
            round_trip(&json!("prestream"), Some("timestamp")).1,
            json!("PreStream")
        );
        let float = decode(&json!(3), None, &[TypeInfo::new::<f64>()]).expect("a float");
        assert_eq!(float.get::<f64>(), Some(&3.0));
        let second = [TypeInfo::new::<bool>(), TypeInfo::new::<String>()];
        assert!(
            decode(&json!("x"), None, &second)
                .expect("a string")
                .is::<String>()
        );
    }

    #[test]
    fn what_is_wrong_is_said() {
        let error = |value, named, expected: &[TypeInfo]| {
            decode(&value, named, expected).expect_err("wrong")
        };
        assert!(error(json!(1), Some("itn"), &[]).contains("did you mean `int`?"));
        assert!(error(json!(1.5), Some("int"), &[]).contains("type `int`"));
        let unregistered = error(json!(1), None, &[TypeInfo::new::<TypeId>()]);
        assert!(unregistered.contains("register_payload!"), "{unregistered}");
    }
}
