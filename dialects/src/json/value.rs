//! Values of any shape, limited in number for each request.

use std::{
    fmt,
    sync::atomic::{AtomicIsize, Ordering::Relaxed},
};

use graphmill_engine::{Error, Result};
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::INVALID_JSON;

/// Maximum number of JSON values made of the fields of one request together. A conversation of ten
/// thousand messages has fewer. The smallest objects take 500 bytes, so the values take at most
/// about 16 MiB.
pub const MAX_VALUES: usize = 1 << 16;

/// Maximum nesting of a field. Readers of values are recursive.
pub const MAX_DEPTH: usize = 100;

/// Name with which `serde_json` marks text that it is to parse again. Such text would not be counted.
const RAW_VALUE: &str = "$serde_json::private::RawValue";

/// Number of JSON values that a request may still have. Negative after it has had too many.
#[derive(Debug)]
pub struct Allowance(AtomicIsize);

impl Default for Allowance {
    /// Makes the allowance of a whole request.
    fn default() -> Self {
        Self(AtomicIsize::new(MAX_VALUES as isize))
    }
}

impl Allowance {
    /// Reads a value from text inside the request's `field`.
    ///
    /// # Errors
    /// If the text cannot be read, is nested too deeply, has too many values or a name that is
    /// reserved. The error names the field.
    pub fn parse(&self, text: &[u8], field: &str) -> Result<Value> {
        self.parse_behind(&[], text, field)
    }

    /// Reads a value like [`Self::parse`]. Positions in errors count `before` and `text` together.
    pub(super) fn parse_behind(&self, before: &[u8], text: &[u8], field: &str) -> Result<Value> {
        let mut deserializer = serde_json::Deserializer::from_slice(text);
        let seed = ValueSeed {
            allowance: self,
            levels: MAX_DEPTH,
        };
        let value = seed
            .deserialize(&mut deserializer)
            .and_then(|value| deserializer.end().map(|()| value));
        value.map_err(|error| {
            // All errors except those of `ValueSeed` concern the JSON.
            let (why, code) = if !error.is_data() {
                return unreadable(before, field, &error);
            } else if self.0.load(Relaxed) < 0 {
                (
                    format!("has too many JSON values: a request may have {MAX_VALUES}"),
                    "too_many_values",
                )
            } else if error.to_string().contains(RAW_VALUE) {
                (
                    format!("has an object with the reserved name `{RAW_VALUE}`"),
                    "invalid_value",
                )
            } else {
                (
                    format!("is nested deeper than {MAX_DEPTH} levels"),
                    "nested_too_deep",
                )
            };
            Error::invalid(format!("`{field}` {why}"))
                .with_field(field.to_owned())
                .with_code(code)
        })
    }
}

/// Makes the error of a field whose text, after another one, could not be read. The text may be
/// valid JSON, because JSON has numbers and characters that no reader accepts.
pub(super) fn unreadable(before: &[u8], field: &str, error: &serde_json::Error) -> Error {
    let (mut line, mut column) = (error.line(), error.column());
    let said = error.to_string();
    let place = format!(" at line {line} column {column}");
    let said = said.strip_suffix(&place).unwrap_or(&said);
    let mut lines = before.split(|byte| *byte == b'\n');
    let last = lines.next_back().map_or(0, <[u8]>::len);
    if line == 1 {
        column += last;
    }
    line += lines.count();
    let message = format!("`{field}` cannot be read: {said} at line {line} column {column}");
    Error::invalid(message)
        .with_field(field.to_owned())
        .with_code(INVALID_JSON)
}

/// Reads one value with its contents, to a limited number of levels.
#[derive(Copy, Clone)]
struct ValueSeed<'a> {
    allowance: &'a Allowance,
    levels: usize,
}

impl ValueSeed<'_> {
    fn inner<E: serde::de::Error>(self) -> Result<Self, E> {
        let levels = self.levels.checked_sub(1);
        let levels = levels.ok_or_else(|| E::custom("nested too deep"))?;
        Ok(Self { levels, ..self })
    }
}

impl<'de> DeserializeSeed<'de> for ValueSeed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        // Relaxed suffices: fields are read one after the other, and nothing else depends on the
        // order.
        if self.allowance.0.fetch_sub(1, Relaxed) <= 0 {
            return Err(D::Error::custom("too many values"));
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueSeed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let inner = self.inner()?;
        let mut list = Vec::new();
        while let Some(value) = seq.next_element_seed(inner)? {
            list.push(value);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let inner = self.inner()?;
        let mut fields = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            if name == RAW_VALUE {
                return Err(A::Error::custom(RAW_VALUE));
            }
            // If a name occurs several times, the last field wins.
            fields.insert(name, map.next_value_seed(inner)?);
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(text: &str) -> Error {
        let value = Allowance::default().parse(text.as_bytes(), "tools");
        value.expect_err("it is refused")
    }

    #[test]
    fn a_value_is_what_serde_json_makes_of_its_text() {
        for text in [
            r#"{"a": [1, -2, 3.5, 1e300, 18446744073709551615, "x\né", true, null, {}], "a\n": []}"#,
            r#"{"a": 1, "b": 2, "a": 3}"#,
            " 7 ",
        ] {
            let value = Allowance::default()
                .parse(text.as_bytes(), "tools")
                .expect("JSON");
            let expected: Value = serde_json::from_str(text).expect("JSON");
            assert_eq!(value, expected);
        }
    }

    #[test]
    fn text_that_would_be_parsed_uncounted_is_refused() {
        let error = refused(r#"[{"a": {"$serde_json::private::RawValue": "[1, 2]"}}]"#);
        assert_eq!(error.field.as_deref(), Some("tools"));
        assert!(error.message.contains("reserved name"), "{}", error.message);
    }

    #[test]
    fn all_values_of_a_request_are_counted_together() {
        let allowance = Allowance::default();
        let half = format!("[{}0]", "0,".repeat(MAX_VALUES / 2));
        assert!(allowance.parse(half.as_bytes(), "tools").is_ok());
        let error = allowance
            .parse(half.as_bytes(), "metadata")
            .expect_err("too many");
        assert_eq!(error.field.as_deref(), Some("metadata"));
        assert_eq!(error.code.as_deref(), Some("too_many_values"));
        assert!(error.message.contains("65536"), "{}", error.message);
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(
            Allowance::default()
                .parse(nested(MAX_DEPTH).as_bytes(), "tools")
                .is_ok()
        );
        let error = refused(&nested(MAX_DEPTH + 1));
        assert_eq!(error.code.as_deref(), Some("nested_too_deep"));
        assert_eq!(refused(&nested(1 << 20)).message, error.message);
    }

    #[test]
    fn what_is_no_json_is_refused_with_the_field() {
        for text in [r#""\ud800""#, "1e999", "[1", "1 2", ""] {
            let error = refused(text);
            assert_eq!(error.code.as_deref(), Some(INVALID_JSON), "{text}");
            assert!(
                error.message.starts_with("`tools` cannot be read: "),
                "{}",
                error.message
            );
        }
        assert_eq!(
            Allowance::default().parse(b"[]", "a").expect("JSON"),
            json!([])
        );
    }
}
