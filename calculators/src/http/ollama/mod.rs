//! Ollama's API: `api/chat` and `api/generate`, whose streams are lines of JSON, `api/embed` and
//! `api/embeddings`. A request without messages, prompt or texts only loads or unloads its graph.

mod answer;
mod clock;
mod embed;
mod request;

pub(super) use clock::AnswerClock;
pub(super) use embed::{EmbedVector, Vectors};

use graphmill_dialects::{
    Fields,
    bodies::{OLLAMA_CHAT, OLLAMA_EMBED, OLLAMA_EMBEDDINGS, OLLAMA_GENERATE, ollama::KEEP_ALIVE},
};
use graphmill_engine::Result;
use serde_json::{Value, json};

use super::{
    OwnParams,
    dialect::{
        AnswerWriter, Dialect, Failure, Family, Framing, Place, Purpose, Route, TextDialect,
    },
    fields, generate,
};
use crate::payload::{JsonBody, RequestInput, TextRequest};

/// A dialect of Ollama's, for one endpoint.
#[derive(Debug)]
pub(super) struct Ollama {
    api: Api,
    routes: &'static [Route],
}

/// The endpoints of Ollama's API.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Api {
    Chat,
    Generate,
    Embed,
    Embeddings,
}

impl Ollama {
    /// The dialect of `api/chat`, which answers a conversation.
    pub(super) const CHAT: Self = Self {
        api: Api::Chat,
        routes: &[route(
            OLLAMA_CHAT,
            "Answers a conversation, as Ollama does",
            &["model", "created_at", "message", "done"],
        )],
    };
    /// The dialect of `api/generate`, which answers a prompt or continues it.
    pub(super) const GENERATE: Self = Self {
        api: Api::Generate,
        routes: &[route(
            OLLAMA_GENERATE,
            "Answers a prompt, as Ollama does",
            &["model", "created_at", "response", "done"],
        )],
    };
    /// The dialect of `api/embed`, which computes vectors of texts.
    pub(super) const EMBED: Self = Self {
        api: Api::Embed,
        routes: &[route(
            OLLAMA_EMBED,
            "Makes a vector of each text, as Ollama does",
            &["embeddings"],
        )],
    };
    /// The dialect of `api/embeddings`, which computes the vector of one text.
    pub(super) const EMBEDDINGS: Self = Self {
        api: Api::Embeddings,
        routes: &[route(
            OLLAMA_EMBEDDINGS,
            "Makes a vector of a text, as Ollama does",
            &["embedding"],
        )],
    };
}

const fn route(
    path: &'static str,
    summary: &'static str,
    answer: &'static [&'static str],
) -> Route {
    Route {
        path,
        purpose: Purpose::Answer,
        summary,
        required: &["model"],
        answer,
    }
}

impl Dialect for Ollama {
    fn routes(&self) -> &'static [Route] {
        self.routes
    }

    fn family(&'static self) -> Family {
        match self.api {
            Api::Chat | Api::Generate => Family::Text(self),
            Api::Embed => Family::Vectors(embed::read),
            Api::Embeddings => Family::Vectors(embed::read_one),
        }
    }

    fn place(&self) -> Place {
        Place::Behind(&[""])
    }

    fn error(&self, failure: &Failure<'_>) -> Value {
        generate::error(failure)
    }

    fn framing(&self) -> Framing {
        Framing::Lines
    }

    fn streams_by_default(&self) -> bool {
        matches!(self.api, Api::Chat | Api::Generate)
    }

    fn unloads(&self, body: &JsonBody) -> Result<Option<bool>> {
        let kept = body.get(KEEP_ALIVE)?.map(request::is_no_time);
        kept.transpose()
    }

    fn loaded(&self, body: &JsonBody, unloads: bool) -> Result<Option<Value>> {
        let asks = match self.api {
            Api::Chat => "messages",
            Api::Generate | Api::Embeddings => "prompt",
            Api::Embed => "input",
        };
        let is_empty = match body.short(asks) {
            Some(Value::String(text)) => text.is_empty(),
            Some(Value::Array(list)) => list.is_empty(),
            _ => !body.has(asks),
        };
        if !is_empty {
            return Ok(None);
        }
        fields::read(self.endpoint(), body)?;
        let model = body.get("model")?.and_then(Value::as_str);
        let model = model.unwrap_or_default();
        Ok(Some(match self.api {
            Api::Embed => json!({ "model": model, "embeddings": [] }),
            Api::Embeddings => json!({ "embedding": [] }),
            Api::Chat | Api::Generate => {
                let mut answer = answer::line(self.api, model, &answer::OllamaContent::default());
                answer["done"] = true.into();
                answer["done_reason"] = if unloads { "unload" } else { "load" }.into();
                answer
            }
        }))
    }
}

impl TextDialect for Ollama {
    fn id_prefix(&self) -> &'static str {
        "ollama-"
    }

    fn continues_prompts(&self) -> bool {
        self.api != Api::Chat
    }

    fn input(&self, body: &JsonBody, fields: &mut Fields) -> Result<(RequestInput, OwnParams)> {
        match self.api {
            Api::Chat => request::chat(fields, &body.allowance()),
            _ => request::generate(fields, &body.allowance()),
        }
    }

    fn writer(&self, _: &TextRequest) -> Box<dyn AnswerWriter> {
        Box::new(answer::OllamaWriter::new(self.api))
    }
}
