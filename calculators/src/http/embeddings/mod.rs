//! `EmbeddingsRequestCalculator` and `EmbeddingsResponseCalculator`: OpenAI's embeddings endpoint,
//! Cohere's embed, Ollama's endpoints for vectors, TEI's embed and similarity, and vLLM's pooling.

mod cohere;

pub(super) use cohere::COHERE;

use std::time::Instant;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use graphmill_dialects::bodies::{EMBEDDINGS, vectors};
use graphmill_engine::{
    Calculator, Contract, Cx, Flow, In, InputSet, NoOptions, Offset, OpenCx, Out, Result, Run,
    register,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::limits::MAX_TEXTS;
use super::{
    body::{self, to_json},
    dialect::{Family, PREFIXES, Place, Purpose, Route},
    dialect_table::{self, PathDialect},
    fields::{self, limited, missing},
    llama_server, ollama, prompts, tei, vllm,
};
use crate::payload::{
    Embeddings as Vectors, EmbeddingsRequest as Request, HttpRequestPayload, HttpResponse,
    JsonBody, VectorForm,
};

/// Reads the body of `embeddings`, or of Cohere's or TEI's `embed`. Errors name the wrong field.
///
/// Emits the request at the payload's timestamp.
///
/// ```pbtxt
/// input_stream: "HTTP_REQUEST_PAYLOAD:input"
/// output_stream: "REQUEST:request"
/// node {
///   calculator: "EmbeddingsRequestCalculator"
///   input_stream: "HTTP_REQUEST_PAYLOAD:input"
///   output_stream: "REQUEST:request"
/// }
/// ```
pub struct EmbeddingsRequest;

impl Calculator for EmbeddingsRequest {
    const NAME: &'static str = "EmbeddingsRequestCalculator";
    const DOC: &'static str = "Reads and checks a request of OpenAI's embeddings endpoint, or of Cohere's or TEI's embed.";
    type Options = NoOptions;
    type Ports = (In<HttpRequestPayload>, Out<Request>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        c.run(Run::Offload("cpu"));
        (c.input("HTTP_REQUEST_PAYLOAD"), c.output("REQUEST"))
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }

    fn process(&mut self, (payload, request): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(payload) = cx.get(payload) {
            let Some((Family::Vectors(read), _)) = payload.served() else {
                return Err(dialect_table::not_read(Self::NAME, &payload.uri));
            };
            let read = read(body::json(payload)?, &cx.run().id.0)?;
            cx.emit(request, read);
        }
        Ok(Flow::Continue)
    }

    fn is_light(&self, (payload, _): Self::Ports, set: &InputSet) -> bool {
        set.get(payload).is_none_or(body::is_light)
    }
}
register!(EmbeddingsRequest);

/// The dialect of OpenAI's `embeddings`.
pub(super) const DIALECT: PathDialect = PathDialect {
    routes: &[Route {
        path: EMBEDDINGS,
        purpose: Purpose::Answer,
        summary: "Makes a vector of each text",
        required: &["model", "input"],
        answer: &["object", "data", "model", "usage"],
    }],
    place: Place::Behind(PREFIXES),
    family: Family::Vectors(|body, _| read_as(EMBEDDINGS, body)),
};

/// Reads the fields of OpenAI's form, for an endpoint that has them.
pub(super) fn read_as(endpoint: &str, body: &JsonBody) -> Result<Request> {
    let mut fields = fields::read(endpoint, body)?;
    let own: vectors::Embeddings = fields.take()?;
    let base64 = own.encoding_format.is_some_and(|form| form == "base64");
    Ok(Request {
        model: own.model.ok_or_else(|| missing("model"))?.into(),
        input: prompts::read(body, "input", MAX_TEXTS, 0)?.into(),
        dimensions: own.dimensions,
        truncate: own.truncate_prompt_tokens.map(|_| true),
        most_tokens: limited(own.truncate_prompt_tokens),
        form: VectorForm::OpenAI { base64 },
        ignored: fields.unknown.into(),
        ..Request::default()
    })
}

/// Writes the answer of `embeddings`, or of Cohere's or TEI's `embed`. There is only one answer: a
/// second request is an error.
///
/// ```pbtxt
/// input_stream: "REQUEST:request"
/// input_stream: "EMBEDDINGS:embeddings"
/// output_stream: "HTTP_RESPONSE_PAYLOAD:output"
/// node {
///   calculator: "EmbeddingsResponseCalculator"
///   input_stream: "REQUEST:request"
///   input_stream: "EMBEDDINGS:embeddings"
///   output_stream: "HTTP_RESPONSE_PAYLOAD:output"
/// }
/// ```
pub struct EmbeddingsResponse {
    opened: Instant,
    answered: bool,
}

impl Calculator for EmbeddingsResponse {
    const NAME: &'static str = "EmbeddingsResponseCalculator";
    const DOC: &'static str =
        "Writes the answer of OpenAI's embeddings endpoint, or of Cohere's or TEI's embed.";
    type Options = NoOptions;
    type Ports = (In<Request>, In<Vectors>, Out<HttpResponse>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        c.offset(Offset::Unset);
        let (request, embeddings) = (c.input("REQUEST"), c.input("EMBEDDINGS"));
        (request, embeddings, c.output("HTTP_RESPONSE_PAYLOAD"))
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self {
            opened: Instant::now(),
            answered: false,
        })
    }

    fn process(
        &mut self,
        (request, embeddings, response): Self::Ports,
        cx: &mut Cx<'_>,
    ) -> Result<Flow> {
        if self.answered && cx.packet(request).is_some() {
            return Err(body::second_request(cx.time()));
        }
        if let (Some(request), Some(embeddings)) = (cx.get(request), cx.get(embeddings)) {
            let vectors = &embeddings.vectors;
            let json = match &request.form {
                VectorForm::OpenAI { base64 } => {
                    to_json(&EmbeddingsBody::new(request, embeddings, *base64))
                }
                VectorForm::Pooling { id, base64 } => {
                    let data = pooled(vectors, *base64);
                    to_json(&vllm::List::new(
                        id,
                        &request.model,
                        data,
                        embeddings.tokens,
                    ))
                }
                VectorForm::Cohere { id, float, base64 } => {
                    let form = (&**id, *float, *base64);
                    to_json(&cohere::CohereAnswer::new(form, request, embeddings))
                }
                VectorForm::Ollama { is_one: true } => {
                    let embedding = vectors.first();
                    to_json(&ollama::EmbedVector { embedding })
                }
                VectorForm::Ollama { is_one: false } => {
                    let clock = ollama::AnswerClock::new(cx.run(), self.opened);
                    to_json(&ollama::Vectors::new(request, embeddings, &clock))
                }
                VectorForm::LlamaServer { .. } => to_json(&llama_server::vectors(embeddings)),
                VectorForm::Tei => to_json(vectors),
                VectorForm::TeiSimilarity => to_json(&tei::cosines(vectors)),
            }?;
            let packets = body::answer(json, &request.ignored);
            for (timestamp, packet) in (0..).zip(packets) {
                cx.emit_at(response, timestamp, packet);
            }
            cx.out().close(response);
            self.answered = true;
        }
        Ok(Flow::Continue)
    }
}
register!(EmbeddingsResponse);

#[derive(Serialize)]
struct EmbeddingsBody<'a> {
    object: &'static str,
    data: Vec<EmbeddingItem<'a>>,
    model: &'a str,
    usage: Value,
}

#[derive(Serialize)]
struct EmbeddingItem<'a> {
    object: &'static str,
    index: usize,
    embedding: EncodedVector<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum EncodedVector<'a> {
    Numbers(&'a [f32]),
    Base64(String),
}

/// Encodes a vector as base64 of little-endian 32-bit floats.
fn base64(vector: &[f32]) -> String {
    let bytes: Vec<u8> = vector
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect();
    BASE64_STANDARD.encode(bytes)
}

impl<'a> EncodedVector<'a> {
    fn new(vector: &'a [f32], base64: bool) -> Self {
        if base64 {
            Self::Base64(self::base64(vector))
        } else {
            Self::Numbers(vector)
        }
    }
}

/// An entry of the list in vLLM's form.
#[derive(Serialize)]
struct PoolingEntry<'a> {
    index: usize,
    object: &'static str,
    data: EncodedVector<'a>,
}

/// Returns the entries of the list in vLLM's form.
fn pooled(vectors: &[Vec<f32>], base64: bool) -> Vec<PoolingEntry<'_>> {
    let vectors = vectors.iter().enumerate();
    let entries = vectors.map(|(index, vector)| PoolingEntry {
        index,
        object: "pooling",
        data: EncodedVector::new(vector, base64),
    });
    entries.collect()
}

impl<'a> EmbeddingsBody<'a> {
    fn new(request: &'a Request, embeddings: &'a Vectors, base64: bool) -> Self {
        let item = |(index, vector): (usize, &'a Vec<f32>)| EmbeddingItem {
            object: "embedding",
            index,
            embedding: EncodedVector::new(vector, base64),
        };
        Self {
            object: "list",
            data: embeddings.vectors.iter().enumerate().map(item).collect(),
            model: &request.model,
            usage: json!({ "prompt_tokens": embeddings.tokens, "total_tokens": embeddings.tokens }),
        }
    }
}
