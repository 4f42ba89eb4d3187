//! Reading of a GGUF file's header: its metadata and the descriptions of its tensors. The content of
//! the file is arbitrary, and nothing beyond its length is read.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, BufReader, Read as _};

use super::adapter_tensors::TensorHeader;
use super::ffi::tensor_bytes;
use super::gguf::MAX_LAYERS;

/// Maximum size of a text, in bytes. No model has a longer one, and it would be read into memory.
const MAX_TEXT: u64 = 16 << 20;
const MAX_KEY: u64 = 65_535;
/// Maximum number of integers that are kept of a list: one for each layer.
const KEPT: u64 = MAX_LAYERS as u64;
/// Maximum number of dimensions of a tensor, as ggml has it.
pub(super) const MAX_DIMENSIONS: usize = 4;
/// Default alignment of the data of tensors, in bytes.
const ALIGNMENT: u64 = 32;
/// Minimum size of a metadata entry and of a tensor's description, in bytes.
const MIN_ENTRY: u64 = 13;
const MIN_TENSOR: u64 = 24;
const CHARSMAP: &str = "tokenizer.ggml.precompiled_charsmap";

/// A metadata value. Only the kinds that are checked are kept.
#[derive(Debug)]
enum Value {
    Integers(Vec<i128>),
    Text(String),
    Bytes(Vec<u8>),
    Other,
}

/// Metadata of a file, by key, and its tensors.
#[derive(Debug, Default)]
pub(super) struct Header {
    metadata: HashMap<String, Value>,
    pub(super) tensors: Vec<TensorHeader>,
}

impl Header {
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        match self.metadata.get(key)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the replacements that the tokenizer makes in a text; empty if it makes none.
    pub(super) fn charsmap(&self) -> &[u8] {
        match self.metadata.get(CHARSMAP) {
            Some(Value::Bytes(bytes)) => bytes,
            _ => &[],
        }
    }

    pub(super) fn integers(&self, key: &str) -> &[i128] {
        match self.metadata.get(key) {
            Some(Value::Integers(numbers)) => numbers,
            _ => &[],
        }
    }
}

/// Reads the header of a file of this many bytes.
pub(super) fn read_header(file: File, bytes: u64) -> Result<Header, String> {
    let mut reader = GgufReader {
        from: BufReader::new(file),
        length: bytes,
        left: bytes,
    };
    reader.header()
}

/// Shortens a text of the file for a message.
pub(super) fn shown(text: &str) -> &str {
    &text[..text.floor_char_boundary(100)]
}

/// Reader of a file with arbitrary content.
struct GgufReader {
    from: BufReader<File>,
    length: u64,
    /// Bytes of the file that are not read yet.
    left: u64,
}

impl GgufReader {
    fn header(&mut self) -> Result<Header, String> {
        let magic: [u8; 4] = self.bytes("magic number")?;
        if &magic != b"GGUF" {
            return Err(format!(
                "it is not a GGUF file: its magic number is `{}`",
                magic.escape_ascii()
            ));
        }
        let version = u32::from_le_bytes(self.bytes("version")?);
        if !(2..=3).contains(&version) {
            return Err(format!("its GGUF version is {version}, expected 2 or 3"));
        }
        let tensors = self.count("tensors", MIN_TENSOR)?;
        let entries = self.count("entries of metadata", MIN_ENTRY)?;
        let mut header = Header::default();
        for _ in 0..entries {
            let key = self.text("a key", MAX_KEY)?;
            let value = self.value(&key)?;
            if header.metadata.contains_key(&key) {
                return Err(format!("the key `{}` occurs twice", shown(&key)));
            }
            header.metadata.insert(key, value);
        }
        header.tensors = self.tensors(tensors, header.integers("general.alignment"))?;
        Ok(header)
    }

    /// Reads the descriptions of tensors, and checks that the file holds their data. Tensors of
    /// unknown types are not checked.
    fn tensors(&mut self, count: u64, alignment: &[i128]) -> Result<Vec<TensorHeader>, String> {
        let mut tensors = Vec::new();
        let mut last = (0, String::new());
        for _ in 0..count {
            let name = self.text("a tensor", MAX_KEY)?;
            let dimensions = u32::from_le_bytes(self.bytes(&name)?);
            if dimensions as usize > MAX_DIMENSIONS {
                return Err(format!(
                    "the tensor `{}` has {dimensions} dimensions, expected at most {MAX_DIMENSIONS}",
                    shown(&name)
                ));
            }
            let mut shape = [1_u64; MAX_DIMENSIONS];
            for length in &mut shape[..dimensions as usize] {
                *length = u64::from_le_bytes(self.bytes(&name)?);
            }
            let elements = shape.iter().copied().fold(1, u64::saturating_mul);
            let kind = u32::from_le_bytes(self.bytes(&name)?);
            let offset = u64::from_le_bytes(self.bytes(&name)?);
            let end = offset.saturating_add(tensor_bytes(kind, elements));
            if end > last.0 {
                last = (end, name.clone());
            }
            tensors.push(TensorHeader { name, shape, kind });
        }
        let alignment = match alignment {
            [alignment] => u64::try_from(*alignment).unwrap_or(0).max(1),
            _ => ALIGNMENT,
        };
        let read = self.length - self.left;
        let data = read.next_multiple_of(alignment).min(self.length);
        let (end, name) = last;
        if end > self.length - data {
            return Err(format!(
                "it is truncated: its {} bytes end before the data of the tensor `{}`",
                self.length,
                shown(&name)
            ));
        }
        Ok(tensors)
    }

    fn value(&mut self, key: &str) -> Result<Value, String> {
        match self.kind(key)? {
            STRING => Ok(Value::Text(self.text(key, MAX_TEXT)?)),
            LIST => self.list(key),
            kind => match self.number(kind, key)? {
                GgufNumber::Whole(number) => Ok(Value::Integers(vec![number])),
                GgufNumber::Real(number) if number.is_finite() => Ok(Value::Other),
                GgufNumber::Real(number) => Err(format!("`{}` is {number}", shown(key))),
            },
        }
    }

    fn list(&mut self, key: &str) -> Result<Value, String> {
        let kind = self.kind(key)?;
        if kind == LIST {
            return Err(format!("`{}` is a list of lists", shown(key)));
        }
        let length = u64::from_le_bytes(self.bytes(key)?);
        if length.saturating_mul(width(kind)) > self.left {
            return Err(format!(
                "`{}` announces {length} values, more than the file has",
                shown(key)
            ));
        }
        if kind == STRING {
            return self.texts(key, length);
        }
        if key == CHARSMAP && width(kind) == 1 {
            let mut bytes = vec![0; length as usize];
            self.fill(&mut bytes, key)?;
            return Ok(Value::Bytes(bytes));
        }
        let mut integers = Vec::new();
        for index in 0..length {
            match self.number(kind, key)? {
                GgufNumber::Real(number) if number.is_nan() => {
                    return Err(format!("`{}` has NaN at {index}", shown(key)));
                }
                GgufNumber::Whole(number) if index < KEPT => integers.push(number),
                _ => {}
            }
        }
        Ok(Value::Integers(integers))
    }

    fn texts(&mut self, key: &str, length: u64) -> Result<Value, String> {
        // Two tokens with one text are one for llama.cpp, which then ends the process.
        let are_tokens = key == "tokenizer.ggml.tokens";
        let (hasher, mut seen) = (RandomState::new(), HashSet::new());
        for index in 0..length {
            let text = self.text(key, MAX_TEXT)?;
            if are_tokens && !text.is_empty() && !seen.insert(hasher.hash_one(&text)) {
                return Err(format!(
                    "`{key}` has `{}` twice, the second time at {index}",
                    shown(&text).escape_debug()
                ));
            }
        }
        Ok(Value::Other)
    }

    fn kind(&mut self, key: &str) -> Result<u32, String> {
        let kind = u32::from_le_bytes(self.bytes(key)?);
        if kind > DOUBLE {
            return Err(format!("`{}` has the unknown type {kind}", shown(key)));
        }
        Ok(kind)
    }

    fn number(&mut self, kind: u32, key: &str) -> Result<GgufNumber, String> {
        let mut bytes = [0; 8];
        let width = width(kind);
        self.fill(&mut bytes[..width as usize], key)?;
        let whole = u64::from_le_bytes(bytes);
        let signed = |bits: u32| i128::from((whole << (64 - bits)) as i64 >> (64 - bits));
        Ok(match kind {
            FLOAT => GgufNumber::Real(f32::from_bits(whole as u32).into()),
            DOUBLE => GgufNumber::Real(f64::from_bits(whole)),
            INT8 | INT16 | INT32 | INT64 => GgufNumber::Whole(signed(8 * width as u32)),
            _ => GgufNumber::Whole(whole.into()),
        })
    }

    /// Reads the number of entries that follow, each of at least `least` bytes.
    fn count(&mut self, what: &str, least: u64) -> Result<u64, String> {
        let count = u64::from_le_bytes(self.bytes(what)?);
        if count.saturating_mul(least) > self.left {
            return Err(format!(
                "it announces {count} {what}, more than fit into it"
            ));
        }
        Ok(count)
    }

    fn text(&mut self, what: &str, most: u64) -> Result<String, String> {
        let length = u64::from_le_bytes(self.bytes(what)?);
        if length > most.min(self.left) {
            return Err(format!(
                "a text of `{}` has {length} bytes, expected at most {}",
                shown(what),
                most.min(self.left)
            ));
        }
        let mut text = vec![0; length as usize];
        self.fill(&mut text, what)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    fn bytes<const N: usize>(&mut self, what: &str) -> Result<[u8; N], String> {
        let mut bytes = [0; N];
        self.fill(&mut bytes, what)?;
        Ok(bytes)
    }

    fn fill(&mut self, bytes: &mut [u8], what: &str) -> Result<(), String> {
        let ends = || format!("the file ends where `{}` should be", shown(what));
        let wanted = bytes.len() as u64;
        self.left = self.left.checked_sub(wanted).ok_or_else(ends)?;
        self.from.read_exact(bytes).map_err(|error| {
            if error.kind() == io::ErrorKind::UnexpectedEof {
                ends()
            } else {
                format!("cannot be read: {error}")
            }
        })
    }
}

/// Type numbers of GGUF values.
const INT8: u32 = 1;
const INT16: u32 = 3;
const INT32: u32 = 5;
const FLOAT: u32 = 6;
const STRING: u32 = 8;
const LIST: u32 = 9;
const INT64: u32 = 11;
const DOUBLE: u32 = 12;

/// Returns the size of a number of this type, in bytes; for a text, the size of its length.
fn width(kind: u32) -> u64 {
    match kind {
        0 | INT8 | 7 => 1,
        2 | INT16 => 2,
        4 | INT32 | FLOAT => 4,
        _ => 8,
    }
}

enum GgufNumber {
    Whole(i128),
    Real(f64),
}
