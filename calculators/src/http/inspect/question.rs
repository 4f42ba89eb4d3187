//! The question of a request, read from its path, its query and its body.

use std::sync::Arc;

use graphmill_dialects::bodies::{
    DETOKENIZE, ENCODE, TOKENIZE, Text,
    chat::{Chat, Conversation},
    lmdeploy::Encode,
    prompts::{Detokenize, Tokenize},
    tools::Tools,
};
use graphmill_engine::{Error, Result};

use super::{
    super::{
        chat,
        defaults::Defaults,
        dialect::Purpose,
        fields::{self, conflicting, invalid, missing, shown},
        params, prompts,
    },
    effective_values,
};
use crate::payload::{
    GenerationParams, HttpRequestPayload, JsonBody, Prompt, PromptQuestion, QuestionKind,
    RequestInput,
};

/// Returns the purpose of a request for an answer: the answer, or an explanation if the query asks
/// for one.
pub(in crate::http) fn read_purpose(uri: &str) -> Result<Purpose> {
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

/// Returns the question of a request with the fields of a request for an answer.
pub(in crate::http) fn generation_question(
    purpose: Purpose,
    body: &JsonBody,
    defaults: &Defaults,
    params: &GenerationParams,
    ignored: &[String],
) -> Option<QuestionKind> {
    match purpose {
        Purpose::Explanation => {
            let values = effective_values::read(body, defaults, params, ignored);
            Some(QuestionKind::Explain(Arc::new(values)))
        }
        Purpose::Rendering | Purpose::Template => Some(QuestionKind::Render),
        Purpose::Count(object) => Some(QuestionKind::CountTokens { object }),
        _ => None,
    }
}

/// Returns the question and the prompts of a request that asks only about prompts.
pub(in crate::http) fn prompt_question(
    purpose: Purpose,
    body: &JsonBody,
) -> Result<(PromptQuestion, RequestInput)> {
    if purpose == Purpose::Text {
        let own: Detokenize = fields::read(DETOKENIZE, body)?.take()?;
        let tokens = prompts::read_tokens(body, "tokens")?;
        let input = RequestInput::Prompts([Prompt::Tokens(tokens)].into());
        let question = PromptQuestion {
            model: own.model.into(),
            kind: QuestionKind::Detokenize,
            truncation: None,
        };
        return Ok((question, input));
    }
    if purpose == Purpose::Encoding {
        return encoding(body);
    }
    let mut fields = fields::read(TOKENIZE, body)?;
    let mut form: Tokenize = fields.take()?;
    // Fields that are not given have the defaults of a completion, except `content`, which has
    // those of llama-server, and `prompt`, in which special tokens are parsed as in vLLM: clients
    // look up a special token by its text.
    let given = [
        ("text", form.text.take(), true, false),
        ("prompt", form.prompt.take(), true, true),
        ("content", form.content.take(), false, true),
    ];
    let mut given = given.into_iter().filter(|(_, texts, ..)| texts.is_some());
    let first = given.next();
    let other = given.next().map(|(field, ..)| field);
    let other = other.or(body.has("messages").then_some("messages"));
    let (input, nested) = match (first, other) {
        (Some((field, ..)), Some(other)) => return Err(conflicting(other, field)),
        (Some((_, texts, add_special, parse_special)), None) => {
            let nested = matches!(texts, Some(Text::Parts(_)));
            let texts = texts.map(Text::into_parts).unwrap_or_default();
            let prompt = |text| Prompt::Spelled {
                text,
                add_special: form.add_special_tokens.unwrap_or(add_special),
                parse_special: form.parse_special.unwrap_or(parse_special),
            };
            let prompts = texts.into_iter().map(prompt).collect();
            (RequestInput::Prompts(prompts), nested)
        }
        (None, Some(_)) => {
            let (chat, _) = chat::read(&mut fields, &body.allowance())?;
            (RequestInput::Chat(chat), false)
        }
        (None, None) => return Err(missing("text")),
    };
    if form.pad_to_max_length {
        let length = form.max_length.ok_or_else(|| missing("max_length"))?;
        let count = match &input {
            RequestInput::Prompts(prompts) => prompts.len(),
            RequestInput::Chat(_) => 1,
        };
        let most = MAX_PADDED / count.max(1);
        if length as usize > most {
            let message =
                format!("must be at most {most} for {count} texts to be padded to, not {length}");
            return Err(invalid("max_length", message));
        }
    }
    let question = PromptQuestion {
        model: form.model.as_str().into(),
        kind: QuestionKind::Tokenize {
            form: Arc::new(form),
            nested,
        },
        truncation: params::truncation(&fields.take()?, None)?,
    };
    Ok((question, input))
}

/// Returns the question and the texts of LMDeploy's `encode`.
fn encoding(body: &JsonBody) -> Result<(PromptQuestion, RequestInput)> {
    let own: Encode = fields::read(ENCODE, body)?.take()?;
    let texts = own.input.ok_or_else(|| missing("input"))?;
    let nested = matches!(texts, Text::Parts(_));
    let texts = texts.into_parts();
    let input = if !own.do_preprocess {
        let prompt = |text| Prompt::Spelled {
            text,
            add_special: own.add_bos.unwrap_or(true),
            parse_special: true,
        };
        RequestInput::Prompts(texts.into_iter().map(prompt).collect())
    } else if let Ok([text]) = <[String; 1]>::try_from(texts) {
        let turns = chat::turns(Conversation::Said(text), "input", &body.allowance())?;
        let (chat, _) = chat::conversation(Chat::default(), Tools::default(), turns)?;
        RequestInput::Chat(chat)
    } else {
        return Err(invalid("do_preprocess", "needs one text in `input`"));
    };
    let question = PromptQuestion {
        model: own.model.into(),
        kind: QuestionKind::Encode { nested },
        truncation: None,
    };
    Ok((question, input))
}

/// Returns the error for a question in a graph without the node that answers it.
pub(in crate::http) fn not_answered(payload: &HttpRequestPayload) -> Error {
    let message = format!(
        "this graph does not serve `{}`: nothing is connected to QUESTION of its request node",
        shown(&payload.uri)
    );
    Error::not_found(message).with_code("unknown_endpoint")
}

/// Maximum number of tokens of all padded lists together, so that a small request does not make
/// gigabytes.
const MAX_PADDED: usize = 1 << 17;
