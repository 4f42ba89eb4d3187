//! Conversion of parts of a request to tensors, and of tensors to the body of an answer: text and
//! bytes unchanged, numbers as arrays in JSON, several outputs as an object by name.

use std::borrow::Cow;

use bytes::Bytes;
use graphmill_calculators::{
    payload::without_mark,
    tensor::{Datatype, Tensor, data_to_json, tensor_from_json},
};
use serde_json::{Value, value::RawValue};

use super::{PartKind, RequestPart};
use crate::{errors::Result, kserve::wrong, run::Tensors, tensors::Port};

/// Creates the tensor of an input.
///
/// JSON contains elements of the declared datatype, and so does text if the graph declares numbers.
/// Any other part is the data of the declared numbers, or a single element of type BYTES.
pub(crate) fn read(input: &Port, part: &RequestPart) -> Result<Tensor> {
    let (is_json, is_text) = (part.kind == PartKind::Json, part.kind == PartKind::Text);
    let is_element = matches!(input.datatype, None | Some(Datatype::Bytes));
    let tensor = match input.datatype {
        None if is_json => {
            let name = &input.name;
            let why = format_args!(
                "the graph does not declare what the elements of `{name}` are (TensorOptions), which JSON does not say"
            );
            return Err(part.wrong(why));
        }
        Some(datatype) if is_json || (is_text && !is_element) => {
            read_json(input, datatype, is_json, &part.bytes)
        }
        None | Some(Datatype::Bytes) => Ok(Tensor::from_strings([&part.bytes])),
        Some(datatype) => read_bytes(input, datatype, part.bytes.clone()),
    };
    tensor.map_err(|why| part.wrong(why))
}

/// Reads elements in JSON: nested arrays, or a single element. `is_json` is false for a part of
/// plain text.
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
    let raw: &RawValue = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    tensor_from_json(datatype, raw)
}

/// Reads elements in binary form, in the declared shape. The length of one dimension can be open.
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

/// Returns the media type and the bytes of an answer.
pub(super) fn write(tensors: &Tensors) -> Result<(&'static str, Bytes)> {
    if let [(_, tensor)] = &tensors[..]
        && let Some(element) = only_element(tensor)
    {
        let media_type = match str::from_utf8(element) {
            Ok(_) => TEXT,
            Err(_) => "application/octet-stream",
        };
        return Ok((media_type, Bytes::copy_from_slice(element)));
    }
    let mut members = Vec::with_capacity(tensors.len());
    for (name, tensor) in tensors {
        let json = json(tensor).map_err(|why| wrong(format!("outputs.{name}"), why))?;
        if tensors.len() == 1 {
            return Ok((JSON, json.into()));
        }
        members.push(format!("{}:{json}", Value::from(name.as_str())));
    }
    Ok((JSON, format!("{{{}}}", members.join(",")).into()))
}

/// Media type of an answer that is a text.
pub(super) const TEXT: &str = "text/plain; charset=utf-8";

const JSON: &str = "application/json";

/// Returns the element of a BYTES tensor that has exactly one.
pub(super) fn only_element(tensor: &Tensor) -> Option<&[u8]> {
    let is_one = tensor.datatype() == Datatype::Bytes && tensor.elements() == 1;
    tensor.strings().next().filter(|_| is_one)
}

/// Returns the elements as nested arrays, in the shape of the tensor.
pub(crate) fn json(tensor: &Tensor) -> Result<String, String> {
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
    use crate::tensors::ImageFormat;

    fn port(datatype: Datatype, shape: &[i64]) -> Port {
        Port {
            stream: "x".to_owned(),
            name: "x".to_owned(),
            datatype: Some(datatype),
            shape: shape.to_vec(),
            format: ImageFormat::None,
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
        let texts = Tensor::from_strings(["a", "b\""]);
        assert_eq!(json(&texts).as_deref(), Ok(r#"["a","b\""]"#));
    }
}
