//! The vocabulary of scripted models.

use super::{END_OF_TEXT, IM_END, IM_START};
use crate::model::vocab::{TokenizeError, Vocab};
use crate::protocol::Token;

/// A vocabulary of the 256 bytes and some special tokens.
#[derive(Debug)]
pub(super) struct ByteVocab {
    pub(super) name: String,
    pub(super) chat_template: String,
    pub(super) context: usize,
    /// The spellings of the special tokens, which follow the bytes.
    pub(super) specials: Vec<String>,
}

impl ByteVocab {
    /// Tokenizes a text. Special tokens from number `first` on are recognized by their spelling.
    pub(super) fn read(&self, text: &str, first: usize) -> Vec<Token> {
        let mut tokens = Vec::with_capacity(text.len());
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            let mut specials = self.specials.iter().zip(IM_START..).skip(first);
            let special = specials.find(|(spelling, _)| rest.starts_with(*spelling));
            let width = if let Some((spelling, token)) = special {
                tokens.push(token);
                spelling.len()
            } else {
                let bytes = &rest.as_bytes()[..c.len_utf8()];
                tokens.extend(bytes.iter().copied().map(Token::from));
                bytes.len()
            };
            rest = &rest[width..];
        }
        tokens
    }

    pub(super) fn text(&self, tokens: &[Token]) -> String {
        let mut bytes = Vec::with_capacity(tokens.len());
        for token in tokens {
            self.piece(*token, true, &mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Vocab for ByteVocab {
    fn tokenize(
        &self,
        text: &str,
        _add_special: bool,
        parse_special: bool,
    ) -> Result<Vec<Token>, TokenizeError> {
        let none = self.specials.len();
        Ok(self.read(text, if parse_special { 0 } else { none }))
    }

    fn piece(&self, token: Token, special: bool, out: &mut Vec<u8>) {
        if let Ok(byte) = u8::try_from(token) {
            out.push(byte);
        } else if special && let Some(spelling) = self.specials.get((token - IM_START) as usize) {
            out.extend_from_slice(spelling.as_bytes());
        }
    }

    fn is_eog(&self, token: Token) -> bool {
        token == IM_END || token == END_OF_TEXT
    }

    fn is_control(&self, token: Token) -> bool {
        token >= IM_START
    }

    fn bos(&self) -> Option<Token> {
        None
    }

    fn eos(&self) -> Option<Token> {
        Some(IM_END)
    }

    fn chat_template(&self, name: Option<&str>) -> Option<&str> {
        name.is_none().then_some(self.chat_template.as_str())
    }

    fn n_vocab(&self) -> usize {
        IM_START as usize + self.specials.len()
    }

    fn context_length(&self) -> usize {
        self.context
    }

    fn model_name(&self) -> &str {
        &self.name
    }
}
