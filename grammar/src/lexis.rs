//! Where literals and comments end: what the delimiter scan and the parser must see alike.

/// Whether the byte is whitespace of the text format.
pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Where the line ends that `at` is on.
pub(crate) fn line_end(text: &str, at: usize) -> usize {
    text[at..]
        .find('\n')
        .map_or(text.len(), |length| at + length)
}

/// Where the string literal ends whose quote is at `at`, closing quote included; none if that is not on its line.
pub(crate) fn string_end(text: &str, at: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let quote = bytes[at];
    let mut end = at + 1;
    loop {
        match *bytes.get(end)? {
            b'\n' => return None,
            b'\\' if matches!(bytes.get(end + 1), None | Some(b'\n')) => return None,
            b'\\' => end += 2,
            byte if byte == quote => return Some(end + 1),
            _ => end += 1,
        }
    }
}

/// A comment of another language.
pub(crate) struct ForeignComment {
    /// One past its last byte.
    pub(crate) end: usize,
    /// False for a `/*` without `*/`, which goes to the end of the text.
    pub(crate) closed: bool,
}

/// The `//` or `/*` comment that begins at `at`, if one does.
pub(crate) fn foreign_comment(text: &str, at: usize) -> Option<ForeignComment> {
    match text.as_bytes().get(at..at + 2)? {
        b"//" => Some(ForeignComment {
            end: line_end(text, at),
            closed: true,
        }),
        b"/*" => {
            let length = text[at + 2..].find("*/");
            Some(ForeignComment {
                end: length.map_or(text.len(), |length| at + 2 + length + 2),
                closed: length.is_some(),
            })
        }
        _ => None,
    }
}
