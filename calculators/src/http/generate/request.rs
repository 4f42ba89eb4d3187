//! The request: a text, and parameters that are in an object of their own or beside it.

use graphmill_dialects::schema;
use graphmill_engine::Result;
use serde_json::{Map, Value};

use crate::http::fields::{Fields, invalid, missing, unsupported, wrong_type};
use crate::http::translate::{Names, Translated};
use crate::payload::JsonBody;

/// Most tokens of a text where the request does not say it, as the protocol has it.
const MAX_TOKENS: u32 = 20;

/// What the dialect calls the fields of completions.
const NAMES: &Names = &Names {
    fields: &[("prompt", "text_input")],
    parameters: "parameters",
};

/// Fields that are not those of a completion. The last two are the path's, which the server puts
/// in.
const READ: &[&str] = &[
    "text_input",
    "id",
    "parameters",
    "model_name",
    "model_version",
];

/// Fields that the server reads, which looks at no parameters.
const BESIDE: &[&str] = &["model", "timeout"];

/// Parameters that are not those of a completion.
const READ_PARAMETERS: &[&str] = &["details", "stream", "stop_words", "bad_words"];

/// A request for `generate` as one for a completion.
pub(super) fn to_completion(json: &JsonBody, streams: bool) -> Result<Translated> {
    let body = Fields::from(json);
    let text = body
        .get("text_input")?
        .ok_or_else(|| missing("text_input"))?;
    let Value::String(text) = text else {
        return Err(wrong_type("text_input", "a string", text));
    };
    let mut echo = Map::new();
    for name in ["id", "model_name", "model_version"] {
        if let Some(value) = body.str(name)? {
            echo.insert(name.to_owned(), value.into());
        }
    }
    let mut asked = json.without(READ);
    for (name, value) in body.object("parameters")?.into_iter().flatten() {
        let is_field = READ.contains(&name.as_str()) || BESIDE.contains(&name.as_str());
        if is_field || (json.has(name) && is_known(name)) {
            let why = "is no parameter: it is a field of the body";
            return Err(invalid(format!("parameters.{name}"), why));
        }
        asked.insert(name, value.clone());
    }
    let parameters = Fields::from(&asked);
    refuse(parameters)?;
    parameters.unsupported("stream", |value| *value == streams)?;
    if let Some(details) = parameters.bool("details")? {
        echo.insert("details".to_owned(), details.into());
    }
    let stop_words = stop_words(parameters)?;
    if stop_words.is_some() && parameters.has("stop") {
        return Err(invalid("stop_words", "cannot be used together with `stop`"));
    }
    let mut completion = asked.without(READ_PARAMETERS);
    if let Some(stop_words) = stop_words {
        completion.insert("stop", stop_words.clone());
    }
    if !completion.has("max_tokens") && !completion.has("max_completion_tokens") {
        completion.insert("max_tokens", MAX_TOKENS.into());
    }
    completion.insert("stream", streams.into());
    completion.insert("prompt", text.as_str().into());
    Ok(Translated {
        echo,
        names: NAMES,
        ..Translated::new(completion)
    })
}

/// Whether it matters what a field says: others are ignored wherever they are.
fn is_known(name: &str) -> bool {
    schema::endpoints().any(|endpoint| endpoint.fields.contains_key(name))
}

/// What TensorRT-LLM's models call `stop`; nothing where it is empty.
fn stop_words(parameters: Fields<'_>) -> Result<Option<&Value>> {
    let words = parameters.get("stop_words")?;
    Ok(words.filter(|words| !is_empty(words)))
}

fn is_empty(value: &Value) -> bool {
    value.as_str().is_some_and(str::is_empty) || value.as_array().is_some_and(Vec::is_empty)
}

/// Parameters that ask for what an answer of one text does not have.
fn refuse(parameters: Fields<'_>) -> Result<()> {
    if let Some(prompt) = parameters.get("prompt")? {
        return Err(unsupported("prompt", prompt));
    }
    parameters.unsupported("n", |value| *value == 1)?;
    parameters.unsupported("best_of", |value| *value == 1)?;
    parameters.unsupported("echo", |value| *value == false)?;
    parameters.unsupported("logprobs", |_| false)?;
    parameters.unsupported("bad_words", is_empty)
}
