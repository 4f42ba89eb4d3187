//! `RerankRequestCalculator` and `RerankResponseCalculator`: the rerank endpoint of Cohere and
//! Jina, its forms in TEI and vLLM, and their endpoints that classify texts.

use std::sync::Arc;

use graphmill_dialects::bodies::{
    RERANK,
    vectors::{self, Document},
};
use graphmill_engine::{
    Calculator, CancelToken, Contract, Cx, Error, Flow, In, InputSet, NoOptions, Offset, OpenCx,
    Out, Result, Run, register,
};
use serde_json::{Value, json};

use super::fields::{self, invalid, limited, missing};
use super::{
    body::{self, to_json},
    dialect::{Dialect, Family, Place, Purpose, Route},
    dialect_table,
    tei::{self, Tei},
    vllm,
    wire::number,
};
use crate::embed::claim_classes;
use crate::payload::{
    HttpRequestPayload, HttpResponse, JsonBody, Relevance, RerankForm, RerankRequest as Request,
};

/// Maximum number of numbers that are written in the task of a session.
const LIGHT_NUMBERS: usize = 10_000;

/// Reads the body of `rerank`, or of a request for classes. Errors name the wrong field.
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

impl Calculator for RerankRequest {
    const NAME: &'static str = "RerankRequestCalculator";
    const DOC: &'static str =
        "Reads and checks a request of the rerank endpoint, or of one that classifies texts.";
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
            let Some((Family::Scores(read), _)) = payload.served() else {
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
register!(RerankRequest);

/// The dialect of Cohere's and Jina's `rerank`.
#[derive(Debug)]
pub(super) struct CohereRerank;

impl Dialect for CohereRerank {
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

    fn others(&self) -> &'static [&'static dyn Dialect] {
        &[&Tei::RERANK]
    }

    fn is_meant(&self, body: &JsonBody) -> bool {
        !Tei::RERANK.is_meant(body)
    }
}

fn read(body: &JsonBody, id: &str) -> Result<Request> {
    let mut fields = fields::read(RERANK, body)?;
    let own: vectors::Rerank = fields.take()?;
    Ok(Request {
        form: RerankForm::Cohere(format!("rerank-{id}").into()),
        model: own.model.ok_or_else(|| missing("model"))?.into(),
        queries: [own.query.ok_or_else(|| missing("query"))?].into(),
        documents: documents(own.documents.ok_or_else(|| missing("documents"))?)?,
        top_n: own.top_n,
        return_documents: own.return_documents,
        max_chunks_per_doc: own.max_chunks_per_doc,
        truncates: own.truncate_prompt_tokens.is_some(),
        most_tokens: limited(own.truncate_prompt_tokens),
        ignored: fields.unknown.into(),
    })
}

/// Returns the texts of documents, which must all be of one kind.
fn documents(list: Vec<Document>) -> Result<Arc<[String]>> {
    let first = list.first().map(std::mem::discriminant);
    let texts = list.into_iter().enumerate().map(|(index, document)| {
        if Some(std::mem::discriminant(&document)) != first {
            let message = "must be of the same kind as the first document";
            return Err(invalid(format!("documents[{index}]"), message));
        }
        let (Document::Text(text) | Document::Object { text }) = document;
        Ok(text)
    });
    texts.collect()
}

/// Writes the answer of `rerank`: indices and scores of the documents, the best first. A request for
/// classes gets those of its texts. There is only one answer: a second request is an error.
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

impl Calculator for RerankResponse {
    const NAME: &'static str = "RerankResponseCalculator";
    const DOC: &'static str = "Writes the answer of the rerank endpoint, the best document first, or of one that classifies texts.";
    type Options = NoOptions;
    type Ports = (In<Request>, In<Relevance>, Out<HttpResponse>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        c.offset(Offset::Unset);
        c.run(Run::Offload("cpu"));
        let (request, relevance) = (c.input("REQUEST"), c.input("RELEVANCE"));
        (request, relevance, c.output("HTTP_RESPONSE_PAYLOAD"))
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self::default())
    }

    fn process(
        &mut self,
        (request, relevance, response): Self::Ports,
        cx: &mut Cx<'_>,
    ) -> Result<Flow> {
        if self.answered && cx.packet(request).is_some() {
            return Err(body::second_request(cx.time()));
        }
        if let (Some(request), Some(relevance)) = (cx.get(request), cx.get(relevance)) {
            let classes = relevance.classes.as_ref();
            let claim = classes.map(|it| claim_classes(it.numbers.len(), &it.labels));
            let _claim = claim.transpose()?;
            let cancel = &cx.run().cancel;
            let json = answer(request, relevance, cancel)?;
            if cancel.is_cancelled() {
                return Err(Error::cancelled("the request was cancelled"));
            }
            let packets = body::answer(json, &request.ignored);
            for (timestamp, packet) in (0..).zip(packets) {
                cx.emit_at(response, timestamp, packet);
            }
            cx.out().close(response);
            self.answered = true;
        }
        Ok(Flow::Continue)
    }

    fn is_light(&self, (_, relevance, _): Self::Ports, set: &InputSet) -> bool {
        let classes = set.get(relevance).and_then(|it| it.classes.as_ref());
        classes.is_none_or(|it| it.numbers.len() * it.labels.len() <= LIGHT_NUMBERS)
    }
}
register!(RerankResponse);

/// Writes an answer. It is not complete if the request is cancelled meanwhile.
fn answer(request: &Request, relevance: &Relevance, cancel: &CancelToken) -> Result<String> {
    let scores = relevance.scores.iter().enumerate();
    let mut ranks: Vec<_> = scores.zip(request.documents.iter()).collect();
    ranks.sort_by(|((_, a), _), ((_, b), _)| b.total_cmp(a));
    ranks.truncate(request.top_n.map_or(usize::MAX, |most| most as usize));
    let result = |((index, score), text): ((usize, &f32), &String)| {
        let mut result = json!({ "index": index, "relevance_score": number(*score) });
        if request.return_documents {
            result["document"] = json!({ "text": text });
        }
        result
    };
    let id = match &request.form {
        RerankForm::Cohere(id) => id,
        RerankForm::Score(id) => return to_json(&vllm::scores(id, request, relevance)),
        RerankForm::Tei { .. } => {
            let ranks = ranks.into_iter().map(tei::rank(request));
            return to_json(&ranks.collect::<Value>());
        }
        RerankForm::Classes { id, .. } => {
            return to_json(&vllm::classes(id, request, relevance, cancel));
        }
        RerankForm::Prediction { is_one, .. } => {
            return tei::prediction(*is_one, relevance, cancel);
        }
    };
    let tokens = relevance.tokens;
    to_json(&json!({
        "id": id,
        "model": request.model,
        "results": ranks.into_iter().map(result).collect::<Value>(),
        // The token counts are in Jina's form and in Cohere's.
        "usage": { "prompt_tokens": tokens, "total_tokens": tokens },
        "meta": { "billed_units": { "search_units": 1 }, "tokens": { "input_tokens": tokens } },
    }))
}
