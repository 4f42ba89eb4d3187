//! The table of request fields: what each takes, on which endpoints, and what of it is refused.
//!
//! Requests are checked against it before anything else reads them, the reference page is made from
//! it, and the tests send every value that it says is refused.

use std::{collections::HashSet, fmt, sync::OnceLock};

use graphmill_engine::Result;
use serde_json::Value;

use super::fields::{at_most, code, invalid, unsupported, whole, written, wrong_kind, wrong_type};
use crate::payload::{JsonBody, json::Given};

mod chat;
mod completions;
pub(super) mod endpoint;
mod generate;
mod length;
mod messages;
mod operation;
mod output;
mod prompts;
mod responses;
mod sampling;
mod tools;
mod transcriptions;
mod vectors;

/// The endpoint of conversations.
pub const CHAT: &str = "chat/completions";
/// The endpoint of prompts.
pub const COMPLETIONS: &str = "completions";
/// OpenAI's endpoint of items.
pub const RESPONSES: &str = "responses";
/// Anthropic's endpoint of content blocks.
pub const MESSAGES: &str = "messages";
/// OpenAI's endpoint that writes down what is said.
pub const TRANSCRIPTIONS: &str = "audio/transcriptions";
/// Triton's endpoint that continues a text.
pub const GENERATE: &str = "generate";
/// The same as a stream.
pub const GENERATE_STREAM: &str = "generate_stream";
/// The endpoint that shows the tokens of a text.
pub const TOKENIZE: &str = "tokenize";
/// The endpoint that shows the text of tokens.
pub const DETOKENIZE: &str = "detokenize";

/// The endpoint that makes vectors of texts.
pub const EMBEDDINGS: &str = "embeddings";
/// Cohere's endpoint that makes vectors of texts.
pub const EMBED: &str = "embed";
/// The endpoint that says how well documents answer a query.
pub const RERANK: &str = "rerank";

/// Both endpoints that generate text.
const BOTH: &[&str] = &[CHAT, COMPLETIONS];

/// The largest count that is taken.
const MOST: i64 = u32::MAX as i64;

/// One field of a request's body.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// The endpoints that take it.
    pub endpoints: &'static [&'static str],
    /// What it takes.
    pub form: Form,
    /// What it does, as a sentence of the reference page.
    pub about: &'static str,
    /// Values that are refused besides those that have not the form.
    pub refused: &'static [Refused],
}

/// What a field takes. `null` is always the same as no field.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// `true` or `false`.
    Boolean,
    /// A number between two others, or equal to one of them.
    Number(f64, f64),
    /// A number above this one.
    Above(f64),
    /// A whole number between two others, or equal to one of them.
    Integer(i64, i64),
    /// A whole number that is at least this, or -1, which is no limit.
    Limit(i64),
    /// Any text.
    Text,
    /// One of these texts.
    OneOf(&'static [&'static str]),
    /// An object, of which the node that reads it knows more.
    Object,
    /// An array of at most so many entries, likewise.
    Array(usize),
    /// One of these values, written in JSON, which ask for nothing but what is done anyway. Any
    /// other asks for what cannot be done.
    Only(&'static [&'static str]),
    /// Described by these words; checked by the code that reads the field.
    Own(&'static str),
}

/// A value that is refused.
#[derive(Clone, Copy, Debug)]
pub struct Refused {
    /// Fields to add to a good request, as a JSON object.
    pub fields: &'static str,
    /// The error's `param`.
    pub param: &'static str,
    /// The error's `code`.
    pub code: &'static str,
}

/// A request that is refused with status 400 and type `invalid_request_error`.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// Where it is sent.
    pub endpoint: &'static str,
    /// Fields to add to a good request of that endpoint.
    pub fields: Value,
    /// The error's `param`.
    pub param: String,
    /// The error's `code`.
    pub code: &'static str,
}

const fn field(
    name: &'static str,
    endpoints: &'static [&'static str],
    form: Form,
    about: &'static str,
) -> Field {
    Field {
        name,
        endpoints,
        form,
        about,
        refused: &[],
    }
}

impl Field {
    const fn refusing(self, refused: &'static [Refused]) -> Self {
        Self { refused, ..self }
    }
}

const fn refused(fields: &'static str, param: &'static str, code: &'static str) -> Refused {
    Refused {
        fields,
        param,
        code,
    }
}

/// All fields of all endpoints, in the order of the reference page.
pub fn fields() -> impl Iterator<Item = &'static Field> {
    [
        chat::FIELDS,
        completions::FIELDS,
        length::FIELDS,
        sampling::FIELDS,
        output::FIELDS,
        tools::FIELDS,
        operation::FIELDS,
        responses::FIELDS,
        messages::FIELDS,
        generate::FIELDS,
        transcriptions::FIELDS,
        prompts::FIELDS,
        vectors::FIELDS,
    ]
    .into_iter()
    .flatten()
}

/// Whether a field of this name is a number, or true or false, where that is not told by how it is
/// written: in a form.
pub fn is_value(name: &str) -> bool {
    fields()
        .filter(|field| field.name == name)
        .any(|field| match field.form {
            Form::Boolean
            | Form::Number(..)
            | Form::Above(_)
            | Form::Integer(..)
            | Form::Limit(_) => true,
            Form::Text
            | Form::OneOf(_)
            | Form::Object
            | Form::Array(_)
            | Form::Only(_)
            | Form::Own(_) => false,
        })
}

/// All refusals that the table promises.
///
/// # Panics
/// If a row of the table is not written in JSON.
pub fn refusals() -> Vec<Refusal> {
    let mut refusals = Vec::new();
    for field in fields() {
        for endpoint in field.endpoints {
            for (value, code) in field.form.refuses() {
                refusals.push(Refusal {
                    endpoint,
                    fields: serde_json::json!({ field.name: value }),
                    param: field.name.to_owned(),
                    code,
                });
            }
            for refused in field.refused {
                refusals.push(Refusal {
                    endpoint,
                    fields: serde_json::from_str(refused.fields).expect("rows are JSON"),
                    param: refused.param.to_owned(),
                    code: refused.code,
                });
            }
        }
    }
    refusals
}

/// Most names of unknown fields that an answer tells of.
const MAX_IGNORED: usize = 32;

/// The names of all fields: a body may have many others, for each of which the table is not
/// searched.
static KNOWN: OnceLock<HashSet<&'static str>> = OnceLock::new();

/// Checks every field of a body that the table knows for this endpoint, and names those that mean
/// nothing to it. No value is made of these, nor of those whose form says nothing about what is
/// inside.
pub(super) fn check(body: &JsonBody, endpoint: &str) -> Result<Vec<String>> {
    let mut unknown = Vec::new();
    let names = KNOWN.get_or_init(|| fields().map(|field| field.name).collect());
    for name in body.names().filter(|name| body.has(name)) {
        if !names.contains(name) {
            match unknown.len() {
                ..MAX_IGNORED => unknown.push(name.to_owned()),
                MAX_IGNORED => unknown.push("...".to_owned()),
                _ => {}
            }
            continue;
        }
        let known = || fields().filter(|field| field.name == name);
        if let Some(field) = known().find(|field| field.endpoints.contains(&endpoint)) {
            field.form.check(field.name, body)?;
            continue;
        }
        match known().find(|field| is_akin(field, endpoint)) {
            Some(field) if !asks_for_nothing(name, body)? => {
                let message = format!("is a field of `{}`", field.endpoints.join("` and `"));
                return Err(invalid(name, message).with_code("unsupported_parameter"));
            }
            Some(_) => {}
            None => unknown.push(name.to_owned()),
        }
    }
    Ok(unknown)
}

/// Whether a field would ask this endpoint for something that the other one of its kind does.
fn is_akin(field: &Field, endpoint: &str) -> bool {
    BOTH.contains(&endpoint) && field.endpoints.iter().any(|other| BOTH.contains(other))
}

/// Whether a field's value, whatever the field, leaves everything as it is without the field.
fn asks_for_nothing(name: &str, body: &JsonBody) -> Result<bool> {
    // Of what has something inside, no value is made to find that out.
    if body.given(name).is_some_and(is_long) {
        return Ok(false);
    }
    Ok(match body.get(name)? {
        None => true,
        Some(value) => match value {
            Value::Null => true,
            Value::Bool(value) => !value,
            Value::Number(number) => number.as_f64() == Some(0.0),
            Value::String(text) => text.is_empty(),
            Value::Array(list) => list.is_empty(),
            Value::Object(fields) => fields.is_empty(),
        },
    })
}

/// Whether a field's text is longer than any that the table itself can compare it with.
fn is_long(given: Given<'_>) -> bool {
    matches!(given, Given::Text(text) if text.len() > 256)
}

impl Form {
    /// Checks a field that is there.
    fn check(self, name: &str, body: &JsonBody) -> Result<()> {
        let Some(given) = body.given(name) else {
            return Ok(());
        };
        let typed = |is: bool, expected: &str| match (is, compound(given)) {
            (true, _) => Ok(()),
            (false, Some(kind)) => Err(wrong_kind(name, expected, kind)),
            (false, None) => match body.get(name)? {
                Some(value) => Err(wrong_type(name, expected, value)),
                None => Ok(()),
            },
        };
        let kind = compound(given);
        match self {
            Self::Own(_) => return Ok(()),
            Self::Text => return typed(kind == Some(STRING), STRING),
            Self::Object => return typed(kind == Some(OBJECT), OBJECT),
            Self::Array(_) => typed(kind == Some(ARRAY), ARRAY)?,
            Self::OneOf(_) => typed(kind == Some(STRING), STRING)?,
            Self::Boolean => typed(kind.is_none(), "a boolean")?,
            Self::Integer(..) | Self::Limit(_) => typed(kind.is_none(), "an integer")?,
            Self::Number(..) | Self::Above(_) => typed(kind.is_none(), "a number")?,
            Self::Only(_) if is_long(given) => {
                let message = "is not supported with a value of this length";
                return Err(invalid(name, message).with_code(code::UNSUPPORTED));
            }
            Self::Only(_) => {}
        }
        let Some(value) = body.get(name)? else {
            return Ok(());
        };
        let within = |is: bool| {
            if is {
                Ok(())
            } else {
                let value = written(value);
                Err(invalid(name, format!("must be {self}, not {value}")))
            }
        };
        match self {
            Self::Boolean => typed(value.is_boolean(), "a boolean"),
            Self::Text | Self::Object | Self::Own(_) => Ok(()),
            Self::Array(most) => {
                let count = value.as_array().map_or(0, Vec::len);
                at_most(name, count, most, "entries")
            }
            Self::Number(least, most) => {
                typed(value.is_number(), "a number")?;
                within(
                    value
                        .as_f64()
                        .is_some_and(|number| (least..=most).contains(&number)),
                )
            }
            Self::Above(bound) => {
                typed(value.is_number(), "a number")?;
                within(value.as_f64().is_some_and(|number| number > bound))
            }
            Self::Integer(least, most) => {
                typed(is_whole(value), "an integer")?;
                within(whole(value).is_some_and(|number| (least..=most).contains(&number)))
            }
            Self::Limit(least) => {
                typed(is_whole(value), "an integer")?;
                let is_limit = |number| number == -1 || (least..=MOST).contains(&number);
                within(whole(value).is_some_and(is_limit))
            }
            Self::OneOf(texts) => within(value.as_str().is_some_and(|text| texts.contains(&text))),
            Self::Only(values) => {
                let same =
                    |text: &&str| serde_json::from_str(text).is_ok_and(|only| equal(&only, value));
                if values.iter().any(same) {
                    Ok(())
                } else {
                    Err(unsupported(name, value))
                }
            }
        }
    }

    /// Values that have not this form, with the code of their refusal.
    fn refuses(self) -> Vec<(Value, &'static str)> {
        const TYPE: &str = "invalid_type";
        const VALUE: &str = "invalid_value";
        match self {
            Self::Boolean => vec![("true".into(), TYPE), (1.into(), TYPE)],
            Self::Text => vec![(5.into(), TYPE), (Value::Array(vec!["a".into()]), TYPE)],
            Self::Object => vec![("{}".into(), TYPE), (Value::Array(Vec::new()), TYPE)],
            Self::Array(_) => vec![("a".into(), TYPE), (1.into(), TYPE)],
            Self::Number(least, most) => {
                let mut refused = vec![("1".into(), TYPE), ((least - 0.5).into(), VALUE)];
                if most.is_finite() {
                    refused.push(((most + 0.5).into(), VALUE));
                }
                refused
            }
            Self::Above(bound) => vec![
                ("1".into(), TYPE),
                (bound.into(), VALUE),
                ((bound - 1.0).into(), VALUE),
            ],
            Self::Integer(least, most) => {
                let mut refused = vec![("1".into(), TYPE), (1.5.into(), TYPE)];
                refused.extend(least.checked_sub(1).map(|below| (below.into(), VALUE)));
                refused.extend(most.checked_add(1).map(|above| (above.into(), VALUE)));
                refused
            }
            Self::Limit(least) => vec![
                ("1".into(), TYPE),
                (1.5.into(), TYPE),
                ((least - 1).min(-2).into(), VALUE),
                ((MOST + 1).into(), VALUE),
            ],
            Self::OneOf(_) => vec![("something".into(), VALUE), (5.into(), TYPE)],
            Self::Only(_) => vec![("something".into(), "unsupported_parameter")],
            Self::Own(_) => Vec::new(),
        }
    }
}

const STRING: &str = "a string";
const ARRAY: &str = "an array";
const OBJECT: &str = "an object";

/// What a field is whose value may be long; none for the others. No value is made of it.
fn compound(given: Given<'_>) -> Option<&'static str> {
    match given {
        Given::Text([b'"', ..]) | Given::Value(Value::String(_)) => Some(STRING),
        Given::Text([b'[', ..]) | Given::Value(Value::Array(_)) => Some(ARRAY),
        Given::Text([b'{', ..]) | Given::Value(Value::Object(_)) => Some(OBJECT),
        _ => None,
    }
}

/// Whether a number has no fraction, however large it is.
fn is_whole(value: &Value) -> bool {
    value.as_f64().is_some_and(|number| number.fract() == 0.0)
}

/// Equal, where 1 and 1.0 are.
fn equal(left: &Value, right: &Value) -> bool {
    left == right || (left.is_number() && left.as_f64() == right.as_f64())
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |values: &[&str]| {
            values
                .iter()
                .map(|value| format!("`{value}`"))
                .collect::<Vec<_>>()
                .join(", ")
        };
        match *self {
            Self::Boolean => f.write_str("a boolean"),
            Self::Text => f.write_str("a string"),
            Self::Object => f.write_str("an object"),
            Self::Array(most) => write!(f, "an array of at most {most}"),
            Self::Number(least, f64::INFINITY) => write!(f, "a number of at least {least}"),
            Self::Number(least, most) => write!(f, "between {least} and {most}"),
            Self::Above(bound) => write!(f, "above {bound}"),
            Self::Integer(least, MOST | i64::MAX) => write!(f, "an integer of at least {least}"),
            Self::Integer(least, most) => write!(f, "an integer between {least} and {most}"),
            Self::Limit(least) => write!(
                f,
                "an integer of at least {least}, or -1, which is no limit"
            ),
            Self::OneOf(texts) => write!(f, "one of {}", list(texts)),
            Self::Only(values) => write!(f, "only {}", list(values)),
            Self::Own(words) => f.write_str(words),
        }
    }
}
