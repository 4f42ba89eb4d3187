//! Which question a request asks, read from its path, its query and its body.

use std::sync::Arc;

use graphmill_dialects::bodies::{
    DETOKENIZE, TOKENIZE, Text,
    prompts::{Detokenize, Tokenize},
};
use graphmill_engine::{Error, Result};

use super::{
    super::{
        chat,
        defaults::Defaults,
        dialect::Purpose,
        fields::{self, invalid, missing, shown},
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
    let mut fields = fields::check(TOKENIZE, body)?;
    let mut own: Tokenize = fields.take()?;
    let texts = texts(&mut own, body)?;
    let (count, nested) = match &texts {
        Some((_, Text::Parts(texts))) => (texts.len(), true),
        _ => (1, false),
    };
    let tokenization = tokenization(&own, nested, count)?;
    let input = match texts {
        None => RequestInput::Chat(chat::read(&mut fields, &body.allowance())?.0),
        Some((field, texts)) => {
            let texts = match texts {
                Text::Whole(text) => vec![text],
                Text::Parts(texts) => texts,
            };
            let prompt = |text| spelled(&own, field, text);
            RequestInput::Prompts(texts.into_iter().map(prompt).collect())
        }
    };
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

/// The field that `tokenize` is to tokenize, and its texts; none for a conversation.
fn texts(own: &mut Tokenize, body: &JsonBody) -> Result<Option<(&'static str, Text<String>)>> {
    let fields = [
        ("text", own.text.take()),
        ("prompt", own.prompt.take()),
        ("content", own.content.take()),
    ];
    let mut given = (fields.into_iter()).filter_map(|(field, texts)| Some((field, texts?)));
    let first = given.next();
    let is_chat = body.has("messages");
    let other = given.next().map(|(field, _)| field);
    match (&first, other.or(is_chat.then_some("messages"))) {
        (Some((field, _)), Some(other)) => {
            let message = format!("cannot be used together with `{field}`");
            Err(invalid(other, message))
        }
        (None, None) => Err(missing("text")),
        _ => Ok(first),
    }
}

/// A text as it is to be read. What is not said is as in a completion, but for `content`, where it
/// is as in llama-server, and `prompt`, where spelled special tokens are read, as in vLLM: clients
/// look up a special token by its text.
fn spelled(own: &Tokenize, field: &str, text: String) -> Prompt {
    let as_llama_server = field == "content";
    let parses = as_llama_server || field == "prompt";
    Prompt::Spelled {
        text,
        add_special: own.add_special_tokens.unwrap_or(!as_llama_server),
        parse_special: own.parse_special.unwrap_or(parses),
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
