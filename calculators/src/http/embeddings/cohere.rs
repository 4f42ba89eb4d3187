//! Cohere's `embed`: the same vectors, with other fields in the request and the answer.

use graphmill_dialects::bodies::{EMBED, vectors};
use graphmill_engine::Result;
use serde::Serialize;
use serde_json::{Value, json};

use super::super::{
    dialect::{Family, Place, Purpose, Route},
    dialect_table::PathDialect,
    fields::{self, missing},
};
use super::Request;
use crate::payload::{Embeddings, JsonBody, Prompt, VectorForm};

/// The dialect of Cohere's `embed`.
pub(in crate::http) const COHERE: PathDialect = PathDialect {
    routes: &[Route {
        path: EMBED,
        purpose: Purpose::Answer,
        summary: "Makes a vector of each text, as Cohere's does",
        required: &["model", "texts"],
        answer: &["id", "embeddings", "texts", "meta"],
    }],
    place: Place::Behind(&["/v2", "/v3", "/v1", "/v3/v1"]),
    family: Family::Vectors(read),
};

fn read(body: &JsonBody, id: &str) -> Result<Request> {
    let mut fields = fields::read(EMBED, body)?;
    let own: vectors::CohereEmbed = fields.take()?;
    let has = |kind: &str| own.embedding_types.iter().any(|it| it == kind);
    Ok(Request {
        model: own.model.ok_or_else(|| missing("model"))?.into(),
        input: (own.texts.ok_or_else(|| missing("texts"))?.into_iter())
            .map(Prompt::Text)
            .collect(),
        dimensions: own.output_dimension,
        truncate: own.truncate.map(|truncate| truncate == "END"),
        form: VectorForm::Cohere {
            id: format!("embed-{id}").into(),
            float: own.embedding_types.is_empty() || has("float"),
            base64: has("base64"),
        },
        ignored: fields.unknown.into(),
        ..Request::default()
    })
}

#[derive(Serialize)]
pub(super) struct CohereAnswer<'a> {
    id: &'a str,
    response_type: &'static str,
    embeddings: ByType<'a>,
    texts: Vec<&'a str>,
    meta: Value,
}

#[derive(Serialize)]
struct ByType<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    float: Option<&'a [Vec<f32>]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<Vec<String>>,
}

impl<'a> CohereAnswer<'a> {
    /// Creates the answer with this id, with numbers, base64 or both as requested.
    pub(super) fn new(
        (id, float, base64): (&'a str, bool, bool),
        request: &'a Request,
        embeddings: &'a Embeddings,
    ) -> Self {
        let text = |prompt: &'a Prompt| match prompt {
            Prompt::Text(text) => Some(text.as_str()),
            _ => None,
        };
        let vectors = &embeddings.vectors;
        let tokens = json!({ "input_tokens": embeddings.tokens });
        Self {
            id,
            response_type: "embeddings_by_type",
            embeddings: ByType {
                float: float.then_some(vectors.as_slice()),
                base64: base64
                    .then(|| vectors.iter().map(|vector| super::base64(vector)).collect()),
            },
            texts: request.input.iter().filter_map(text).collect(),
            meta: json!({ "api_version": { "version": "2" }, "billed_units": tokens, "tokens": tokens }),
        }
    }
}
