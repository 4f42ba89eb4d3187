//! JSON form of a tensor's elements: one array with all of them, or nested arrays that follow the
//! shape. FP16, BF16 and numbers that are not finite have no such form.

use std::fmt;

use bytes::Bytes;
use graphmill_engine::register_payload;
use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeSeed, SeqAccess, Visitor},
};
use serde_json::{Value, json, value::RawValue};

use super::{Datatype, Tensor, elements, shape_of, shown, strings};

/// Reads the data of a tensor from the JSON of its elements. The error describes the fault.
pub fn data_from_json(
    datatype: Datatype,
    shape: &[usize],
    json: &RawValue,
) -> Result<Bytes, String> {
    if matches!(datatype, Datatype::Fp16 | Datatype::Bf16) {
        return Err(no_json(datatype));
    }
    let count = elements(shape).map_err(|error| error.to_string())?;
    // An element takes at least two characters, whatever the shape promises.
    let room = count.min(json.get().len() / 2 + 1);
    let mut reading = Reading {
        datatype,
        shape,
        count,
        found: 0,
        depth: None,
        data: Vec::with_capacity(room * datatype.size().unwrap_or(4)),
    };
    let level = Level {
        reading: &mut reading,
        depth: 0,
    };
    let mut deserializer = serde_json::Deserializer::from_str(json.get());
    level
        .deserialize(&mut deserializer)
        .map_err(|error| without_place(&error))?;
    if reading.found != count {
        return Err(format!(
            "shape {} has {count} elements, but there are {}",
            shown(shape),
            reading.found
        ));
    }
    Ok(reading.data.into())
}

/// Maximum number of dimensions of a tensor whose shape follows from its JSON: each is an array
/// around others.
const MAX_DIMENSIONS: usize = 16;

/// Reads a tensor whose shape follows from the arrays of its JSON. The error describes the fault.
pub fn tensor_from_json(datatype: Datatype, json: &RawValue) -> Result<Tensor, String> {
    let mut shape = Vec::new();
    let mut inside = json.get();
    while inside.starts_with('[') && shape.len() < MAX_DIMENSIONS {
        let items: Vec<&RawValue> =
            serde_json::from_str(inside).map_err(|error| without_place(&error))?;
        shape.push(items.len());
        inside = items.first().map_or("", |first| first.get());
    }
    let data = data_from_json(datatype, &shape, json)?;
    Tensor::new(datatype, shape, data).map_err(|error| error.to_string())
}

/// Returns an error's message without its position, which counts only from the start of the array.
fn without_place(error: &serde_json::Error) -> String {
    let said = error.to_string();
    match said.rsplit_once(" at line ") {
        Some((said, _)) => said.to_owned(),
        None => said,
    }
}

fn no_json(datatype: Datatype) -> String {
    format!("{datatype} has no form in JSON: send and ask for binary data")
}

/// The elements read so far.
struct Reading<'a> {
    datatype: Datatype,
    shape: &'a [usize],
    /// Number of elements of the shape.
    count: usize,
    found: usize,
    /// Number of arrays around each element; `None` before the first one.
    depth: Option<usize>,
    data: Vec<u8>,
}

/// An array of the JSON, or an element, at a nesting level.
struct Level<'r, 'a> {
    reading: &'r mut Reading<'a>,
    /// Number of arrays around it.
    depth: usize,
}

impl Level<'_, '_> {
    fn element<E: de::Error>(self, bytes: &[u8]) -> Result<(), E> {
        let reading = self.reading;
        let rank = reading.shape.len().max(1);
        let before = *reading.depth.get_or_insert(self.depth);
        if before != self.depth || (before != 1 && before != rank) {
            return Err(E::custom(format!(
                "elements are neither all in one array nor nested as shape {} says",
                shown(reading.shape)
            )));
        }
        if reading.found == reading.count {
            return Err(E::custom(format!(
                "shape {} has {} elements, but there are more",
                shown(reading.shape),
                reading.count
            )));
        }
        reading.found += 1;
        reading.data.extend_from_slice(bytes);
        Ok(())
    }

    fn wrong<E: de::Error>(&self, what: fmt::Arguments<'_>) -> E {
        let number = self.reading.found;
        E::custom(format!(
            "element {number} is {what}, which is no {}",
            self.reading.datatype
        ))
    }

    fn integer<E: de::Error>(self, value: i128) -> Result<(), E> {
        macro_rules! as_type {
            ($type:ty) => {
                match <$type>::try_from(value) {
                    Ok(value) => self.element(&value.to_le_bytes()),
                    Err(_) => Err(self.wrong(format_args!("{value}"))),
                }
            };
        }
        match self.reading.datatype {
            Datatype::Uint8 => as_type!(u8),
            Datatype::Uint16 => as_type!(u16),
            Datatype::Uint32 => as_type!(u32),
            Datatype::Uint64 => as_type!(u64),
            Datatype::Int8 => as_type!(i8),
            Datatype::Int16 => as_type!(i16),
            Datatype::Int32 => as_type!(i32),
            Datatype::Int64 => as_type!(i64),
            Datatype::Fp32 => self.element(&(value as f32).to_le_bytes()),
            Datatype::Fp64 => self.element(&(value as f64).to_le_bytes()),
            // Clients without booleans send 0 and 1.
            Datatype::Bool if value == 0 || value == 1 => self.element(&[value as u8]),
            Datatype::Bool | Datatype::Bytes | Datatype::Fp16 | Datatype::Bf16 => {
                Err(self.wrong(format_args!("{value}")))
            }
        }
    }
}

impl<'de> DeserializeSeed<'de> for Level<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Level<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.depth {
            0 => write!(f, "an array"),
            _ => write!(f, "an element of {} or an array", self.reading.datatype),
        }
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<(), E> {
        match self.reading.datatype {
            Datatype::Bool => self.element(&[value.into()]),
            _ => Err(self.wrong(format_args!("{value}"))),
        }
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<(), E> {
        self.integer(value.into())
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<(), E> {
        self.integer(value.into())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<(), E> {
        match self.reading.datatype {
            Datatype::Fp64 => self.element(&value.to_le_bytes()),
            Datatype::Fp32 if (value as f32).is_finite() => {
                self.element(&(value as f32).to_le_bytes())
            }
            _ => Err(self.wrong(format_args!("{value}"))),
        }
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<(), E> {
        if self.reading.datatype != Datatype::Bytes {
            return Err(self.wrong(format_args!("a string")));
        }
        let mut element = Vec::with_capacity(value.len() + 4);
        strings::append(&mut element, value.as_bytes());
        self.element(&element)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let rank = self.reading.shape.len().max(1);
        if self.depth >= rank {
            return Err(de::Error::custom(format!(
                "the arrays are nested deeper than the dimensions of shape {}",
                shown(self.reading.shape)
            )));
        }
        let mut length = 0;
        loop {
            let level = Level {
                reading: &mut *self.reading,
                depth: self.depth + 1,
            };
            if items.next_element_seed(level)?.is_none() {
                break;
            }
            length += 1;
        }
        let shape = self.reading.shape;
        let nested = rank > 1 && self.reading.depth == Some(rank);
        if nested && length != shape[self.depth] {
            return Err(de::Error::custom(format!(
                "an array has {length} elements where shape {} has {}",
                shown(shape),
                shape[self.depth]
            )));
        }
        Ok(())
    }
}

/// Writes the elements of a tensor as one array. The error says why they have no JSON form.
pub fn data_to_json(tensor: &Tensor) -> Result<Box<RawValue>, String> {
    use std::fmt::Write as _;

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

register_payload!(Tensor as "tensor", to_json, from_json);

fn to_json(tensor: &Tensor) -> Value {
    let data = data_to_json(tensor).and_then(|data| {
        serde_json::from_str::<Value>(data.get()).map_err(|error| error.to_string())
    });
    json!({
        "datatype": tensor.datatype(),
        "shape": tensor.shape(),
        "data": data.unwrap_or_else(Value::from),
    })
}

/// A tensor as JSON in files of tools.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonTensor {
    datatype: Datatype,
    shape: Vec<i64>,
    data: Value,
}

fn from_json(value: &Value) -> Result<Tensor, String> {
    let JsonTensor {
        datatype,
        shape,
        data,
    } = JsonTensor::deserialize(value).map_err(|error| error.to_string())?;
    let shape = shape_of(&shape).map_err(|error| error.to_string())?;
    let data = serde_json::value::to_raw_value(&data).map_err(|error| error.to_string())?;
    let data = data_from_json(datatype, &shape, &data)?;
    Tensor::new(datatype, shape, data).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(datatype: Datatype, shape: &[usize], json: &str) -> Result<Tensor, String> {
        let json = RawValue::from_string(json.to_owned()).expect("JSON");
        let data = data_from_json(datatype, shape, &json)?;
        Ok(Tensor::new(datatype, shape, data).expect("as many elements as the shape has"))
    }

    #[test]
    fn arrays_are_flat_or_as_the_shape_says() {
        let flat = read(Datatype::Int16, &[2, 2], "[1, -2, 3, 4]").expect("flat");
        let nested = read(Datatype::Int16, &[2, 2], "[[1, -2], [3, 4]]").expect("nested");
        assert_eq!(flat, nested);
        assert_eq!(&**flat.data(), [1, 0, 254, 255, 3, 0, 4, 0]);
        for (json, why) in [
            ("[1, 2, 3]", "has 4 elements, but there are 3"),
            ("[1, 2, 3, 4, 5]", "but there are more"),
            ("[[1, 2, 3], [4]]", "an array has 3 elements where"),
            ("[[1, 2], 3, 4]", "neither all in one array"),
            ("[[[1, 2]], [3, 4]]", "nested deeper"),
            (
                "[[1, 2], [3, 40000]]",
                "element 3 is 40000, which is no INT16",
            ),
            ("[1, 2, 3, 4.5]", "element 3 is 4.5, which is no INT16"),
            (
                "[1, 2, 3, \"4\"]",
                "element 3 is a string, which is no INT16",
            ),
            ("[1, 2, 3, null]", "expected an element of INT16"),
            ("1", "neither all in one array"),
            ("{}", "expected an array"),
        ] {
            let error = read(Datatype::Int16, &[2, 2], json).expect_err(json);
            assert!(error.contains(why), "{json}: {error}");
        }
    }

    #[test]
    fn every_datatype_that_json_has_comes_back() {
        for (datatype, json) in [
            (Datatype::Bool, "[true,false]"),
            (Datatype::Uint8, "[0,255]"),
            (Datatype::Uint64, "[0,18446744073709551615]"),
            (
                Datatype::Int64,
                "[-9223372036854775808,9223372036854775807]",
            ),
            (Datatype::Fp32, "[0.1,-3.0]"),
            (Datatype::Fp64, "[0.1,1e300]"),
            (Datatype::Bytes, r#"["a\"b","é"]"#),
        ] {
            let tensor = read(datatype, &[2], json).expect(json);
            assert_eq!(data_to_json(&tensor).expect(json).get(), json);
        }
    }

    #[test]
    fn what_json_cannot_say_is_refused() {
        assert!(read(Datatype::Fp16, &[1], "[1]").is_err());
        assert!(read(Datatype::Fp32, &[1], "[1e300]").is_err());
        let infinite = Tensor::scalar(Datatype::Fp32, &f32::INFINITY.to_le_bytes());
        let error = data_to_json(&infinite).expect_err("no form");
        assert!(error.contains("inf has no form in JSON"), "{error}");
    }
}
