//! Requests and answers of llama-server's `embedding`.

use graphmill_dialects::bodies::{LLAMA_EMBEDDING, llama_server};
use graphmill_engine::Result;
use serde::Serialize;

use crate::http::{
    fields::{self, conflicting},
    limits::MAX_TEXTS,
    prompts,
};
use crate::payload::{Embeddings, EmbeddingsRequest, JsonBody, VectorForm};

/// Reads a request for vectors.
pub(super) fn read(body: &JsonBody, _: &str) -> Result<EmbeddingsRequest> {
    let mut fields = fields::read(LLAMA_EMBEDDING, body)?;
    let own: llama_server::Embedding = fields.take()?;
    let is_input = body.has("input");
    if is_input && body.has("content") {
        return Err(conflicting("input", "content"));
    }
    let field = if is_input { "input" } else { "content" };
    Ok(EmbeddingsRequest {
        model: own.model.unwrap_or_default().into(),
        input: prompts::read(body, field, MAX_TEXTS, 0)?.into(),
        dimensions: own.dimensions,
        normalize: own.embd_normalize.map(|norm| norm == 2),
        form: VectorForm::LlamaServer { field },
        ignored: fields.unknown.into(),
        ..EmbeddingsRequest::default()
    })
}

/// An answer's entry for a text.
#[derive(Serialize)]
pub(in crate::http) struct Vectors<'a> {
    index: usize,
    embedding: [&'a [f32]; 1],
}

/// Returns the answer: for each text a list that contains one vector.
pub(in crate::http) fn vectors(embeddings: &Embeddings) -> Vec<Vectors<'_>> {
    let vectors = embeddings.vectors.iter().enumerate();
    let vectors = vectors.map(|(index, vector)| Vectors {
        index,
        embedding: [vector],
    });
    vectors.collect()
}
