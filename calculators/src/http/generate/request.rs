//! Requests of Triton's `generate`: a text, and parameters in an object of their own or beside it.

use graphmill_dialects::{
    Fields,
    bodies::generate::{Generate, Parameters, PathFields},
    json::JsonBody,
};
use graphmill_engine::Result;
use serde_json::{Map, Value};

use crate::http::{
    OwnParams, completions,
    fields::{conflicting, invalid, missing},
};
use crate::payload::{Prompt, RequestInput};

/// Default of the maximum number of tokens of a text, as in Triton's protocol.
const MAX_TOKENS: i64 = 20;

/// Fields that are not parameters. The last two are fields of every request.
const BESIDE: &[&str] = &[
    "text_input",
    "id",
    "parameters",
    "model_name",
    "model_version",
    "model",
    "timeout",
];

/// Reads the prompt and own parameters of a request.
pub(super) fn read(
    body: &JsonBody,
    fields: &mut Fields,
    stream: bool,
) -> Result<(RequestInput, OwnParams)> {
    let own: Generate = fields.take()?;
    let text = own.text_input.ok_or_else(|| missing("text_input"))?;
    insert(&own.parameters, BESIDE, body, fields)?;
    let parameters: Parameters = fields.take()?;
    let stop = parameters.stop_words.map(Vec::<String>::from);
    let stop = stop.filter(|words| words.iter().any(|word| !word.is_empty()));
    if stop.is_some() && (body.has("stop") || own.parameters.contains_key("stop")) {
        return Err(conflicting("stop_words", "stop"));
    }
    let path: PathFields = fields.take()?;
    let repeated: [(_, Value); 4] = [
        ("id", own.id.into()),
        ("model_name", path.model_name.into()),
        ("model_version", path.model_version.into()),
        ("details", parameters.details.into()),
    ];
    let repeated = repeated.map(|(name, value)| (name.to_owned(), value));
    let params = OwnParams {
        max_tokens: parameters.max_tokens.or(Some(MAX_TOKENS)),
        stop,
        stream,
        repeated: repeated.into_iter().collect(),
        ..OwnParams::default()
    };
    let input = completions::input(vec![Prompt::Text(text)], &fields.take()?)?;
    Ok((input, params))
}

/// Adds the fields of `parameters` to those of the body. Fields in `beside` are refused there.
pub(in crate::http) fn insert(
    parameters: &Map<String, Value>,
    beside: &[&str],
    body: &JsonBody,
    fields: &mut Fields,
) -> Result<()> {
    for (name, value) in parameters.iter().filter(|(_, it)| !it.is_null()) {
        if beside.contains(&name.as_str()) || (body.has(name) && fields.knows(name)) {
            let why = "is not a parameter, but a field of the body";
            return Err(invalid(format!("parameters.{name}"), why));
        }
        fields.insert(name, value)?;
    }
    Ok(())
}
