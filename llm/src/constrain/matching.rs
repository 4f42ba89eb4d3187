//! State of a sequence under its constraint.

use llguidance::Matcher;
use llguidance::toktrie::{SimpleVob, TokenId};
use smallvec::SmallVec;

use super::numbers::Numbers;
use crate::protocol::{Token, TokenSet};
use crate::worker::catch;

/// Way in which a text ended under a constraint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The last token completed the text: nothing can follow.
    Complete,
    /// The last token is an end token, which is not part of the text.
    EndToken,
}

/// Position of a sequence in its constraint.
pub(crate) struct Matching {
    matcher: Matcher,
    /// The digits at the end of the text, if their number must be limited.
    numbers: Option<Numbers>,
    /// Masks of the next row and of the rows of the drafts behind it.
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

    /// Computes the masks of the next rows: that of the last token, and those of the drafts. Stop
    /// tokens are allowed where an end token is, but not in the first `end_banned_for` rows.
    pub(crate) fn prepare(
        &mut self,
        drafts: &[Token],
        stop_tokens: &TokenSet,
        end_banned_for: usize,
    ) {
        if self.failure.is_some() || self.ending.is_some() {
            return;
        }
        let computed = guard(|| self.compute(drafts, stop_tokens, end_banned_for));
        self.failure = computed.err();
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

    /// Returns the mask of the row that is `ahead` rows behind that of the last token, with a bit
    /// per token. `None` if following the constraint failed.
    pub(crate) fn mask(&self, ahead: usize) -> Option<&[u32]> {
        if self.failure.is_some() {
            return None;
        }
        Some(self.masks.get(ahead)?.as_slice())
    }

    /// Follows a chosen token. `is_end` marks an end token. `is_stop` marks a token that ends the
    /// text where the text may end, and is part of it elsewhere.
    pub(crate) fn accept(&mut self, token: Token, is_end: bool, is_stop: bool) {
        match guard(|| self.consume(token, is_end, is_stop)) {
            Ok(ending) => self.ending = ending,
            Err(message) => self.failure = Some(message),
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

    /// Drops the masks after their rows were used.
    pub(crate) fn forget_masks(&mut self) {
        self.masks.clear();
    }

    /// Number of these tokens, from the first, that can follow.
    pub(crate) fn valid(&mut self, tokens: &[Token]) -> usize {
        if self.failure.is_some() || self.ending.is_some() {
            return 0;
        }
        let tokens: SmallVec<[TokenId; 32]> =
            tokens.iter().map(|token| *token as TokenId).collect();
        self.matcher.validate_tokens(&tokens).unwrap_or(0)
    }

    /// Returns how the text ended; `None` before its end.
    pub(crate) fn ending(&self) -> Option<Ending> {
        self.ending
    }

    /// Returns the reason why the constraint could not be followed further.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }
}

/// Calls llguidance, and turns a panic into a failure.
fn guard<T>(call: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch(call).unwrap_or_else(|_| Err("the matcher panicked".to_owned()))
}

/// Message for errors that llguidance did not foresee.
pub(super) const FAILED: &str = "it is too complex for the compiler: make it smaller or simpler";
/// Message for a constraint without any matching text.
pub(super) const NOTHING: &str = "no text can match";
/// Message for more symbols, or a larger lexer, than llguidance supports.
const TOO_LARGE: &str =
    "it is too large as a whole: use fewer or simpler tools, properties, alternatives or rules";
/// Message for expressions that take too much work.
const TOO_COMPLEX: &str =
    "its patterns are too complex: use fewer, or ones with fewer repetitions and alternatives";
/// Message for more alternatives at one place than the parser supports.
const TOO_MANY_WAYS: &str =
    "too many alternatives at one place: use fewer there, or fewer optional properties";
/// Parts of llguidance's internal messages, with their meaning for users.
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

/// Converts an error of llguidance into a message for users.
pub(super) fn readable(error: impl std::fmt::Display) -> String {
    let message = error.to_string();
    let mut meanings = MEANINGS.iter();
    if let Some((_, meaning)) = meanings.find(|(words, _)| message.contains(words)) {
        return (*meaning).to_owned();
    }
    let message = message.split("<non-verbose/>").next().unwrap_or_default();
    message.trim().to_owned()
}
