//! Random weights, and GGUF files of them with the vocabulary of another one.

/// What a tensor is filled with.
#[derive(Clone, Copy)]
pub(crate) enum Fill {
    Ones,
    /// Numbers of a deviation.
    Random(f32),
    /// Numbers that keep the size of a vector that is multiplied by them.
    Matrix,
    /// Negative numbers, slow decays.
    Decay,
    /// What takes numbers of a vector from a place on, times this.
    Part(u64, f32),
    /// The numbers of the embeddings that tokens so many places before have, of this deviation.
    Earlier(u64, f32),
    /// The integers from 0 on.
    Places,
}

pub(crate) struct Tensor {
    pub(crate) name: String,
    pub(crate) shape: Vec<u64>,
    pub(crate) fill: Fill,
}

/// The tensor of the embeddings of tokens.
pub(crate) const EMBEDDINGS: &str = "token_embd.weight";

pub(crate) fn ones(name: &str, length: u64) -> Tensor {
    Tensor {
        name: name.to_owned(),
        shape: vec![length],
        fill: Fill::Ones,
    }
}

pub(crate) fn matrix(name: &str, shape: &[u64], deviation: f32) -> Tensor {
    Tensor {
        name: name.to_owned(),
        shape: shape.to_vec(),
        fill: Fill::Random(deviation / (shape[0] as f32).sqrt()),
    }
}

impl Tensor {
    fn numbers(&self) -> Vec<f32> {
        let count: u64 = self.shape.iter().product();
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let name = match self.fill {
            Fill::Earlier(..) => EMBEDDINGS,
            _ => &self.name,
        };
        for byte in name.bytes() {
            random.0 = (random.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        let columns = self.shape[0];
        let mut number = |index: u64| match self.fill {
            Fill::Ones => 1.0,
            Fill::Random(deviation) | Fill::Earlier(_, deviation) => deviation * random.normal(),
            Fill::Matrix => random.normal() / (columns as f32).sqrt(),
            Fill::Decay => -0.05 - 0.2 * random.normal().abs(),
            Fill::Part(from, scale) if index % columns == from + index / columns => scale,
            Fill::Part(..) => 0.0,
            Fill::Places => index as f32,
        };
        let mut numbers: Vec<f32> = (0..count).map(&mut number).collect();
        if let Fill::Earlier(places, _) = self.fill {
            numbers.rotate_right((places * columns) as usize);
        }
        numbers
    }
}

struct Random(u64);

impl Random {
    /// From 0 to 1.
    fn even(&mut self) -> f32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 40) as f32 / (1_u64 << 24) as f32
    }

    /// Nearly normal.
    fn normal(&mut self) -> f32 {
        (0..12).map(|_| self.even()).sum::<f32>() - 6.0
    }
}

pub(crate) const U32: u32 = 4;
pub(crate) const F32: u32 = 6;
pub(crate) const BOOL: u32 = 7;
const TEXT: u32 = 8;
pub(crate) const LIST: u32 = 9;

const F32_TENSOR: u32 = 0;
const I64_TENSOR: u32 = 27;

/// Entries of a GGUF file as they are written.
pub(crate) struct Vocabulary {
    pub(crate) entries: Vec<Vec<u8>>,
    pub(crate) tokens: u64,
}

impl Vocabulary {
    /// Takes the entries on the tokenizer out of a file.
    pub(crate) fn read(file: &[u8]) -> Self {
        let mut reader = Reader(&file[16..]);
        let mut vocabulary = Self {
            entries: Vec::new(),
            tokens: 0,
        };
        for _ in 0..reader.u64() {
            let before = reader.0;
            let name = reader.text();
            let kind = reader.u32();
            let count = reader.skip(kind);
            if name.starts_with(b"tokenizer.") {
                let length = before.len() - reader.0.len();
                vocabulary.entries.push(before[..length].to_vec());
            }
            if name == b"tokenizer.ggml.tokens" {
                vocabulary.tokens = count;
            }
        }
        vocabulary
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: u64) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count as usize);
        self.0 = rest;
        taken
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take(4).try_into().expect("four"))
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take(8).try_into().expect("eight"))
    }

    fn text(&mut self) -> &'a [u8] {
        let length = self.u64();
        self.take(length)
    }

    /// Returns the length of a list.
    fn skip(&mut self, kind: u32) -> u64 {
        let length = match kind {
            0 | 1 | 7 => 1,
            2 | 3 => 2,
            4..=6 => 4,
            TEXT => self.u64(),
            LIST => {
                let (kind, count) = (self.u32(), self.u64());
                for _ in 0..count {
                    self.skip(kind);
                }
                return count;
            }
            _ => 8,
        };
        self.take(length);
        0
    }
}

fn text(text: &str) -> Vec<u8> {
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.extend(text.as_bytes());
    bytes
}

pub(crate) fn entry(name: &str, kind: u32, value: impl AsRef<[u8]>) -> Vec<u8> {
    let mut bytes = text(name);
    bytes.extend(kind.to_le_bytes());
    bytes.extend(value.as_ref());
    bytes
}

pub(crate) fn text_entry(entries: &mut Vec<Vec<u8>>, name: &str, value: &str) {
    entries.push(entry(name, TEXT, text(value)));
}

pub(crate) fn file(entries: &[Vec<u8>], tensors: &[Tensor]) -> Vec<u8> {
    const ALIGNMENT: usize = 32;
    let mut bytes = b"GGUF".to_vec();
    bytes.extend(3_u32.to_le_bytes());
    bytes.extend((tensors.len() as u64).to_le_bytes());
    bytes.extend((entries.len() as u64).to_le_bytes());
    bytes.extend(entries.iter().flatten());
    let mut data = Vec::new();
    for tensor in tensors {
        bytes.extend(text(&tensor.name));
        bytes.extend((tensor.shape.len() as u32).to_le_bytes());
        bytes.extend(tensor.shape.iter().flat_map(|length| length.to_le_bytes()));
        let numbers = tensor.numbers().into_iter();
        let (kind, written): (u32, Vec<u8>) = match tensor.fill {
            Fill::Places => (
                I64_TENSOR,
                numbers
                    .flat_map(|number| (number as i64).to_le_bytes())
                    .collect(),
            ),
            _ => (F32_TENSOR, numbers.flat_map(f32::to_le_bytes).collect()),
        };
        bytes.extend(kind.to_le_bytes());
        bytes.extend((data.len() as u64).to_le_bytes());
        data.extend(written);
        data.resize(data.len().next_multiple_of(ALIGNMENT), 0);
    }
    bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
    bytes.extend(data);
    bytes
}
