//! The special tokens of a vocabulary, found in a text.
//!
//! llama.cpp splits a text at its special tokens first. Its time for that grows with the square of
//! their number, and cannot be interrupted. The same split here takes a time that grows with the
//! text, and the texts between the tokens can be tokenized one by one.

use aho_corasick::AhoCorasick;
use llama_cpp_sys_2 as sys;

use crate::backend::llama::ffi::Model;
use crate::protocol::Token;

/// A part of a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TextPart<'a> {
    Text(&'a str),
    Special(Token),
}

impl TextPart<'_> {
    /// Size of the text that is still to be tokenized, in bytes.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Special(_) => 0,
        }
    }
}

/// A token that is recognized by its spelling.
struct Special {
    token: Token,
    text: String,
    /// True if the token is recognized only when control tokens may be spelled out.
    hidden: bool,
    /// True if the token removes the white space before it.
    strips_left: bool,
    /// True if the token removes the white space behind it.
    strips_right: bool,
}

/// The special tokens of a vocabulary, longest first.
pub(super) struct Specials {
    specials: Vec<Special>,
    /// Finds the tokens that a text contains; `None` if there are no special tokens.
    finder: Option<AhoCorasick>,
}

impl Specials {
    pub(super) fn new(model: &Model) -> Self {
        let vocab = model.vocab();
        let special = |token: Token| {
            let has = |attributes| vocab.has(token, attributes);
            let hidden = has(sys::LLAMA_TOKEN_ATTR_CONTROL | sys::LLAMA_TOKEN_ATTR_UNKNOWN);
            if !hidden && !has(sys::LLAMA_TOKEN_ATTR_USER_DEFINED) {
                return None;
            }
            let text = vocab.text(token)?.to_str().ok();
            let text = text.filter(|text| !text.is_empty())?;
            Some(Special {
                token,
                text: text.to_owned(),
                hidden,
                strips_left: has(sys::LLAMA_TOKEN_ATTR_LSTRIP),
                strips_right: has(sys::LLAMA_TOKEN_ATTR_RSTRIP),
            })
        };
        Self::sorted(vocab.tokens().filter_map(special).collect())
    }

    fn sorted(mut specials: Vec<Special>) -> Self {
        specials.sort_by_key(|special| std::cmp::Reverse(special.text.len()));
        let texts = specials.iter().map(|special| &special.text);
        // Without a finder, no text is split here, and llama.cpp finds the tokens.
        let finder = AhoCorasick::new(texts).ok();
        let finder = finder.filter(|_| !specials.is_empty());
        Self { specials, finder }
    }

    /// Splits a text as llama.cpp does: at the longest special tokens first.
    pub(super) fn split<'a>(&self, text: &'a str, parse_special: bool) -> Vec<TextPart<'a>> {
        let mut parts = vec![TextPart::Text(text)];
        for index in self.present(text) {
            let special = &self.specials[index];
            if parse_special || !special.hidden {
                let whole = std::mem::take(&mut parts);
                for part in whole {
                    match part {
                        TextPart::Text(text) => special.split(text, &mut parts),
                        part @ TextPart::Special(_) => parts.push(part),
                    }
                }
            }
        }
        parts
    }

    /// Returns the indices of the tokens whose spelling is in a text, longest first.
    fn present(&self, text: &str) -> Vec<usize> {
        let mut is_present = vec![false; self.specials.len()];
        let finder = self.finder.iter();
        for found in finder.flat_map(|finder| finder.find_overlapping_iter(text)) {
            is_present[found.pattern().as_usize()] = true;
        }
        let indices = 0..self.specials.len();
        indices.filter(|index| is_present[*index]).collect()
    }
}

impl Special {
    fn split<'a>(&self, mut text: &'a str, parts: &mut Vec<TextPart<'a>>) {
        // White space as C's `isspace` defines it.
        const SPACES: [char; 6] = [' ', '\t', '\n', '\u{b}', '\u{c}', '\r'];
        let push = |text: &'a str, parts: &mut Vec<TextPart<'a>>| {
            if !text.is_empty() {
                parts.push(TextPart::Text(text));
            }
        };
        while let Some((mut before, mut behind)) = text.split_once(&self.text) {
            if self.strips_left {
                before = before.trim_end_matches(SPACES);
            }
            if self.strips_right {
                behind = behind.trim_start_matches(SPACES);
            }
            push(before, parts);
            parts.push(TextPart::Special(self.token));
            text = behind;
        }
        push(text, parts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn specials() -> Specials {
        let special = |token, text: &str, hidden, strips_left, strips_right| Special {
            token,
            text: text.to_owned(),
            hidden,
            strips_left,
            strips_right,
        };
        Specials::sorted(vec![
            special(1, "<s>", true, false, false),
            special(2, "<s><s>", true, false, false),
            special(3, "  ", false, false, false),
            special(4, "<m>", true, true, true),
        ])
    }

    #[test]
    fn longer_tokens_come_first_and_control_tokens_only_where_they_are_meant() {
        use TextPart::{Special, Text};
        let specials = specials();
        let text = "a<s><s><s>b  c";
        assert_eq!(
            specials.split(text, true),
            [
                Text("a"),
                Special(2),
                Special(1),
                Text("b"),
                Special(3),
                Text("c")
            ]
        );
        assert_eq!(
            specials.split(text, false),
            [Text("a<s><s><s>b"), Special(3), Text("c")]
        );
    }

    #[test]
    fn white_space_goes_with_a_token_that_strips_it() {
        use TextPart::{Special, Text};
        let specials = specials();
        assert_eq!(
            specials.split("a \n<m>\tb<m>", true),
            [Text("a"), Special(4), Text("b"), Special(4)]
        );
        assert_eq!(specials.split("", true), [Text("")]);
    }
}
