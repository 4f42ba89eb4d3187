//! `POST /predictions/{name}`: the body is the graph's one input, and what the graph gives is the
//! body of the answer: text and bytes as they are, numbers as arrays in JSON, several outputs as an
//! object by name.

use std::{borrow::Cow, sync::Arc};

use axum::{
    extract::{Path, State},
    http::{HeaderMap, HeaderName, header},
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use graphmill_calculators::{
    payload::without_mark,
    tensor::{Datatype, Tensor, data_from_json, data_to_json},
};
use graphmill_engine::Plan;
use serde_json::{Value, value::RawValue};

use super::named;
use crate::{
    app::state::App,
    errors::{Cause, Failure},
    http::{request::RequestBody, timings::SERVER_TIMING},
    kserve::{self, Parameters, RunRequest, wrong},
    run::{RequestContext, Tensors},
    tensors::{self, Port},
};

/// The name of the body in errors.
const BODY: &str = "body";

/// Maximum number of dimensions of an input: each is an array around others.
const MAX_DIMENSIONS: usize = 16;

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
    who: RequestContext,
    Path(path): Path<String>,
    headers: HeaderMap,
    RequestBody { bytes, share }: RequestBody,
) -> Result<Response, Failure> {
    let (name, version) = named(&who, &path);
    let ready = kserve::available(&who, name, version).await?;
    let content_type = headers.get(header::CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok());
    let content_type = content_type.unwrap_or_default().to_owned();
    let read_input = move || read(ready.plan(), &content_type, bytes);
    let input = share
        .beside(read_input, "the body could not be read")
        .await??;
    let asked = RunRequest {
        graph: name.to_owned(),
        version: version.to_owned(),
        parameters: Parameters::new(),
        inputs: vec![input],
        outputs: Vec::new(),
    };
    let outcome = kserve::run(&app.sequences, &who, asked).await?;
    share.is_read();
    let response = write(&outcome.tensors)?;
    let timing = [(SERVER_TIMING, who.entry.server_timing())];
    Ok((NOT_KEPT, timing, response).into_response())
}

/// The name of the input, and the tensor.
///
/// Text is the text. JSON is the elements of what the graph declares. Anything else is the bytes of
/// it, or one element of BYTES.
fn read(plan: &Plan, content_type: &str, body: Bytes) -> Result<(String, Tensor), Failure> {
    let mut inputs = tensors::inputs(plan).into_iter();
    let (Some(port), None) = (inputs.next(), inputs.next()) else {
        let why = "the graph has several inputs: POST /v2/models/{name}/infer takes them by name";
        return Err(Failure::new(Cause::BadRequest, why));
    };
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    let media_type = media_type.to_ascii_lowercase();
    let is_json = media_type == "application/json" || media_type.ends_with("+json");
    let is_text = media_type.starts_with("text/");
    if media_type.starts_with("multipart/") || media_type == "application/x-www-form-urlencoded" {
        let why = format_args!(
            "forms (`{media_type}`) are not read: send the data itself as the body, and a text as `text/plain` or as a JSON string"
        );
        return Err(wrong("content-type", why));
    }
    let is_element = matches!(port.datatype, None | Some(Datatype::Bytes));
    let tensor = match port.datatype {
        None if is_json => {
            let name = &port.name;
            let why = format_args!(
                "the graph does not declare what the elements of `{name}` are (TensorOptions), which JSON does not say"
            );
            return Err(wrong(BODY, why));
        }
        Some(datatype) if is_json || (is_text && !is_element) => {
            read_json(&port, datatype, is_json, &body)
        }
        None | Some(Datatype::Bytes) => Ok(Tensor::of_strings([&body])),
        Some(datatype) => read_bytes(&port, datatype, body),
    };
    let tensor = tensor.map_err(|why| wrong(BODY, why))?;
    Ok((port.name, tensor))
}

/// Elements that are written as JSON: arrays in each other, or one by itself. A text that is not
/// called JSON may be any.
fn read_json(
    port: &Port,
    datatype: Datatype,
    is_json: bool,
    body: &[u8],
) -> Result<Tensor, String> {
    let json: Result<&RawValue, _> = serde_json::from_slice(without_mark(body));
    let json = match json {
        Ok(json) => json.get(),
        Err(error) if is_json => return Err(format!("it is no JSON: {error}")),
        Err(_) => return Err(format!("it is no {datatype}")),
    };
    let text = if json.starts_with('[') {
        json.to_owned()
    } else if datatype == Datatype::Bytes && !json.starts_with('"') {
        let name = &port.name;
        return Err(format!(
            "the input `{name}` is a text: expected a JSON string, or the text itself as `text/plain`"
        ));
    } else {
        format!("[{json}]")
    };
    let mut shape = Vec::new();
    let mut inside = text.as_str();
    while inside.starts_with('[') && shape.len() < MAX_DIMENSIONS {
        let items: Vec<&RawValue> = serde_json::from_str(inside).map_err(|it| it.to_string())?;
        shape.push(items.len());
        inside = items.first().map_or("", |first| first.get());
    }
    let raw: &RawValue = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let data = data_from_json(datatype, &shape, raw)?;
    Tensor::new(datatype, shape, data).map_err(|error| error.to_string())
}

/// Elements as they are in memory, in the declared shape, of which one length may be open.
fn read_bytes(port: &Port, datatype: Datatype, body: Bytes) -> Result<Tensor, String> {
    let size = datatype.size().unwrap_or(1);
    let mut known = port.shape.iter().filter(|length| **length >= 0);
    let known = known.try_fold(size, |all, length| {
        all.checked_mul(usize::try_from(*length).ok()?)
    });
    let known = known.ok_or("the declared shape has more elements than can be counted")?;
    if port.shape.iter().filter(|length| **length < 0).count() > 1 {
        return Err("more than one length of the declared shape is open: send JSON".to_owned());
    }
    let open = body.len().checked_div(known).unwrap_or(0);
    let shape = port.shape.iter();
    let shape = shape.map(|length| usize::try_from(*length).unwrap_or(open));
    let shape: Vec<usize> = shape.collect();
    Tensor::new(datatype, shape, body).map_err(|error| error.to_string())
}

/// Writes an answer.
fn write(tensors: &Tensors) -> Result<Response, Failure> {
    if let [(_, tensor)] = &tensors[..]
        && let Some(element) = only_element(tensor)
    {
        let media_type = match std::str::from_utf8(element) {
            Ok(_) => "text/plain; charset=utf-8",
            Err(_) => "application/octet-stream",
        };
        return Ok(answer(media_type, Bytes::copy_from_slice(element)));
    }
    let mut members = Vec::with_capacity(tensors.len());
    for (name, tensor) in tensors {
        let json = json(tensor).map_err(|why| wrong(format!("outputs.{name}"), why))?;
        if tensors.len() == 1 {
            return Ok(answer("application/json", json.into()));
        }
        members.push(format!("{}:{json}", Value::from(name.as_str())));
    }
    let body = format!("{{{}}}", members.join(","));
    Ok(answer("application/json", body.into()))
}

fn answer(media_type: &'static str, body: Bytes) -> Response {
    ([(header::CONTENT_TYPE, media_type)], body).into_response()
}

/// The element of a BYTES tensor that has one.
fn only_element(tensor: &Tensor) -> Option<&[u8]> {
    let is_one = tensor.datatype() == Datatype::Bytes && tensor.elements() == 1;
    tensor.strings().next().filter(|_| is_one)
}

/// The elements in arrays, as the shape says.
fn json(tensor: &Tensor) -> Result<String, String> {
    let flat = data_to_json(tensor)?;
    let elements: Vec<&RawValue> =
        serde_json::from_str(flat.get()).map_err(|error| error.to_string())?;
    let elements = elements.iter().map(|it| Cow::Borrowed(it.get()));
    let mut level: Vec<Cow<'_, str>> = elements.collect();
    // From the inside out: the outermost array is the last.
    for length in tensor.shape().iter().skip(1).rev() {
        let arrays = level.chunks((*length).max(1));
        level = arrays
            .map(|items| Cow::Owned(format!("[{}]", items.join(","))))
            .collect();
    }
    Ok(format!("[{}]", level.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(datatype: Datatype, shape: &[i64]) -> Port {
        Port {
            stream: "x".to_owned(),
            name: "x".to_owned(),
            datatype: Some(datatype),
            shape: shape.to_vec(),
        }
    }

    #[test]
    fn json_says_its_shape() {
        let port = port(Datatype::Fp32, &[-1, 2]);
        let read = |json: &str| read_json(&port, Datatype::Fp32, true, json.as_bytes());
        let tensor = read("[[1, 2], [3, 4], [5, 6]]").expect("a tensor");
        assert_eq!(tensor.shape(), [3, 2]);
        assert_eq!(read("[]").expect("a tensor").shape(), [0]);
        assert_eq!(read("7").expect("a tensor").shape(), [1]);
        for wrong in [
            "[[1, 2], [3]]",
            "[[1], 2]",
            "{",
            "{}",
            "[\"a\"]",
            &"[".repeat(40),
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn bytes_fill_the_declared_shape() {
        let read = |shape: &[i64], bytes: usize| {
            read_bytes(
                &port(Datatype::Fp32, shape),
                Datatype::Fp32,
                vec![0; bytes].into(),
            )
        };
        assert_eq!(read(&[-1, 2], 24).expect("a tensor").shape(), [3, 2]);
        assert_eq!(read(&[2], 8).expect("a tensor").shape(), [2]);
        for (shape, bytes) in [
            (&[-1, 2][..], 23),
            (&[2], 9),
            (&[-1, -1], 16),
            (&[-1, 0], 4),
            (&[i64::MAX, i64::MAX], 4),
        ] {
            assert!(read(shape, bytes).is_err(), "{shape:?}");
        }
    }

    #[test]
    fn arrays_are_those_of_the_shape() {
        let tensor = |shape: &[usize]| {
            let bytes: usize = shape.iter().product();
            Tensor::new(Datatype::Uint8, shape, vec![7; bytes]).expect("a tensor")
        };
        for (shape, written) in [
            (&[3][..], "[7,7,7]"),
            (&[2, 2], "[[7,7],[7,7]]"),
            (&[1, 2, 1], "[[[7],[7]]]"),
            (&[0, 2], "[]"),
            (&[], "[7]"),
        ] {
            assert_eq!(json(&tensor(shape)).as_deref(), Ok(written));
        }
        let texts = Tensor::of_strings(["a", "b\""]);
        assert_eq!(json(&texts).as_deref(), Ok(r#"["a","b\""]"#));
    }
}
