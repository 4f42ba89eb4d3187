//! Tensors in files of `NumPy` (`.npy`).

use bytes::Bytes;
use graphmill_engine::shortened;

use super::{Datatype, Tensor};

/// First bytes of such a file.
pub(crate) const MARK: &[u8] = b"\x93NUMPY";

/// Types of elements, as headers write them.
const TYPES: [(&str, Datatype); 3] = [
    ("<f2", Datatype::Fp16),
    ("<f4", Datatype::Fp32),
    ("<f8", Datatype::Fp64),
];

/// Reads an array of floats.
///
/// # Errors
/// The fault, in words that follow the name of the field.
pub(crate) fn read(file: &Bytes) -> Result<Tensor, String> {
    let version = file.get(MARK.len()..).and_then(<[u8]>::first_chunk::<2>);
    if let Some(&[major, minor]) = version
        && !matches!((major, minor), (1..=3, 0))
    {
        return Err(format!(
            "is a NumPy file of version {major}.{minor}: expected 1.0, 2.0 or 3.0"
        ));
    }
    let (header, begin) = read_header(file).ok_or("is a NumPy file without a whole header")?;
    let (kind, order, shape) =
        split_entries(&header).ok_or("is a NumPy file with a header of another form")?;
    let known = TYPES.iter().find(|(written, _)| *written == kind);
    let Some((_, datatype)) = known else {
        let kind = shortened(kind, 16);
        return Err(format!(
            "is a NumPy file of `{kind}`: expected `float16`, `float32` or `float64`, little-endian"
        ));
    };
    if order != "False" {
        return Err(
            "is a NumPy file in Fortran order: save `np.ascontiguousarray` of it".to_owned(),
        );
    }
    let tensor = Tensor::new(*datatype, shape, file.slice(begin..));
    tensor.map_err(|error| format!("is a NumPy file that is cut or too long: {error}"))
}

/// Returns the header without white space, and the byte at which the elements begin.
fn read_header(file: &[u8]) -> Option<(String, usize)> {
    let (version, rest) = file.strip_prefix(MARK)?.split_first_chunk::<2>()?;
    let (length, rest) = if version[0] == 1 {
        let (length, rest) = rest.split_first_chunk()?;
        (u16::from_le_bytes(*length).into(), rest)
    } else {
        let (length, rest) = rest.split_first_chunk()?;
        (u32::from_le_bytes(*length), rest)
    };
    let (header, elements) = rest.split_at_checked(length as usize)?;
    let header = str::from_utf8(header).ok()?;
    let plain = header.split_whitespace().collect();
    Some((plain, file.len() - elements.len()))
}

/// Splits a header into its three entries: the type, the order and the shape.
fn split_entries(header: &str) -> Option<(&str, &str, Vec<usize>)> {
    let rest = header.strip_prefix("{'descr':'")?;
    let (kind, rest) = rest.split_once("','fortran_order':")?;
    let (order, rest) = rest.split_once(",'shape':(")?;
    let (shape, _) = rest.split_once(')')?;
    let lengths = shape
        .split_terminator(',')
        .map(|length| length.parse().ok().filter(|_| !length.starts_with('+')));
    Some((kind, order, lengths.collect::<Option<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, elements: &[u8]) -> Bytes {
        let head = [MARK, &[1, 0], &(header.len() as u16).to_le_bytes()].concat();
        [&head[..], header.as_bytes(), elements].concat().into()
    }

    fn described(kind: &str, order: &str, shape: &str) -> String {
        format!("{{'descr': '{kind}', 'fortran_order': {order}, 'shape': ({shape}), }}     \n")
    }

    #[test]
    fn an_array_is_read_as_its_header_says() {
        let elements = [1.5_f32, -2.0].map(f32::to_le_bytes).concat();
        for (shape, expected) in [("2,", &[2][..]), ("1, 2", &[1, 2]), ("2, 1", &[2, 1])] {
            let tensor = read(&file(&described("<f4", "False", shape), &elements));
            let tensor = tensor.expect("a tensor");
            assert_eq!(
                (tensor.datatype(), tensor.shape()),
                (Datatype::Fp32, expected)
            );
            assert_eq!(&**tensor.data(), elements);
        }
        let later = described("<f2", "False", "1, 1");
        let head = [MARK, &[3, 0], &(later.len() as u32).to_le_bytes()].concat();
        let tensor = read(&[&head[..], later.as_bytes(), &[0, 60]].concat().into());
        assert_eq!(tensor.expect("a tensor").datatype(), Datatype::Fp16);
    }

    #[test]
    fn what_is_no_such_array_is_refused() {
        let of = |kind, order, shape| described(kind, order, shape);
        for (header, why) in [
            (of("<i4", "False", "1,"), "of `<i4`"),
            (of(">f4", "False", "1,"), "of `>f4`"),
            (of("<f4", "True", "1,"), "Fortran order"),
            (of("<f4", "False", "2,"), "has 8 bytes, but there are 4"),
            (of("<f4", "False", "-1,"), "another form"),
            (of("<f4", "False", "+1,"), "another form"),
            (
                of("<f4", "False", "4611686018427387904, 4"),
                "more elements",
            ),
            ("{}".to_owned(), "another form"),
        ] {
            let error = read(&file(&header, &[0; 4])).expect_err(why);
            assert!(error.contains(why), "{header}: {error}");
        }
        for version in [[9, 0], [1, 1], [0, 0]] {
            let mut bytes = file(&of("<f4", "False", "1,"), &[0; 4]).to_vec();
            bytes[MARK.len()..][..2].copy_from_slice(&version);
            let error = read(&bytes.into()).expect_err("another version");
            let [major, minor] = version;
            assert!(
                error.contains(&format!("version {major}.{minor}")),
                "{error}"
            );
        }
        let cut = file(&of("<f4", "False", "1,"), &[]).slice(..30);
        assert!(read(&cut).is_err_and(|why| why.contains("whole header")));
    }

    proptest::proptest! {
        #[test]
        fn any_file_is_read_or_refused(tail: Vec<u8>) {
            let _ = read(&[MARK, &tail[..]].concat().into());
        }
    }
}
