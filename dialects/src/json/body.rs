//! A body that is a JSON object, scanned once: the positions of its fields, and the values of
//! requested fields.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use bytes::{Buf as _, Bytes};
use graphmill_engine::{Error, Result, shortened};
use indexmap::IndexMap;
use serde::de::{Deserialize as _, Deserializer as _, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::{Value, value::RawValue};

use super::{Allowance, INVALID_JSON, value::unreadable, without_mark};

/// Maximum number of fields of a body, a hundred times as many as any endpoint knows. Each takes
/// about 200 bytes.
pub const MAX_FIELDS: usize = 16_384;

/// Number of bytes that are kept of a longer name. No known field has such a name.
const MAX_NAME_BYTES: usize = 128;

/// Maximum number of names in the `Debug` form.
const MAX_SHOWN_NAMES: usize = 16;

/// Maximum size in bytes of the text of a short field.
const MAX_SHORT_BYTES: usize = 256;

/// The fields of a JSON object. A field becomes a value on first request. A field that nobody
/// requests is only checked for valid JSON. If a name occurs several times, the last field wins.
///
/// The values made of all fields together are bounded by [`MAX_VALUES`](super::MAX_VALUES) and
/// [`MAX_DEPTH`](super::MAX_DEPTH).
pub struct JsonBody {
    text: Bytes,
    fields: IndexMap<Box<str>, Field>,
    allowance: Arc<Allowance>,
}

/// A field's text, JSON in UTF-8, and its value once requested.
struct Field {
    text: Bytes,
    value: OnceLock<Value>,
}

/// Writes names only, because the contents can be long and come from a stranger.
impl fmt::Debug for JsonBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.fields.keys().take(MAX_SHOWN_NAMES);
        f.debug_set().entries(names).finish()
    }
}

impl JsonBody {
    /// Scans a body once, without making values of its contents.
    ///
    /// # Errors
    /// If it is not a JSON object, or has more than [`MAX_FIELDS`] fields.
    pub fn scan(mut text: Bytes) -> Result<Self> {
        let refused = |why: &str| Error::invalid(why).with_code(INVALID_JSON);
        text.advance(text.len() - without_mark(&text).len());
        let json = std::str::from_utf8(&text)
            .map_err(|error| refused(&format!("the body is not JSON: {error}")))?;
        let mut deserializer = serde_json::Deserializer::from_str(json);
        let fields = match json.trim_ascii_start().bytes().next() {
            Some(b'{') => deserializer.deserialize_map(FieldsVisitor(&text)).map(Some),
            Some(_) => IgnoredAny::deserialize(&mut deserializer).map(|_| None),
            None => return Err(refused("the body is empty; it must be a JSON object")),
        };
        match fields.and_then(|fields| deserializer.end().map(|()| fields)) {
            Ok(Some(fields)) => Ok(Self {
                text,
                fields,
                allowance: Arc::default(),
            }),
            Ok(None) => Err(refused("the body is not a JSON object")),
            // The only error that does not concern the JSON.
            Err(error) if error.is_data() => {
                let why = format!("the body has more than {MAX_FIELDS} fields");
                Err(Error::invalid(why).with_code("too_many_fields"))
            }
            Err(error) => Err(refused(&format!("the body is not JSON: {error}"))),
        }
    }

    /// Makes a body from a value.
    ///
    /// # Errors
    /// Those of [`scan`](Self::scan).
    pub fn from_value(value: &Value) -> Result<Self> {
        Self::scan(value.to_string().into())
    }

    /// Returns a field's value; `None` if there is none or it is `null`.
    ///
    /// # Errors
    /// If the field is nested too deeply or has too many values.
    pub fn get(&self, name: &str) -> Result<Option<&Value>> {
        let Some(field) = self.field(name) else {
            return Ok(None);
        };
        if let Some(value) = field.value.get() {
            return Ok(Some(value));
        }
        let before = self.before(&field.text);
        let value = self.allowance.parse_behind(before, &field.text, name)?;
        Ok(Some(field.value.get_or_init(|| value)))
    }

    /// Returns a field's value if its text is short, as valid numbers, names and switches are.
    pub fn short(&self, name: &str) -> Option<&Value> {
        self.text(name)
            .filter(|text| text.len() <= MAX_SHORT_BYTES)?;
        self.get(name).ok()?
    }

    /// Returns `true` if there is a field with this name that is not `null`.
    pub fn has(&self, name: &str) -> bool {
        self.field(name).is_some()
    }

    /// Iterates over the names of all fields, in the order of the body. Names of more than 128
    /// bytes are cut.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.fields.keys().map(|name| &**name)
    }

    /// Returns the allowance for further values made from the request's text.
    pub fn allowance(&self) -> Arc<Allowance> {
        Arc::clone(&self.allowance)
    }

    /// Returns the text of a field, JSON in UTF-8; `None` if there is no field or it is `null`.
    pub fn text(&self, name: &str) -> Option<&[u8]> {
        self.field(name).map(|field| &*field.text)
    }

    /// Returns the same body without its values. Both share one allowance.
    #[must_use]
    pub fn as_sent(&self) -> Self {
        let fields = self.fields.iter();
        Self {
            text: self.text.clone(),
            fields: fields
                .map(|(name, field)| (name.clone(), Field::from(field.text.clone())))
                .collect(),
            allowance: Arc::clone(&self.allowance),
        }
    }

    /// Sets a field. It replaces one with the same name.
    pub fn insert(&mut self, name: &str, value: Value) {
        let text = value.to_string().into();
        let value = value.into();
        self.fields.insert(name.into(), Field { text, value });
    }

    /// Sets a field by its text, which must be JSON. Its values count against the allowance.
    pub fn insert_text(&mut self, name: &str, text: Bytes) {
        self.fields.insert(name.into(), Field::from(text));
    }

    fn field(&self, name: &str) -> Option<&Field> {
        self.fields.get(name).filter(|field| field.text != "null")
    }

    /// Makes the error of a text in a field that could not be read.
    pub fn unreadable(&self, name: &str, text: &[u8], error: &serde_json::Error) -> Error {
        unreadable(self.before(text), name, error)
    }

    /// Returns the text of the body before a part of it; empty for another text.
    fn before(&self, text: &[u8]) -> &[u8] {
        let begins = (text.as_ptr() as usize).wrapping_sub(self.text.as_ptr() as usize);
        self.text.get(..begins).unwrap_or_default()
    }
}

impl From<Bytes> for Field {
    fn from(text: Bytes) -> Self {
        let value = OnceLock::new();
        Self { text, value }
    }
}

/// Finds the fields of an object in its text.
struct FieldsVisitor<'a>(&'a Bytes);

impl<'de> Visitor<'de> for FieldsVisitor<'_> {
    type Value = IndexMap<Box<str>, Field>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = IndexMap::new();
        // Counts repeated names, too.
        let mut count = 0;
        while let Some(name) = map.next_key::<String>()? {
            let value: &'de RawValue = map.next_value()?;
            let text = self.0.slice_ref(value.get().as_bytes());
            fields.insert(shortened(&name, MAX_NAME_BYTES).into(), text.into());
            count += 1;
            if count > MAX_FIELDS {
                return Err(A::Error::custom("too many fields"));
            }
        }
        Ok(fields)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn scan(text: &str) -> Result<JsonBody> {
        JsonBody::scan(Bytes::copy_from_slice(text.as_bytes()))
    }

    #[test]
    fn fields_are_values_when_they_are_asked_for() {
        let body = scan(r#" { "a" : [1, {"b": "\u00e9"}] , "n": null, "\u0061b": 2, "a":3 } "#);
        let body = body.expect("an object");
        assert_eq!(body.names().collect::<Vec<_>>(), ["a", "n", "ab"]);
        assert_eq!(body.get("a").expect("a value"), Some(&json!(3)));
        assert_eq!(body.get("ab").expect("a value"), Some(&json!(2)));
        assert_eq!(body.get("n").expect("no value"), None);
        assert_eq!(body.get("x").expect("no value"), None);
        assert!(body.has("a") && !body.has("n") && !body.has("x"));
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for (text, why) in [
            ("", "the body is empty; it must be a JSON object"),
            (" \n", "the body is empty; it must be a JSON object"),
            ("[1]", "the body is not a JSON object"),
            (
                "5 6",
                "the body is not JSON: trailing characters at line 1 column 3",
            ),
            (
                "{\"a\":1",
                "the body is not JSON: EOF while parsing an object at line 1 column 6",
            ),
            (
                "{} {}",
                "the body is not JSON: trailing characters at line 1 column 4",
            ),
            (
                "{a: 1}",
                "the body is not JSON: key must be a string at line 1 column 2",
            ),
        ] {
            let error = scan(text).expect_err("it is refused");
            assert_eq!(error.message, why);
            assert_eq!(error.code.as_deref(), Some(INVALID_JSON));
        }
        let bytes = JsonBody::scan(Bytes::from_static(b"{\"a\": \"\xff\"}"));
        assert!(bytes.is_err_and(|error| error.code.as_deref() == Some(INVALID_JSON)));
    }

    /// The scan ends at the first field too many: what comes behind it, which is no JSON, is not
    /// reached.
    #[test]
    fn the_scan_ends_at_the_first_field_too_many() {
        use std::fmt::Write as _;
        let mut text = "{".to_owned();
        for number in 0..=MAX_FIELDS {
            let _ = write!(text, "\"f{number}\":0,");
        }
        let error = scan(&(text + "}}} no JSON")).expect_err("it is refused");
        assert_eq!(error.message, "the body has more than 16384 fields");
        assert_eq!(error.code.as_deref(), Some("too_many_fields"));
        let alike = format!("{{{}}}", r#""a":0,"#.repeat(MAX_FIELDS + 1) + "no JSON");
        let error = scan(&alike).expect_err("it is refused");
        assert_eq!(error.code.as_deref(), Some("too_many_fields"));
    }

    #[test]
    fn a_long_name_is_kept_in_part() {
        let body = scan(&format!("{{\"{}\":0}}", "é".repeat(100_000))).expect("an object");
        let name = body.names().next().expect("a field");
        assert!(name.len() < 140 && name.ends_with('…'), "{name}");
    }

    #[test]
    fn a_body_with_other_values_draws_on_the_same_allowance() {
        let half = "0,".repeat(40_000) + "0";
        let body = scan(&format!(r#"{{"a":[{half}],"b":[{half}],"c":1}}"#)).expect("an object");
        assert!(body.get("a").is_ok());
        let mut rest = body.as_sent();
        rest.insert("a", json!(4));
        rest.insert("d", json!(5));
        assert_eq!(rest.names().collect::<Vec<_>>(), ["a", "b", "c", "d"]);
        assert_eq!(rest.get("a").expect("a value"), Some(&json!(4)));
        assert_eq!(rest.get("d").expect("a value"), Some(&json!(5)));
        assert!(rest.get("b").is_err());
    }
}
