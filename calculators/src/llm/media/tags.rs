//! Removal of tags from sound files: titles, covers, comments. It happens before a file is decoded,
//! because a decoder allocates many times the bytes of a tag.

/// Bytes of the header of an `ID3v2` tag.
const ID3_HEAD: usize = 10;
/// Flag of a tag that is followed by a footer as long as the header.
const ID3_FOOTER: u8 = 0x10;
/// Bytes before the chunks of a WAV file.
const RIFF_HEAD: usize = 12;
/// Bit in the kind of a FLAC block that marks the last one.
const LAST_BLOCK: u8 = 0x80;

/// Returns the file without its tags.
pub(super) fn left_out(file: &[u8]) -> Vec<u8> {
    let file = behind_id3(file);
    match file.first_chunk() {
        Some(b"fLaC") => flac(file),
        Some(b"RIFF") => riff(file),
        _ => file.to_vec(),
    }
}

/// Returns the rest of a file after the `ID3v2` tags at its beginning.
fn behind_id3(mut file: &[u8]) -> &[u8] {
    while let Some([b'I', b'D', b'3', _, _, flags, size @ ..]) = file.first_chunk::<ID3_HEAD>() {
        // Each byte of the size has seven bits.
        let size = size
            .iter()
            .fold(0, |size, byte| size << 7 | usize::from(byte & 0x7f));
        let footer = usize::from(flags & ID3_FOOTER != 0) * ID3_HEAD;
        file = file.get(ID3_HEAD + size + footer..).unwrap_or_default();
    }
    file
}

/// Returns a FLAC file with only the first block before its frames, which describes the samples.
fn flac(file: &[u8]) -> Vec<u8> {
    let (mark, mut rest) = file.split_at(4);
    let mut first: &[u8] = &[];
    while let Some(([kind, length @ ..], _)) = rest.split_first_chunk::<4>() {
        let length = length
            .iter()
            .fold(0, |length, byte| length << 8 | usize::from(*byte));
        let (block, behind) = rest.split_at_checked(4 + length).unwrap_or((rest, &[]));
        if first.is_empty() {
            first = block;
        }
        rest = behind;
        if kind & LAST_BLOCK != 0 {
            break;
        }
    }
    let mut plain = [mark, first, rest].concat();
    if let Some(kind) = plain.get_mut(4) {
        *kind |= LAST_BLOCK;
    }
    plain
}

/// Returns a WAV file without the lists of tags before its samples.
fn riff(file: &[u8]) -> Vec<u8> {
    let (head, mut rest) = file.split_at(RIFF_HEAD.min(file.len()));
    let mut plain = head.to_vec();
    while let ([kind, length, ..], _) = rest.as_chunks::<4>() {
        if kind == b"data" {
            break;
        }
        let length = u32::from_le_bytes(*length) as usize;
        let padded = length.saturating_add(8 + length % 2);
        let (chunk, behind) = rest.split_at_checked(padded).unwrap_or((rest, &[]));
        if kind != b"LIST" {
            plain.extend_from_slice(chunk);
        }
        rest = behind;
    }
    plain.extend_from_slice(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID3: &[u8] = b"ID3\x04\0\0\0\0\x01\x02";

    #[test]
    fn tags_before_a_file_are_left_out() {
        let tag = [ID3, &[7; 130]].concat();
        let footed = [b"ID3\x04\0\x10\0\0\0\x02", &[7; 12][..]].concat();
        for (tags, name) in [
            (tag.clone(), "one"),
            ([&tag[..], &tag].concat(), "two"),
            ([&tag[..], &footed].concat(), "with a footer"),
        ] {
            assert_eq!(
                left_out(&[&tags[..], b"samples"].concat()),
                b"samples",
                "{name}"
            );
        }
        assert_eq!(left_out(&[ID3, &[7; 129]].concat()), b"");
        assert_eq!(left_out(b"ID3"), b"ID3");
    }

    #[test]
    fn of_the_blocks_of_a_flac_file_the_first_is_left() {
        let file = |last: u8| [b"fLaC", &[last, 0, 0, 2, 1, 2][..]].concat();
        let comments = [&[4, 0, 1, 0][..], &[7; 256], &[0x86, 0, 0, 1, 9]].concat();
        let tagged = [&file(0)[..], &comments, b"frames"].concat();
        assert_eq!(left_out(&tagged), [&file(0x80)[..], b"frames"].concat());
        let plain = [&file(0x80)[..], b"frames"].concat();
        assert_eq!(left_out(&plain), plain);
        // What is cut short within its blocks has no frames.
        assert_eq!(left_out(&tagged[..100]), file(0x80));
    }

    #[test]
    fn lists_before_the_samples_of_a_wav_file_are_left_out() {
        let head = b"RIFF\xff\0\0\0WAVE";
        let (format, data) = (b"fmt \x03\0\0\0abc\0", b"data\x04\0\0\0abcdLIST");
        let list = [b"LIST\x05\0\0\0", &b"xxxxx\0"[..]].concat();
        let tagged = [head, &list[..], format, &list, data].concat();
        assert_eq!(left_out(&tagged), [head, &format[..], data].concat());
        assert_eq!(left_out(b"RIFF"), b"RIFF");
        assert_eq!(
            left_out(&[head, &b"LIST\xff\xff\xff\xffx"[..]].concat()),
            head
        );
    }

    proptest::proptest! {
        #[test]
        fn any_file_is_read(tail: Vec<u8>, kind in 0..3_usize) {
            let head = [ID3, b"fLaC", b"RIFF"][kind];
            let file = [head, &tail[..]].concat();
            proptest::prop_assert!(left_out(&file).len() <= file.len());
        }
    }
}
