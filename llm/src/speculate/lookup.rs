//! Prompt lookup: where the end of a text has occurred before, it may go on as it did then.

use std::hash::Hasher;

use rustc_hash::{FxHashMap, FxHasher};

use crate::protocol::Token;

/// Matches longer than this count as this long.
pub(super) const LONGEST_MATCH: usize = 8;

/// An index of a text's n-grams that follows the text token by token.
#[derive(Debug)]
pub(super) struct Lookup {
    max_ngram: usize,
    /// What came after the latest occurrence of an n-gram, by the n-gram's hash: an index into the
    /// text.
    next: FxHashMap<u64, u32>,
    /// How much of the text is indexed.
    indexed: usize,
    source: Option<Source>,
}

/// An earlier part of the text that ends as the text does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Source {
    /// Index of the token that followed.
    next: usize,
    /// How many tokens before it are the same, up to [`LONGEST_MATCH`].
    matched: usize,
}

impl Lookup {
    /// An index of nothing, for n-grams of 1 to `max_ngram` tokens.
    pub(super) fn new(max_ngram: usize) -> Self {
        Self {
            max_ngram,
            next: FxHashMap::default(),
            indexed: 0,
            source: None,
        }
    }

    /// Takes in what was appended to the text since the last call.
    pub(super) fn follow(&mut self, text: &[Token]) {
        while self.indexed < text.len() {
            self.indexed += 1;
            self.push(&text[..self.indexed]);
        }
    }

    /// Takes in the last token of `text`.
    fn push(&mut self, text: &[Token]) {
        // A source that was right about this token stays: what it says next fits a longer match.
        let right = |source: &Source| text.get(source.next) == text.last();
        let kept = self.source.take().filter(right).map(|source| Source {
            next: source.next + 1,
            matched: (source.matched + 1).min(LONGEST_MATCH),
        });
        let mut found = None;
        for length in 1..=self.max_ngram.min(text.len()) {
            let ngram = &text[text.len() - length..];
            let earlier = self.next.insert(hash(ngram), text.len() as u32);
            if let Some(next) = earlier.map(|next| next as usize) {
                let matched = common_end(&text[..next], text);
                if matched >= length {
                    found = Some(Source { next, matched });
                }
            }
        }
        self.source = match (kept, found) {
            (Some(kept), Some(found)) if kept.matched < found.matched => Some(found),
            (kept, found) => kept.or(found),
        };
    }

    /// How many tokens at the end of the text match an earlier place; 0 if there is none.
    pub(super) fn matched(&self) -> usize {
        self.source.map_or(0, |source| source.matched)
    }

    /// The token that is `ahead` places after the end of the text, if it goes on as it did at the
    /// earlier place. `drafted` are the `ahead` tokens before it, which the earlier place may
    /// overlap.
    pub(super) fn predict(&self, text: &[Token], drafted: &[Token]) -> Option<Token> {
        let index = self.source?.next + drafted.len();
        match text.get(index) {
            Some(token) => Some(*token),
            None => drafted.get(index - text.len()).copied(),
        }
    }
}

/// How many tokens the ends of two texts have in common, up to [`LONGEST_MATCH`].
fn common_end(left: &[Token], right: &[Token]) -> usize {
    let pairs = left.iter().rev().zip(right.iter().rev());
    pairs
        .take(LONGEST_MATCH)
        .take_while(|(left, right)| left == right)
        .count()
}

fn hash(ngram: &[Token]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write_usize(ngram.len());
    for token in ngram {
        hasher.write_i32(*token);
    }
    hasher.finish()
}
