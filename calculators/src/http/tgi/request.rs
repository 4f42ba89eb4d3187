//! Requests in TGI's form: a text, and parameters in an object of their own.

use graphmill_dialects::{
    Fields,
    bodies::hugging_face::{Generate, Grammar, NamedSchema, Parameters},
    json::JsonBody,
};
use graphmill_engine::Result;
use serde_json::Value;

use crate::http::{
    OwnParams, completions,
    fields::{invalid, missing},
    generate, structured,
};
use crate::payload::{
    Constraint::Regex, Prompt, RequestInput, TextConstraint, TextRequest, Truncation,
};

/// Default of the maximum number of tokens of a text, as in TGI.
const MAX_TOKENS: i64 = 100;

/// Fields that are not parameters.
const BESIDE: &[&str] = &[
    "inputs",
    "parameters",
    "stream",
    "generate_form",
    "model",
    "timeout",
];

/// Fields that imply `do_sample`.
const SAMPLING: &[&str] = &["temperature", "top_k", "top_p", "typical_p"];

/// Fields of the request that its answer follows.
const DETAILS: &str = "details";
const FORM: &str = "generate_form";
const FULL_TEXT: &str = "return_full_text";
const SEED: &str = "seed";

/// Reads the prompt and own parameters of a request.
pub(super) fn read(
    body: &JsonBody,
    fields: &mut Fields,
    stream: bool,
) -> Result<(RequestInput, OwnParams)> {
    let own: Generate = fields.take()?;
    let text = own.inputs.ok_or_else(|| missing("inputs"))?;
    generate::insert(&own.parameters, BESIDE, body, fields)?;
    let parameters: Parameters = fields.take()?;
    let samples = parameters.do_sample || SAMPLING.iter().any(|name| fields.has(name));
    if !samples {
        fields.insert("temperature", &Value::from(0))?;
    }
    // The stop string that ended a text is part of it.
    if !fields.has("include_stop_str_in_output") {
        fields.insert("include_stop_str_in_output", &Value::from(true))?;
    }
    let streams = stream || body.short("stream") == Some(&Value::from(true));
    let asks = parameters.details || parameters.return_details;
    let details = asks || parameters.decoder_input_details;
    if parameters.decoder_input_details && streams {
        let why = "cannot be used in a stream: its events have no place for the tokens of `inputs`";
        return Err(invalid("decoder_input_details", why));
    }
    if parameters.top_n_tokens.is_some_and(|count| count > 0) && !details && !streams {
        return Err(invalid("top_n_tokens", "needs `details: true`"));
    }
    let seed = own.parameters.get("seed").or_else(|| body.short("seed"));
    let seed = seed.and_then(Value::as_u64);
    let best_of = parameters.best_of.unwrap_or(1);
    if best_of > 1 {
        let why = match () {
            () if streams => "cannot be used in a stream: the likeliest text is known at the end",
            () if !samples => "needs `do_sample` or `temperature`: without, all texts are the same",
            () if seed.is_some() => "cannot be used with `seed`, which applies to a single text",
            () => "",
        };
        if !why.is_empty() {
            return Err(invalid("best_of", why));
        }
    }
    // Events of a stream always have their tokens, and several texts are compared by them.
    let tells = details || streams || best_of > 1;
    let logprobs = tells.then(|| parameters.top_n_tokens.unwrap_or(0));
    let repeated: [(_, Value); 4] = [
        (DETAILS, details.into()),
        (FORM, own.generate_form.into()),
        (FULL_TEXT, parameters.return_full_text.into()),
        (SEED, seed.into()),
    ];
    let repeated = repeated.map(|(name, value)| (name.to_owned(), value));
    let constraint = match parameters.grammar {
        None => None,
        Some(grammar) => Some(constraint(grammar, body)?),
    };
    let params = OwnParams {
        max_tokens: parameters.max_new_tokens.or(Some(MAX_TOKENS)),
        truncation: parameters.truncate.map(|most| Truncation {
            field: "truncate",
            tokens: Some(most),
            room: 0,
            keeps_beginning: false,
        }),
        n: parameters.best_of,
        echo: parameters.decoder_input_details,
        logprobs,
        constraint,
        stream,
        repeated: repeated.into_iter().collect(),
        ..OwnParams::default()
    };
    let input = completions::input(vec![Prompt::Text(text)], &fields.take()?)?;
    Ok((input, params))
}

/// Returns the constraint of the text.
fn constraint(grammar: Grammar, body: &JsonBody) -> Result<TextConstraint> {
    match grammar {
        Grammar::Json(schema) | Grammar::JsonSchema(NamedSchema { schema }) => {
            structured::schema("grammar", schema, &body.allowance())
        }
        Grammar::Regex(pattern) => Ok(structured::asked_by("grammar", Regex(pattern))),
    }
}

/// Returns true if the answer has LightLLM's form.
pub(super) fn is_of_lightllm(request: &TextRequest) -> bool {
    request.echo.get(FORM) == Some(&Value::from("lightllm"))
}

/// Returns true if the answer has details about its tokens.
pub(super) fn has_details(request: &TextRequest) -> bool {
    request.echo.get(DETAILS) == Some(&Value::from(true))
}

/// Returns the seed of the request.
pub(super) fn seed(request: &TextRequest) -> Value {
    request.echo.get(SEED).cloned().unwrap_or_default()
}

/// Returns the text before the generated one: the prompt, if the answer repeats it.
pub(super) fn text_before(request: &TextRequest) -> &str {
    if request.echo.get(FULL_TEXT) == Some(&Value::from(true)) {
        request.prompt_text()
    } else {
        ""
    }
}
