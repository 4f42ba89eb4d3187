//! Types of tensor elements, by the names of KServe's protocol.

use std::{fmt, ops::RangeInclusive, str::FromStr};

use schemars::JsonSchema;
use serde::de::value::{self, StrDeserializer};
use serde::{Deserialize, Serialize};

/// The type of a tensor's elements.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Datatype {
    /// Boolean: a byte, 0 for false.
    Bool,
    /// Unsigned integer of 8 bits.
    Uint8,
    /// Unsigned integer of 16 bits.
    Uint16,
    /// Unsigned integer of 32 bits.
    Uint32,
    /// Unsigned integer of 64 bits.
    Uint64,
    /// Signed integer of 8 bits.
    Int8,
    /// Signed integer of 16 bits.
    Int16,
    /// Signed integer of 32 bits.
    Int32,
    /// Signed integer of 64 bits.
    Int64,
    /// IEEE 754 number of 16 bits.
    Fp16,
    /// Upper half of an IEEE 754 number of 32 bits.
    Bf16,
    /// IEEE 754 number of 32 bits.
    Fp32,
    /// IEEE 754 number of 64 bits.
    Fp64,
    /// Bytes or text of any length.
    Bytes,
}

/// Names on the wire, in the order of the variants.
const NAMES: [&str; 14] = [
    "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16",
    "BF16", "FP32", "FP64", "BYTES",
];

impl Datatype {
    /// Returns all datatypes.
    pub fn all() -> impl Iterator<Item = Self> {
        NAMES.iter().filter_map(|name| name.parse().ok())
    }

    /// Returns the name on the wire.
    pub const fn name(self) -> &'static str {
        NAMES[self as usize]
    }

    /// Returns the size of an element in bytes; `None` for BYTES, whose elements differ in length.
    pub const fn size(self) -> Option<usize> {
        match self {
            Self::Bool | Self::Uint8 | Self::Int8 => Some(1),
            Self::Uint16 | Self::Int16 | Self::Fp16 | Self::Bf16 => Some(2),
            Self::Uint32 | Self::Int32 | Self::Fp32 => Some(4),
            Self::Uint64 | Self::Int64 | Self::Fp64 => Some(8),
            Self::Bytes => None,
        }
    }

    /// Returns the little-endian bytes of an integer, and how many of them an element has. `None`
    /// for other types, and for an integer that does not fit.
    pub(super) fn integer(self, value: i128) -> Option<([u8; 16], usize)> {
        let range: RangeInclusive<i128> = match self {
            Self::Uint8 => 0..=u8::MAX.into(),
            Self::Uint16 => 0..=u16::MAX.into(),
            Self::Uint32 => 0..=u32::MAX.into(),
            Self::Uint64 => 0..=u64::MAX.into(),
            Self::Int8 => i8::MIN.into()..=i8::MAX.into(),
            Self::Int16 => i16::MIN.into()..=i16::MAX.into(),
            Self::Int32 => i32::MIN.into()..=i32::MAX.into(),
            Self::Int64 => i64::MIN.into()..=i64::MAX.into(),
            _ => return None,
        };
        let size = self.size().filter(|_| range.contains(&value))?;
        Some((value.to_le_bytes(), size))
    }
}

impl fmt::Display for Datatype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Datatype {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let read = Self::deserialize(StrDeserializer::<value::Error>::new(name));
        read.map_err(|_| format!("the datatype must be one of {}", NAMES.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_that_of_its_variant() {
        for name in NAMES {
            assert_eq!(name.parse::<Datatype>().map(Datatype::name), Ok(name));
        }
    }
}
