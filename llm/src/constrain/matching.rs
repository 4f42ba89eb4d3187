//! A sequence that follows its constraint.

use std::panic::{AssertUnwindSafe, catch_unwind};

use llguidance::Matcher;
use llguidance::toktrie::{SimpleVob, TokenId};
use smallvec::SmallVec;

use super::numbers::Numbers;
use crate::protocol::{Token, TokenSet};

/// What a failure says that llguidance did not foresee.
const PANICKED: &str = "the matcher panicked";

/// How a text came to its end under a constraint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Its last token completed it: nothing can follow.
    Complete,
    /// Its last token ends it, and is not part of it.
    EndToken,
}

/// Where a sequence is in its constraint.
pub(crate) struct Matching {
    matcher: Matcher,
    /// The digits of its end, where they must not go on for ever.
    numbers: Option<Numbers>,
    /// The tokens that the next row can give, and the rows of the drafts behind it.
    masks: SmallVec<[SimpleVob; 1]>,
    ending: Option<Ending>,
    failure: Option<String>,
}

impl Matching {
    pub(super) fn new(matcher: Matcher, numbers: Option<Numbers>) -> Self {
        Self {
            matcher,
            numbers,
            masks: SmallVec::new(),
            ending: None,
            failure: None,
        }
    }

    /// Works out what the next rows can give: that of the last token, and those of the drafts. Stop
    /// tokens can end the text where an end token can, but not in the first `end_banned_for` of the
    /// rows.
    pub(crate) fn prepare(
        &mut self,
        drafts: &[Token],
        stop_tokens: &TokenSet,
        end_banned_for: usize,
    ) {
        if self.failure.is_some() || self.ending.is_some() {
            return;
        }
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            self.compute(drafts, stop_tokens, end_banned_for)
        }));
        self.failure = match outcome {
            Ok(Ok(())) => return,
            Ok(Err(message)) => Some(message),
            Err(_) => Some(PANICKED.to_owned()),
        };
    }

    fn compute(
        &mut self,
        drafts: &[Token],
        stop_tokens: &TokenSet,
        end_banned_for: usize,
    ) -> Result<(), String> {
        self.masks.truncate(1);
        let mut numbers = self.numbers.clone();
        if self.masks.is_empty() {
            self.push_mask(numbers.as_ref(), stop_tokens, end_banned_for)?;
        }
        let mut followed = 0;
        for draft in drafts {
            let accepted = self.matcher.try_consume_tokens(&[*draft as TokenId]);
            if accepted.map_err(readable)? == 0 {
                break;
            }
            followed += 1;
            if self.matcher.is_stopped() {
                break;
            }
            if let Some(numbers) = &mut numbers {
                numbers.push(*draft as TokenId);
            }
            self.push_mask(numbers.as_ref(), stop_tokens, end_banned_for)?;
        }
        self.matcher.rollback(followed).map_err(readable)
    }

    fn push_mask(
        &mut self,
        numbers: Option<&Numbers>,
        stop_tokens: &TokenSet,
        end_banned_for: usize,
    ) -> Result<(), String> {
        let mut mask = self.matcher.compute_mask().map_err(readable)?;
        let can_stop = !stop_tokens.is_empty() && self.masks.len() >= end_banned_for;
        if can_stop && self.matcher.is_accepting().map_err(readable)? {
            for token in stop_tokens.iter() {
                if usize::try_from(*token).is_ok_and(|token| token < mask.len()) {
                    mask.allow_token(*token as TokenId);
                }
            }
        }
        if let Some(numbers) = numbers {
            numbers.bound(&mut mask);
        }
        self.masks.push(mask);
        Ok(())
    }

    /// The tokens that a row can give, a bit each; `ahead` rows behind that of the last token.
    /// `None` if it is not known, because following the constraint failed.
    pub(crate) fn mask(&self, ahead: usize) -> Option<&[u32]> {
        if self.failure.is_some() {
            return None;
        }
        Some(self.masks.get(ahead)?.as_slice())
    }

    /// Follows a token that was chosen. `is_end` says that it is an end token, and `is_stop` that
    /// it ends the text where the text may end, and is a part of it elsewhere.
    pub(crate) fn accept(&mut self, token: Token, is_end: bool, is_stop: bool) {
        match catch_unwind(AssertUnwindSafe(|| self.consume(token, is_end, is_stop))) {
            Ok(Ok(ending)) => self.ending = ending,
            Ok(Err(message)) => self.failure = Some(message),
            Err(_) => self.failure = Some(PANICKED.to_owned()),
        }
    }

    fn consume(
        &mut self,
        token: Token,
        is_end: bool,
        is_stop: bool,
    ) -> Result<Option<Ending>, String> {
        if (is_end || is_stop) && self.matcher.is_accepting().map_err(readable)? {
            return Ok(Some(Ending::EndToken));
        }
        self.matcher
            .consume_token(token as TokenId)
            .map_err(readable)?;
        if let Some(numbers) = &mut self.numbers {
            numbers.push(token as TokenId);
        }
        Ok(match self.matcher.is_stopped() {
            true if is_end => Some(Ending::EndToken),
            true => Some(Ending::Complete),
            false => None,
        })
    }

    /// Forgets what the rows can give, once they have given it.
    pub(crate) fn forget_masks(&mut self) {
        self.masks.clear();
    }

    /// How many of these tokens can follow.
    pub(crate) fn valid(&mut self, tokens: &[Token]) -> usize {
        if self.failure.is_some() || self.ending.is_some() {
            return 0;
        }
        let tokens: SmallVec<[TokenId; 32]> =
            tokens.iter().map(|token| *token as TokenId).collect();
        self.matcher.validate_tokens(&tokens).unwrap_or(0)
    }

    /// How the text ended, once it has.
    pub(crate) fn ending(&self) -> Option<Ending> {
        self.ending
    }

    /// Why the constraint could not be followed any further.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }
}

/// The message for what llguidance did not foresee.
pub(super) const FAILED: &str = "it is more than the compiler can take: make it smaller or simpler";
/// The message where nothing matches.
pub(super) const NOTHING: &str = "no text can match";
/// The message for more symbols, or a larger lexer, than llguidance takes.
const TOO_LARGE: &str =
    "it is too large as a whole: use fewer or simpler tools, properties, alternatives or rules";
/// The message for expressions that take too much work.
const TOO_COMPLEX: &str =
    "its patterns take too much work: use fewer, or with fewer repetitions and alternatives";
/// The message where more can come next than the parser takes.
const TOO_MANY_WAYS: &str = "there are too many ways to go on at one place: use fewer alternatives there, or fewer properties that may be left out";
/// Words in messages of llguidance, which are for those who work on it, and what they mean.
const MEANINGS: [(&str, &str); 14] = [
    ("symbols.len()", TOO_LARGE),
    ("CSymIdx", TOO_LARGE),
    ("(grammar) too big", TOO_LARGE),
    ("(number of symbols) too big", TOO_LARGE),
    ("Too many items", TOO_MANY_WAYS),
    ("Current row has", TOO_MANY_WAYS),
    ("too many expressions", TOO_COMPLEX),
    ("too many states", TOO_COMPLEX),
    ("fuel exhausted", TOO_COMPLEX),
    ("lexer precomputation failed", TOO_COMPLEX),
    ("LexerTooComplex", TOO_COMPLEX),
    (
        "too deeply nested",
        "it is nested too deeply: use fewer levels",
    ),
    ("NoExtensionBias", NOTHING),
    ("panic: ", FAILED),
];

/// The message of an error of llguidance without what is only for those who work on it.
pub(super) fn readable(error: impl std::fmt::Display) -> String {
    let message = error.to_string();
    let mut meanings = MEANINGS.iter();
    if let Some((_, meaning)) = meanings.find(|(words, _)| message.contains(words)) {
        return (*meaning).to_owned();
    }
    let message = message.split("<non-verbose/>").next().unwrap_or_default();
    message.trim().to_owned()
}
