//! Reading of a tensor's elements from JSON.

use std::fmt;

use bytes::Bytes;
use serde::{
    Deserializer,
    de::{self, DeserializeSeed, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use super::no_json;
use crate::tensor::{Datatype, Tensor, elements, shown, strings};

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
    let mut reading = ElementReader {
        datatype,
        shape,
        count,
        found: 0,
        depth: None,
        data: Vec::with_capacity(room * datatype.size().unwrap_or(4)),
    };
    let level = NestingLevel {
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

/// The elements read so far.
struct ElementReader<'a> {
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
struct NestingLevel<'r, 'a> {
    reading: &'r mut ElementReader<'a>,
    /// Number of arrays around it.
    depth: usize,
}

impl NestingLevel<'_, '_> {
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
        let datatype = self.reading.datatype;
        match datatype {
            Datatype::Fp32 => self.element(&(value as f32).to_le_bytes()),
            Datatype::Fp64 => self.element(&(value as f64).to_le_bytes()),
            // Clients without booleans send 0 and 1.
            Datatype::Bool if value == 0 || value == 1 => self.element(&[value as u8]),
            _ => match datatype.integer(value) {
                Some((bytes, size)) => self.element(&bytes[..size]),
                None => Err(self.wrong(format_args!("{value}"))),
            },
        }
    }
}

impl<'de> DeserializeSeed<'de> for NestingLevel<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for NestingLevel<'_, '_> {
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
            let level = NestingLevel {
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
