//! Reasoning between two tags, before the answer.

use graphmill_llm::{Constraint, ReasoningMarks};

use super::{Parser, ReasoningFormat, ReasoningOutput};

/// A pair of tags around reasoning, and the tags that may be around the answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Think {
    open: &'static str,
    close: &'static str,
    answer: &'static [(&'static str, &'static str)],
}

impl Think {
    pub(super) const fn new(open: &'static str, close: &'static str) -> Self {
        Self {
            open,
            close,
            answer: &[],
        }
    }

    /// Returns the format with tags that may be around an answer.
    pub(super) const fn answering(self, answer: &'static [(&'static str, &'static str)]) -> Self {
        Self { answer, ..self }
    }

    /// Returns true if the prompt ends inside of the reasoning.
    fn is_open(&self, prompt: &str) -> bool {
        prompt.trim_end().ends_with(self.open)
    }
}

impl ReasoningFormat for Think {
    fn parser(&self, prompt: &str) -> Box<dyn Parser> {
        Box::new(ThinkParser {
            tags: *self,
            held: String::new(),
            place: if self.is_open(prompt) {
                ThinkPlace::Opened
            } else {
                ThinkPlace::Start
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

    fn marks_read(&self) -> Vec<&'static str> {
        let answer = self.answer.iter().flat_map(|(open, close)| [*open, *close]);
        [self.open, self.close].into_iter().chain(answer).collect()
    }
}

/// A parser of reasoning at the beginning of a text. Later tags are text. White space around the
/// reasoning belongs to the tags.
struct ThinkParser {
    tags: Think,
    /// Text that was not passed on yet.
    held: String,
    place: ThinkPlace,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum ThinkPlace {
    /// At the beginning, after nothing but white space.
    Start,
    /// After the opening tag, which the model may repeat if the prompt had it.
    Opened,
    Reasoning,
    /// After the closing tag.
    Closed,
    /// Before an answer, which may have a tag before it.
    Head,
    /// After the tag before an answer.
    Tagged,
    Answer,
}

impl Parser for ThinkParser {
    fn push(&mut self, text: &str, end: bool) -> ReasoningOutput {
        let mut parsed = ReasoningOutput::default();
        self.held.push_str(text);
        while let Some(next) = self.advance(end, &mut parsed) {
            self.place = next;
        }
        parsed
    }
}

impl ThinkParser {
    /// Continues with the held text and returns the next place; `None` if more text is needed.
    fn advance(&mut self, end: bool, parsed: &mut ReasoningOutput) -> Option<ThinkPlace> {
        let (open, answer) = (self.tags.open, self.tags.answer);
        let held = self.held.trim_start();
        match self.place {
            ThinkPlace::Start | ThinkPlace::Opened => {
                if let Some(rest) = held.strip_prefix(open) {
                    self.held = rest.to_owned();
                    return Some(ThinkPlace::Opened);
                }
                if open.starts_with(held) && !end {
                    return None;
                }
                let opened = self.place == ThinkPlace::Opened;
                Some(if opened {
                    self.held = held.to_owned();
                    ThinkPlace::Reasoning
                } else {
                    ThinkPlace::Head
                })
            }
            ThinkPlace::Reasoning => self
                .upto(&[self.tags.close], end, &mut parsed.reasoning)
                .then_some(ThinkPlace::Closed),
            ThinkPlace::Closed | ThinkPlace::Tagged => {
                self.held = held.to_owned();
                let next = if self.place == ThinkPlace::Closed {
                    ThinkPlace::Head
                } else {
                    ThinkPlace::Answer
                };
                (!self.held.is_empty()).then_some(next)
            }
            ThinkPlace::Head => {
                let tagged = answer.iter().find_map(|(tag, _)| held.strip_prefix(tag));
                if let Some(rest) = tagged {
                    self.held = rest.to_owned();
                    return Some(ThinkPlace::Tagged);
                }
                let begins = answer.iter().any(|(tag, _)| tag.starts_with(held));
                (end || !begins).then_some(ThinkPlace::Answer)
            }
            ThinkPlace::Answer if answer.is_empty() => {
                parsed.text.push_str(&std::mem::take(&mut self.held));
                None
            }
            ThinkPlace::Answer => {
                let ends: Vec<_> = answer.iter().map(|(_, tag)| *tag).collect();
                let ended = self.upto(&ends, end, &mut parsed.text);
                ended.then_some(ThinkPlace::Answer)
            }
        }
    }

    /// Passes on the text before a mark, without white space between them, and drops the mark.
    /// Returns true if the mark was there.
    fn upto(&mut self, marks: &[&str], end: bool, out: &mut String) -> bool {
        let found = marks.iter();
        let found = found.filter_map(|mark| Some((self.held.find(mark)?, mark.len())));
        let found = found.min();
        let partial = marks.iter().map(|mark| partial(&self.held, mark)).min();
        let length = match (found, partial) {
            (Some((at, _)), _) => self.held[..at].trim_end().len(),
            (None, Some(at)) if !end => self.held[..at].trim_end().len(),
            _ => self.held.len(),
        };
        out.push_str(&self.held[..length]);
        let drained = found.map_or(length, |(at, mark)| at + mark);
        self.held.drain(..drained);
        found.is_some()
    }
}

/// Returns the byte at which the text ends with a beginning of `mark`, or the text's length if it
/// does not.
pub(crate) fn partial(text: &str, mark: &str) -> usize {
    let first = text.len().saturating_sub(mark.len() - 1);
    (first..text.len())
        .find(|at| text.is_char_boundary(*at) && mark.starts_with(&text[*at..]))
        .unwrap_or(text.len())
}
