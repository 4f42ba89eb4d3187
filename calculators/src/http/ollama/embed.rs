//! Requests and answers of Ollama's endpoints for vectors.

use graphmill_dialects::{
    Fields,
    bodies::{OLLAMA_EMBED, OLLAMA_EMBEDDINGS, ollama},
};
use graphmill_engine::Result;
use serde::Serialize;
use serde_json::{Map, Value};

use super::AnswerClock;
use crate::http::{fields, fields::missing, limits::MAX_TEXTS, prompts};
use crate::payload::{Embeddings, EmbeddingsRequest, JsonBody, Prompt, VectorForm};

/// Reads a request to `api/embed`.
pub(super) fn read(body: &JsonBody, _: &str) -> Result<EmbeddingsRequest> {
    let mut fields = fields::read(OLLAMA_EMBED, body)?;
    let own: ollama::OllamaEmbed = fields.take()?;
    ignore(&own.options, &mut fields);
    Ok(EmbeddingsRequest {
        model: own.model.ok_or_else(|| missing("model"))?.into(),
        input: prompts::read(body, "input", MAX_TEXTS, 0)?.into(),
        dimensions: own.dimensions,
        truncate: Some(own.truncate.unwrap_or(true)),
        form: VectorForm::Ollama { is_one: false },
        ignored: fields.unknown.into(),
        ..EmbeddingsRequest::default()
    })
}

/// Reads a request to `api/embeddings`, which has one text.
pub(super) fn read_one(body: &JsonBody, _: &str) -> Result<EmbeddingsRequest> {
    let mut fields = fields::read(OLLAMA_EMBEDDINGS, body)?;
    let own: ollama::Embeddings = fields.take()?;
    ignore(&own.options, &mut fields);
    let text = own.prompt.ok_or_else(|| missing("prompt"))?;
    Ok(EmbeddingsRequest {
        model: own.model.ok_or_else(|| missing("model"))?.into(),
        input: [Prompt::Text(text)].into(),
        truncate: Some(true),
        form: VectorForm::Ollama { is_one: true },
        ignored: fields.unknown.into(),
        ..EmbeddingsRequest::default()
    })
}

/// Reports all options as ignored, because requests for vectors use none.
fn ignore(options: &Map<String, Value>, fields: &mut Fields) {
    for name in options.keys() {
        fields.ignore(format!("options.{name}"));
    }
}

/// The answer of `api/embeddings`, which takes one text.
#[derive(Serialize)]
pub(in crate::http) struct EmbedVector<'a> {
    pub(in crate::http) embedding: Option<&'a Vec<f32>>,
}

/// The answer of `api/embed`, which takes one or more texts.
#[derive(Serialize)]
pub(in crate::http) struct Vectors<'a> {
    model: &'a str,
    embeddings: &'a [Vec<f32>],
    #[serde(flatten)]
    times: Value,
    prompt_eval_count: u32,
}

impl<'a> Vectors<'a> {
    pub(in crate::http) fn new(
        request: &'a EmbeddingsRequest,
        embeddings: &'a Embeddings,
        clock: &AnswerClock,
    ) -> Self {
        let mut times = Value::Object(Map::new());
        clock.tell(&mut times);
        Self {
            model: &request.model,
            embeddings: &embeddings.vectors,
            times,
            prompt_eval_count: embeddings.tokens,
        }
    }
}
