//! Prompts given as vectors: rows of numbers, or Base64 of a file with such rows. They are read
//! directly from the text of the request, because a prompt can have millions of numbers.

use bytes::Bytes;
use graphmill_dialects::bodies::completions::VECTORS;
use graphmill_engine::Result;
use serde_json::value::RawValue;

use super::{
    fields::{conflicting, invalid},
    prompts,
};
use crate::llm::claim_room;
use crate::payload::{JsonBody, PromptVectors, base64};
use crate::tensor::{Datatype, Tensor, numpy, tensor_from_json, torch};

/// Bytes of memory that reading needs for each byte of text.
const BYTES_OF_EACH: usize = 16;

/// Accepted forms, as the end of an error message.
const FORMS: &str = "expected rows of numbers, or Base64 of a NumPy file or of a tensor of floats that `torch.save` has written (contiguous, detached, on the CPU)";

/// Reads the vectors that a body has in place of a prompt; `None` if it has none.
///
/// # Errors
/// The vectors are in two fields, or together with a prompt, or in another form.
pub(super) fn read(body: &JsonBody) -> Result<Option<PromptVectors>> {
    let mut fields = VECTORS.into_iter().filter(|field| body.has(field));
    let Some(field) = fields.next() else {
        return Ok(None);
    };
    let is_empty = |text: &[u8]| text == b"\"\"" || text == b"[]";
    let prompt = body.text("prompt").filter(|text| !is_empty(text));
    if let Some(other) = fields.next().or(prompt.map(|_| "prompt")) {
        return Err(conflicting(field, other));
    }
    let text = unlisted(body.text(field).unwrap_or_default());
    let text = text.map_err(|why| invalid(field, why))?;
    let claim = claim_room(text.len().saturating_mul(BYTES_OF_EACH));
    let _claim = claim.map_err(|error| error.with_field(field))?;
    let tensor = match text {
        [b'"', ..] => read_file(text),
        _ => read_rows(text),
    };
    let tensor = tensor.map_err(|why| invalid(field, format!("{why}: {FORMS}")))?;
    let vectors = PromptVectors::new(field, &tensor).map_err(|why| invalid(field, why))?;
    Ok(Some(vectors))
}

/// Returns the file of a list of one file, and any other value as it is.
fn unlisted(json: &[u8]) -> Result<&[u8], &'static str> {
    if !json.starts_with(b"[") {
        return Ok(json);
    }
    let mut items = prompts::items(json);
    match (items.next(), items.next()) {
        (Some(file @ [b'"', ..]), None) => Ok(file),
        (Some([b'"', ..]), Some(_)) => Err("has several files: send a request for each"),
        _ => Ok(json),
    }
}

fn read_rows(json: &[u8]) -> Result<Tensor, String> {
    let rows = serde_json::from_slice::<&RawValue>(json).map_err(|error| error.to_string());
    let tensor = rows.and_then(|rows| tensor_from_json(Datatype::Fp32, rows));
    tensor.map_err(|why| format!("cannot be read, {why}"))
}

fn read_file(json: &[u8]) -> Result<Tensor, String> {
    let text: String = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    let file = Bytes::from(base64::decode(&text)?);
    if file.starts_with(numpy::MARK) {
        return numpy::read(&file);
    }
    torch::read(&file).ok_or_else(|| "is a file of another kind".to_owned())
}

#[cfg(test)]
mod tests {
    use ::base64::{Engine as _, engine::general_purpose::STANDARD};
    use serde_json::{Value, json};

    use super::*;

    fn vectors(body: &Value) -> Result<Option<PromptVectors>> {
        read(&JsonBody::from_value(body).expect("an object"))
    }

    #[test]
    fn rows_and_files_are_vectors() {
        let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }\n";
        let head = [numpy::MARK, &[1, 0, header.len() as u8, 0]].concat();
        let numbers = [1.0_f32, -2.5, 3.0, 0.0].map(f32::to_le_bytes).concat();
        let file = STANDARD.encode([&head[..], header.as_bytes(), &numbers].concat());
        for (field, value, width) in [
            ("prompt_embeds", json!([[1, -2.5], [3e0, 0]]), Some(2)),
            ("inputs_embeds", json!([[[1, -2.5], [3, 0]]]), Some(2)),
            ("input_embeds", json!([1, -2.5, 3, 0]), None),
            ("prompt_embeds", json!(file), Some(2)),
            ("prompt_embeds", json!([file]), Some(2)),
        ] {
            for prompt in [json!(null), json!(""), json!([])] {
                let read = vectors(&json!({ (field): value, "prompt": prompt }));
                let read = read.expect("vectors").expect("some");
                assert_eq!((read.field(), read.width()), (field, width));
                assert!(read.numbers().iter().eq(&[1.0_f32, -2.5, 3.0, 0.0]));
            }
        }
        let none = vectors(&json!({ "prompt": "a", "prompt_embeds": null }));
        assert_eq!(none.expect("no vectors"), None);
    }

    #[test]
    fn what_is_none_is_refused_by_name() {
        for (body, why) in [
            (
                json!({ "prompt_embeds": [[1]], "prompt": "a" }),
                "`prompt_embeds` cannot be used together with `prompt`",
            ),
            (
                json!({ "inputs_embeds": [[1]], "input_embeds": [[1]] }),
                "`inputs_embeds` cannot be used together with `input_embeds`",
            ),
            (
                json!({ "prompt_embeds": [[1, 2], [3]] }),
                "an array has 1 elements",
            ),
            (json!({ "prompt_embeds": [["a"]] }), "is a string"),
            (json!({ "prompt_embeds": [[1e300]] }), "which is no FP32"),
            (json!({ "prompt_embeds": {} }), "expected rows of numbers"),
            (json!({ "prompt_embeds": 5 }), "expected rows of numbers"),
            (
                json!({ "prompt_embeds": [] }),
                "`prompt_embeds` has no numbers",
            ),
            (json!({ "prompt_embeds": "?" }), "is not Base64"),
            (
                json!({ "prompt_embeds": "aGVsbG8=" }),
                "a file of another kind",
            ),
            (
                json!({ "prompt_embeds": ["aGVsbG8="] }),
                "a file of another kind",
            ),
            (
                json!({ "prompt_embeds": ["aGVsbG8=", "aGVsbG8="] }),
                "has several files",
            ),
        ] {
            let error = vectors(&body).expect_err("it is refused");
            assert!(error.message.contains(why), "{body}: {}", error.message);
            assert!(error.field.is_some_and(|field| field.ends_with("_embeds")));
        }
    }
}
