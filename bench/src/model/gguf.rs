//! The parts of the GGUF format that the bench needs: the metadata of a file, and a file of
//! metadata and tensors.

use std::{
    fs::File,
    io::{self, BufWriter, Read as _, Write},
    path::Path,
};

const MAGIC: &[u8; 4] = b"GGUF";
const VERSION: u32 = 3;
/// Tensors begin at multiples of this many bytes, counted from the first.
const ALIGNMENT: u64 = 32;

const UINT32: u32 = 4;
const INT32: u32 = 5;
const FLOAT32: u32 = 6;
const STRING: u32 = 8;
const ARRAY: u32 = 9;

/// A metadata value: what the bench reads or writes, or the bytes of any other.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// An unsigned number.
    U32(u32),
    /// A number.
    F32(f32),
    /// A text.
    Text(String),
    /// A list of texts.
    Texts(Vec<String>),
    /// A list of numbers.
    Numbers(Vec<i32>),
    /// Anything else: its type and its bytes as they are in the file.
    Raw(u32, Vec<u8>),
}

/// Metadata in the order of the file.
pub type Metadata = Vec<(String, Value)>;

/// A tensor's place in a file that is about to be written.
pub struct Tensor {
    /// Its name.
    pub name: String,
    /// Its lengths, the fastest-running first.
    pub shape: Vec<u64>,
    /// ggml's number of its type.
    pub kind: u32,
    /// Bytes of its data.
    pub bytes: u64,
}

/// Reads the metadata of a file.
///
/// # Errors
///
/// If the file cannot be read or is not a GGUF file of version 3.
pub fn metadata(path: &Path) -> io::Result<Metadata> {
    let mut bytes = Vec::new();
    File::open(path)?.read_to_end(&mut bytes)?;
    let mut reader = GgufReader(&bytes);
    if reader.take(4)? != MAGIC || reader.u32()? != VERSION {
        return Err(invalid("not a GGUF file of version 3"));
    }
    reader.u64()?; // the number of tensors
    let count = reader.u64()?;
    (0..count)
        .map(|_| {
            let name = reader.text()?;
            let kind = reader.u32()?;
            Ok((name, reader.value(kind)?))
        })
        .collect()
}

/// Writes a file; `data` is called for each tensor in order and writes as many bytes as the tensor
/// says.
///
/// # Errors
///
/// If writing fails or `data` wrote another number of bytes.
pub fn write(
    path: &Path,
    metadata: &Metadata,
    tensors: &[Tensor],
    mut data: impl FnMut(&Tensor, &mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut head = Vec::new();
    head.extend_from_slice(MAGIC);
    head.extend_from_slice(&VERSION.to_le_bytes());
    head.extend_from_slice(&(tensors.len() as u64).to_le_bytes());
    head.extend_from_slice(&(metadata.len() as u64).to_le_bytes());
    for (name, value) in metadata {
        put_text(&mut head, name);
        put_value(&mut head, value);
    }
    let mut offset = 0;
    for tensor in tensors {
        put_text(&mut head, &tensor.name);
        head.extend_from_slice(&(tensor.shape.len() as u32).to_le_bytes());
        for length in &tensor.shape {
            head.extend_from_slice(&length.to_le_bytes());
        }
        head.extend_from_slice(&tensor.kind.to_le_bytes());
        head.extend_from_slice(&u64::to_le_bytes(offset));
        offset += tensor.bytes.next_multiple_of(ALIGNMENT);
    }
    let mut file = CountingWriter {
        inner: BufWriter::with_capacity(1 << 20, File::create(path)?),
        bytes: 0,
    };
    file.write_all(&head)?;
    for tensor in tensors {
        file.pad()?;
        let begun = file.bytes;
        data(tensor, &mut file)?;
        if file.bytes - begun != tensor.bytes {
            let message = format!("`{}` has another size than announced", tensor.name);
            return Err(invalid(&message));
        }
    }
    file.pad()?;
    file.flush()
}

fn invalid(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u64).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn put_value(out: &mut Vec<u8>, value: &Value) {
    let list = |out: &mut Vec<u8>, kind: u32, length: usize| {
        out.extend_from_slice(&ARRAY.to_le_bytes());
        out.extend_from_slice(&kind.to_le_bytes());
        out.extend_from_slice(&(length as u64).to_le_bytes());
    };
    match value {
        Value::U32(number) => {
            out.extend_from_slice(&UINT32.to_le_bytes());
            out.extend_from_slice(&number.to_le_bytes());
        }
        Value::F32(number) => {
            out.extend_from_slice(&FLOAT32.to_le_bytes());
            out.extend_from_slice(&number.to_le_bytes());
        }
        Value::Text(text) => {
            out.extend_from_slice(&STRING.to_le_bytes());
            put_text(out, text);
        }
        Value::Texts(texts) => {
            list(out, STRING, texts.len());
            for text in texts {
                put_text(out, text);
            }
        }
        Value::Numbers(numbers) => {
            list(out, INT32, numbers.len());
            for number in numbers {
                out.extend_from_slice(&number.to_le_bytes());
            }
        }
        Value::Raw(kind, bytes) => {
            out.extend_from_slice(&kind.to_le_bytes());
            out.extend_from_slice(bytes);
        }
    }
}

/// Takes values off the front of a file's bytes.
struct GgufReader<'a>(&'a [u8]);

impl<'a> GgufReader<'a> {
    fn take(&mut self, length: usize) -> io::Result<&'a [u8]> {
        let (taken, rest) = self
            .0
            .split_at_checked(length)
            .ok_or_else(|| invalid("the file ends early"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn number<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut number = [0; N];
        number.copy_from_slice(self.take(N)?);
        Ok(number)
    }

    fn u32(&mut self) -> io::Result<u32> {
        self.number().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> io::Result<u64> {
        self.number().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> io::Result<String> {
        let length = self.u64()? as usize;
        let bytes = self.take(length)?.to_vec();
        String::from_utf8(bytes).map_err(|_| invalid("a text is not UTF-8"))
    }

    fn value(&mut self, kind: u32) -> io::Result<Value> {
        match kind {
            UINT32 => self.u32().map(Value::U32),
            FLOAT32 => self
                .number()
                .map(|bytes| Value::F32(f32::from_le_bytes(bytes))),
            STRING => self.text().map(Value::Text),
            ARRAY => self.list(),
            other => Ok(Value::Raw(other, self.take(scalar_size(other)?)?.to_vec())),
        }
    }

    fn list(&mut self) -> io::Result<Value> {
        let before = self.0;
        let kind = self.u32()?;
        let length = self.u64()? as usize;
        match kind {
            STRING => {
                let texts: io::Result<_> = (0..length).map(|_| self.text()).collect();
                texts.map(Value::Texts)
            }
            INT32 => {
                let number = |_| self.number().map(i32::from_le_bytes);
                let numbers: io::Result<_> = (0..length).map(number).collect();
                numbers.map(Value::Numbers)
            }
            other => {
                self.take(length * scalar_size(other)?)?;
                let bytes = before[..before.len() - self.0.len()].to_vec();
                Ok(Value::Raw(ARRAY, bytes))
            }
        }
    }
}

fn scalar_size(kind: u32) -> io::Result<usize> {
    match kind {
        0 | 1 | 7 => Ok(1),
        2 | 3 => Ok(2),
        UINT32 | INT32 | FLOAT32 => Ok(4),
        10..=12 => Ok(8),
        _ => Err(invalid("a value has an unknown type")),
    }
}

/// Knows how much was written, to align what follows.
struct CountingWriter<W> {
    inner: W,
    bytes: u64,
}

impl<W: Write> CountingWriter<W> {
    fn pad(&mut self) -> io::Result<()> {
        let missing = self.bytes.next_multiple_of(ALIGNMENT) - self.bytes;
        self.write_all(&[0; ALIGNMENT as usize][..missing as usize])
    }
}

impl<W: Write> Write for CountingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
