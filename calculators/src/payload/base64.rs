//! Decoding of files in Base64.

use std::borrow::Cow;

use base64::{
    DecodeError, Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};

/// Engine that decodes as browsers do: it ignores the spare bits of the last character.
const BROWSERS: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Decodes Base64 as browsers do. Line breaks and missing padding are allowed, because many
/// programs write such text.
///
/// # Errors
/// A description of the fault, which continues a sentence that names the data.
pub(crate) fn decode(text: &str) -> Result<Vec<u8>, String> {
    let plain = if text.bytes().any(|byte| byte.is_ascii_whitespace()) {
        Cow::Owned(text.split_ascii_whitespace().collect())
    } else {
        Cow::Borrowed(text)
    };
    BROWSERS.decode(&*plain).map_err(|error| match error {
        DecodeError::InvalidByte(_, b'-' | b'_') => {
            "is Base64 of another alphabet: `+` and `/` are expected, not `-` and `_`".to_owned()
        }
        DecodeError::InvalidByte(at, byte) if byte != b'=' => {
            format!("is not Base64: character {} is not in its alphabet", at + 1)
        }
        _ => "is not Base64: its end is missing".to_owned(),
    })
}

/// Returns a lower bound of the number of bytes that a Base64 text decodes to.
pub(crate) fn least_bytes(text: &str) -> u64 {
    let characters = text.bytes().filter(|byte| !byte.is_ascii_whitespace());
    (characters.count() as u64 / 4 * 3).saturating_sub(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn breaks_of_lines_and_missing_padding_make_no_difference() {
        for text in [
            "aGVsbG8=",
            "aGVsbG8",
            "aGVs\nbG8=\n",
            " aGVs\r\n\tbG8 ",
            "aGVsbG9=",
        ] {
            assert_eq!(decode(text).as_deref(), Ok(&b"hello"[..]), "{text:?}");
            assert!(least_bytes(text) <= 5, "{text:?}");
        }
        assert_eq!(decode(""), Ok(Vec::new()));
    }

    #[test]
    fn what_is_wrong_is_told() {
        for (text, why) in [
            (
                "aGVsb\nG8*",
                "is not Base64: character 8 is not in its alphabet",
            ),
            ("aGVsb", "is not Base64: its end is missing"),
            (
                "aG-_",
                "is Base64 of another alphabet: `+` and `/` are expected, not `-` and `_`",
            ),
        ] {
            assert_eq!(decode(text), Err(why.to_owned()), "{text:?}");
        }
    }
}
