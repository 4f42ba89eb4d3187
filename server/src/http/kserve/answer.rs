//! The tensors of an answer: in its JSON, or behind it where they are wanted there.

use std::convert::Infallible;

use axum::{
    body::Body,
    http::{HeaderValue, header},
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use graphmill_calculators::tensor::{Datatype, Tensor, data_to_json};
use serde::Serialize;
use serde_json::{Value, json, value::RawValue};

use super::binary::LENGTH_HEADER;
use crate::{
    beside::claim,
    errors::{Cause, Failure},
    http::timings::Timings,
    kserve::{Label, wrong},
};

#[derive(Serialize)]
struct Written<'a> {
    model_name: &'a str,
    model_version: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    outputs: Vec<WrittenOutput<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timings: Option<Timings<'a>>,
}

#[derive(Serialize)]
struct WrittenOutput<'a> {
    name: &'a str,
    datatype: Datatype,
    shape: &'a [usize],
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Box<RawValue>>,
}

/// Writes an answer of tensors, each with its name and whether it is wanted behind the JSON.
pub(super) fn write(
    label: &Label,
    id: Option<&str>,
    tensors: &[(String, Tensor, bool)],
    timings: Option<Timings<'_>>,
) -> Result<Response, Failure> {
    let in_json = tensors.iter().filter(|(.., binary)| !binary);
    let bytes: usize = in_json.map(|(_, tensor, _)| json_bytes(tensor)).sum();
    // A text that grows, and the answer that it is copied into.
    let _claim = claim(3 * bytes as u64)?;
    let mut outputs = Vec::with_capacity(tensors.len());
    for (name, tensor, binary) in tensors {
        let data = (!binary).then(|| data_to_json(tensor)).transpose();
        outputs.push(WrittenOutput {
            name,
            datatype: tensor.datatype(),
            shape: tensor.shape(),
            parameters: binary.then(|| json!({ "binary_data_size": tensor.data().len() })),
            data: data.map_err(|why| wrong(format!("outputs.{name}"), why))?,
        });
    }
    let written = Written {
        model_name: &label.name,
        model_version: &label.version,
        id,
        outputs,
        timings,
    };
    let json = serde_json::to_vec(&written).map_err(|error| {
        let why = format!("the answer cannot be written: {error}");
        Failure::new(Cause::Panic, why)
    })?;
    let behind = tensors.iter().filter(|(.., binary)| *binary);
    let behind: Vec<Bytes> = behind.map(|(_, tensor, _)| tensor.data().clone()).collect();
    if behind.is_empty() {
        return Ok(([(header::CONTENT_TYPE, "application/json")], json).into_response());
    }
    // Tensors go to the wire from where they are. A body of parts does not know how long it is.
    let length = json.len() + behind.iter().map(Bytes::len).sum::<usize>();
    let headers = [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/octet-stream"),
        ),
        (LENGTH_HEADER, HeaderValue::from(json.len())),
        (header::CONTENT_LENGTH, HeaderValue::from(length)),
    ];
    let parts = std::iter::once(Bytes::from(json)).chain(behind);
    let parts = futures_util::stream::iter(parts.map(Ok::<_, Infallible>));
    Ok((headers, Body::from_stream(parts)).into_response())
}

/// Bytes that a tensor takes in JSON at most.
fn json_bytes(tensor: &Tensor) -> usize {
    if tensor.datatype() != Datatype::Bytes {
        // A truth value is one byte, and a word with a comma.
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
