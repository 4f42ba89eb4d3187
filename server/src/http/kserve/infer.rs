//! `POST /v2/models/{name}/infer`: one run of a graph.

use axum::{
    extract::Request,
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use graphmill_engine::shortened;

use super::{answer, binary, request::InferRequest};
use crate::{
    app::state::App,
    bodies::Share,
    errors::Failure,
    http::timings::{self, SERVER_TIMING, Timings},
    kserve::{self, RunRequest},
    run::RequestContext,
};

/// Longer bodies are read off the threads that serve requests: to read this many bytes of JSON
/// takes less than a few milliseconds.
const INLINE_BYTES: usize = 256 << 10;

/// Runs a graph and answers with its tensors.
pub(super) async fn infer(
    app: &App,
    name: &str,
    version: &str,
    request: Request,
) -> Result<Response, Failure> {
    let (parts, body) = request.into_parts();
    let who = RequestContext::read(&app.runner, &parts.extensions, &parts.headers)?;
    let share = app.bodies.share(&parts.extensions);
    let body = app.read_share(&share, &parts, body).await?;
    kserve::find(&who, name, version)?;
    let json = binary::json_length(&parts.headers)?;
    let request = read(body, json, &share).await?;
    if request.graph.as_ref().is_some_and(|graph| graph != name) {
        let why = format!("the path names the graph `{}`", shortened(name, 100));
        return Err(kserve::wrong("model_name".to_owned(), why));
    }
    let version = match request.version.as_deref() {
        Some(inside) if version.is_empty() => inside,
        _ => version,
    };
    let binary = request.is_binary();
    let (outputs, wanted): (Vec<_>, Vec<_>) = request.outputs.into_iter().unzip();
    let asked = RunRequest {
        graph: name.to_owned(),
        version: version.to_owned(),
        parameters: request.parameters,
        inputs: request.inputs,
        outputs,
    };
    let outcome = kserve::run(&app.sequences, &who, asked).await?;
    share.is_read();
    // Those that are wanted are in the order of the request.
    let wanted = wanted.into_iter().chain(std::iter::repeat(None));
    let tensors = outcome.tensors.into_iter().zip(wanted);
    let tensors = tensors.map(|((name, tensor), wanted)| (name, tensor, wanted.unwrap_or(binary)));
    let tensors: Vec<_> = tensors.collect();
    let timings =
        timings::are_asked(&parts.uri).then(|| Timings::new(&who.entry, outcome.summary.as_ref()));
    let id = request.id.as_deref();
    let response = answer::write(&outcome.label, id, &tensors, timings)?;
    Ok(([(SERVER_TIMING, who.entry.server_timing())], response).into_response())
}

async fn read(body: Bytes, json: Option<usize>, share: &Share) -> Result<InferRequest, Failure> {
    if json.unwrap_or(body.len()) <= INLINE_BYTES {
        return InferRequest::read(&body, json);
    }
    let read = move || InferRequest::read(&body, json);
    share.beside(read, "the body could not be read").await?
}
