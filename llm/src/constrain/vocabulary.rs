//! A model's vocabulary in the form that llguidance needs: a trie of the bytes of all tokens.

use std::sync::{Arc, OnceLock};

use llguidance::toktrie::{INVALID_TOKEN, TokRxInfo, TokTrie, TokenId, TokenizerEnv};

use super::numbers::Numerals;
use crate::model::vocab::Vocab;
use crate::protocol::Token;

/// Text that a tokenizer for plain text reproduces exactly.
const PROBE: &str = "{\"name\": [1, true]}";

/// Tokens of a model, by their bytes.
pub(super) struct Vocabulary {
    vocab: Arc<dyn Vocab>,
    trie: TokTrie,
    is_canonical: bool,
    /// Computed when the first long number occurs.
    numerals: OnceLock<Numerals>,
}

impl Vocabulary {
    /// Creates the trie. Takes a second for a large vocabulary.
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

    /// Returns the bytes of a token.
    pub(super) fn bytes(&self, token: TokenId) -> &[u8] {
        self.trie.token(token)
    }

    /// Returns the tokens by which numbers are recognized.
    pub(super) fn numerals(&self) -> &Numerals {
        self.numerals.get_or_init(|| Numerals::new(&self.trie))
    }

    /// Tokenizes a text. `None` if the tokens do not spell it exactly: some tokenizers put a space
    /// before it.
    fn tokens(&self, text: &str) -> Option<Vec<TokenId>> {
        let tokens = self.vocab.tokenize(text, false, false).ok()?;
        let tokens: Vec<TokenId> = tokens.into_iter().map(|token| token as TokenId).collect();
        (self.trie.decode(&tokens) == text.as_bytes()).then_some(tokens)
    }

    /// Divides a text of prompts into the control tokens that are spelled in it, and the text
    /// between them.
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

/// A piece of a prompt's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// A control token, which no text matches.
    Control(Token),
    /// Plain text between control tokens.
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
