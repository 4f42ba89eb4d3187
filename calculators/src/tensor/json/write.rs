//! Writing of a tensor's elements to JSON.

use std::fmt::Write as _;

use serde_json::{Value, value::RawValue};

use super::no_json;
use crate::tensor::{Datatype, Tensor};

/// Writes the elements of a tensor as one array. The error says why they have no JSON form.
pub fn data_to_json(tensor: &Tensor) -> Result<Box<RawValue>, String> {
    let data = tensor.data();
    let mut text = String::with_capacity(data.len() * 2 + 2);
    text.push('[');
    let mut first = true;
    let mut comma = |text: &mut String| {
        if !std::mem::take(&mut first) {
            text.push(',');
        }
    };
    macro_rules! integers {
        ($type:ty) => {
            for bytes in data.as_chunks().0 {
                comma(&mut text);
                // Writing to a string cannot fail.
                let _ = write!(text, "{}", <$type>::from_le_bytes(*bytes));
            }
        };
    }
    macro_rules! floats {
        ($type:ty) => {
            for bytes in data.as_chunks().0 {
                let value = <$type>::from_le_bytes(*bytes);
                if !value.is_finite() {
                    return Err(format!("{value} has no form in JSON: ask for binary data"));
                }
                comma(&mut text);
                // `{:?}` keeps the decimal point of a whole number.
                let _ = write!(text, "{value:?}");
            }
        };
    }
    match tensor.datatype() {
        Datatype::Bool => {
            for byte in data {
                comma(&mut text);
                text.push_str(if *byte == 0 { "false" } else { "true" });
            }
        }
        Datatype::Uint8 => integers!(u8),
        Datatype::Uint16 => integers!(u16),
        Datatype::Uint32 => integers!(u32),
        Datatype::Uint64 => integers!(u64),
        Datatype::Int8 => integers!(i8),
        Datatype::Int16 => integers!(i16),
        Datatype::Int32 => integers!(i32),
        Datatype::Int64 => integers!(i64),
        Datatype::Fp32 => floats!(f32),
        Datatype::Fp64 => floats!(f64),
        Datatype::Fp16 | Datatype::Bf16 => return Err(no_json(tensor.datatype())),
        Datatype::Bytes => {
            for element in tensor.strings() {
                let element = std::str::from_utf8(element).map_err(
                    |_| "an element is not UTF-8, so it has no form in JSON: ask for binary data",
                )?;
                comma(&mut text);
                text.push_str(&Value::from(element).to_string());
            }
        }
    }
    text.push(']');
    RawValue::from_string(text).map_err(|error| error.to_string())
}
