//! Cohere's `embed`: the same vectors, with other fields in the request and the answer.

use graphmill_engine::Result;
use serde::Serialize;
use serde_json::Value;

use super::super::dialect::{Dialect, Family, Place, Purpose, Route};
use super::super::fields::{Fields, missing, unsupported, wrong_type};
use super::super::table::{self, endpoint};
use super::{Request, texts};
use crate::payload::{Embeddings, JsonBody, Prompt, VectorForm};

/// Cohere's `embed`.
#[derive(Debug)]
pub(in crate::http) struct CohereEmbeddings;

impl Dialect for CohereEmbeddings {
    fn routes(&self) -> &'static [Route] {
        &[Route {
            path: table::EMBED,
            purpose: Purpose::Answer,
            summary: "Makes a vector of each text, as Cohere's does",
            required: &["model", "texts"],
            answer: &["id", "embeddings", "texts", "meta"],
        }]
    }

    fn place(&self) -> Place {
        Place::Behind(&["/v2", "/v3", "/v1", "/v3/v1"])
    }

    fn family(&'static self) -> Family {
        Family::Vectors(read)
    }
}

fn read(body: &JsonBody, id: &str) -> Result<Request> {
    let (body, ignored) = endpoint::of(body, table::EMBED)?;
    for (index, text) in body
        .array("texts")?
        .ok_or_else(|| missing("texts"))?
        .iter()
        .enumerate()
    {
        if !text.is_string() {
            return Err(wrong_type(format!("texts[{index}]"), "a string", text));
        }
    }
    let (float, base64) = types(body)?;
    Ok(Request {
        model: endpoint::model(body)?,
        input: texts(body, "texts")?,
        dimensions: body.count("output_dimension", 1)?,
        truncate: body.str("truncate")?.map(|truncate| truncate == "END"),
        form: VectorForm::ByType {
            id: format!("embed-{id}").into(),
            float,
            base64,
        },
        ignored,
    })
}

/// Whether vectors are asked for as numbers, and as base64.
fn types(body: Fields<'_>) -> Result<(bool, bool)> {
    let types = body
        .array("embedding_types")?
        .map_or(&[][..], Vec::as_slice);
    let (mut float, mut base64) = (types.is_empty(), false);
    for (index, kind) in types.iter().enumerate() {
        match kind {
            Value::String(kind) if kind == "float" => float = true,
            Value::String(kind) if kind == "base64" => base64 = true,
            Value::String(_) => return Err(unsupported(format!("embedding_types[{index}]"), kind)),
            other => {
                return Err(wrong_type(
                    format!("embedding_types[{index}]"),
                    "a string",
                    other,
                ));
            }
        }
    }
    Ok((float, base64))
}

#[derive(Serialize)]
pub(super) struct Answer<'a> {
    id: &'a str,
    response_type: &'static str,
    embeddings: ByType<'a>,
    texts: Vec<&'a str>,
    meta: Meta,
}

#[derive(Serialize)]
struct ByType<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    float: Option<&'a [Vec<f32>]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<Vec<String>>,
}

#[derive(Serialize)]
struct Meta {
    api_version: Version,
    billed_units: Tokens,
    tokens: Tokens,
}

#[derive(Serialize)]
struct Version {
    version: &'static str,
}

#[derive(Copy, Clone, Serialize)]
struct Tokens {
    input_tokens: u32,
}

impl<'a> Answer<'a> {
    pub(super) fn new(request: &'a Request, embeddings: &'a Embeddings) -> Self {
        let (id, float, base64) = match &request.form {
            VectorForm::ByType { id, float, base64 } => (&**id, *float, *base64),
            VectorForm::List { base64 } => ("", !base64, *base64),
        };
        let text = |prompt: &'a Prompt| match prompt {
            Prompt::Text(text) => Some(text.as_str()),
            _ => None,
        };
        let vectors = &embeddings.vectors;
        let tokens = Tokens {
            input_tokens: embeddings.tokens,
        };
        Self {
            id,
            response_type: "embeddings_by_type",
            embeddings: ByType {
                float: float.then_some(vectors.as_slice()),
                base64: base64
                    .then(|| vectors.iter().map(|vector| super::base64(vector)).collect()),
            },
            texts: request.input.iter().filter_map(text).collect(),
            meta: Meta {
                api_version: Version { version: "2" },
                billed_units: tokens,
                tokens,
            },
        }
    }
}
