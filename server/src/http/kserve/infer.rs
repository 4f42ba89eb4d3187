//! `POST /v2/models/{name}/infer`: one run of a graph.

use axum::{extract::Request, response::Response};
use bytes::Bytes;
use graphmill_engine::{Timestamp, shortened};

use super::{
    answer,
    asker::Asker,
    binary,
    request::{InferRequest, Wanted},
};
use crate::{
    http::state::App,
    kserve::{self, Label, Settings},
    rescue::{Cause, Failure},
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
    let asker = Asker::of(&parts.extensions, &parts.headers)?;
    let body = app.read_body(&parts.headers, body).await?;
    asker.find(app, name, version)?;
    let json = binary::json_length(&parts.headers)?;
    let request = read(body, json).await?;
    if request.graph.as_ref().is_some_and(|graph| graph != name) {
        let why = format!("the path names the graph `{}`", shortened(name, 100));
        return Err(kserve::wrong("model_name".to_owned(), why));
    }
    let version = match request.version.as_deref() {
        Some(inside) if version.is_empty() => inside,
        _ => version,
    };
    let binary = request.is_binary();
    let ready = asker.available(app, name, version).await?;
    let label = Label::of(&ready.servable);
    check_outputs(&request.outputs, ready.plan().graph_outputs())?;
    let settings = Settings::read(request.parameters, ready.plan())?;
    let time = settings.time.unwrap_or(Timestamp::ZERO);
    let mut inference = asker.open(app, ready, settings, false)?;
    let packets = kserve::packets(inference.plan(), request.inputs, true)?;
    // Before the answer's end is sent: the next request may follow at once.
    let _settlement = asker.settlement();
    let mut feeder = inference.feeder();
    feeder.push(packets, time).await?;
    feeder.close();
    let tensors = inference.collect().await?;
    let tensors = answer::choose(tensors, &request.outputs, binary)?;
    answer::write(&label, request.id.as_deref(), &tensors)
}

async fn read(body: Bytes, json: Option<usize>) -> Result<InferRequest, Failure> {
    if json.unwrap_or(body.len()) <= INLINE_BYTES {
        return InferRequest::read(&body, json);
    }
    let reading = tokio::task::spawn_blocking(move || InferRequest::read(&body, json));
    reading
        .await
        .map_err(|_| Failure::new(Cause::Panic, "the body could not be read"))?
}

/// Refuses outputs that the graph does not have.
fn check_outputs<'a>(
    wanted: &[Wanted],
    outputs: impl Iterator<Item = &'a str>,
) -> Result<(), Failure> {
    let names: Vec<&str> = outputs.collect();
    for (position, output) in wanted.iter().enumerate() {
        if !names.contains(&output.name.as_str()) {
            let why = format!(
                "the graph has no output `{}`; there are `{}`",
                shortened(&output.name, 100),
                names.join("`, `")
            );
            return Err(kserve::wrong(format!("outputs[{position}].name"), why));
        }
    }
    Ok(())
}
