//! Prompt lookup: if the end of a text has occurred before, it may continue as it did then.

use std::hash::Hasher;

use rustc_hash::{FxHashMap, FxHasher};

use crate::protocol::Token;

/// Maximum length of a match that counts; longer matches count as this long.
pub(super) const LONGEST_MATCH: usize = 8;

/// An index of a text's n-grams that follows the text token by token.
#[derive(Debug)]
pub(super) struct Lookup {
    max_ngram: usize,
    /// Index of the token after the latest occurrence of an n-gram, by the n-gram's hash.
    next: FxHashMap<u64, u32>,
    /// Number of tokens of the text that are indexed.
    indexed: usize,
    source: Option<LookupMatch>,
}

/// An earlier part of the text that ends as the text does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LookupMatch {
    /// Index of the token that followed.
    next: usize,
    /// Number of equal tokens before it, up to [`LONGEST_MATCH`].
    matched: usize,
}

impl Lookup {
    /// Creates an empty index for n-grams of 1 to `max_ngram` tokens.
    pub(super) fn new(max_ngram: usize) -> Self {
        Self {
            max_ngram,
            next: FxHashMap::default(),
            indexed: 0,
            source: None,
        }
    }

    /// Indexes the tokens that were appended to the text since the last call.
    pub(super) fn follow(&mut self, text: &[Token]) {
        while self.indexed < text.len() {
            self.indexed += 1;
            self.push(&text[..self.indexed]);
        }
    }

    /// Indexes the last token of `text`.
    fn push(&mut self, text: &[Token]) {
        // A source that was right about this token stays: its next prediction has a longer match.
        let right = |source: &LookupMatch| text.get(source.next) == text.last();
        let kept = self.source.take().filter(right).map(|source| LookupMatch {
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
                    found = Some(LookupMatch { next, matched });
                }
            }
        }
        self.source = match (kept, found) {
            (Some(kept), Some(found)) if kept.matched < found.matched => Some(found),
            (kept, found) => kept.or(found),
        };
    }

    /// Number of tokens at the end of the text that match an earlier place; 0 if there is none.
    pub(super) fn matched(&self) -> usize {
        self.source.map_or(0, |source| source.matched)
    }

    /// Predicts the token after the text and the `drafted` tokens, if the text continues as it did
    /// at the earlier place. The earlier place may overlap the drafts.
    pub(super) fn predict(&self, text: &[Token], drafted: &[Token]) -> Option<Token> {
        let index = self.source?.next + drafted.len();
        match text.get(index) {
            Some(token) => Some(*token),
            None => drafted.get(index - text.len()).copied(),
        }
    }
}

/// Number of equal tokens at the ends of two texts, up to [`LONGEST_MATCH`].
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
