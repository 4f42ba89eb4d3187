//! A GGUF file in parts that can be changed one by one, also to what no program would write.

use std::{collections::HashMap, ops::Range};

/// The types of values.
pub(crate) const U32: u32 = 4;
pub(crate) const I32: u32 = 5;
pub(crate) const F32: u32 = 6;
pub(crate) const TEXT: u32 = 8;
pub(crate) const LIST: u32 = 9;
pub(crate) const U64: u32 = 10;

/// An entry of the metadata.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) kind: u32,
    /// As in the file.
    pub(crate) value: Vec<u8>,
}

/// What the file says of a tensor.
#[derive(Clone)]
pub(crate) struct Tensor {
    pub(crate) name: String,
    pub(crate) dimensions: Vec<u64>,
    pub(crate) kind: u32,
    pub(crate) offset: u64,
}

#[derive(Clone)]
pub(crate) struct Gguf {
    pub(crate) version: u32,
    /// Counts that are written instead of the true ones.
    pub(crate) entry_count: Option<u64>,
    pub(crate) tensor_count: Option<u64>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) tensors: Vec<Tensor>,
    pub(crate) data: Vec<u8>,
}

const ALIGNMENT: usize = 32;

struct Reader<'a>(&'a [u8], usize);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        let Range { start, end } = self.1..self.1 + count;
        self.1 = end;
        &self.0[start..end]
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take(4).try_into().expect("four"))
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take(8).try_into().expect("eight"))
    }

    fn text(&mut self) -> String {
        let length = self.u64() as usize;
        String::from_utf8(self.take(length).to_vec()).expect("UTF-8")
    }

    fn skip(&mut self, kind: u32) {
        match kind {
            0 | 1 | 7 => drop(self.take(1)),
            2 | 3 => drop(self.take(2)),
            4..=6 => drop(self.take(4)),
            TEXT => drop(self.text()),
            LIST => {
                let (kind, count) = (self.u32(), self.u64());
                for _ in 0..count {
                    self.skip(kind);
                }
            }
            _ => drop(self.take(8)),
        }
    }
}

impl Gguf {
    pub(crate) fn parse(file: &[u8]) -> Self {
        let mut reader = Reader(file, 4);
        let version = reader.u32();
        let (tensors, entries) = (reader.u64(), reader.u64());
        let entries = (0..entries).map(|_| {
            let (key, kind) = (reader.text(), reader.u32());
            let start = reader.1;
            reader.skip(kind);
            Entry {
                key,
                kind,
                value: file[start..reader.1].to_vec(),
            }
        });
        let entries = entries.collect();
        let tensors = (0..tensors).map(|_| {
            let name = reader.text();
            let dimensions = reader.u32();
            Tensor {
                name,
                dimensions: (0..dimensions).map(|_| reader.u64()).collect(),
                kind: reader.u32(),
                offset: reader.u64(),
            }
        });
        let tensors = tensors.collect();
        Self {
            version,
            entry_count: None,
            tensor_count: None,
            entries,
            tensors,
            data: file[reader.1.next_multiple_of(ALIGNMENT)..].to_vec(),
        }
    }

    /// The header, padded to where the data begin.
    pub(crate) fn header(&self) -> Vec<u8> {
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

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.header();
        bytes.extend(&self.data);
        bytes
    }

    /// Sets an entry, or adds it.
    pub(crate) fn set(&mut self, key: &str, kind: u32, value: impl Into<Vec<u8>>) {
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

    pub(crate) fn set_u32(&mut self, key: &str, value: u32) {
        self.set(key, U32, value.to_le_bytes());
    }

    pub(crate) fn set_f32(&mut self, key: &str, value: f32) {
        self.set(key, F32, value.to_le_bytes());
    }

    pub(crate) fn set_text(&mut self, key: &str, value: &str) {
        self.set(key, TEXT, text(value));
    }

    pub(crate) fn remove(&mut self, key: &str) {
        self.entries.retain(|entry| entry.key != key);
    }

    pub(crate) fn entry(&mut self, key: &str) -> &mut Entry {
        let found = self.entries.iter_mut().find(|entry| entry.key == key);
        found.unwrap_or_else(|| panic!("the model has no `{key}`"))
    }

    /// The texts of a list.
    pub(crate) fn texts(&mut self, key: &str) -> Vec<String> {
        let value = self.entry(key).value.clone();
        let mut reader = Reader(&value, 4);
        let count = reader.u64();
        (0..count).map(|_| reader.text()).collect()
    }

    pub(crate) fn set_texts(&mut self, key: &str, texts: &[String]) {
        let mut value = TEXT.to_le_bytes().to_vec();
        value.extend((texts.len() as u64).to_le_bytes());
        value.extend(texts.iter().flat_map(|item| text(item)));
        self.set(key, LIST, value);
    }

    pub(crate) fn tensor(&mut self, name: &str) -> &mut Tensor {
        let found = self.tensors.iter_mut().find(|tensor| tensor.name == name);
        found.unwrap_or_else(|| panic!("the model has no tensor `{name}`"))
    }

    /// Makes it a model of another architecture, with what it says of its own.
    pub(crate) fn rename(&mut self, architecture: &str) {
        for entry in &mut self.entries {
            if let Some(name) = entry.key.strip_prefix("llama.") {
                entry.key = format!("{architecture}.{name}");
            }
        }
        self.set_text("general.architecture", architecture);
    }

    /// Bytes of the data of each tensor, by name.
    pub(crate) fn extents(&self) -> HashMap<String, Range<usize>> {
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

/// A text as in the file.
pub(crate) fn text(text: &str) -> Vec<u8> {
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.extend(text.as_bytes());
    bytes
}

/// A list of numbers as in the file.
pub(crate) fn list(kind: u32, numbers: &[[u8; 4]]) -> Vec<u8> {
    let mut bytes = kind.to_le_bytes().to_vec();
    bytes.extend((numbers.len() as u64).to_le_bytes());
    bytes.extend(numbers.iter().flatten());
    bytes
}
