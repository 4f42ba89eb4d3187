//! Harmony, the format of gpt-oss: messages in channels. What is said in `analysis` is reasoning,
//! `final` is the answer, and `commentary` is either a call of a tool, which is left to the tool
//! parser, or a word before one.

use graphmill_llm::{Constraint, ReasoningMarks};

use super::think::partial;
use super::{Format, Parsed, Parser};

const START: &str = "<|start|>";
const CHANNEL: &str = "<|channel|>";
const CONSTRAIN: &str = "<|constrain|>";
const MESSAGE: &str = "<|message|>";
const END: &str = "<|end|>";
const RETURN: &str = "<|return|>";
const CALL: &str = "<|call|>";
/// What can end a message. The beginning of the next does too.
const ENDS: [&str; 5] = [END, RETURN, CALL, START, CHANNEL];

pub(super) struct Harmony;

impl Format for Harmony {
    fn parser(&self, _: &str) -> Box<dyn Parser> {
        Box::new(HarmonyParser::default())
    }

    fn marks(&self, _: &str) -> ReasoningMarks {
        ReasoningMarks {
            begin: "<|channel|>analysis<|message|>".to_owned(),
            end: END.to_owned(),
            is_open: false,
        }
    }

    fn closing(&self) -> String {
        format!("{END}{START}assistant")
    }

    fn constrain(
        &self,
        _: &str,
        answer: Option<Constraint>,
        calls: Option<Constraint>,
    ) -> Constraint {
        let mark = |mark: &str| Constraint::Mark(mark.to_owned());
        let text = |text: &str| Constraint::Text(text.to_owned());
        let reasoning = Constraint::Sequence(vec![
            mark(CHANNEL),
            text("analysis"),
            mark(MESSAGE),
            Constraint::TextUpTo(END.to_owned()),
            mark(START),
            text("assistant"),
        ]);
        let answer = answer.map(|answer| {
            Constraint::Sequence(vec![mark(CHANNEL), text("final"), mark(MESSAGE), answer])
        });
        Constraint::Sequence(vec![
            Constraint::Optional(Box::new(reasoning)),
            Constraint::any_of(answer.into_iter().chain(calls)),
        ])
    }

    fn markers(&self) -> &'static [&'static str] {
        &[START, CHANNEL, CONSTRAIN, MESSAGE, END, RETURN, CALL]
    }
}

#[derive(Default)]
struct HarmonyParser {
    /// Text that is not passed on yet.
    held: String,
    place: Place,
    /// Whether there was text of an answer, and of reasoning.
    answered: bool,
    reasoned: bool,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
enum Place {
    /// Before the first message, which a model may write without any marks.
    #[default]
    Start,
    /// Before a message's content.
    Head,
    Reasoning,
    Answer,
    /// A call of a tool.
    Call,
}

impl Parser for HarmonyParser {
    fn push(&mut self, text: &str, end: bool) -> Parsed {
        let mut parsed = Parsed::default();
        self.held.push_str(text);
        while let Some(next) = self.advance(end, &mut parsed) {
            self.place = next;
        }
        parsed
    }
}

impl HarmonyParser {
    /// Goes on in what is held, to another place; none where that is not possible without more
    /// text.
    fn advance(&mut self, end: bool, parsed: &mut Parsed) -> Option<Place> {
        match self.place {
            Place::Start => {
                let held = self.held.trim_start();
                let begins = [START, CHANNEL, "to=", "assistant"];
                if begins.iter().any(|mark| held.starts_with(mark)) {
                    Some(Place::Head)
                } else if begins.iter().any(|mark| mark.starts_with(held)) && !end {
                    None
                } else {
                    self.answered = true;
                    Some(Place::Answer)
                }
            }
            Place::Head => self.head(end, parsed),
            Place::Reasoning | Place::Answer | Place::Call => self.content(end, parsed),
        }
    }

    /// Reads a head, which has the channel and the recipient.
    fn head(&mut self, end: bool, parsed: &mut Parsed) -> Option<Place> {
        let Some(at) = self.held.find(MESSAGE) else {
            if end && !self.held.contains(START) && !self.held.contains(CHANNEL) {
                parsed.text.push_str(self.held.trim_start());
            }
            if end {
                // a head alone says nothing
                self.held.clear();
            }
            return None;
        };
        let head = self.held[..at].to_owned();
        let channel = head
            .split_once(CHANNEL)
            .map_or("", |(_, after)| after.trim_start());
        let place = if head.contains("to=functions.") {
            // The tool parser wants to see it all.
            parsed.text.push_str(&head);
            parsed.text.push_str(MESSAGE);
            Place::Call
        } else if channel.starts_with("analysis") || head.contains("to=") {
            let again = std::mem::replace(&mut self.reasoned, true);
            parsed.reasoning.push_str(if again { "\n" } else { "" });
            Place::Reasoning
        } else {
            let again = std::mem::replace(&mut self.answered, true);
            parsed.text.push_str(if again { "\n" } else { "" });
            Place::Answer
        };
        self.held.drain(..at + MESSAGE.len());
        Some(place)
    }

    /// Passes on the content of a message, up to its end.
    fn content(&mut self, end: bool, parsed: &mut Parsed) -> Option<Place> {
        let found = ENDS
            .iter()
            .filter_map(|mark| Some((self.held.find(mark)?, *mark)))
            .min();
        let partial = |mark: &&str| partial(&self.held, mark);
        let length = match found {
            Some((at, _)) => at,
            None if end => self.held.len(),
            None => ENDS.iter().map(partial).min().unwrap_or(self.held.len()),
        };
        let content: String = self.held.drain(..length).collect();
        match self.place {
            Place::Reasoning => parsed.reasoning.push_str(&content),
            _ => parsed.text.push_str(&content),
        }
        let (_, mark) = found?;
        if matches!(mark, END | RETURN | CALL) {
            self.held.drain(..mark.len());
            if self.place == Place::Call {
                parsed.text.push_str(mark);
            }
        }
        Some(Place::Head)
    }
}
