//! What was said, as the tokens it was said in.
//!
//! A client sends a reply back as text, and tokenizing that text may give other tokens than the model chose, so that nothing the
//! engine computed for the reply would fit. So texts of finished generations are kept with their tokens, and a prompt that goes on
//! from one of them gets these.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use graphmill_llm::{Token, Vocab};

/// Most bytes of texts and tokens that are kept; the oldest go first.
const LIMIT: usize = 32 << 20;

/// Texts of finished generations, from the beginning of their prompts, and their tokens.
#[derive(Debug, Default)]
pub(crate) struct History(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    texts: BTreeMap<Arc<str>, Arc<[Token]>>,
    /// The texts in the order they came.
    order: VecDeque<Arc<str>>,
    bytes: usize,
}

impl History {
    /// Keeps the tokens of a prompt and the reply to it, with the text that a template would make of them.
    pub(crate) fn remember(&self, vocab: &dyn Vocab, tokens: &[Token]) {
        let mut bytes = Vec::with_capacity(4 * tokens.len());
        for token in tokens {
            vocab.piece(*token, true, &mut bytes);
        }
        let text: Arc<str> = Arc::from(String::from_utf8_lossy(&bytes));
        self.lock().insert(text, Arc::from(tokens));
    }

    /// Tokens of a text that a template made; `tokenize` is how the model reads such a text.
    pub(crate) fn tokenize<E>(
        &self,
        vocab: &dyn Vocab,
        text: &str,
        tokenize: impl Fn(&str) -> Result<Vec<Token>, E>,
    ) -> Result<Vec<Token>, E> {
        let found = self.lock().longest_beginning(text);
        if let Some((length, known)) = found {
            let rest = tokenize(&text[length..])?;
            // Before a special token every tokenizer begins anew, so what comes before it does not change what comes after it.
            if rest.first().is_some_and(|token| vocab.is_control(*token)) {
                return Ok([&known, rest.as_slice()].concat());
            }
        }
        tokenize(text)
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        // Every change leaves the lists usable, whatever panics.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn insert(&mut self, text: Arc<str>, tokens: Arc<[Token]>) {
        let size = |text: &str, tokens: &[Token]| text.len() + size_of_val(tokens);
        self.bytes += size(&text, &tokens);
        match self.texts.insert(Arc::clone(&text), tokens) {
            Some(before) => self.bytes -= size(&text, &before),
            None => self.order.push_back(text),
        }
        while self.bytes > LIMIT
            && let Some(oldest) = self.order.pop_front()
        {
            if let Some(tokens) = self.texts.remove(&oldest) {
                self.bytes -= size(&oldest, &tokens);
            }
        }
    }

    /// The longest of the texts that `text` goes on from, as its length and its tokens.
    fn longest_beginning(&self, text: &str) -> Option<(usize, Arc<[Token]>)> {
        let mut limit = text;
        loop {
            // The last text in order that is not behind `limit`: what `limit` begins with, or a text that differs from it earlier.
            let range = (Bound::Unbounded, Bound::Included(limit));
            let (candidate, tokens) = self.texts.range::<str, _>(range).next_back()?;
            if limit.starts_with(&**candidate) {
                return Some((candidate.len(), Arc::clone(tokens)));
            }
            limit = common(limit, candidate);
        }
    }
}

/// What two texts begin with alike.
fn common<'a>(one: &'a str, other: &str) -> &'a str {
    let pairs = one.char_indices().zip(other.chars());
    let same = pairs.take_while(|((_, one), other)| one == other);
    let end = same.last().map_or(0, |((at, one), _)| at + one.len_utf8());
    &one[..end]
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use graphmill_llm::EngineSpec;
    use graphmill_llm::backend::scripted::{Script, ScriptedBackend};
    use proptest::prelude::*;

    use super::*;

    fn vocab() -> Arc<dyn Vocab> {
        ScriptedBackend::new(Script::default(), &EngineSpec::new("test.script.json")).1
    }

    fn tokens_of(vocab: &dyn Vocab, text: &str) -> Vec<Token> {
        vocab.tokenize(text, false, true).expect("short")
    }

    #[test]
    fn a_text_that_goes_on_gets_the_tokens_it_was_said_in() {
        let (vocab, history) = (vocab(), History::default());
        // An incomplete character, which a client gets as U+FFFD.
        let said: Vec<Token> = [tokens_of(&*vocab, "<|im_start|>a"), vec![0xe2, 0x82]].concat();
        history.remember(&*vocab, &said);
        let read = |text: &str| {
            history
                .tokenize(&*vocab, text, |text| {
                    Ok::<_, Infallible>(tokens_of(&*vocab, text))
                })
                .expect("cannot fail")
        };
        let next = "<|im_end|>\nb";
        let text = format!("<|im_start|>a\u{FFFD}{next}");
        assert_eq!(read(&text), [said, tokens_of(&*vocab, next)].concat());
        // Where the text goes on in the same word, it is read as a whole.
        let text = "<|im_start|>a\u{FFFD}b";
        assert_eq!(read(text), tokens_of(&*vocab, text));
    }

    proptest! {
        #[test]
        fn the_longest_text_is_found(
            texts in prop::collection::vec("[abé]{1,6}", 0..20),
            wanted in "[abé]{0,8}",
        ) {
            let mut kept = Kept::default();
            for text in &texts {
                kept.insert(Arc::from(text.as_str()), Arc::from([0]));
            }
            let longest = texts.iter().filter(|text| wanted.starts_with(*text)).map(String::len).max();
            prop_assert_eq!(kept.longest_beginning(&wanted).map(|(length, _)| length), longest);
        }
    }

    #[test]
    fn old_texts_make_room() {
        let mut kept = Kept::default();
        let tokens: Arc<[Token]> = vec![0; LIMIT / 12].into();
        for text in ["a", "b", "c", "d"] {
            kept.insert(Arc::from(text), Arc::clone(&tokens));
        }
        assert!(kept.bytes <= LIMIT);
        assert_eq!(kept.longest_beginning("a"), None);
        assert!(kept.longest_beginning("d").is_some());
    }
}
