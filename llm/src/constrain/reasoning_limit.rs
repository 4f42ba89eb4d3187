//! A limit on the length of a model's reasoning.

use std::sync::Arc;

use crate::constrain::ReasoningMarks;
use crate::debug::show_fields;
use crate::model::vocab::{TokenizeError, Vocab};
use crate::protocol::Token;

/// Maximum white space before the mark at the start of reasoning, in bytes.
const LONGEST_GAP: usize = 16;

/// Maximum number of tokens for a generation's reasoning. After them, the tokens that end the
/// reasoning are forced, and the generation continues with the answer.
#[derive(Clone)]
pub struct ReasoningLimit {
    vocab: Arc<dyn Vocab>,
    marks: ReasoningMarks,
    tokens: u32,
    closing: Arc<[Token]>,
}

impl ReasoningLimit {
    /// Creates a limit of `tokens` between the marks, for a model with this vocabulary. `closing`
    /// is the text that ends the reasoning.
    ///
    /// # Errors
    /// [`TokenizeError`] if `closing` is larger than the tokenizer can take.
    pub fn new(
        vocab: Arc<dyn Vocab>,
        marks: ReasoningMarks,
        closing: &str,
        tokens: u32,
    ) -> Result<Self, TokenizeError> {
        let closing = vocab.tokenize(closing, false, true)?;
        Ok(Self {
            vocab,
            marks,
            tokens,
            closing: closing.into(),
        })
    }
}

show_fields!(ReasoningLimit { marks, tokens });

/// State of the reasoning of one sequence.
pub(crate) struct Reasoning {
    limit: ReasoningLimit,
    place: ReasoningPlace,
    /// Text since the last mark.
    text: Vec<u8>,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum ReasoningPlace {
    /// Before the start of reasoning, which may still come.
    Before,
    Inside {
        /// Number of tokens that are left.
        left: u32,
    },
    /// After the limit; holds the number of forced closing tokens.
    Closing(usize),
    Behind,
}

impl Reasoning {
    pub(crate) fn new(limit: ReasoningLimit) -> Self {
        let place = if limit.marks.is_open {
            ReasoningPlace::Inside { left: limit.tokens }
        } else {
            ReasoningPlace::Before
        };
        let mut reasoning = Self {
            limit,
            place,
            text: Vec::new(),
        };
        reasoning.close_if_spent();
        reasoning
    }

    /// Returns the token that is forced next; `None` if the choice is free.
    pub(crate) fn forced(&self) -> Option<Token> {
        match self.place {
            ReasoningPlace::Closing(forced) => self.limit.closing.get(forced).copied(),
            _ => None,
        }
    }

    /// Records the next token of the text.
    pub(crate) fn accept(&mut self, token: Token) {
        let marks = &self.limit.marks;
        self.place = match self.place {
            ReasoningPlace::Before => {
                self.limit.vocab.piece(token, true, &mut self.text);
                if contains(&self.text, &marks.begin) {
                    self.text.clear();
                    ReasoningPlace::Inside {
                        left: self.limit.tokens,
                    }
                } else if self.text.len() > marks.begin.len() + LONGEST_GAP {
                    ReasoningPlace::Behind
                } else {
                    ReasoningPlace::Before
                }
            }
            ReasoningPlace::Inside { left } => {
                self.limit.vocab.piece(token, true, &mut self.text);
                if contains(&self.text, &marks.end) {
                    ReasoningPlace::Behind
                } else {
                    // A mark can begin in the kept text and end in the next token.
                    let old = self.text.len().saturating_sub(marks.end.len());
                    self.text.drain(..old);
                    ReasoningPlace::Inside {
                        left: left.saturating_sub(1),
                    }
                }
            }
            ReasoningPlace::Closing(forced) => ReasoningPlace::Closing(forced + 1),
            ReasoningPlace::Behind => ReasoningPlace::Behind,
        };
        self.close_if_spent();
    }

    fn close_if_spent(&mut self) {
        if self.place == (ReasoningPlace::Inside { left: 0 }) {
            self.place = ReasoningPlace::Closing(0);
        }
    }
}

fn contains(text: &[u8], mark: &str) -> bool {
    text.windows(mark.len()).any(|part| part == mark.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::scripted::{Script, ScriptedBackend};
    use crate::settings::LlmEngineSpec;

    /// What a model says that wants to say `text` and is held to a limit. The scripted model's
    /// tokens are bytes.
    fn said(text: &str, is_open: bool, tokens: u32) -> String {
        let (_, vocab) =
            ScriptedBackend::new(Script::default(), &LlmEngineSpec::new("t.script.json"));
        let marks = ReasoningMarks {
            begin: "<t>".to_owned(),
            end: "</t>".to_owned(),
            is_open,
        };
        let limit = ReasoningLimit::new(vocab, marks, "</t>\n", tokens).expect("short");
        let mut reasoning = Reasoning::new(limit);
        let mut said = Vec::new();
        let mut wanted = text.bytes();
        loop {
            let forced = reasoning.forced();
            let Some(byte) = forced.map(|token| token as u8).or_else(|| wanted.next()) else {
                return String::from_utf8(said).expect("text");
            };
            reasoning.accept(Token::from(byte));
            said.push(byte);
        }
    }

    #[test]
    fn reasoning_ends_when_its_tokens_are_spent() {
        assert_eq!(said("<t>abcdef", false, 3), "<t>abc</t>\ndef");
        assert_eq!(said("\n<t>abcdef", false, 0), "\n<t></t>\nabcdef");
        assert_eq!(said("abcdef", true, 2), "ab</t>\ncdef");
        assert_eq!(said("abcdef", true, 0), "</t>\nabcdef");
    }

    #[test]
    fn what_ends_in_time_is_left_alone() {
        assert_eq!(said("<t>abc</t>def", false, 7), "<t>abc</t>def");
        assert_eq!(
            said("a</t>bcdef</t>ghi<t>jk", true, 6),
            "a</t>bcdef</t>ghi<t>jk"
        );
        let answer = "An answer of some length. <t>abc";
        assert_eq!(said(answer, false, 0), answer);
    }
}
