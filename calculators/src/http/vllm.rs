//! vLLM's endpoints for vectors, scores and classes. Nodes of similar dialects read their requests
//! and write their answers.

use chrono::Utc;
use graphmill_dialects::bodies::{CLASSIFY, POOLING, SCORE, vectors};
use graphmill_engine::{CancelToken, Result};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::{
    dialect::{Family, Place, Purpose, Route},
    dialect_table::PathDialect,
    embeddings,
    fields::{self, invalid, limited, missing},
    wire::number,
};
use crate::payload::{
    EmbeddingsRequest, JsonBody, Relevance, RerankForm, RerankRequest, VectorForm,
};

/// Part of a URL before these paths.
const PLACE: Place = Place::Behind(&["/v3", "/v1", "/v3/v1", ""]);

/// Fields of the answers, which are lists.
const ANSWER: &[&str] = &["id", "object", "created", "model", "data", "usage"];

/// The dialect of vLLM's `score`.
pub(super) const SCORE_DIALECT: PathDialect = PathDialect {
    routes: &[Route {
        path: SCORE,
        purpose: Purpose::Answer,
        summary: "Says how well texts answer others, in their order",
        required: &["model", "text_1", "text_2"],
        answer: ANSWER,
    }],
    place: PLACE,
    family: Family::Scores(read_score),
};

/// The dialect of vLLM's `pooling`.
pub(super) const POOLING_DIALECT: PathDialect = PathDialect {
    routes: &[Route {
        path: POOLING,
        purpose: Purpose::Answer,
        summary: "Makes a vector of each text, as vLLM does",
        required: &["model", "input"],
        answer: ANSWER,
    }],
    place: PLACE,
    family: Family::Vectors(read_pooling),
};

/// The dialect of vLLM's `classify`.
pub(super) const CLASSIFY_DIALECT: PathDialect = PathDialect {
    routes: &[Route {
        path: CLASSIFY,
        purpose: Purpose::Answer,
        summary: "Classifies each text",
        required: &["model", "input"],
        answer: ANSWER,
    }],
    place: PLACE,
    family: Family::Scores(read_classify),
};

fn read_pooling(body: &JsonBody, id: &str) -> Result<EmbeddingsRequest> {
    let request = embeddings::read_as(POOLING, body)?;
    let VectorForm::OpenAI { base64 } = request.form else {
        return Ok(request);
    };
    let id = format!("pool-{id}").into();
    Ok(EmbeddingsRequest {
        form: VectorForm::Pooling { id, base64 },
        ..request
    })
}

fn read_classify(body: &JsonBody, id: &str) -> Result<RerankRequest> {
    let mut fields = fields::read(CLASSIFY, body)?;
    let own: vectors::Classify = fields.take()?;
    let texts = own.input.ok_or_else(|| missing("input"))?.into_parts();
    Ok(RerankRequest {
        form: RerankForm::Classes {
            id: format!("classify-{id}").into(),
            logits: own.use_activation == Some(false),
        },
        model: own.model.ok_or_else(|| missing("model"))?.into(),
        documents: texts.into(),
        truncates: own.truncate_prompt_tokens.is_some(),
        most_tokens: limited(own.truncate_prompt_tokens),
        ignored: fields.unknown.into(),
        ..RerankRequest::default()
    })
}

fn read_score(body: &JsonBody, id: &str) -> Result<RerankRequest> {
    let mut fields = fields::read(SCORE, body)?;
    let own: vectors::Score = fields.take()?;
    let queries = own.text_1.ok_or_else(|| missing("text_1"))?.into_parts();
    let documents = own.text_2.ok_or_else(|| missing("text_2"))?.into_parts();
    let (one, other) = (queries.len(), documents.len());
    if one != 1 && one != other {
        let message = format!("must be one text, or as many as `text_2` has ({other}), not {one}");
        return Err(invalid("text_1", message));
    }
    Ok(RerankRequest {
        form: RerankForm::Score(format!("score-{id}").into()),
        model: own.model.ok_or_else(|| missing("model"))?.into(),
        queries: queries.into(),
        documents: documents.into(),
        truncates: own.truncate_prompt_tokens.is_some(),
        most_tokens: limited(own.truncate_prompt_tokens),
        ignored: fields.unknown.into(),
        ..RerankRequest::default()
    })
}

/// A list of results in vLLM's form.
#[derive(Serialize)]
pub(super) struct List<'a, T> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    data: Vec<T>,
    usage: Value,
}

impl<'a, T> List<'a, T> {
    /// Creates a list of results for this many tokens.
    pub(super) fn new(id: &'a str, model: &'a str, data: Vec<T>, tokens: u32) -> Self {
        Self {
            id,
            object: "list",
            created: Utc::now().timestamp() as u64,
            model,
            data,
            usage: json!({ "prompt_tokens": tokens, "total_tokens": tokens, "completion_tokens": 0 }),
        }
    }
}

/// Writes the answer of `score`.
pub(super) fn scores(id: &str, request: &RerankRequest, relevance: &Relevance) -> Value {
    let scores = relevance.scores.iter().enumerate();
    let entry = |(index, score): (usize, &f32)| json!({ "index": index, "object": "score", "score": number(*score) });
    let scores = scores.map(entry).collect();
    json!(List::new(id, &request.model, scores, relevance.tokens))
}

/// The classes of a text.
#[derive(Serialize)]
pub(super) struct TextClasses<'a> {
    index: usize,
    /// Name of the most likely class, if it has one.
    label: Option<&'a String>,
    probs: ClassNumbers<'a>,
    num_classes: usize,
}

/// The numbers of all classes of a text. They are not written if the request is cancelled.
struct ClassNumbers<'a> {
    numbers: &'a [f32],
    cancel: &'a CancelToken,
}

impl Serialize for ClassNumbers<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let is_wanted = !self.cancel.is_cancelled();
        serializer.collect_seq(self.numbers.iter().filter(|_| is_wanted))
    }
}

/// Returns the answer of `classify`: the most likely class of each text, and the numbers of all
/// classes.
pub(super) fn classes<'a>(
    id: &'a str,
    request: &'a RerankRequest,
    relevance: &'a Relevance,
    cancel: &'a CancelToken,
) -> List<'a, TextClasses<'a>> {
    let classes = relevance.classes.iter().flat_map(|it| {
        let rows = it.numbers.iter().enumerate();
        rows.map(move |(index, numbers)| {
            let likeliest = (0..numbers.len()).max_by(|one, other| {
                // Among equal numbers, the first one wins.
                let order = numbers[*one].total_cmp(&numbers[*other]);
                order.then(other.cmp(one))
            });
            TextClasses {
                index,
                label: likeliest.and_then(|class| it.labels.get(class)),
                probs: ClassNumbers { numbers, cancel },
                num_classes: numbers.len(),
            }
        })
    });
    List::new(id, &request.model, classes.collect(), relevance.tokens)
}
