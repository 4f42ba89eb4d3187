//! `POST /predictions/{name}`: the body is the graph's one input, and what the graph gives is the
//! body of the answer.

use std::sync::Arc;

use axum::{
    extract::{Path, Request, State},
    http::{HeaderName, header},
    response::{IntoResponse as _, Response},
};

use super::{input, named, output};
use crate::{
    app::state::App,
    errors::Failure,
    http::timings::SERVER_TIMING,
    kserve::{self, RunRequest},
    run::{RequestContext, takes_tensors},
};

/// What TorchServe says of every answer: it is not to be kept.
const NOT_KEPT: [(HeaderName, &str); 3] = [
    (header::PRAGMA, "no-cache"),
    (
        header::CACHE_CONTROL,
        "no-cache; no-store, must-revalidate, private",
    ),
    (header::EXPIRES, "Thu, 01 Jan 1970 00:00:00 UTC"),
];

pub(super) async fn predict(
    State(app): State<Arc<App>>,
    Path(path): Path<String>,
    request: Request,
) -> Result<Response, Failure> {
    let (parts, body) = request.into_parts();
    let who = RequestContext::read(&app.runner, &parts.extensions, &parts.headers)?;
    let share = app.bodies.share(&parts.extensions);
    let body = app.read_share(&share, &parts, body).await?;
    let (name, version) = named(&path, |name| who.find(name).is_ok());
    let ready = kserve::available(&who, name, version).await?;
    takes_tensors(ready.plan(), name)?;
    let content_type = parts.headers.get(header::CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok());
    let content_type = content_type.unwrap_or_default().to_owned();
    let read = move || input::read(ready.plan(), &content_type, body);
    let input = share.beside(read, "the body could not be read").await??;
    let asked = RunRequest {
        graph: name.to_owned(),
        version: version.to_owned(),
        parameters: Vec::new(),
        inputs: vec![input],
        outputs: Vec::new(),
    };
    let outcome = kserve::run(&app.sequences, &who, asked).await?;
    share.is_read();
    let response = output::write(&outcome.tensors)?;
    let timing = [(SERVER_TIMING, who.entry.server_timing())];
    Ok((NOT_KEPT, timing, response).into_response())
}
