//! Earlier replies of the model, as the tokens that it generated.
//!
//! A client sends a reply back as text. Tokenizing that text may give other tokens than the model
//! generated, and then nothing computed for the reply could be reused. So replies are kept with
//! their tokens, and a conversation that continues one of them gets these tokens.
//!
//! A request can affect only prompts that repeat a reply to it. Only generated replies at the place
//! of a reply in the chat template are kept, separately for each salt and adapter. Special tokens
//! always come from the tokenizer's reading of the text.

mod specials;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use graphmill_llm::memory_budget::{self, Cache};
use graphmill_llm::{Token, Vocab};

use crate::payload::{Partner, RememberedPrompt, TemplatedPrompt, TokenPrompt};

pub(crate) use specials::turn;
use specials::{Special, before_token, before_turn, specials};

/// Maximum number of bytes of texts and tokens that are kept. The oldest are dropped first.
const LIMIT: usize = 32 << 20;
/// Approximate bytes of an entry in addition to its text and tokens.
const OVERHEAD: usize = 256;

/// Replies of a model, each with the conversation before it.
#[derive(Debug, Default)]
pub(crate) struct History(Mutex<ReplyStore>);

impl Cache for History {
    fn shrink(&self) {
        self.lock().shrink(0);
    }
}

#[derive(Debug, Default)]
struct ReplyStore {
    texts: BTreeMap<Partner, BTreeMap<Arc<str>, ReplyTokens>>,
    /// The texts, oldest first.
    order: VecDeque<(Partner, Arc<str>)>,
    bytes: usize,
}

/// Tokens of a text that ends with a reply.
#[derive(Clone, Debug)]
struct ReplyTokens {
    tokens: Arc<[Token]>,
    specials: Arc<[(usize, Token)]>,
}

impl History {
    /// Creates an empty history. It is emptied again when memory is short.
    pub(crate) fn new() -> Arc<Self> {
        let history = Arc::new(Self::default());
        let cache: Arc<dyn Cache> = history.clone();
        memory_budget::enroll(Arc::downgrade(&cache));
        history
    }

    /// Keeps the tokens of a prompt and the reply to it. If the reply has control tokens, only the
    /// part before the first one is kept.
    pub(crate) fn remember(
        &self,
        vocab: &dyn Vocab,
        asked: &RememberedPrompt,
        mut tokens: Vec<Token>,
        reply: &[Token],
    ) {
        if !memory_budget::is_ample(OVERHEAD as u64) {
            return;
        }
        let ends = |token: &Token| vocab.is_control(*token) || vocab.is_eog(*token);
        let end = reply.iter().position(ends).unwrap_or(reply.len());
        let reply = &reply[..end];
        if reply.is_empty() {
            return;
        }
        let mut text = asked.text.clone();
        let mut specials = asked.specials.clone();
        let mut bytes = Vec::with_capacity(4 * reply.len());
        for token in reply {
            if vocab.is_special(*token) {
                text.push_str(&String::from_utf8_lossy(&bytes));
                bytes.clear();
                specials.push((text.len(), *token));
            }
            vocab.piece(*token, true, &mut bytes);
        }
        text.push_str(&String::from_utf8_lossy(&bytes));
        tokens.extend_from_slice(reply);
        let known = ReplyTokens {
            tokens: tokens.into(),
            specials: specials.into(),
        };
        self.lock().insert(&asked.partner, text.into(), known);
    }

    /// Returns the prompt whose text the tokenizer reads as `tokens`. Replies that it repeats get
    /// the tokens that the model chose for them.
    pub(crate) fn recall(
        &self,
        vocab: &dyn Vocab,
        prompt: &TemplatedPrompt,
        mut tokens: Vec<Token>,
    ) -> TokenPrompt {
        let Some(partner) = &prompt.partner else {
            return tokens.into();
        };
        let found = self.lock().longest_beginning(partner, &prompt.text);
        if found.is_none() && !prompt.awaits_reply {
            return tokens.into();
        }
        let Some(specials) = specials(vocab, &prompt.text, &tokens) else {
            return tokens.into();
        };
        let turn = prompt
            .last_turn
            .and_then(|at| before_turn(vocab, &tokens, &specials, at));
        let of_turn = turn.map(|turn| tokens.len() - turn);
        if let Some((length, known)) = found {
            // Before a special token every tokenizer begins anew, so what comes before it does not
            // change what comes after it. Chat templates without special tokens have text there,
            // which must not be in one token with the end of the reply.
            let before = specials.partition_point(|special| special.at < length);
            let end = match specials.get(before) {
                Some(next) => (next.at == length).then_some(next.index),
                None => before_token(vocab, &tokens, length),
            };
            let same = specials[..before]
                .iter()
                .map(Special::place)
                .eq(known.specials.iter().copied());
            if let Some(end) = end.filter(|_| same) {
                tokens.splice(..end, known.tokens.iter().copied());
            }
        }
        let asked = prompt.awaits_reply.then(|| {
            Arc::new(RememberedPrompt {
                text: prompt.text.clone(),
                partner: partner.clone(),
                specials: specials.iter().map(Special::place).collect(),
            })
        });
        TokenPrompt {
            is_cut: false,
            last_turn: of_turn.map(|of_turn| (tokens.len() - of_turn) as u32),
            tokens,
            asked,
            ..TokenPrompt::default()
        }
    }

    fn lock(&self) -> MutexGuard<'_, ReplyStore> {
        // Every change leaves the lists usable, even if there is a panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReplyStore {
    fn insert(&mut self, partner: &Partner, text: Arc<str>, known: ReplyTokens) {
        self.bytes += size(partner, &text, &known);
        let texts = self.texts.entry(partner.clone()).or_default();
        match texts.entry(Arc::clone(&text)) {
            Entry::Occupied(mut entry) => {
                let before = entry.insert(known);
                self.bytes -= size(partner, &text, &before);
            }
            Entry::Vacant(entry) => {
                entry.insert(known);
                self.order.push_back((partner.clone(), text));
            }
        }
        self.shrink(LIMIT);
    }

    /// Drops the oldest entries until the rest takes at most this many bytes.
    fn shrink(&mut self, limit: usize) {
        while self.bytes > limit
            && let Some((partner, text)) = self.order.pop_front()
            && let Entry::Occupied(mut texts) = self.texts.entry(partner)
        {
            if let Some(known) = texts.get_mut().remove(&text) {
                self.bytes -= size(texts.key(), &text, &known);
            }
            if texts.get().is_empty() {
                texts.remove();
            }
        }
    }

    /// Returns the length of the longest kept text with which `text` begins, and its tokens.
    fn longest_beginning(&self, partner: &Partner, text: &str) -> Option<(usize, ReplyTokens)> {
        let texts = self.texts.get(partner)?;
        let mut limit = text;
        loop {
            // The last text in order that is not after `limit`: either a beginning of `limit`, or a
            // text that differs from it earlier.
            let range = (Bound::Unbounded, Bound::Included(limit));
            let (candidate, known) = texts.range::<str, _>(range).next_back()?;
            if limit.starts_with(&**candidate) {
                return Some((candidate.len(), known.clone()));
            }
            limit = common(limit, candidate);
        }
    }
}

/// Returns the bytes that an entry takes.
fn size(partner: &Partner, text: &str, known: &ReplyTokens) -> usize {
    let adapters: usize = partner.adapters.iter().map(|it| it.name.len()).sum();
    let (tokens, specials) = (size_of_val(&*known.tokens), size_of_val(&*known.specials));
    OVERHEAD + partner.salt.len() + adapters + text.len() + tokens + specials
}

/// Returns the common beginning of two texts.
fn common<'a>(one: &'a str, other: &str) -> &'a str {
    let pairs = one.char_indices().zip(other.chars());
    let same = pairs.take_while(|((_, one), other)| one == other);
    let end = same.last().map_or(0, |((at, one), _)| at + one.len_utf8());
    &one[..end]
}

#[cfg(test)]
mod tests;
