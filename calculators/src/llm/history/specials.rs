//! Special tokens in the text of a prompt: no other token spans their ends, so the text between two
//! of them is tokenized the same in any context.

use graphmill_llm::{Token, Vocab};

/// A special token that the tokenizer read in a text.
pub(super) struct Special {
    /// Byte at which its spelling begins.
    pub(super) at: usize,
    token: Token,
    /// Its index among the tokens.
    pub(super) index: usize,
}

impl Special {
    pub(super) fn place(&self) -> (usize, Token) {
        (self.at, self.token)
    }
}

/// Returns the special tokens among those of a text; `None` if the tokens do not spell the text, as
/// with tokenizers that change it.
pub(super) fn specials(vocab: &dyn Vocab, text: &str, tokens: &[Token]) -> Option<Vec<Special>> {
    let mut rest = text.as_bytes();
    let mut specials = Vec::new();
    let mut piece = Vec::new();
    for (index, &token) in tokens.iter().enumerate() {
        if vocab.is_special(token) {
            let at = text.len() - rest.len();
            specials.push(Special { at, token, index });
        }
        piece.clear();
        vocab.piece(token, true, &mut piece);
        rest = rest.strip_prefix(piece.as_slice())?;
    }
    rest.is_empty().then_some(specials)
}

/// Returns the number of tokens before the turn whose content begins at a byte of the text. These
/// are all tokens up to the last special token before that byte, because no token spans its end.
/// Without a special token, they are the tokens that end before that byte.
pub(super) fn before_turn(
    vocab: &dyn Vocab,
    tokens: &[Token],
    specials: &[Special],
    at: usize,
) -> Option<usize> {
    let before = specials.partition_point(|special| special.at < at);
    if let Some(last) = before.checked_sub(1) {
        return Some(specials[last].index + 1);
    }
    let (count, _) = whole_before(vocab, tokens, at);
    Some(count).filter(|count| *count > 0)
}

/// Returns the number of tokens before the one that begins at a byte of the text, if one does.
pub(super) fn before_token(vocab: &dyn Vocab, tokens: &[Token], at: usize) -> Option<usize> {
    let (count, end) = whole_before(vocab, tokens, at);
    (end == at && count < tokens.len()).then_some(count)
}

/// Returns the number of tokens that end at a byte of the text or before, and the byte at which the
/// last of them ends.
fn whole_before(vocab: &dyn Vocab, tokens: &[Token], at: usize) -> (usize, usize) {
    let (mut end, mut text) = (0, Vec::with_capacity(at));
    for (count, token) in tokens.iter().enumerate() {
        vocab.piece(*token, true, &mut text);
        if text.len() > at {
            return (count, end);
        }
        end = text.len();
    }
    (tokens.len(), end)
}

/// Returns the number of tokens before the turn whose content begins at a byte of the text, if it
/// is found.
pub(crate) fn turn(vocab: &dyn Vocab, text: &str, tokens: &[Token], at: usize) -> Option<usize> {
    before_turn(vocab, tokens, &specials(vocab, text, tokens)?, at)
}
