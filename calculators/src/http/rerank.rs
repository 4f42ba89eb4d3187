//! `RerankRequestCalculator` and `RerankResponseCalculator`: the rerank endpoint that Cohere and
//! Jina have.

use std::sync::Arc;

use graphmill_dialects::bodies::{
    RERANK,
    vectors::{self, Document as Given},
};
use graphmill_engine::{
    Calculator, Contract, Cx, Flow, In, NoOptions, Offset, OpenCx, Out, Result, register,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::fields::{self, invalid, missing};
use super::{
    body,
    dialect::{Dialect, Family, Place, Purpose, Route},
    dialect_table, endpoint,
};
use crate::payload::{
    HttpRequestPayload, HttpResponse, JsonBody, Relevance, RerankRequest as Request,
};

/// Reads the body of `rerank` and refuses, with the field's name, what is wrong in it.
///
/// Emits the request at the payload's timestamp.
///
/// ```pbtxt
/// input_stream: "HTTP_REQUEST_PAYLOAD:input"
/// output_stream: "REQUEST:request"
/// node {
///   calculator: "RerankRequestCalculator"
///   input_stream: "HTTP_REQUEST_PAYLOAD:input"
///   output_stream: "REQUEST:request"
/// }
/// ```
pub struct RerankRequest;

/// The ports of [`RerankRequest`].
#[derive(Copy, Clone, Debug)]
pub struct RerankRequestPorts {
    payload: In<HttpRequestPayload>,
    request: Out<Request>,
}

impl Calculator for RerankRequest {
    const NAME: &'static str = "RerankRequestCalculator";
    const DOC: &'static str = "Reads and checks a request of the rerank endpoint.";
    type Options = NoOptions;
    type Ports = RerankRequestPorts;

    fn contract(c: &mut Contract, _: &NoOptions) -> RerankRequestPorts {
        RerankRequestPorts {
            payload: c.input("HTTP_REQUEST_PAYLOAD"),
            request: c.output("REQUEST"),
        }
    }

    fn open(_: &NoOptions, _: RerankRequestPorts, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }

    fn process(&mut self, io: RerankRequestPorts, cx: &mut Cx<'_>) -> Result<Flow> {
        if let Some(payload) = cx.get(io.payload) {
            let Some((Family::Scores(read), _)) = payload.served() else {
                return Err(dialect_table::not_read(Self::NAME, &payload.uri));
            };
            let request = read(body::json(payload)?, &cx.run().id.0)?;
            cx.emit(io.request, request);
        }
        Ok(Flow::Continue)
    }
}
register!(RerankRequest);

/// Cohere's and Jina's `rerank`.
#[derive(Debug)]
pub(super) struct Rerank;

impl Dialect for Rerank {
    fn routes(&self) -> &'static [Route] {
        &[Route {
            path: RERANK,
            purpose: Purpose::Answer,
            summary: "Says how well documents answer a query",
            required: &["model", "query", "documents"],
            answer: &["id", "model", "results", "usage"],
        }]
    }

    fn place(&self) -> Place {
        Place::Behind(&["/v3", "/v1", "/v3/v1", "/v2", ""])
    }

    fn family(&'static self) -> Family {
        Family::Scores(read)
    }
}

fn read(body: &JsonBody, id: &str) -> Result<Request> {
    let mut fields = fields::read(RERANK, body)?;
    let own: vectors::Rerank = fields.take()?;
    Ok(Request {
        id: format!("rerank-{id}").into(),
        model: endpoint::model(own.model)?,
        query: own.query.map(Arc::from).ok_or_else(|| missing("query"))?,
        documents: documents(own.documents.ok_or_else(|| missing("documents"))?)?,
        top_n: own.top_n,
        return_documents: own.return_documents,
        max_chunks_per_doc: own.max_chunks_per_doc,
        ignored: fields.unknown.into(),
    })
}

/// The texts of documents, which are all of one kind.
fn documents(list: Vec<Given>) -> Result<Arc<[String]>> {
    let first = list.first().map(std::mem::discriminant);
    let texts = list.into_iter().enumerate().map(|(index, document)| {
        if Some(std::mem::discriminant(&document)) != first {
            let message = "must be of the same kind as the first document";
            return Err(invalid(format!("documents[{index}]"), message));
        }
        let (Given::Text(text) | Given::Object { text }) = document;
        Ok(text)
    });
    texts.collect()
}

/// Writes the answer of `rerank`: the documents' indices and scores, the best first. There is one
/// answer: a second request is an error.
///
/// ```pbtxt
/// input_stream: "REQUEST:request"
/// input_stream: "RELEVANCE:relevance"
/// output_stream: "HTTP_RESPONSE_PAYLOAD:output"
/// node {
///   calculator: "RerankResponseCalculator"
///   input_stream: "REQUEST:request"
///   input_stream: "RELEVANCE:relevance"
///   output_stream: "HTTP_RESPONSE_PAYLOAD:output"
/// }
/// ```
#[derive(Default)]
pub struct RerankResponse {
    answered: bool,
}

/// The ports of [`RerankResponse`].
#[derive(Copy, Clone, Debug)]
pub struct RerankResponsePorts {
    request: In<Request>,
    relevance: In<Relevance>,
    response: Out<HttpResponse>,
}

impl Calculator for RerankResponse {
    const NAME: &'static str = "RerankResponseCalculator";
    const DOC: &'static str = "Writes the answer of the rerank endpoint, the best document first.";
    type Options = NoOptions;
    type Ports = RerankResponsePorts;

    fn contract(c: &mut Contract, _: &NoOptions) -> RerankResponsePorts {
        c.offset(Offset::Unset);
        RerankResponsePorts {
            request: c.input("REQUEST"),
            relevance: c.input("RELEVANCE"),
            response: c.output("HTTP_RESPONSE_PAYLOAD"),
        }
    }

    fn open(_: &NoOptions, _: RerankResponsePorts, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self::default())
    }

    fn process(&mut self, io: RerankResponsePorts, cx: &mut Cx<'_>) -> Result<Flow> {
        if self.answered && cx.packet(io.request).is_some() {
            return Err(body::second_request(cx.time()));
        }
        if let (Some(request), Some(relevance)) = (cx.get(io.request), cx.get(io.relevance)) {
            let packets = body::answer(&Answer::new(request, relevance), &request.ignored)?;
            for (timestamp, packet) in (0..).zip(packets) {
                cx.emit_at(io.response, timestamp, packet);
            }
            cx.out().close(io.response);
            self.answered = true;
        }
        Ok(Flow::Continue)
    }
}
register!(RerankResponse);

#[derive(Serialize)]
struct Answer<'a> {
    id: &'a str,
    model: &'a str,
    results: Vec<Found>,
    /// Jina's count of tokens.
    usage: Value,
    /// Cohere's.
    meta: Value,
}

#[derive(Serialize)]
struct Found {
    index: usize,
    relevance_score: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    document: Option<Value>,
}

impl<'a> Answer<'a> {
    fn new(request: &'a Request, relevance: &Relevance) -> Self {
        let mut results: Vec<_> = (relevance.scores.iter().zip(request.documents.iter()))
            .enumerate()
            .map(|(index, (score, text))| Found {
                index,
                relevance_score: *score,
                document: request.return_documents.then(|| json!({ "text": text })),
            })
            .collect();
        results.sort_by(|a, b| b.relevance_score.total_cmp(&a.relevance_score));
        results.truncate(request.top_n.map_or(usize::MAX, |most| most as usize));
        let tokens = relevance.tokens;
        Self {
            id: &request.id,
            model: &request.model,
            results,
            usage: json!({ "prompt_tokens": tokens, "total_tokens": tokens }),
            meta: json!({ "billed_units": { "search_units": 1 }, "tokens": { "input_tokens": tokens } }),
        }
    }
}
