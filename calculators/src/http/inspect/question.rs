//! Which question a request asks, read from its path, its query and its body.

use std::sync::Arc;

use graphmill_dialects::bodies::{
    CHAT, DETOKENIZE, TOKENIZE,
    prompts::{Detokenize, Tokenize},
};
use graphmill_engine::{Error, Result};
use serde_json::Value;

use super::{
    super::{
        chat,
        defaults::Defaults,
        dialect::Purpose,
        fields::{self, at_most, invalid, missing, shown, wrong_type},
        limits::MAX_PROMPTS,
        prompts,
    },
    explanation,
};
use crate::payload::{
    GenerationParams, HttpRequestPayload, JsonBody, Prompt, PromptQuestion, QuestionKind,
    RequestInput, Tokenization,
};

/// The purpose of a request for an answer: the answer, or an explanation where the query asks for
/// one.
pub(in crate::http) fn explained(uri: &str) -> Result<Purpose> {
    let (_, query) = uri.split_once('?').unwrap_or_default();
    let explain = query
        .split('&')
        .map(|pair| pair.split_once('=').unwrap_or((pair, "1")))
        .find(|(name, _)| *name == "explain");
    match explain.map(|(_, value)| value) {
        None | Some("0" | "false") => Ok(Purpose::Answer),
        Some("" | "1" | "true") => Ok(Purpose::Explanation),
        Some(_) => Err(invalid("explain", "must be 1 or 0")),
    }
}

/// The question of a request that has the fields of one for an answer.
pub(in crate::http) fn of_generation(
    purpose: Purpose,
    model: &Arc<str>,
    body: &JsonBody,
    defaults: &Defaults,
    params: &GenerationParams,
    ignored: &[String],
) -> Option<PromptQuestion> {
    let kind = match purpose {
        Purpose::Explanation => {
            let explained = explanation::explained(body, defaults, params, ignored);
            QuestionKind::Explain(Arc::new(explained))
        }
        Purpose::Rendering | Purpose::Template => QuestionKind::Render,
        Purpose::Count(object) => QuestionKind::CountTokens { object },
        _ => return None,
    };
    Some(PromptQuestion {
        model: Arc::clone(model),
        kind,
    })
}

/// The model, the prompts and the question of a request that is about prompts alone.
pub(in crate::http) fn of_prompt(
    purpose: Purpose,
    body: &JsonBody,
) -> Result<(String, RequestInput, QuestionKind)> {
    if purpose == Purpose::Text {
        let own: Detokenize = fields::check(DETOKENIZE, body)?.take()?;
        return Ok((own.model, tokens(body)?, QuestionKind::Detokenize));
    }
    let own: Tokenize = fields::check(TOKENIZE, body)?.take()?;
    let (input, nested) = texts(body, &own)?;
    let count = match &input {
        RequestInput::Prompts(prompts) => prompts.len(),
        RequestInput::Chat(_) => 1,
    };
    let tokenization = tokenization(&own, nested, count)?;
    Ok((own.model, input, QuestionKind::Tokenize(tokenization)))
}

/// Why a question has no answer in a graph that leaves the node for it out.
pub(in crate::http) fn not_answered(payload: &HttpRequestPayload) -> Error {
    let message = format!(
        "this graph does not serve `{}`: nothing is connected to QUESTION of its request node",
        shown(&payload.uri)
    );
    Error::not_found(message).with_code("unknown_endpoint")
}

/// The tokens of `detokenize`.
fn tokens(body: &JsonBody) -> Result<RequestInput> {
    let form = prompts::Form {
        field: "tokens",
        most: 1,
        empty_text: false,
        only_tokens: true,
    };
    Ok(RequestInput::Prompts(prompts::read(body, form)?.into()))
}

/// Fields of `tokenize` that chats have in another meaning.
const TOKENIZER_FIELDS: &[&str] = &["add_special_tokens"];

/// The fields a text can be in: OVMS's, vLLM's and llama-server's.
const TEXT_FIELDS: [&str; 3] = ["text", "prompt", "content"];

/// What `tokenize` is to tokenize, and whether these are several texts.
fn texts(body: &JsonBody, own: &Tokenize) -> Result<(RequestInput, bool)> {
    let mut given = TEXT_FIELDS.into_iter().filter(|field| body.has(field));
    let first = given.next();
    if let (Some(one), Some(other)) = (first, given.next()) {
        return Err(invalid(
            other,
            format!("cannot be used together with `{one}`"),
        ));
    }
    let chat = body.has("messages");
    let field = match first {
        None if chat => {
            // Some of its own fields are those of chats by other meanings.
            let of_chat = body.without(TOKENIZER_FIELDS);
            let mut fields = fields::check(CHAT, &of_chat)?;
            let (chat, _) = chat::read(&mut fields, &body.allowance())?;
            return Ok((RequestInput::Chat(chat), false));
        }
        None => return Err(missing("text")),
        Some(field) if chat => {
            let message = format!("cannot be used together with `{field}`");
            return Err(invalid("messages", message));
        }
        Some(given) => given,
    };
    let spelled = Spelling::of(own, field);
    match body.get(field)?.unwrap_or(&Value::Null) {
        Value::String(text) => Ok((RequestInput::Prompts([spelled.prompt(text)].into()), false)),
        Value::Array(list) if list.is_empty() => Err(invalid(field, "must not be an empty array")),
        Value::Array(list) => {
            at_most(field, list.len(), MAX_PROMPTS, "texts")?;
            let prompts = list.iter().enumerate().map(|(index, text)| match text {
                Value::String(text) => Ok(spelled.prompt(text)),
                other => Err(wrong_type(format!("{field}[{index}]"), "a string", other)),
            });
            let prompts: Vec<Prompt> = prompts.collect::<Result<_>>()?;
            Ok((RequestInput::Prompts(prompts.into()), true))
        }
        other => Err(wrong_type(field, "a string or an array of strings", other)),
    }
}

/// How a text is read. What is not said is as in a completion, but for `content`, where it is as in
/// llama-server, and `prompt`, where spelled special tokens are read, as in vLLM: clients look up a
/// special token by its text.
struct Spelling {
    add_special: bool,
    parse_special: bool,
}

impl Spelling {
    fn of(own: &Tokenize, field: &str) -> Self {
        let as_llama_server = field == "content";
        Self {
            add_special: own.add_special_tokens.unwrap_or(!as_llama_server),
            parse_special: own
                .parse_special
                .unwrap_or(as_llama_server || field == "prompt"),
        }
    }

    fn prompt(&self, text: &str) -> Prompt {
        Prompt::Spelled {
            text: text.to_owned(),
            add_special: self.add_special,
            parse_special: self.parse_special,
        }
    }
}

/// How `count` texts are tokenized.
fn tokenization(own: &Tokenize, nested: bool, count: usize) -> Result<Tokenization> {
    let pad = own.pad_to_max_length;
    if pad && own.max_length.is_none() {
        return Err(missing("max_length"));
    }
    let most = MAX_PADDED / count.max(1);
    if let Some(length) = own
        .max_length
        .filter(|length| pad && *length as usize > most)
    {
        let message =
            format!("must be at most {most} for {count} texts to be padded to, not {length}");
        return Err(invalid("max_length", message));
    }
    Ok(Tokenization {
        max_length: own.max_length,
        pad,
        pad_left: own.padding_side.as_deref() == Some("left"),
        token_strs: own.return_token_strs,
        with_pieces: own.with_pieces,
        nested,
    })
}

/// Most tokens of all lists together where these are padded: a few bytes of a request may not
/// become gigabytes.
const MAX_PADDED: usize = 1 << 17;
