//! Parts of a request: the input of a graph, and parameters, under the names that TorchServe's
//! handlers use.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use graphmill_calculators::{payload::JsonBody, tensor::FILE_MARKS};
use graphmill_dialects::{bodies::completions::VECTORS, json::Allowance, schema};
use graphmill_engine::shortened;
use serde_json::{Map, Value, value::RawValue};

use crate::{
    errors::{Failure, Result},
    kserve::wrong,
};

/// Maximum length in bytes of a name in an error.
const SHOWN_BYTES: usize = 100;

/// Name of the part if the whole body is the input.
const BODY: &str = "body";

/// Names under which TorchServe's handlers look for the input.
const INPUTS: [&str; 4] = ["text", "prompt", "data", BODY];

/// Parameters of Transformers, with the equivalent fields of completions.
const RENAMED: [(&str, &str); 4] = [
    ("max_new_tokens", "max_tokens"),
    ("min_new_tokens", "min_tokens"),
    ("return_full_text", "echo"),
    ("stop_sequences", "stop"),
];

const NO_TOKENS: &str = "prompts are texts or vectors, not tokens";
const NO_VECTORS: &str = "this graph of tensors has no input of this name";
const VECTORS_EXPECTED: &str =
    "expected rows of numbers in JSON, or a file of NumPy or of `torch.save`";
const ONE_TEXT: &str = "an answer is one text";

/// Unsupported parameters. Each has the only accepted value, if there is one, and the reason to
/// refuse others.
const REFUSED: [(&str, Option<i64>, &str); 9] = [
    ("model", None, "the path or the message names the graph"),
    ("inputs_embeds", None, NO_VECTORS),
    ("input_embeds", None, NO_VECTORS),
    ("prompt_embeds", None, NO_VECTORS),
    ("input_ids", None, NO_TOKENS),
    ("n", Some(1), ONE_TEXT),
    ("num_return_sequences", Some(1), ONE_TEXT),
    ("num_beams", Some(1), "tokens are sampled, not searched"),
    ("max_length", None, "max_new_tokens limits the answer"),
];

/// The format of a part.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum PartKind {
    Json,
    Text,
    Other,
}

impl PartKind {
    /// Returns the kind of a media type, which must not have parameters.
    pub(crate) fn from_media_type(media_type: &str) -> Self {
        let media_type = media_type.to_ascii_lowercase();
        if media_type == "application/json" || media_type.ends_with("+json") {
            Self::Json
        } else if media_type.starts_with("text/") {
            Self::Text
        } else {
            Self::Other
        }
    }
}

/// A named part of a request.
#[derive(Clone, Debug)]
pub(crate) struct RequestPart {
    pub(crate) name: String,
    pub(crate) kind: PartKind,
    pub(crate) bytes: Bytes,
}

impl RequestPart {
    /// Creates the part for a whole body.
    pub(crate) fn body(kind: PartKind, bytes: Bytes) -> Self {
        let name = BODY.to_owned();
        Self { name, kind, bytes }
    }

    /// Creates the failure for a wrong value of the part.
    pub(crate) fn wrong(&self, why: impl std::fmt::Display) -> Failure {
        wrong(shortened(&self.name, SHOWN_BYTES), why)
    }

    /// Returns the value as text. In JSON, it must be a string.
    pub(super) fn text(&self) -> Result<String> {
        if self.kind == PartKind::Json {
            let text = serde_json::from_slice(&self.bytes);
            return text.map_err(|_| self.wrong("expected a JSON string"));
        }
        let text = str::from_utf8(&self.bytes).map(str::to_owned);
        text.map_err(|_| self.wrong("it is no text in UTF-8"))
    }

    /// Reads the part as JSON of vectors: rows of numbers, or the Base64 of a file.
    fn read_vectors(&self) -> Result<String> {
        if let Ok(json) = serde_json::from_slice::<&RawValue>(&self.bytes) {
            return Ok(json.get().to_owned());
        }
        let is_file = FILE_MARKS.iter().any(|mark| self.bytes.starts_with(mark));
        let text = if is_file {
            STANDARD.encode(&self.bytes)
        } else {
            self.text().map_err(|_| self.wrong(VECTORS_EXPECTED))?
        };
        Ok(Value::from(text).to_string())
    }

    /// Returns the value of a parameter. Forms contain only text, in which Python writes `True`.
    fn value(&self, name: &str, allowance: &Allowance) -> Result<Value> {
        if self.kind == PartKind::Json {
            return Ok(allowance.parse(&self.bytes, name)?);
        }
        let text = self.text()?;
        let is_value = name == DO_SAMPLE || refusal(name).is_some() || schema::is_value(name);
        let value = is_value.then(|| serde_json::from_str(&text.to_ascii_lowercase()).ok());
        let value = value.flatten();
        let value = value.filter(|value: &Value| value.is_number() || value.is_boolean());
        Ok(value.unwrap_or_else(|| text.into()))
    }
}

/// Returns the only accepted value of an unsupported parameter, if there is one, and the reason to
/// refuse others.
fn refusal(name: &str) -> Option<(Option<i64>, &'static str)> {
    let found = REFUSED.iter().find(|(refused, ..)| *refused == name);
    found.map(|(_, idle, why)| (*idle, *why))
}

/// Parameter that turns sampling on or off. Without sampling, the most likely token is chosen.
const DO_SAMPLE: &str = "do_sample";

/// Returns the fields of a JSON object as parts.
pub(crate) fn fields(json: &JsonBody, body: &Bytes) -> Vec<RequestPart> {
    let part = |name: &str| {
        let bytes = body.slice_ref(json.text(name)?);
        let (name, kind) = (name.to_owned(), PartKind::Json);
        Some(RequestPart { name, kind, bytes })
    };
    json.names().filter_map(part).collect()
}

/// Collects the fields of a form, at most `most` besides vectors. Vectors come row by row or number
/// by number, and become one list. Returns `None` if there are more fields.
pub(crate) fn collect(
    fields: impl Iterator<Item = RequestPart>,
    most: usize,
) -> Option<Vec<RequestPart>> {
    let mut parts = Vec::new();
    let mut vectors: Vec<(RequestPart, Vec<u8>)> = Vec::new();
    for field in fields {
        if !VECTORS.contains(&&*field.name) {
            parts.push(field);
            if parts.len() > most {
                return None;
            }
            continue;
        }
        let mut known = vectors.iter_mut();
        let Some((first, list)) = known.find(|(first, _)| first.name == field.name) else {
            vectors.push((field, Vec::new()));
            continue;
        };
        if list.is_empty() {
            list.push(b'[');
            list.extend_from_slice(&first.bytes);
        }
        list.push(b',');
        list.extend_from_slice(&field.bytes);
    }
    parts.extend(vectors.into_iter().map(|(first, mut list)| {
        if list.is_empty() {
            return first;
        }
        list.push(b']');
        let bytes = list.into();
        RequestPart { bytes, ..first }
    }));
    Some(parts)
}

/// The prompt of a completion.
pub(super) struct Prompt {
    /// Field of a completion for this kind of prompt.
    pub(super) field: &'static str,
    /// Value of the field, as JSON.
    pub(super) json: String,
}

/// Removes and returns the prompt of a completion: vectors, or else a text.
pub(super) fn take_prompt(parts: &mut Vec<RequestPart>) -> Result<Prompt> {
    let name = |part: &RequestPart| {
        let mut names = VECTORS.into_iter().filter(|_| part.bytes != "null");
        names.find(|name| *name == part.name)
    };
    let mut found = parts.iter().enumerate();
    let found = found.find_map(|(at, part)| Some((at, name(part)?)));
    let Some((at, field)) = found else {
        let text = take_input(parts, "prompt", true)?.text()?;
        let (field, json) = ("prompt", Value::from(text).to_string());
        return Ok(Prompt { field, json });
    };
    let json = parts.remove(at).read_vectors()?;
    let is_text = |part: &RequestPart| INPUTS.contains(&&*part.name) && part.bytes != "null";
    let is_input = |part: &&RequestPart| is_text(part) || name(part).is_some();
    match parts.iter().find(is_input) {
        None => Ok(Prompt { field, json }),
        Some(second) => Err(second.wrong(format_args!("the input is `{field}` already"))),
    }
}

/// Removes and returns the input `name` of a graph. The only input of a graph can also have one of
/// the names in [`INPUTS`].
pub(super) fn take_input(
    parts: &mut Vec<RequestPart>,
    name: &str,
    only: bool,
) -> Result<RequestPart> {
    let is_named = |part: &RequestPart| part.name == name;
    let is_input = |part: &RequestPart| only && INPUTS.contains(&part.name.as_str());
    let found = parts.iter().position(is_named);
    let Some(found) = found.or_else(|| parts.iter().position(is_input)) else {
        // The request may have an unsupported parameter in place of the input.
        let refused = parts
            .iter()
            .find_map(|part| Some((part, refusal(&part.name)?)));
        if let Some((part, (None, why))) = refused {
            return Err(part.wrong(why).with_code("unsupported_parameter"));
        }
        let names = INPUTS.join("`, `");
        let why = if only {
            format!(
                "the input is missing: expected one of the fields `{names}`, or a body that is the \
                 input itself (`content-type: text/plain`)"
            )
        } else {
            "the input is missing: the graph has several inputs, each a field of its name"
                .to_owned()
        };
        return Err(wrong(name, why).with_code("missing_required_parameter"));
    };
    let input = parts.remove(found);
    match parts.iter().find(|it| is_named(it) || is_input(it)) {
        None => Ok(input),
        Some(second) => Err(second.wrong(format_args!("the input is `{}` already", input.name))),
    }
}

/// Reads the remaining parts as parameters, under the names of a completion's fields. In a form,
/// each item of a list is a part.
pub(super) fn parameters(parts: &[RequestPart]) -> Result<Map<String, Value>> {
    let (mut parameters, mut is_greedy) = (Map::new(), false);
    let allowance = Allowance::default();
    for part in parts {
        let renamed = RENAMED.iter().find(|(name, _)| *name == part.name);
        let name = renamed.map_or(&*part.name, |(_, name)| name);
        let value = part.value(name, &allowance)?;
        if value.is_null() {
            continue;
        }
        if let Some((idle, why)) = refusal(name) {
            if idle.is_none_or(|idle| value != idle) {
                return Err(part.wrong(why).with_code("unsupported_parameter"));
            }
        } else if name == DO_SAMPLE {
            let samples = value.as_bool();
            is_greedy = !samples.ok_or_else(|| part.wrong("it is neither true nor false"))?;
        } else {
            match parameters.get_mut(name) {
                None => _ = parameters.insert(name.to_owned(), value),
                Some(Value::Array(all)) => all.push(value),
                Some(first) => *first = Value::Array(vec![first.take(), value]),
            }
        }
    }
    if is_greedy {
        parameters.insert("temperature".to_owned(), 0.into());
    }
    Ok(parameters)
}
