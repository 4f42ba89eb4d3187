//! The API documentation: `/openapi.json`, generated from the routed operations, and `/docs`, the
//! page that shows it.

mod components;
mod document;
mod schema;

use std::sync::Arc;

use axum::{Extension, extract::State, http::header, response::IntoResponse};
use graphmill_dialects::bodies::CHAT;

use super::{
    AppState, example,
    operation::{Answer, Group, Operation},
    page,
};
use crate::{
    app::state::DocumentInputs,
    keys::{Caller, Permission},
    servable::Servable,
    tensors,
};

pub(super) fn operations() -> Vec<Operation> {
    let document = |operation: Operation| {
        let document = operation.about(Group::Server, "This documentation, as OpenAPI 3.1");
        let document = document.answers(Answer::Json(&["openapi", "paths"]));
        document.needs(Permission::Key)
    };
    vec![
        document(Operation::get("/openapi.json", openapi)),
        // TorchServe serves its description at this path.
        document(Operation::get("/api-description", openapi)).listed(false),
        document(Operation::options("/api-description", openapi)).listed(false),
        document(Operation::options("/", openapi)).listed(false),
        Operation::get("/docs", page::docs)
            .about(Group::Server, "This documentation, as a page")
            .answers(Answer::Page),
    ]
}

async fn openapi(
    State(app): AppState,
    caller: Option<Extension<Arc<Caller>>>,
) -> impl IntoResponse {
    let servables = app.servables();
    let loaded = servables.models();
    let vocabularies = loaded.iter().map(|(.., model)| model.vocab().n_vocab());
    let embedding = servables.embedding_models().into_iter();
    let embedding = embedding.map(|(.., model)| model.engine().vocab().n_vocab());
    let vocabularies = [vocabularies.min(), embedding.min()].map(Option::unwrap_or_default);
    let sees = |name: &&str| caller.as_ref().is_none_or(|caller| caller.sees(name, None));
    let visible = || servables.iter().filter(|servable| sees(&servable.graph()));
    let mut models: Vec<_> = visible()
        .map(|servable| (servable.graph().to_owned(), servable.endpoints()))
        .collect();
    models.dedup_by(|next, kept| next.0 == kept.0);
    let chats = |servable: &&Servable| {
        servable.available_since().is_some() && servable.endpoints().contains(&CHAT)
    };
    let mut reads = vec!["image", "audio"];
    reads.retain(|kind| visible().filter(chats).all(|it| it.reads().contains(kind)));
    let run = visible().find_map(|servable| {
        let plan = servable.plan().ok();
        let plan = plan.filter(|plan| tensors::is_served(plan).is_ok_and(|is_served| is_served))?;
        Some((servable.graph().to_owned(), example::for_run(&plan)?))
    });
    let described = DocumentInputs {
        models,
        run,
        reads,
        vocabularies,
    };
    let document = app.document.get_or_make(&described, || {
        let document = document::document(&super::offered(&app), &described);
        document.to_string().into_bytes()
    });
    ([(header::CONTENT_TYPE, "application/json")], document)
}
