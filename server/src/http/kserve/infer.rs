//! `POST /v2/models/{name}/infer`: runs a graph once. The tensors of the answer are in the JSON, or
//! in binary form after it if the client wants that.

use std::{convert::Infallible, sync::Arc};

use axum::{
    body::Body,
    extract::{FromRequest as _, Request},
    http::{HeaderValue, header},
    response::IntoResponse as _,
};
use bytes::Bytes;
use graphmill_calculators::tensor::{Datatype, Tensor, data_to_json};
use serde::Serialize;
use serde_json::{Value, json, value::RawValue};

use super::request::{InferRequest, LENGTH, json_length};
use crate::{
    app::state::App,
    beside::claim,
    errors::{Cause, Failure},
    http::{
        HttpResult,
        request::RequestBody,
        timings::{self, SERVER_TIMING, Timings},
    },
    kserve::{self, BINARY_OUTPUT, Label, wrong},
    run::RequestContext,
};

/// Size above which a body is read outside of the threads that serve requests. Reading this many
/// bytes of JSON takes at most a few milliseconds.
const INLINE_BYTES: usize = 256 << 10;

/// Runs a graph and returns its output tensors.
pub(super) async fn infer(
    app: &Arc<App>,
    name: &str,
    version: &str,
    request: Request,
) -> HttpResult {
    let who = RequestContext::read(&app.runner, request.extensions(), request.headers())?;
    let with_timings = timings::are_asked(request.uri());
    let json = json_length(request.headers());
    let RequestBody { bytes, share } = RequestBody::from_request(request, app).await?;
    kserve::find(&who, name, version)?;
    let json = json?;
    let is_short = json.unwrap_or(bytes.len()) <= INLINE_BYTES;
    let path = (name.to_owned(), version.to_owned());
    let read = move || InferRequest::read(path, &bytes, json);
    let request = if is_short {
        read()?
    } else {
        share.beside(read, "the body could not be read").await??
    };
    let binary = kserve::is_set(&request.run.parameters, BINARY_OUTPUT);
    let outcome = kserve::run(&app.sequences, &who, request.run).await?;
    share.is_read();
    // Outputs that the request names are in its order.
    let wanted = request.behind.into_iter().chain(std::iter::repeat(None));
    let tensors = outcome.tensors.into_iter().zip(wanted);
    let tensors = tensors.map(|((name, tensor), wanted)| (name, tensor, wanted.unwrap_or(binary)));
    let tensors: Vec<_> = tensors.collect();
    let timings = with_timings.then(|| Timings::new(&who.entry, outcome.summary.as_ref()));
    let response = write(&outcome.label, request.id.as_deref(), &tensors, timings)?;
    Ok(([(SERVER_TIMING, who.entry.server_timing())], response).into_response())
}

#[derive(Serialize)]
struct InferBody<'a> {
    model_name: &'a str,
    model_version: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    outputs: Vec<Output<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timings: Option<Timings>,
}

#[derive(Serialize)]
struct Output<'a> {
    name: &'a str,
    datatype: Datatype,
    shape: &'a [usize],
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Box<RawValue>>,
}

/// Writes an answer. Each tensor has its name, and true if it is sent in binary form.
fn write(
    label: &Label,
    id: Option<&str>,
    tensors: &[(String, Tensor, bool)],
    timings: Option<Timings>,
) -> HttpResult {
    let in_json = tensors.iter().filter(|(.., binary)| !binary);
    let bytes: usize = in_json.map(|(_, tensor, _)| json_bytes(tensor)).sum();
    // A growing string, and the answer that it is copied into.
    let _claim = claim(3 * bytes as u64)?;
    let mut outputs = Vec::with_capacity(tensors.len());
    for (name, tensor, binary) in tensors {
        let data = (!binary).then(|| data_to_json(tensor)).transpose();
        outputs.push(Output {
            name,
            datatype: tensor.datatype(),
            shape: tensor.shape(),
            parameters: binary.then(|| json!({ "binary_data_size": tensor.data().len() })),
            data: data.map_err(|why| wrong(format!("outputs.{name}"), why))?,
        });
    }
    let answer = InferBody {
        model_name: &label.name,
        model_version: &label.version,
        id,
        outputs,
        timings,
    };
    let json = serde_json::to_vec(&answer).map_err(|error| {
        let why = format!("the answer cannot be written: {error}");
        Failure::new(Cause::Panic, why)
    })?;
    let behind = tensors.iter().filter(|(.., binary)| *binary);
    let behind: Vec<Bytes> = behind.map(|(_, tensor, _)| tensor.data().clone()).collect();
    if behind.is_empty() {
        return Ok(([(header::CONTENT_TYPE, "application/json")], json).into_response());
    }
    // Tensors are sent without a copy. A body of parts does not know its length.
    let length = json.len() + behind.iter().map(Bytes::len).sum::<usize>();
    let content_type = HeaderValue::from_static("application/octet-stream");
    let headers = [
        (header::CONTENT_TYPE, content_type),
        (LENGTH, HeaderValue::from(json.len())),
        (header::CONTENT_LENGTH, HeaderValue::from(length)),
    ];
    let parts = std::iter::once(Bytes::from(json)).chain(behind);
    let parts = futures_util::stream::iter(parts.map(Ok::<_, Infallible>));
    Ok((headers, Body::from_stream(parts)).into_response())
}

/// Returns the maximum size of a tensor in JSON, in bytes.
fn json_bytes(tensor: &Tensor) -> usize {
    if tensor.datatype() != Datatype::Bytes {
        // A boolean is one byte, but a word and a comma in JSON.
        return tensor.data().len() * 6;
    }
    let escaped = |byte: &u8| match byte {
        ..0x20 => 6,
        b'"' | b'\\' => 2,
        _ => 1,
    };
    let text = |string: &[u8]| string.iter().map(escaped).sum::<usize>() + 3;
    tensor.strings().map(text).sum()
}
