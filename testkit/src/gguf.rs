//! A GGUF file in parts that can be changed one by one, also to what no program would write.

use std::{collections::HashMap, io, ops::Range};

/// The type of unsigned 32-bit integers.
pub const U32: u32 = 4;
/// The type of signed 32-bit integers.
pub const I32: u32 = 5;
/// The type of 32-bit floating-point numbers.
pub const F32: u32 = 6;
/// The type of booleans, one byte each.
pub const BOOL: u32 = 7;
/// The type of strings: a 64-bit length and UTF-8.
pub const TEXT: u32 = 8;
/// The type of arrays: a type, a 64-bit length and values.
pub const LIST: u32 = 9;
/// The type of unsigned 64-bit integers.
pub const U64: u32 = 10;

/// An entry of the metadata.
#[derive(Clone)]
pub struct Entry {
    /// Name of the entry, such as `general.architecture`.
    pub key: String,
    /// The type of its value.
    pub kind: u32,
    /// The value as in the file.
    pub value: Vec<u8>,
}

/// Description of a tensor in the header.
#[derive(Clone)]
pub struct Tensor {
    /// Name that models find the tensor by.
    pub name: String,
    /// Lengths of its dimensions, the fastest-running first.
    pub dimensions: Vec<u64>,
    /// ggml's number of its type.
    pub kind: u32,
    /// Offset of its data in bytes from the data of the first tensor.
    pub offset: u64,
}

/// A GGUF file in memory, which can be wrong on purpose.
#[derive(Clone)]
pub struct Gguf {
    /// The version of the format.
    pub version: u32,
    /// Number of entries in the header; `None` is the true one.
    pub entry_count: Option<u64>,
    /// Number of tensors in the header; `None` is the true one.
    pub tensor_count: Option<u64>,
    /// Entries of the metadata in the order of the file.
    pub entries: Vec<Entry>,
    /// Descriptions of the tensors, in order.
    pub tensors: Vec<Tensor>,
    /// Data of all tensors, which start at their offsets.
    pub data: Vec<u8>,
}

/// Data of a tensor begin at multiples of this many bytes.
pub const ALIGNMENT: usize = 32;

/// A reader that takes values off the front of a file's bytes.
struct GgufCursor<'a>(&'a [u8]);

impl<'a> GgufCursor<'a> {
    fn take(&mut self, count: usize) -> io::Result<&'a [u8]> {
        let parts = self.0.split_at_checked(count);
        let (taken, rest) = parts.ok_or_else(|| io::Error::other("the file ends early"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn number<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        Ok(self.take(N)?.try_into().expect("as many bytes"))
    }

    fn u32(&mut self) -> io::Result<u32> {
        self.number().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> io::Result<u64> {
        self.number().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> io::Result<String> {
        let length = self.u64()? as usize;
        String::from_utf8(self.take(length)?.to_vec()).map_err(io::Error::other)
    }

    /// Skips a value of this type.
    fn skip(&mut self, kind: u32) -> io::Result<()> {
        let length = match kind {
            0 | 1 | BOOL => 1,
            2 | 3 => 2,
            U32 | I32 | F32 => 4,
            TEXT => self.u64()? as usize,
            LIST => {
                let (kind, count) = (self.u32()?, self.u64()?);
                return (0..count).try_for_each(|_| self.skip(kind));
            }
            _ => 8,
        };
        self.take(length).map(drop)
    }
}

impl Default for Gguf {
    /// Creates a file of version 3 without entries and tensors.
    fn default() -> Self {
        Self {
            version: 3,
            entry_count: None,
            tensor_count: None,
            entries: Vec::new(),
            tensors: Vec::new(),
            data: Vec::new(),
        }
    }
}

impl Gguf {
    /// Reads the bytes of a file.
    ///
    /// # Errors
    ///
    /// If they are not those of a whole GGUF file.
    pub fn parse(file: &[u8]) -> io::Result<Self> {
        let mut reader = GgufCursor(file);
        if reader.take(4)? != b"GGUF" {
            return Err(io::Error::other("not a GGUF file"));
        }
        let version = reader.u32()?;
        let (tensors, entries) = (reader.u64()?, reader.u64()?);
        let entries = (0..entries).map(|_| {
            let (key, kind) = (reader.text()?, reader.u32()?);
            let before = reader.0;
            reader.skip(kind)?;
            let value = before[..before.len() - reader.0.len()].to_vec();
            Ok(Entry { key, kind, value })
        });
        let entries = entries.collect::<io::Result<_>>()?;
        let tensors = (0..tensors).map(|_| {
            let name = reader.text()?;
            let dimensions = reader.u32()?;
            Ok(Tensor {
                name,
                dimensions: (0..dimensions)
                    .map(|_| reader.u64())
                    .collect::<io::Result<_>>()?,
                kind: reader.u32()?,
                offset: reader.u64()?,
            })
        });
        let tensors = tensors.collect::<io::Result<_>>()?;
        let header = (file.len() - reader.0.len()).next_multiple_of(ALIGNMENT);
        Ok(Self {
            version,
            entries,
            tensors,
            data: file.get(header..).unwrap_or_default().to_vec(),
            ..Self::default()
        })
    }

    /// Removes everything but the vocabulary.
    pub fn keep_vocabulary(&mut self) {
        self.entries
            .retain(|entry| entry.key.starts_with("tokenizer."));
        self.tensors.clear();
        self.data.clear();
    }

    ///
    /// Returns the number of tokens in the vocabulary.
    ///
    /// # Panics
    ///
    /// If the file has no vocabulary.
    pub fn tokens(&self) -> u64 {
        self.texts("tokenizer.ggml.tokens").len() as u64
    }

    /// Returns the header, padded to the start of the data.
    pub fn header(&self) -> Vec<u8> {
        let mut bytes = b"GGUF".to_vec();
        bytes.extend(self.version.to_le_bytes());
        let count = |given: Option<u64>, there: usize| given.unwrap_or(there as u64).to_le_bytes();
        bytes.extend(count(self.tensor_count, self.tensors.len()));
        bytes.extend(count(self.entry_count, self.entries.len()));
        for entry in &self.entries {
            bytes.extend(text(&entry.key));
            bytes.extend(entry.kind.to_le_bytes());
            bytes.extend(&entry.value);
        }
        for tensor in &self.tensors {
            bytes.extend(text(&tensor.name));
            bytes.extend((tensor.dimensions.len() as u32).to_le_bytes());
            bytes.extend(
                tensor
                    .dimensions
                    .iter()
                    .flat_map(|dimension| dimension.to_le_bytes()),
            );
            bytes.extend(tensor.kind.to_le_bytes());
            bytes.extend(tensor.offset.to_le_bytes());
        }
        bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
        bytes
    }

    /// Returns the header and the data.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.header();
        bytes.extend(&self.data);
        bytes
    }

    /// Sets an entry or adds it.
    pub fn set(&mut self, key: &str, kind: u32, value: impl Into<Vec<u8>>) {
        let entry = Entry {
            key: key.to_owned(),
            kind,
            value: value.into(),
        };
        match self.entries.iter_mut().find(|entry| entry.key == key) {
            Some(there) => *there = entry,
            None => self.entries.push(entry),
        }
    }

    /// Sets an unsigned 32-bit integer or adds it.
    pub fn set_u32(&mut self, key: &str, value: u32) {
        self.set(key, U32, value.to_le_bytes());
    }

    /// Sets a 32-bit floating-point number or adds it.
    pub fn set_f32(&mut self, key: &str, value: f32) {
        self.set(key, F32, value.to_le_bytes());
    }

    /// Sets a string or adds it.
    pub fn set_text(&mut self, key: &str, value: &str) {
        self.set(key, TEXT, text(value));
    }

    /// Removes the entry of a key, if there is one.
    pub fn remove(&mut self, key: &str) {
        self.entries.retain(|entry| entry.key != key);
    }

    ///
    /// Returns the entry of a key.
    ///
    /// # Panics
    ///
    /// If the file has no such entry.
    pub fn entry(&mut self, key: &str) -> &mut Entry {
        let found = self.entries.iter_mut().find(|entry| entry.key == key);
        found.unwrap_or_else(|| panic!("the model has no `{key}`"))
    }

    /// Returns the value of a key as in the file, if there is such an entry.
    pub fn value(&self, key: &str) -> Option<&[u8]> {
        let mut entries = self.entries.iter();
        entries.find_map(|entry| (entry.key == key).then_some(entry.value.as_slice()))
    }

    ///
    /// Returns the strings of an array.
    ///
    /// # Panics
    ///
    /// If the file has no such array of strings.
    pub fn texts(&self, key: &str) -> Vec<String> {
        let value = self.value(key);
        let value = value.unwrap_or_else(|| panic!("the model has no `{key}`"));
        let mut reader = GgufCursor(&value[4..]);
        let count = reader.u64().expect("a list");
        (0..count).map(|_| reader.text().expect("a text")).collect()
    }

    ///
    /// Returns the 32-bit numbers of an array.
    ///
    /// # Panics
    ///
    /// If the file has no such array.
    pub fn numbers(&self, key: &str) -> Vec<[u8; 4]> {
        let value = self.value(key);
        let value = value.unwrap_or_else(|| panic!("the model has no `{key}`"));
        value[12..].as_chunks().0.to_vec()
    }

    /// Sets an array of strings or adds it.
    pub fn set_texts(&mut self, key: &str, texts: &[String]) {
        let mut value = TEXT.to_le_bytes().to_vec();
        value.extend((texts.len() as u64).to_le_bytes());
        value.extend(texts.iter().flat_map(|item| text(item)));
        self.set(key, LIST, value);
    }

    /// Returns the description of a tensor.
    ///
    /// # Panics
    /// If the file has no tensor of this name.
    pub fn tensor(&mut self, name: &str) -> &mut Tensor {
        let found = self.tensors.iter_mut().find(|tensor| tensor.name == name);
        found.unwrap_or_else(|| panic!("the model has no tensor `{name}`"))
    }

    /// Changes the architecture from `llama` to another one, also in the keys of entries.
    pub fn rename(&mut self, architecture: &str) {
        for entry in &mut self.entries {
            if let Some(name) = entry.key.strip_prefix("llama.") {
                entry.key = format!("{architecture}.{name}");
            }
        }
        self.set_text("general.architecture", architecture);
    }

    /// Returns the range of each tensor in the data, by name. It ends where the next one starts.
    pub fn extents(&self) -> HashMap<String, Range<usize>> {
        let mut starts: Vec<usize> = self
            .tensors
            .iter()
            .map(|tensor| tensor.offset as usize)
            .collect();
        starts.push(self.data.len());
        starts.sort_unstable();
        let extent = |tensor: &Tensor| {
            let start = tensor.offset as usize;
            let end = starts.iter().find(|other| **other > start).copied();
            (tensor.name.clone(), start..end.unwrap_or(start))
        };
        self.tensors.iter().map(extent).collect()
    }
}

/// Returns a string as in the file.
pub fn text(text: &str) -> Vec<u8> {
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.extend(text.as_bytes());
    bytes
}

/// Returns an array of 32-bit numbers as in the file.
pub fn list(kind: u32, numbers: &[[u8; 4]]) -> Vec<u8> {
    let mut bytes = kind.to_le_bytes().to_vec();
    bytes.extend((numbers.len() as u64).to_le_bytes());
    bytes.extend(numbers.iter().flatten());
    bytes
}
