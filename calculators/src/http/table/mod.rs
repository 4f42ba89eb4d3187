//! The table of request fields: what each takes, on which endpoints, and what of it is refused.
//!
//! Requests are checked against it before anything else reads them, the reference page is made from
//! it, and the tests send every value that it says is refused.

use std::{collections::HashSet, sync::OnceLock};

use graphmill_engine::Result;
use serde_json::Value;

use super::fields::invalid;
use crate::payload::JsonBody;

mod chat;
mod completions;
pub(super) mod endpoint;
mod form;
mod generate;
mod ignored;
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

pub use form::Form;
use form::is_long;

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
            ignored::warn(name, endpoint);
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
