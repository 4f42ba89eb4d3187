//! Tensors as the body of a prediction's answer: text and bytes as they are, numbers as arrays in
//! JSON, several outputs as an object by name.

use std::borrow::Cow;

use axum::{
    http::header,
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use graphmill_calculators::tensor::{Datatype, Tensor, data_to_json};
use serde_json::{Value, value::RawValue};

use crate::{errors::Failure, kserve::wrong, run::Tensors};

/// Writes an answer.
pub(super) fn write(tensors: &Tensors) -> Result<Response, Failure> {
    if let [(_, tensor)] = &tensors[..]
        && let Some(element) = only_element(tensor)
    {
        let media_type = match std::str::from_utf8(element) {
            Ok(_) => "text/plain; charset=utf-8",
            Err(_) => "application/octet-stream",
        };
        return Ok(answer(media_type, Bytes::copy_from_slice(element)));
    }
    let mut written = Vec::with_capacity(tensors.len());
    for (name, tensor) in tensors {
        let json = json(tensor).map_err(|why| wrong(format!("outputs.{name}"), why))?;
        written.push((name, json));
    }
    let body = match &written[..] {
        [(_, json)] => json.clone(),
        many => {
            let members = many.iter();
            let members =
                members.map(|(name, json)| format!("{}:{json}", Value::from(name.as_str())));
            let members: Vec<String> = members.collect();
            format!("{{{}}}", members.join(","))
        }
    };
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
