//! A model's vocabulary as llguidance reads it: the bytes of all tokens in a trie.

use std::sync::{Arc, OnceLock};

use llguidance::toktrie::{INVALID_TOKEN, TokRxInfo, TokTrie, TokenId, TokenizerEnv};

use super::numbers::Numerals;
use crate::model::vocab::Vocab;
use crate::protocol::Token;

/// Text that a tokenizer for plain text gives back as it is.
const PROBE: &str = "{\"name\": [1, true]}";

/// The tokens of a model, by their bytes.
pub(super) struct Vocabulary {
    vocab: Arc<dyn Vocab>,
    trie: TokTrie,
    is_canonical: bool,
    /// Found when the first number is long.
    numerals: OnceLock<Numerals>,
}

impl Vocabulary {
    /// Takes a second for a large vocabulary.
    pub(super) fn new(vocab: Arc<dyn Vocab>) -> Self {
        let mut ends = Vec::new();
        let words: Vec<Vec<u8>> = (0..vocab.n_vocab() as Token)
            .map(|token| {
                let mut bytes = Vec::new();
                let is_end = vocab.is_eog(token);
                if is_end {
                    ends.push(token as TokenId);
                }
                if is_end || vocab.is_control(token) {
                    // No text matches it, only its name in a grammar.
                    bytes.push(TokTrie::SPECIAL_TOKEN_MARKER);
                }
                vocab.piece(token, true, &mut bytes);
                bytes
            })
            .collect();
        let end = ends.first().copied().unwrap_or(INVALID_TOKEN);
        let mut trie = TokTrie::from(&TokRxInfo::new(words.len() as u32, end), &words);
        if !ends.is_empty() {
            trie = trie.with_eos_tokens(&ends);
        }
        let mut vocabulary = Self {
            vocab,
            trie,
            is_canonical: true,
            numerals: OnceLock::new(),
        };
        vocabulary.is_canonical = vocabulary.tokens(PROBE).is_some();
        vocabulary
    }

    /// The bytes of a token.
    pub(super) fn bytes(&self, token: TokenId) -> &[u8] {
        self.trie.token(token)
    }

    /// The tokens that numbers are told by.
    pub(super) fn numerals(&self) -> &Numerals {
        self.numerals.get_or_init(|| Numerals::new(&self.trie))
    }

    /// The tokens of a text, if they spell it: some tokenizers put a space before it.
    fn tokens(&self, text: &str) -> Option<Vec<TokenId>> {
        let tokens = self.vocab.tokenize(text, false, false).ok()?;
        let tokens: Vec<TokenId> = tokens.into_iter().map(|token| token as TokenId).collect();
        (self.trie.decode(&tokens) == text.as_bytes()).then_some(tokens)
    }

    /// A text of prompts in pieces: the control tokens that are spelled in it, and what is between
    /// them.
    pub(super) fn pieces(&self, text: &str) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for token in self.vocab.tokenize(text, false, true).unwrap_or_default() {
            let mut bytes = Vec::new();
            self.vocab.piece(token, true, &mut bytes);
            match pieces.last_mut() {
                _ if self.trie.is_special_token(token as TokenId) => {
                    pieces.push(Piece::Control(token));
                }
                Some(Piece::Text(text)) => text.push_str(&String::from_utf8_lossy(&bytes)),
                _ => pieces.push(Piece::Text(String::from_utf8_lossy(&bytes).into_owned())),
            }
        }
        pieces
    }
}

/// A part of a text of prompts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// A token that no text matches.
    Control(Token),
    /// Plain text.
    Text(String),
}

impl TokenizerEnv for Vocabulary {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        let text = std::str::from_utf8(bytes).ok();
        text.and_then(|text| self.tokens(text))
            .unwrap_or_else(|| self.trie.greedy_tokenize(bytes))
    }

    fn tokenize_is_canonical(&self) -> bool {
        self.is_canonical
    }
}
