//! Tensors that `PyTorch`'s `torch.save` has written: an archive in the format ZIP, with the elements
//! and a pickle that describes them. A pickle is a program. It is never run here, only compared with
//! the known program of a tensor.

use std::ops::Range;

use bytes::Bytes;

use super::{Datatype, Tensor, elements};

/// First bytes of such an archive.
pub(crate) const MARK: &[u8] = b"PK\x03\x04";

/// Types of elements, as pickles name them.
const TYPES: [(&[u8], Datatype); 4] = [
    (b"ctorch\nFloatStorage\n", Datatype::Fp32),
    (b"ctorch\nHalfStorage\n", Datatype::Fp16),
    (b"ctorch\nBFloat16Storage\n", Datatype::Bf16),
    (b"ctorch\nDoubleStorage\n", Datatype::Fp64),
];

/// Reads a tensor of floats; `None` for anything else, also for one that is not contiguous, needs a
/// gradient or is not on the CPU.
pub(crate) fn read(file: &Bytes) -> Option<Tensor> {
    if find_stored(file, b"/byteorder").is_some_and(|order| &file[order] != b"little") {
        return None;
    }
    let pickle = find_stored(file, b"/data.pkl")?;
    let (datatype, first, shape) = Pickle(&file[pickle]).read_tensor()?;
    let storage = file.slice(find_stored(file, b"/data/0")?);
    let begin = first.checked_mul(datatype.size()?)?;
    let bytes = elements(&shape).ok()?.checked_mul(datatype.size()?)?;
    let end = begin.checked_add(bytes);
    let end = end.filter(|end| *end <= storage.len())?;
    Tensor::new(datatype, shape, storage.slice(begin..end)).ok()
}

/// Finds an uncompressed file of an archive by the end of its name.
fn find_stored(archive: &[u8], name: &[u8]) -> Option<Range<usize>> {
    let bytes = |at: usize, count: usize| archive.get(at..at.checked_add(count)?);
    let number = |at: usize, count: usize| bytes(at, count).map(read_number);
    // The record at the end says where the list of files begins.
    let end = archive.len().checked_sub(22)?;
    let mut at = number(end + 16, 4).filter(|_| archive[end..].starts_with(b"PK\x05\x06"))?;
    while bytes(at, 4)? == b"PK\x01\x02" {
        let named = number(at + 28, 2)?;
        if bytes(at + 46, named)?.ends_with(name) {
            let head = number(at + 42, 4)?;
            let begin = head + 30 + number(head + 26, 2)? + number(head + 28, 2)?;
            let end = begin + number(at + 24, 4)?;
            let is_plain = number(at + 10, 2)? == 0;
            return (is_plain && end <= archive.len()).then_some(begin..end);
        }
        at += 46 + named + number(at + 30, 2)? + number(at + 32, 2)?;
    }
    None
}

/// Reads a little-endian number.
fn read_number(bytes: &[u8]) -> usize {
    let bytes = bytes.iter().rev();
    bytes.fold(0, |number, byte| number << 8 | usize::from(*byte))
}

/// The unread part of a pickle.
struct Pickle<'a>(&'a [u8]);

impl Pickle<'_> {
    /// Reads all of it: the type of the elements, the place of the first one, and the shape.
    fn read_tensor(mut self) -> Option<(Datatype, usize, Vec<usize>)> {
        self.take(b"\x80\x02")?;
        self.take(b"ctorch._utils\n_rebuild_tensor_v2\n")?;
        self.take(b"((X\x07\x00\x00\x00storage")?;
        let (_, datatype) = TYPES.iter().find(|(name, _)| self.take(name).is_some())?;
        self.take(b"X\x01\x00\x00\x000")?;
        self.take(b"X\x03\x00\x00\x00cpu")?;
        self.take_number()?;
        self.take(b"t")?;
        self.take(b"Q")?;
        let first = self.take_number()?;
        let (shape, steps) = (self.take_numbers()?, self.take_numbers()?);
        self.take(b"\x89ccollections\nOrderedDict\n")?;
        self.take(b")R")?;
        self.take(b"t")?;
        self.take(b"R")?;
        self.take(b".")?;
        let expected = (1..=shape.len()).map(|at| elements(&shape[at..]).ok());
        let is_contiguous = expected.eq(steps.iter().map(|step| Some(*step)));
        is_contiguous.then_some((*datatype, first, shape))
    }

    /// Takes operations, and the one after them that stores their result, if there is one.
    fn take(&mut self, operations: &[u8]) -> Option<()> {
        let rest = self.0.strip_prefix(operations)?;
        self.0 = match rest {
            [b'q', _, behind @ ..] => behind,
            _ => rest,
        };
        Some(())
    }

    /// Takes a number of one, two or four bytes.
    fn take_number(&mut self) -> Option<usize> {
        let (kind, rest) = self.0.split_first()?;
        let length = match kind {
            b'K' => 1,
            b'M' => 2,
            b'J' => 4,
            _ => return None,
        };
        let (number, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some(read_number(number))
    }

    /// Takes a tuple of one to three numbers.
    fn take_numbers(&mut self) -> Option<Vec<usize>> {
        let numbers = std::iter::from_fn(|| self.take_number());
        let numbers: Vec<usize> = numbers.take(3).collect();
        self.take(&[0x84 + numbers.len() as u8])?;
        Some(numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: &[u8] = b"K\x02K\x03\x86";
    const STEPS: &[u8] = b"K\x03K\x01\x86";

    /// Makes an archive as `PyTorch` writes it: only the list at its end has sizes, and bytes after
    /// the names align the contents.
    fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
        let (mut archive, mut list) = (Vec::new(), Vec::new());
        for (name, content) in files {
            let begin = (archive.len() as u32).to_le_bytes();
            let size = (content.len() as u32).to_le_bytes();
            let named = (name.len() as u16).to_le_bytes();
            archive.extend([MARK, &[0; 22], &named, &[3, 0]].concat());
            archive.extend([name.as_bytes(), b"FB\0", content].concat());
            let sizes = [&[0; 16][..], &size, &size, &named, &[0; 12]].concat();
            list.extend([&b"PK\x01\x02"[..], &sizes, &begin, name.as_bytes()].concat());
        }
        let begin = (archive.len() as u32).to_le_bytes();
        archive.extend(list);
        archive.extend([&b"PK\x05\x06"[..], &[0; 12], &begin, &[0, 0]].concat());
        archive
    }

    /// Makes the pickle of a tensor with these tuples of its shape and its steps.
    fn pickle(storage: &str, shape: &[u8], steps: &[u8]) -> Vec<u8> {
        [
            &b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\nq\x00((X\x07\x00\x00\x00storageq\x01"[..],
            format!("ctorch\n{storage}\n").as_bytes(),
            b"q\x02X\x01\x00\x00\x000q\x03X\x03\x00\x00\x00cpuq\x04K\x06tq\x05QK\x00",
            shape,
            b"q\x06",
            steps,
            b"q\x07\x89ccollections\nOrderedDict\nq\x08)Rq\ttq\nRq\x0b.",
        ]
        .concat()
    }

    fn saved(pickle: &[u8], elements: &[u8]) -> Option<Tensor> {
        let files = [
            ("archive/data.pkl", pickle),
            ("archive/byteorder", b"little"),
            ("archive/data/0", elements),
            ("archive/version", b"3\n"),
        ];
        read(&archive(&files).into())
    }

    #[test]
    fn a_tensor_is_read_as_its_pickle_says() {
        let elements: Vec<u8> = (0..6_u8)
            .flat_map(|at| f32::from(at).to_le_bytes())
            .collect();
        let tensor = saved(&pickle("FloatStorage", SHAPE, STEPS), &elements);
        let tensor = tensor.expect("a tensor");
        let found = (tensor.datatype(), tensor.shape());
        assert_eq!(found, (Datatype::Fp32, &[2, 3][..]));
        assert_eq!(&**tensor.data(), elements);
        let steps = b"M\x06\x00K\x03K\x01\x87";
        let tensor = saved(
            &pickle("HalfStorage", b"K\x01K\x02K\x03\x87", steps),
            &elements,
        );
        let tensor = tensor.expect("a tensor");
        let found = (tensor.datatype(), tensor.shape());
        assert_eq!(found, (Datatype::Fp16, &[1, 2, 3][..]));
        assert_eq!(&**tensor.data(), &elements[..12]);
    }

    #[test]
    fn other_programs_and_archives_are_refused() {
        let good = pickle("FloatStorage", SHAPE, STEPS);
        for (pickle, elements) in [
            (b"cos\nsystem\n(X\x02\x00\x00\x00lstR.".to_vec(), 24),
            (pickle("LongStorage", SHAPE, STEPS), 24),
            (pickle("FloatStorage", SHAPE, b"K\x01K\x02\x86"), 24),
            (pickle("FloatStorage", SHAPE, b"K\x01\x85"), 24),
            (pickle("FloatStorage", SHAPE, b""), 24),
            (good.clone(), 23),
            (good[..good.len() - 1].to_vec(), 24),
        ] {
            let refused = saved(&pickle, &vec![0; elements]);
            assert!(refused.is_none(), "{}", String::from_utf8_lossy(&pickle));
        }
        let elements: &[u8] = &[0; 24];
        let whole = archive(&[("a/data.pkl", &good[..]), ("a/data/0", elements)]);
        assert!(read(&whole.clone().into()).is_some());
        for length in 0..whole.len() {
            assert!(read(&whole[..length].to_vec().into()).is_none(), "{length}");
        }
        let other = [
            ("a/data.pkl", &good[..]),
            ("a/byteorder", b"big"),
            ("a/data/0", elements),
        ];
        assert!(read(&archive(&other).into()).is_none());
    }

    proptest::proptest! {
        #[test]
        fn any_archive_is_read_or_refused(tail: Vec<u8>, at: u16, byte: u8) {
            let _ = read(&tail.clone().into());
            let pickle = [&pickle("FloatStorage", SHAPE, STEPS)[..], &tail[..]].concat();
            let mut file = archive(&[("a/data.pkl", &pickle[..]), ("a/data/0", &[0; 24])]);
            let place = usize::from(at) % file.len();
            file[place] = byte;
            let _ = read(&file.into());
        }
    }
}
