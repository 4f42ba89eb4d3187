//! Reasoning between two tags, before the answer.

use graphmill_llm::{Constraint, ReasoningMarks};

use super::{Format, Parsed, Parser};

/// A pair of tags.
#[derive(Clone, Copy, Debug)]
pub(super) struct Think {
    pub(super) open: &'static str,
    pub(super) close: &'static str,
    markers: &'static [&'static str],
}

/// `<think>`, of most models.
pub(super) const THINK: Think = Think {
    open: "<think>",
    close: Think::CLOSE,
    markers: &["<think>", Think::CLOSE],
};
/// The tags of Seed-OSS.
pub(super) const SEED: Think = Think {
    open: "<seed:think>",
    close: "</seed:think>",
    markers: &["<seed:think>", "</seed:think>"],
};
/// The tags of Magistral.
pub(super) const MISTRAL: Think = Think {
    open: "[THINK]",
    close: "[/THINK]",
    markers: &["[THINK]", "[/THINK]"],
};

impl Think {
    pub(super) const CLOSE: &'static str = "</think>";

    /// Whether the prompt ends inside of the reasoning.
    fn is_open(&self, prompt: &str) -> bool {
        prompt.trim_end().ends_with(self.open)
    }
}

impl Format for Think {
    fn parser(&self, prompt: &str) -> Box<dyn Parser> {
        Box::new(ThinkParser {
            tags: *self,
            held: String::new(),
            place: if self.is_open(prompt) {
                Place::Opened
            } else {
                Place::Start
            },
        })
    }

    fn marks(&self, prompt: &str) -> ReasoningMarks {
        ReasoningMarks {
            begin: self.open.to_owned(),
            end: self.close.to_owned(),
            is_open: self.is_open(prompt),
        }
    }

    fn closing(&self) -> String {
        format!("\n{}\n\n", self.close)
    }

    fn constrain(
        &self,
        prompt: &str,
        answer: Option<Constraint>,
        calls: Option<Constraint>,
    ) -> Constraint {
        Constraint::AfterReasoning {
            marks: self.marks(prompt),
            then: Box::new(Constraint::any_of(answer.into_iter().chain(calls))),
        }
    }

    fn markers(&self) -> &'static [&'static str] {
        self.markers
    }
}

/// Reads reasoning at the beginning of a text; tags behind it are text. White space around the
/// reasoning belongs to the tags.
struct ThinkParser {
    tags: Think,
    /// Text that is not passed on yet.
    held: String,
    place: Place,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Place {
    /// Nothing but white space so far.
    Start,
    /// Behind the tag that opens, which the model may repeat where the prompt had it.
    Opened,
    Reasoning,
    /// Behind the tag that closes.
    Closed,
    Answer,
}

impl Parser for ThinkParser {
    fn push(&mut self, text: &str, end: bool) -> Parsed {
        let mut parsed = Parsed::default();
        self.held.push_str(text);
        while let Some(next) = self.advance(end, &mut parsed) {
            self.place = next;
        }
        parsed
    }
}

impl ThinkParser {
    /// Goes on in what is held, to another place; none where that is not possible without more
    /// text.
    fn advance(&mut self, end: bool, parsed: &mut Parsed) -> Option<Place> {
        let Think { open, close, .. } = self.tags;
        let held = self.held.trim_start();
        match self.place {
            Place::Start | Place::Opened => {
                if let Some(rest) = held.strip_prefix(open) {
                    self.held = rest.to_owned();
                    return Some(Place::Opened);
                }
                if open.starts_with(held) && !end {
                    return None;
                }
                let opened = self.place == Place::Opened;
                Some(if opened {
                    self.held = held.to_owned();
                    Place::Reasoning
                } else {
                    Place::Answer
                })
            }
            Place::Reasoning => {
                let found = self.held.find(close);
                let length = match found {
                    Some(at) => self.held[..at].trim_end().len(),
                    None if end => self.held.len(),
                    None => self.held[..partial(&self.held, close)].trim_end().len(),
                };
                parsed.reasoning.push_str(&self.held[..length]);
                self.held
                    .drain(..found.map_or(length, |at| at + close.len()));
                found.map(|_| Place::Closed)
            }
            Place::Closed => {
                self.held = held.to_owned();
                (!self.held.is_empty()).then_some(Place::Answer)
            }
            Place::Answer => {
                parsed.text.push_str(&std::mem::take(&mut self.held));
                None
            }
        }
    }
}

/// Where the text ends in a beginning of `mark`; the text's length where it does not.
pub(super) fn partial(text: &str, mark: &str) -> usize {
    let first = text.len().saturating_sub(mark.len() - 1);
    (first..text.len())
        .find(|at| text.is_char_boundary(*at) && mark.starts_with(&text[*at..]))
        .unwrap_or(text.len())
}
