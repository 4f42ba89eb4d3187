//! llama-server's own endpoints, which continue prompts, fill a gap, and compute vectors. Their
//! paths have no prefix: `/completions` and `/embeddings` there are not OpenAI's.

pub(super) mod adapters;
mod answer;
mod embed;
mod request;

pub(super) use embed::vectors;

use graphmill_dialects::{
    Fields,
    bodies::{LLAMA_COMPLETION, LLAMA_EMBEDDING, LLAMA_INFILL},
};
use graphmill_engine::Result;
use graphmill_llm::{AdapterSpec, NamedAdapter};
use serde_json::{Map, Value};

use super::{
    OwnParams,
    dialect::{AnswerWriter, Dialect, Family, Place, Purpose, Route, TextDialect},
};
use crate::payload::{GenerationParams, JsonBody, RequestInput, TextRequest};

/// A dialect of llama-server's, for one kind of request.
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
            Family::Vectors(embed::read)
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
        Box::new(answer::Answer::new(request))
    }
}
