//! Requests in llama-server's form: prompts, or the texts around a gap.

use graphmill_dialects::{
    Fields,
    bodies::llama_server::{Extra, Generation, Infill},
};
use graphmill_engine::Result;
use serde_json::{Map, Value};

use crate::http::{OwnParams, fields::missing, inspect, limits::MAX_PROMPTS, prompts};
use crate::payload::{GenerationParams, JsonBody, NamedText, Prompt, RequestInput};

/// Fields of the request that its answer follows.
pub(super) const PROBABILITIES: &str = "n_probs";
pub(super) const TOKENS: &str = "return_tokens";
pub(super) const FIELDS: &str = "response_fields";
/// Field of the answer with the parameters of generation.
pub(super) const SETTINGS: &str = "generation_settings";

/// Name of a text without one, as in llama-server.
const UNNAMED: &str = "tmp";

/// Parameters of generation in answers, with their names in the rest of this program.
const TOLD: [(&str, &str); 16] = [
    ("seed", "seed"),
    ("temperature", "temperature"),
    ("dynatemp_range", "dynatemp_range"),
    ("top_k", "top_k"),
    ("top_p", "top_p"),
    ("min_p", "min_p"),
    ("xtc_probability", "xtc_probability"),
    ("typical_p", "typical_p"),
    ("repeat_penalty", "repetition_penalty"),
    ("presence_penalty", "presence_penalty"),
    ("frequency_penalty", "frequency_penalty"),
    ("dry_multiplier", "dry_multiplier"),
    ("mirostat", "mirostat"),
    ("stop", "stop"),
    ("ignore_eos", "ignore_eos"),
    ("n_predict", "max_tokens"),
];

/// Reads the prompts and own parameters of `completion`.
pub(super) fn completion(
    body: &JsonBody,
    fields: &mut Fields,
) -> Result<(RequestInput, OwnParams)> {
    let prompts = prompts::read(body, "prompt", MAX_PROMPTS, 1)?.into_iter();
    let prompts = prompts.map(|prompt| match prompt {
        Prompt::Text(text) => Prompt::Spelled {
            text,
            add_special: true,
            parse_special: true,
        },
        tokens => tokens,
    });
    let input = RequestInput::Prompts(prompts.collect());
    Ok((input, generation(body, fields)?))
}

/// Reads the texts around a gap and own parameters of `infill`.
pub(super) fn infill(body: &JsonBody, fields: &mut Fields) -> Result<(RequestInput, OwnParams)> {
    let own: Infill = fields.take()?;
    let before = own.input_prefix.ok_or_else(|| missing("input_prefix"))?;
    let context = own.input_extra.into_iter();
    let context = context.map(|Extra { text, filename }| NamedText {
        name: filename.unwrap_or_else(|| UNNAMED.to_owned()),
        text,
    });
    let gap = Prompt::Gap {
        before: before + &own.prompt,
        after: own.input_suffix.ok_or_else(|| missing("input_suffix"))?,
        field: "input_suffix",
        context: context.collect(),
    };
    let input = RequestInput::Prompts([gap].into());
    Ok((input, generation(body, fields)?))
}

fn generation(body: &JsonBody, fields: &mut Fields) -> Result<OwnParams> {
    let own: Generation = fields.take()?;
    if !own.grammar.trim().is_empty() {
        fields.insert("grammar", &own.grammar.into())?;
    }
    let streams = body.short("stream") == Some(&Value::from(true));
    let tells = own.return_tokens || streams;
    let computes_prompt = own.n_predict == Some(0);
    let has_tokens = !computes_prompt && (tells || own.n_probs > 0);
    let repeated: [(_, Value); 3] = [
        (PROBABILITIES, own.n_probs.into()),
        (TOKENS, tells.into()),
        (FIELDS, own.response_fields.into()),
    ];
    let repeated = repeated.map(|(name, value)| (name.to_owned(), value));
    Ok(OwnParams {
        max_tokens: own.n_predict,
        // A prompt with no generated tokens is only computed if it is repeated; the answer leaves
        // it out.
        echo: computes_prompt,
        logprobs: has_tokens.then_some(own.n_probs),
        repeated: repeated.into_iter().collect(),
        ..OwnParams::default()
    })
}

/// Returns the parameters of generation; -1 stands for no seed, and for no limit.
pub(super) fn settings(params: &GenerationParams) -> Value {
    let mut values = inspect::values(params);
    let told = TOLD.iter().filter_map(|(name, of)| {
        let value = values.remove(*of)?;
        let value = if value.is_null() { (-1).into() } else { value };
        Some(((*name).to_owned(), value))
    });
    told.collect::<Map<_, _>>().into()
}
