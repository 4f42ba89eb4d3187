//! The documentation that the server has of itself: `/openapi.json`, made of the operations it routes, and `/docs`, a page that
//! shows it and needs nothing from elsewhere.

mod document;
mod field;
mod schema;

use std::sync::{Arc, Mutex, PoisonError};

use axum::{
    extract::State,
    http::{HeaderName, HeaderValue, header},
    response::IntoResponse,
};
use bytes::Bytes;

use schema::Known;

use super::operation::{Answer, Group, Operation};
use crate::{app::App, servable::Servable};

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

/// The document as it was last made. Graphs keep their names while the server runs; vocabularies come with the models.
#[derive(Default)]
pub(crate) struct Document {
    kept: Mutex<Option<([usize; 2], Bytes)>>,
}

impl Document {
    /// The document of these vocabularies: the kept one, or what `make` makes.
    fn of(&self, vocabularies: [usize; 2], make: impl FnOnce() -> Vec<u8>) -> Bytes {
        // Whoever comes meanwhile waits for the document, rather than to make one, too.
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        match &*kept {
            Some((of, document)) if *of == vocabularies => document.clone(),
            _ => {
                let document = Bytes::from(make());
                *kept = Some((vocabularies, document.clone()));
                document
            }
        }
    }
}

async fn openapi(State(app): State<Arc<App>>) -> impl IntoResponse {
    let loaded = app.servables.models();
    let vocabularies = loaded.iter().map(|(_, model)| model.vocab().n_vocab());
    let embedding = app.servables.embedding_models();
    let embedding = embedding
        .iter()
        .map(|(_, model)| model.engine().vocab().n_vocab());
    let vocabulary = vocabularies.min().unwrap_or_default();
    let embedding_vocabulary = embedding.min().unwrap_or_default();
    let document = app.document.of([vocabulary, embedding_vocabulary], || {
        let models: Vec<&str> = app.servables.iter().map(Servable::name).collect();
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
