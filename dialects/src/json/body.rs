//! A body that is a JSON object, scanned once: where its fields are, and what is in those that were
//! asked for.

use std::{
    fmt,
    ops::Range,
    sync::{Arc, OnceLock},
};

use bytes::{Buf as _, Bytes};
use graphmill_engine::{Error, Result, shortened};
use indexmap::IndexMap;
use serde::de::{
    Deserialize as _, DeserializeSeed, Deserializer as _, Error as _, IgnoredAny, MapAccess,
    Visitor,
};
use serde_json::{Map, Value, value::RawValue};

use super::{Allowance, INVALID_JSON, value::unreadable, without_mark};

/// Maximum number of fields of a body, a hundred times as many as any endpoint knows: each takes
/// some 200 bytes.
pub const MAX_FIELDS: usize = 16_384;

/// The part of a longer name that is kept: no field that means something is called so.
const MAX_NAME_BYTES: usize = 128;

/// Number of names in the `Debug` form.
const MAX_SHOWN_NAMES: usize = 16;

/// Longest text of a field that is read as a short one.
const MAX_SHORT_BYTES: usize = 256;

/// The fields of a JSON object. A field becomes a value when it is first asked for; one that nobody
/// asks for is only checked for being JSON. Of fields of one name, the last counts.
///
/// What is made of all fields is bounded by [`MAX_VALUES`](super::MAX_VALUES) and
/// [`MAX_DEPTH`](super::MAX_DEPTH).
pub struct JsonBody {
    text: Bytes,
    fields: IndexMap<Box<str>, Field>,
    allowance: Arc<Allowance>,
}

#[derive(Debug)]
struct Field {
    /// Place of its value in the text; none for one that was put in as a value.
    place: Option<Range<usize>>,
    value: OnceLock<Value>,
}

/// Without what is in it: it can be long, and is a stranger's.
impl fmt::Debug for JsonBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.fields.keys().take(MAX_SHOWN_NAMES);
        f.debug_set().entries(names).finish()
    }
}

impl Field {
    /// The field without the value that was made of its text.
    fn as_sent(&self) -> Self {
        let value = match self.place {
            Some(_) => OnceLock::new(),
            None => self.value.clone(),
        };
        Self {
            place: self.place.clone(),
            value,
        }
    }
}

/// A field as it was sent.
#[derive(Copy, Clone, Debug)]
pub enum Given<'a> {
    /// Its text, JSON in UTF-8.
    Text(&'a [u8]),
    /// Its value, where it was put in as one.
    Value(&'a Value),
}

impl JsonBody {
    /// Scans a body once, without making values of what is in it.
    ///
    /// # Errors
    /// If it is no JSON object, or one of more than [`MAX_FIELDS`] fields.
    pub fn scan(mut bytes: Bytes) -> Result<Self> {
        let refused = |why: String| Error::invalid(why).with_code(INVALID_JSON);
        let mark = bytes.len() - without_mark(&bytes).len();
        bytes.advance(mark);
        let text = std::str::from_utf8(&bytes)
            .map_err(|error| refused(format!("the body is not JSON: {error}")))?;
        let first = text.trim_ascii_start().bytes().next();
        if first.is_none() {
            return Err(refused(
                "the body is empty; it has to be a JSON object".to_owned(),
            ));
        }
        let mut deserializer = serde_json::Deserializer::from_str(text);
        if first != Some(b'{') {
            let ignored = IgnoredAny::deserialize(&mut deserializer);
            return Err(refused(match ignored.and_then(|_| deserializer.end()) {
                Ok(()) => "the body is not a JSON object".to_owned(),
                Err(error) => format!("the body is not JSON: {error}"),
            }));
        }
        let mut fields = Fields {
            text,
            found: IndexMap::new(),
            count: 0,
        };
        let scanned = deserializer
            .deserialize_map(&mut fields)
            .and_then(|()| deserializer.end());
        let Fields { found, count, .. } = fields;
        match scanned {
            Ok(()) => Ok(Self {
                fields: found,
                text: bytes,
                allowance: Arc::default(),
            }),
            Err(_) if count > MAX_FIELDS => {
                let why = format!("the body has more than {MAX_FIELDS} fields");
                Err(Error::invalid(why).with_code("too_many_fields"))
            }
            Err(error) => Err(refused(format!("the body is not JSON: {error}"))),
        }
    }

    /// The body that a value is when it is written.
    ///
    /// # Errors
    /// As [`scan`](Self::scan).
    pub fn of_value(value: &Value) -> Result<Self> {
        Self::scan(value.to_string().into())
    }

    /// A field's value, unless there is none or it is `null`.
    ///
    /// # Errors
    /// If the field is nested too deep or has too many values.
    pub fn get(&self, name: &str) -> Result<Option<&Value>> {
        let Some(field) = self.field(name) else {
            return Ok(None);
        };
        if let Some(value) = field.value.get() {
            return Ok(Some(value).filter(|value| !value.is_null()));
        }
        let text = self.text(field.place.clone().unwrap_or_default());
        if text == b"null" {
            return Ok(None);
        }
        let value = self
            .allowance
            .parse_behind(self.before(field), text, name)?;
        Ok(Some(field.value.get_or_init(|| value)))
    }

    /// A field's value where its text is short: for fields that are numbers, names or switches if
    /// they are right.
    pub fn short(&self, name: &str) -> Option<&Value> {
        match self.given(name)? {
            Given::Text(text) if text.len() > MAX_SHORT_BYTES => None,
            _ => self.get(name).ok().flatten(),
        }
    }

    /// Returns true if there is a field of this name that is not `null`.
    pub fn has(&self, name: &str) -> bool {
        match self.given(name) {
            None | Some(Given::Text(b"null") | Given::Value(Value::Null)) => false,
            Some(_) => true,
        }
    }

    /// The names of all fields, in the order of the body. Those of more than 128 bytes are cut.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.fields.keys().map(|name| &**name)
    }

    /// The whole body as one value, for nodes that read what the endpoints here do not know.
    ///
    /// # Errors
    /// If the body is nested too deep or has too many values.
    pub fn to_value(&self) -> Result<Value> {
        let mut whole = Map::new();
        for name in self.names() {
            let value = self.get(name)?.cloned().unwrap_or_default();
            whole.insert(name.to_owned(), value);
        }
        Ok(Value::Object(whole))
    }

    /// Allowance for values that are still to be made of the request's text.
    pub fn allowance(&self) -> Arc<Allowance> {
        Arc::clone(&self.allowance)
    }

    /// A field as it was sent.
    pub fn given(&self, name: &str) -> Option<Given<'_>> {
        let field = self.field(name)?;
        match (&field.place, field.value.get()) {
            (Some(place), _) => Some(Given::Text(self.text(place.clone()))),
            (None, Some(value)) => Some(Given::Value(value)),
            (None, None) => None,
        }
    }

    /// The same body, without what was made of it. Both draw on one allowance.
    #[must_use]
    pub fn as_sent(&self) -> Self {
        let fields = self.fields.iter();
        Self {
            text: self.text.clone(),
            fields: fields
                .map(|(name, it)| (name.clone(), it.as_sent()))
                .collect(),
            allowance: Arc::clone(&self.allowance),
        }
    }

    /// Puts a field in, or in the place of the one of its name.
    pub fn insert(&mut self, name: &str, value: Value) {
        let value = value.into();
        let field = Field { place: None, value };
        self.fields.insert(name.into(), field);
    }

    fn field(&self, name: &str) -> Option<&Field> {
        self.fields.get(name)
    }

    /// The error of a field whose text could not be read.
    pub fn unreadable(&self, name: &str, error: &serde_json::Error) -> Error {
        let before = self.field(name).map_or(&[][..], |field| self.before(field));
        unreadable(before, name, error)
    }

    /// The text before that of a field.
    fn before(&self, field: &Field) -> &[u8] {
        let end = field.place.as_ref().map_or(0, |place| place.start);
        self.text(0..end)
    }

    /// JSON, which was found to be UTF-8.
    fn text(&self, place: Range<usize>) -> &[u8] {
        &self.text[place]
    }
}

/// Finds the fields of an object.
struct Fields<'a> {
    text: &'a str,
    found: IndexMap<Box<str>, Field>,
    /// Number of fields, those of one name included.
    count: usize,
}

impl<'de> Visitor<'de> for &mut Fields<'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key_seed(Name)? {
            let value: &'de RawValue = map.next_value()?;
            let begins = value.get().as_ptr() as usize - self.text.as_ptr() as usize;
            let place = Some(begins..begins + value.get().len());
            let field = Field {
                place,
                value: OnceLock::new(),
            };
            self.found.insert(name, field);
            self.count += 1;
            if self.count > MAX_FIELDS {
                return Err(A::Error::custom("too many fields"));
            }
        }
        Ok(())
    }
}

/// Reads a name, of which it keeps no more than the part that is shown.
struct Name;

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Box<str>;

    fn deserialize<D: serde::Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> Result<Box<str>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name {
    type Value = Box<str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Box<str>, E> {
        Ok(shortened(name, MAX_NAME_BYTES).into())
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
        assert_eq!(
            body.to_value().expect("values"),
            json!({"a": 3, "n": null, "ab": 2})
        );
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for (text, why) in [
            ("", "the body is empty; it has to be a JSON object"),
            (" \n", "the body is empty; it has to be a JSON object"),
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
