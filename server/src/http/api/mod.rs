//! The API documentation: `/openapi.json`, generated from the routed operations, and `/docs`, a
//! self-contained page that shows it.

mod document;
mod field;
mod schema;

use std::sync::Arc;

use axum::{
    Extension,
    extract::State,
    http::{HeaderName, HeaderValue, header},
    response::IntoResponse,
};
use schema::Known;

use super::{
    operation::{Answer, Group, Operation},
    state::{App, Described},
};
use crate::{keys::Caller, servable::Servable};

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation::get("/openapi.json", openapi)
            .about(Group::Server, "This documentation, as OpenAPI 3.1")
            .answers(Answer::Json(&["openapi", "paths"])),
        Operation::get("/docs", page)
            .about(Group::Server, "This documentation, as a page")
            .answers(Answer::Text(&["text/html; charset=utf-8"])),
    ]
}

async fn openapi(
    State(app): State<Arc<App>>,
    caller: Option<Extension<Arc<Caller>>>,
) -> impl IntoResponse {
    let servables = app.servables();
    let loaded = servables.models();
    let vocabularies = loaded.iter().map(|(_, model)| model.vocab().n_vocab());
    let embedding = servables.embedding_models();
    let embedding = embedding
        .iter()
        .map(|(_, model)| model.engine().vocab().n_vocab());
    let vocabulary = vocabularies.min().unwrap_or_default();
    let embedding_vocabulary = embedding.min().unwrap_or_default();
    let sees = |name: &&str| caller.as_ref().is_none_or(|caller| caller.sees(name, None));
    let mut models: Vec<&str> = servables.iter().map(Servable::graph).filter(sees).collect();
    models.dedup();
    let described = Described {
        models: models.into_iter().map(str::to_owned).collect(),
        vocabularies: [vocabulary, embedding_vocabulary],
    };
    let document = app.document.of(&described, || {
        let models: Vec<&str> = described.models.iter().map(String::as_str).collect();
        let known = Known {
            models: &models,
            vocabulary,
            embedding_vocabulary,
        };
        document::document(&super::offered(&app), &known)
            .to_string()
            .into_bytes()
    });
    ([(header::CONTENT_TYPE, "application/json")], document)
}

async fn page() -> impl IntoResponse {
    let headers: [(HeaderName, HeaderValue); 2] = [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static("text/html; charset=utf-8"),
        ),
        (
            header::CONTENT_SECURITY_POLICY,
            HeaderValue::from_static(
                "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'",
            ),
        ),
    ];
    (headers, include_str!("page.html"))
}
