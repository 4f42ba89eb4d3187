//! Hugging Face's Text Embeddings Inference (TEI): lists of vectors, cosines, scores and classes.
//! The nodes for vectors and for scores read its requests and write its answers.

use graphmill_dialects::bodies::{PREDICT, SIMILARITY, TEI_EMBED, TEI_RERANK, Text, hugging_face};
use graphmill_engine::{CancelToken, Result};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::{
    body::to_json,
    dialect::{Dialect, Failure, Family, Place, Purpose, Route},
    fields::{self, invalid, missing},
    hugging_face as errors,
    wire::number,
};
use crate::payload::{
    Classes, EmbeddingsRequest, JsonBody, Prompt, Relevance, RerankForm, RerankRequest, VectorForm,
};

/// The dialect of one of TEI's endpoints.
#[derive(Debug)]
pub(super) struct Tei {
    endpoint: &'static str,
    routes: &'static [Route],
    family: Family,
    is_meant: fn(&JsonBody) -> bool,
}

impl Tei {
    /// The dialect of `embed`, which computes vectors.
    pub(super) const EMBED: Self = Self {
        endpoint: TEI_EMBED,
        routes: &[route("embed", "Makes a vector of each text, as TEI does")],
        family: Family::Vectors(read_texts),
        is_meant: |body| !has_sentences(body),
    };
    /// The dialect of `similarity`, which computes the cosines of a text with others.
    pub(super) const SIMILARITY: Self = Self {
        endpoint: SIMILARITY,
        routes: &[route(
            "similarity",
            "Compares a text with others, as TEI does",
        )],
        family: Family::Vectors(read_sentences),
        is_meant: has_sentences,
    };
    /// The dialect of `rerank`: scores of texts by a query. Its path is that of
    /// [`CohereRerank`](super::rerank::CohereRerank).
    pub(super) const RERANK: Self = Self {
        endpoint: TEI_RERANK,
        routes: &[],
        family: Family::Scores(read_ranking),
        is_meant: |body| body.has("texts"),
    };
    /// The dialect of `predict`: classes of texts.
    pub(super) const PREDICT: Self = Self {
        endpoint: PREDICT,
        routes: &[route("predict", "Classifies texts, as TEI does")],
        family: Family::Scores(read_prediction),
        is_meant: |_| true,
    };
}

const fn route(path: &'static str, summary: &'static str) -> Route {
    Route {
        path,
        purpose: Purpose::Answer,
        summary,
        required: &["inputs"],
        answer: &[],
    }
}

impl Dialect for Tei {
    fn routes(&self) -> &'static [Route] {
        self.routes
    }

    fn endpoint(&self) -> &'static str {
        self.endpoint
    }

    fn place(&self) -> Place {
        Place::Bare
    }

    fn family(&'static self) -> Family {
        self.family
    }

    fn is_meant(&self, body: &JsonBody) -> bool {
        (self.is_meant)(body)
    }

    fn status(&self, status: u16) -> u16 {
        errors::status(status)
    }

    fn error(&self, failure: &Failure<'_>) -> Value {
        errors::error(failure)
    }

    fn error_form(&self) -> &'static str {
        errors::FORM
    }
}

fn has_sentences(body: &JsonBody) -> bool {
    body.text("inputs").is_some_and(|it| it.starts_with(b"{"))
}

fn read_texts(body: &JsonBody, _: &str) -> Result<EmbeddingsRequest> {
    let mut fields = fields::read(TEI_EMBED, body)?;
    let own: hugging_face::Embed = fields.take()?;
    let texts = own.inputs.ok_or_else(|| missing("inputs"))?.into_parts();
    Ok(EmbeddingsRequest {
        model: own.model.unwrap_or_default().into(),
        input: texts.into_iter().map(Prompt::Text).collect(),
        dimensions: own.dimensions,
        truncate: own.truncate,
        cuts_beginning: (own.truncation_direction.as_deref())
            .is_some_and(|side| side.eq_ignore_ascii_case("left")),
        normalize: own.normalize,
        form: VectorForm::Tei,
        ignored: fields.unknown.into(),
        ..EmbeddingsRequest::default()
    })
}

fn read_sentences(body: &JsonBody, _: &str) -> Result<EmbeddingsRequest> {
    let mut fields = fields::read(SIMILARITY, body)?;
    let own: hugging_face::Similarity = fields.take()?;
    let inputs = own.inputs.ok_or_else(|| missing("inputs"))?;
    let texts = [inputs.source_sentence].into_iter().chain(inputs.sentences);
    Ok(EmbeddingsRequest {
        model: own.model.unwrap_or_default().into(),
        input: texts.map(Prompt::Text).collect(),
        truncate: own.parameters.truncate.or(own.truncate),
        normalize: Some(true),
        form: VectorForm::TeiSimilarity,
        ignored: fields.unknown.into(),
        ..EmbeddingsRequest::default()
    })
}

fn read_ranking(body: &JsonBody, _: &str) -> Result<RerankRequest> {
    let mut fields = fields::read(TEI_RERANK, body)?;
    let own: hugging_face::Rerank = fields.take()?;
    Ok(RerankRequest {
        form: RerankForm::Tei {
            raw_scores: own.raw_scores,
        },
        model: own.model.unwrap_or_default().into(),
        queries: [own.query.ok_or_else(|| missing("query"))?].into(),
        documents: own.texts.ok_or_else(|| missing("texts"))?.into(),
        return_documents: own.return_text,
        ignored: fields.unknown.into(),
        ..RerankRequest::default()
    })
}

fn read_prediction(body: &JsonBody, _: &str) -> Result<RerankRequest> {
    let mut fields = fields::read(PREDICT, body)?;
    let own: hugging_face::Predict = fields.take()?;
    // A list that contains only texts is one input: a text or a pair.
    let parts = own.inputs.ok_or_else(|| missing("inputs"))?.into_parts();
    let is_one = parts.iter().all(|part| matches!(part, Text::Whole(_)));
    let lists = parts.into_iter().map(Text::into_parts);
    let inputs: Vec<Vec<String>> = if is_one {
        vec![lists.flatten().collect()]
    } else {
        lists.collect()
    };
    let length = inputs.first().map_or(0, Vec::len);
    let (mut queries, mut documents) = (Vec::new(), Vec::new());
    for (index, mut texts) in inputs.into_iter().enumerate() {
        if !(1..=2).contains(&texts.len()) || texts.len() != length {
            let field = if is_one {
                "inputs".to_owned()
            } else {
                format!("inputs[{index}]")
            };
            let why = "must be a text, or a pair of texts, and the same for all inputs";
            return Err(invalid(field, why));
        }
        documents.extend(texts.pop());
        queries.extend(texts.pop());
    }
    Ok(RerankRequest {
        form: RerankForm::Prediction {
            logits: own.raw_scores,
            is_one,
        },
        model: own.model.unwrap_or_default().into(),
        queries: queries.into(),
        documents: documents.into(),
        truncates: own.truncate,
        ignored: fields.unknown.into(),
        ..RerankRequest::default()
    })
}

/// Writes the answer of `predict`: the classes of each text, the most likely one first.
pub(super) fn prediction(
    is_one: bool,
    relevance: &Relevance,
    cancel: &CancelToken,
) -> Result<String> {
    let classes = relevance.classes.as_ref();
    let prediction = classes.map(|classes| Prediction { classes, cancel });
    if is_one {
        return to_json(&prediction.and_then(|it| it.rows().next()));
    }
    to_json(&prediction)
}

/// The classes of texts. They are serialized one by one, because there may be millions.
#[derive(Copy, Clone)]
struct Prediction<'a> {
    classes: &'a Classes,
    cancel: &'a CancelToken,
}

impl<'a> Prediction<'a> {
    fn rows(self) -> impl Iterator<Item = Ranking<'a>> {
        let texts = self.classes.numbers.iter();
        let wanted = texts.take_while(move |_| !self.cancel.is_cancelled());
        wanted.map(move |numbers| Ranking {
            numbers,
            labels: &self.classes.labels,
        })
    }
}

impl Serialize for Prediction<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.rows())
    }
}

/// The classes of a text, the most likely one first.
struct Ranking<'a> {
    numbers: &'a [f32],
    labels: &'a [String],
}

impl Serialize for Ranking<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Class<'a> {
            score: f32,
            label: &'a str,
        }
        let classes = self.numbers.iter().zip(self.labels);
        let mut classes: Vec<_> = classes
            .map(|(score, label)| Class {
                score: *score,
                label,
            })
            .collect();
        classes.sort_by(|one, other| other.score.total_cmp(&one.score));
        classes.serialize(serializer)
    }
}

/// Returns the cosine of the first vector with each other one. All have length 1.
pub(super) fn cosines(vectors: &[Vec<f32>]) -> Vec<f32> {
    let Some((first, others)) = vectors.split_first() else {
        return Vec::new();
    };
    let product = |(one, other): (&f32, &f32)| one * other;
    let cosine = |other: &Vec<f32>| first.iter().zip(other).map(product).sum();
    others.iter().map(cosine).collect()
}

/// Largest log odds at which an `f32` can still distinguish a probability from a larger one.
const MAX_ODDS: f32 = 16.0;

/// Returns the log odds of a probability, which are the model's output.
fn odds(probability: f32) -> f32 {
    let odds = probability.ln() - (-probability).ln_1p();
    odds.clamp(-MAX_ODDS, MAX_ODDS)
}

/// Returns a function that writes the entry of a text in the answer.
pub(super) fn rank(request: &RerankRequest) -> impl Fn(((usize, &f32), &String)) -> Value {
    let raw_scores = request.form == RerankForm::Tei { raw_scores: true };
    move |((index, score), text)| {
        let score = if raw_scores { odds(*score) } else { *score };
        let mut rank = json!({ "index": index, "score": number(score) });
        if request.return_documents {
            rank["text"] = text.as_str().into();
        }
        rank
    }
}
