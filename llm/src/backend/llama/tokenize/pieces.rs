//! Places where a text can be cut without a change of its tokens.
//!
//! A byte-pair tokenizer splits a text into words by regular expressions and looks for tokens in
//! each word. A text can be tokenized in two pieces at a place where a word ends whatever surrounds
//! it. Two such places exist in the expressions of nearly all models:
//!
//! - behind a line end that is between a visible character and a letter, both ASCII;
//! - before a space that is between a stop and a letter, both ASCII.
//!
//! A WordPiece tokenizer looks for tokens in the words between white space: its texts can be cut
//! before a space between two letters. A SentencePiece tokenizer joins neighbors to tokens. It
//! never joins at a place that is inside no token: its texts can be cut there, which is usually
//! before each space. A unigram tokenizer takes the best of all ways to cover a text with tokens.
//! Each way passes through a place that is inside no token, so the best one is the best before it
//! and the best behind.

use super::charsmap::Charsmap;
use crate::model::vocab::TokenizeError;

/// Size of a piece at which the next suitable place is cut, in bytes.
const USUAL: usize = 32 << 10;
/// Maximum size of a piece, in bytes.
const MOST: usize = 512 << 10;
/// Maximum size of a piece, in bytes, if the time of an expression grows with the square of a run.
const MOST_IF_SQUARE: usize = 64 << 10;
/// Maximum size of a piece of a unigram tokenizer, in bytes after its replacements. For each byte
/// it looks up many tokens.
const MOST_IF_UNIGRAM: usize = 64 << 10;
/// Unit of exact scores of a unigram tokenizer: sums of its multiples below 2^30 are exact.
const EXACT: f64 = 1.0 / (1 << 23) as f64;
/// Digits, if the time of an expression grows with the square of a run of them.
const DIGITS: CharacterRun = CharacterRun {
    kind: "digits",
    is_of: char::is_numeric,
    most: 1_024,
};
/// White space, if the time of an expression grows with the square of a run of it.
const SPACES: CharacterRun = CharacterRun {
    kind: "spaces",
    is_of: char::is_whitespace,
    most: 512,
};
/// The character that SentencePiece writes for a space.
const SPACE: char = '\u{2581}';
/// Punctuation that ends a part of a sentence.
const STOPS: &[u8] = b".,;:!?";

/// A limit on runs of characters of one kind.
#[derive(Clone, Copy, Debug)]
struct CharacterRun {
    /// Name of the kind in messages, in the plural.
    kind: &'static str,
    is_of: fn(char) -> bool,
    most: usize,
}

/// Rules for cutting the texts of a model into pieces.
#[derive(Clone, Debug)]
pub(super) struct TextCuts {
    lines: bool,
    sentences: bool,
    /// Flags of ASCII characters. A text can be cut before a space that is between such a character
    /// and a letter.
    words: [bool; 128],
    /// True if the tokenizer puts a space before each text. It stands for the space that a piece
    /// begins with.
    adds_space: bool,
    /// Maximum size of a piece, in bytes.
    most: usize,
    run: Option<CharacterRun>,
    /// The replacements; pieces are measured after them.
    charsmap: Option<Charsmap>,
}

impl TextCuts {
    /// No cuts and no limits.
    pub(super) const NONE: Self = Self {
        lines: false,
        sentences: false,
        words: [false; 128],
        adds_space: false,
        most: usize::MAX,
        run: None,
        charsmap: None,
    };

    /// Returns the rules of a byte-pair tokenizer, by the names of the tokenizer and of its
    /// expressions in the model's file.
    pub(super) fn byte_pair(tokenizer: &str, expressions: &str) -> Self {
        let mut cuts = Self {
            lines: true,
            sentences: true,
            most: MOST,
            ..Self::NONE
        };
        match expressions {
            // Only a number ends a word.
            "superbpe" => {
                cuts.lines = false;
                cuts.sentences = false;
                cuts.most = MOST_IF_SQUARE;
                cuts.run = Some(DIGITS);
            }
            "deepseek-llm" | "jais-2" => {
                cuts.most = MOST_IF_SQUARE;
                cuts.run = Some(SPACES);
            }
            // A word is a line.
            "gemma4" | "granite-embed-multi-311m" | "sarvam-moe" => cuts.sentences = false,
            // The meaning of a character can depend on a tag far before it.
            _ if tokenizer == "hybriddna" => {
                cuts.lines = false;
                cuts.sentences = false;
            }
            _ => {}
        }
        cuts
    }

    /// Returns the rules of a WordPiece tokenizer.
    pub(super) fn word_piece() -> Self {
        let is_letter = |byte: u8| byte.is_ascii_alphabetic();
        Self {
            words: std::array::from_fn(|byte| is_letter(byte as u8)),
            most: MOST,
            ..Self::NONE
        }
    }

    /// Returns the rules of a SentencePiece tokenizer with these tokens. `adds_space` says that it
    /// puts a space before each text.
    pub(super) fn sentence_piece<'a>(
        tokens: impl Iterator<Item = &'a str>,
        adds_space: bool,
    ) -> Self {
        let mut words = std::array::from_fn(|byte| (byte as u8).is_ascii_graphic());
        for token in tokens {
            let mut before = None;
            for character in token.chars() {
                if let (' ' | SPACE, Some(before)) = (character, before)
                    && let Some(may_end) = words.get_mut(before as usize)
                {
                    *may_end = false;
                }
                before = Some(character);
            }
        }
        Self {
            words,
            adds_space,
            most: MOST,
            ..Self::NONE
        }
    }

    /// Returns the rules of a unigram tokenizer with these tokens, scores and replacements.
    pub(super) fn unigram<'a>(
        tokens: impl Iterator<Item = (&'a str, f32)> + Clone,
        adds_space: bool,
        charsmap: Option<Charsmap>,
    ) -> Self {
        // Neighboring unknown characters are joined, so a space must be a known one.
        let has_space = tokens.clone().any(|(text, _)| text.chars().eq([SPACE]));
        // Otherwise rounding would depend on the scores of the whole text before.
        let is_exact = |score: f32| (f64::from(score) / EXACT).fract() == 0.0;
        let mut scores = tokens.clone().map(|(_, score)| score);
        let keeps_words = charsmap.as_ref().is_some_and(Charsmap::keeps_words);
        let cuts = if keeps_words && has_space && scores.all(is_exact) {
            Self::sentence_piece(tokens.map(|(text, _)| text), adds_space)
        } else {
            Self::NONE
        };
        Self {
            most: MOST_IF_UNIGRAM,
            charsmap,
            ..cuts
        }
    }

    /// Cuts a text into pieces.
    pub(super) fn cut<'a>(&self, mut text: &'a str) -> Result<Vec<&'a str>, TokenizeError> {
        let mut pieces = Vec::new();
        while text.len() > USUAL
            && let Some(at) = (USUAL..text.len()).find(|at| self.is_place(text.as_bytes(), *at))
        {
            let (piece, rest) = text.split_at(at);
            pieces.push(piece);
            text = rest
                .strip_prefix(' ')
                .filter(|_| self.adds_space)
                .unwrap_or(rest);
        }
        pieces.push(text);
        for piece in &pieces {
            let bytes = piece.len();
            let charsmap = self.charsmap.as_ref();
            let replaced = charsmap.map_or(bytes, |map| map.replaced_bytes(piece).max(bytes));
            if replaced > self.most {
                // The limit for this text, if every byte grows by the same factor.
                let limit = self.most * bytes / replaced;
                return Err(TokenizeError::Uncut { bytes, limit });
            }
            if let Some(CharacterRun { kind, is_of, most }) = self.run {
                let runs = piece.split(|character| !is_of(character));
                if runs.map(|run| run.chars().count()).max() > Some(most) {
                    return Err(TokenizeError::Run { kind, limit: most });
                }
            }
        }
        Ok(pieces)
    }

    fn is_place(&self, text: &[u8], at: usize) -> bool {
        let byte = |index: usize| text.get(index).copied().unwrap_or_default();
        let is_line = byte(at - 1) == b'\n'
            && byte(at - 2).is_ascii_graphic()
            && byte(at).is_ascii_alphabetic();
        let is_sentence =
            byte(at) == b' ' && STOPS.contains(&byte(at - 1)) && byte(at + 1).is_ascii_alphabetic();
        let is_word = byte(at) == b' '
            && self.words.get(usize::from(byte(at - 1))) == Some(&true)
            && byte(at + 1).is_ascii_alphabetic();
        (self.lines && is_line) || (self.sentences && is_sentence) || is_word
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_where_words_end() {
        let cuts = TextCuts::byte_pair("gpt2", "gpt-4o");
        let short = "a. b\nc";
        assert_eq!(cuts.cut(short), Ok(vec![short]));
        let long = "é".repeat(USUAL);
        let pieces = [format!("{long}."), format!(" B {long}.\n"), "C".to_owned()];
        let text = pieces.concat();
        assert_eq!(
            cuts.cut(&text),
            Ok(pieces.iter().map(String::as_str).collect())
        );
    }

    #[test]
    fn texts_are_cut_where_no_token_goes_on() {
        let tokens = ["\u{2581}b", "a\u{2581}b", "c d"];
        let long = "x".repeat(USUAL);
        let pieces = [format!("{long}a {long}c {long}e"), long.clone()];
        let text = pieces.join(" ");
        for adds_space in [true, false] {
            let cuts = TextCuts::sentence_piece(tokens.into_iter(), adds_space);
            let space = if adds_space { "" } else { " " };
            let second = format!("{space}{}", pieces[1]);
            let cut = cuts.cut(&text);
            assert_eq!(cut, Ok(vec![pieces[0].as_str(), second.as_str()]));
        }
    }

    #[test]
    fn what_has_no_place_for_a_cut_is_bounded() {
        let text = "a".repeat(MOST + 1);
        let refused = TextCuts::byte_pair("gpt2", "gpt-4o").cut(&text);
        assert!(matches!(
            refused,
            Err(TokenizeError::Uncut { limit: MOST, .. })
        ));
        assert_eq!(TextCuts::NONE.cut(&text), Ok(vec![text.as_str()]));
        for (expressions, run, character) in
            [("superbpe", DIGITS, "7"), ("deepseek-llm", SPACES, "\t")]
        {
            let cuts = TextCuts::byte_pair("gpt2", expressions);
            let text = character.repeat(run.most + 1);
            assert!(matches!(cuts.cut(&text), Err(TokenizeError::Run { .. })));
            assert!(cuts.cut(&text[1..]).is_ok());
        }
    }
}
