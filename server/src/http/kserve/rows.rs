//! Version 1 of KServe's protocol, which is TensorFlow Serving's: `POST /v1/models/{name}:predict`
//! runs a graph of tensors with rows (`instances`), and returns rows.

use std::{borrow::Cow, collections::BTreeMap};

use axum::{
    extract::{Path, State},
    http::header,
    response::IntoResponse as _,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use graphmill_calculators::{
    payload::JsonBody,
    tensor::{Datatype, Tensor},
};
use graphmill_engine::shortened;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use crate::{
    errors::{Cause, Failure, Result},
    http::{AppState, HttpResult, request::RequestBody, timings::SERVER_TIMING},
    kserve::{self, ParameterMap, RunRequest, SHOWN_BYTES, wrong},
    run::{RequestContext, Tensors},
    tensors::{self, Port},
    torchserve::{self, PartKind, RequestPart, fields},
};

/// Suffix of the path, after the name of a graph.
pub(super) const VERB: &str = ":predict";

/// Field with the rows, each with an element of every input.
const INSTANCES: &str = "instances";

/// Field of TensorFlow Serving's clients, and its only allowed value.
const SIGNATURE: (&str, &str) = ("signature_name", r#""serving_default""#);

pub(super) async fn predict(
    State(app): AppState,
    who: RequestContext,
    Path(path): Path<String>,
    RequestBody { bytes, share }: RequestBody,
) -> HttpResult {
    let path = path.strip_suffix(VERB).ok_or_else(|| {
        let why = format!("expected `POST /v1/models/<name>{VERB}`, which runs a graph of tensors");
        Failure::new(Cause::WrongMethod, why)
    })?;
    let (name, version) = path.rsplit_once("/versions/").unwrap_or((path, ""));
    let ready = kserve::available(&who, name, version).await?;
    let ports = tensors::inputs(ready.plan());
    let read = move || read(&ports, &bytes);
    let (inputs, rows) = share.beside(read, "the body could not be read").await??;
    let request = RunRequest {
        graph: name.to_owned(),
        version: version.to_owned(),
        parameters: ParameterMap::new(),
        inputs,
        outputs: Vec::new(),
    };
    let outcome = kserve::run(&app.sequences, &who, request).await?;
    share.is_read();
    let timing = [(SERVER_TIMING, who.entry.server_timing())];
    let content_type = [(header::CONTENT_TYPE, "application/json")];
    let body = write(&outcome.tensors, rows)?;
    Ok((timing, content_type, body).into_response())
}

/// Reads the inputs of a graph, and the number of rows.
fn read(ports: &[Port], body: &Bytes) -> Result<(Tensors, usize)> {
    let mut sent = fields(&JsonBody::scan(body.clone())?, body);
    sent.retain(|part| part.name != SIGNATURE.0 || part.bytes != SIGNATURE.1);
    let other = sent.iter().find(|part| part.name != INSTANCES);
    let given = match (sent.first(), other) {
        (Some(given), None) => given,
        (_, Some(other)) => {
            return Err(other.wrong("expected only `instances`, the rows of the inputs"));
        }
        (None, None) => {
            let why = "expected an array, the rows of the inputs";
            return Err(wrong(INSTANCES, why));
        }
    };
    let rows: Result<Vec<&RawValue>, _> = serde_json::from_slice(&given.bytes);
    let rows = rows.map_err(|_| given.wrong("expected an array"))?;
    let mut columns = vec![Vec::with_capacity(rows.len()); ports.len()];
    for (index, row) in rows.iter().enumerate() {
        let each = columns.iter_mut().zip(by_input(ports, row, index)?);
        each.for_each(|(column, value)| column.push(value));
    }
    let inputs = ports.iter().zip(&columns);
    let inputs = inputs.map(|(port, column)| Ok((port.name.clone(), tensor(port, column)?)));
    Ok((inputs.collect::<Result<_>>()?, rows.len()))
}

/// Returns the element of each input in a row. An object has them by name; any other value belongs
/// to the only input.
fn by_input<'a>(ports: &[Port], row: &'a RawValue, index: usize) -> Result<Vec<&'a str>> {
    let text = row.get();
    if ports.len() == 1 && (!text.starts_with('{') || serde_json::from_str::<Base64>(text).is_ok())
    {
        return Ok(vec![text]);
    }
    let wrong = |why: &str| wrong(format!("{INSTANCES}[{index}]"), why);
    let named: Result<BTreeMap<Cow<'_, str>, &RawValue>, _> = serde_json::from_str(text);
    let mut named = named.map_err(|_| wrong("expected an object with each input by its name"))?;
    let take = |port: &Port| {
        let found = named.remove(&*port.name).map(RawValue::get);
        found.ok_or_else(|| wrong(&format!("the input `{}` is missing", port.name)))
    };
    let found = ports.iter().map(take).collect::<Result<_, _>>()?;
    named.keys().next().map_or(Ok(found), |name| {
        let name = shortened(name, SHOWN_BYTES);
        Err(wrong(&format!("the graph has no input `{name}`")))
    })
}

/// Binary data in Base64, as an object with the field `b64`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Base64 {
    b64: String,
}

/// An element of type BYTES.
#[derive(Deserialize)]
#[serde(untagged)]
enum Element {
    Text(String),
    Bytes(Base64),
}

/// Creates the tensor of an input.
fn tensor(port: &Port, column: &[&str]) -> Result<Tensor> {
    let list = format!("[{}]", column.join(","));
    if port.datatype == Some(Datatype::Bytes)
        && let Ok(elements) = serde_json::from_str::<Vec<Element>>(&list)
    {
        let bytes = elements.into_iter().map(|element| match element {
            Element::Text(text) => Ok(text.into_bytes()),
            Element::Bytes(Base64 { b64 }) => STANDARD.decode(b64),
        });
        let bytes: Result<Vec<_>, _> = bytes.collect();
        let why = |error| wrong(&*port.name, format_args!("`b64` is not Base64: {error}"));
        return Ok(Tensor::from_strings(bytes.map_err(why)?));
    }
    let (name, kind, bytes) = (port.name.clone(), PartKind::Json, list.into());
    torchserve::read_tensor(port, &RequestPart { name, kind, bytes })
}

/// Writes the outputs as rows. A single output has no name.
fn write(tensors: &Tensors, rows: usize) -> Result<String> {
    let mut outputs = Vec::with_capacity(tensors.len());
    for (name, tensor) in tensors {
        let wrong = |why| wrong(format!("outputs.{name}"), why);
        if tensor.shape().first() != Some(&rows) {
            let why = format!("it does not have one row for each of `{INSTANCES}`: use `/v2`");
            return Err(wrong(why));
        }
        outputs.push((&**name, torchserve::write_tensor(tensor).map_err(wrong)?));
    }
    if let [(_, only)] = &outputs[..] {
        return Ok(format!(r#"{{"predictions":{only}}}"#));
    }
    let columns = outputs.iter().map(|(_, json)| serde_json::from_str(json));
    let columns: Result<Vec<Vec<&RawValue>>, _> = columns.collect();
    let columns = columns.map_err(|error| wrong("outputs", error))?;
    let row = |row: usize| {
        let members = outputs.iter().zip(&columns).map(|((name, _), column)| {
            let name = Value::from(*name);
            format!("{name}:{}", column[row].get())
        });
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    };
    let rows: Vec<String> = (0..rows).map(row).collect();
    Ok(format!(r#"{{"predictions":[{}]}}"#, rows.join(",")))
}
