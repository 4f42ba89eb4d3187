//! llama-server's own endpoints, which continue prompts, fill a gap, and compute vectors. Their
//! paths have no prefix. `/completions` and `/embeddings` without a prefix are therefore
//! llama-server's, not OpenAI's.

pub(super) mod adapters;
mod answer;
mod request;

use graphmill_dialects::{
    Fields,
    bodies::{LLAMA_COMPLETION, LLAMA_EMBEDDING, LLAMA_INFILL, llama_server as bodies},
};
use graphmill_engine::Result;
use graphmill_llm::{AdapterSpec, NamedAdapter};
use serde::Serialize;
use serde_json::{Map, Value};

use super::{
    OwnParams,
    dialect::{AnswerWriter, Dialect, Family, Place, Purpose, Route, TextDialect},
    fields::{self, conflicting},
    limits::MAX_TEXTS,
    prompts,
};
use crate::payload::{
    Embeddings, EmbeddingsRequest, GenerationParams, JsonBody, RequestInput, TextRequest,
    VectorForm,
};

/// The dialect of one of llama-server's endpoints.
#[derive(Debug)]
pub(super) struct LlamaServer {
    endpoint: &'static str,
    routes: &'static [Route],
}

impl LlamaServer {
    /// The dialect of `completion`, which continues prompts.
    pub(super) const COMPLETION: Self = Self {
        endpoint: LLAMA_COMPLETION,
        routes: &[
            continuing("completion", &["prompt"]),
            continuing("completions", &["prompt"]),
        ],
    };
    /// The dialect of `infill`, which fills a gap.
    pub(super) const INFILL: Self = Self {
        endpoint: LLAMA_INFILL,
        routes: &[continuing("infill", &["input_prefix", "input_suffix"])],
    };
    /// The dialect of `embedding`, which computes vectors.
    pub(super) const EMBEDDING: Self = Self {
        endpoint: LLAMA_EMBEDDING,
        routes: &[embedding("embedding"), embedding("embeddings")],
    };
}

const fn continuing(path: &'static str, required: &'static [&'static str]) -> Route {
    Route {
        path,
        purpose: Purpose::Answer,
        summary: "Continues a text or fills a gap in it, as llama-server does",
        required,
        answer: &["content", "stop"],
    }
}

const fn embedding(path: &'static str) -> Route {
    Route {
        path,
        purpose: Purpose::Answer,
        summary: "Makes a vector of each text, as llama-server does",
        required: &["content"],
        answer: &[],
    }
}

impl Dialect for LlamaServer {
    fn routes(&self) -> &'static [Route] {
        self.routes
    }

    fn endpoint(&self) -> &'static str {
        self.endpoint
    }

    fn family(&'static self) -> Family {
        if self.endpoint == LLAMA_EMBEDDING {
            Family::Vectors(read_embedding)
        } else {
            Family::Text(self)
        }
    }

    fn place(&self) -> Place {
        Place::Bare
    }

    fn adapters(&self, body: &JsonBody, adapters: &[AdapterSpec]) -> Result<Vec<NamedAdapter>> {
        if self.endpoint == LLAMA_EMBEDDING {
            return Ok(Vec::new());
        }
        adapters::read(body, adapters)
    }
}

impl TextDialect for LlamaServer {
    fn id_prefix(&self) -> &'static str {
        "completion-"
    }

    fn continues_prompts(&self) -> bool {
        true
    }

    fn input(&self, body: &JsonBody, fields: &mut Fields) -> Result<(RequestInput, OwnParams)> {
        if self.endpoint == LLAMA_INFILL {
            request::infill(body, fields)
        } else {
            request::completion(body, fields)
        }
    }

    fn complete(&self, repeated: &mut Map<String, Value>, params: &GenerationParams) {
        let settings = request::settings(params);
        repeated.insert(request::SETTINGS.to_owned(), settings);
    }

    fn writer(&self, request: &TextRequest) -> Box<dyn AnswerWriter> {
        Box::new(answer::LlamaServerWriter::new(request))
    }
}

/// Reads a request for vectors.
fn read_embedding(body: &JsonBody, _: &str) -> Result<EmbeddingsRequest> {
    let mut fields = fields::read(LLAMA_EMBEDDING, body)?;
    let own: bodies::Embedding = fields.take()?;
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

/// The entry of a text in an answer.
#[derive(Serialize)]
pub(super) struct LlamaServerVector<'a> {
    index: usize,
    embedding: [&'a [f32]; 1],
}

/// Returns the answer: for each text a list that contains one vector.
pub(super) fn vectors(embeddings: &Embeddings) -> Vec<LlamaServerVector<'_>> {
    let vectors = embeddings.vectors.iter().enumerate();
    let vectors = vectors.map(|(index, vector)| LlamaServerVector {
        index,
        embedding: [vector],
    });
    vectors.collect()
}
