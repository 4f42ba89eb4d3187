//! Harmony, the format of gpt-oss: messages in channels. The channel `analysis` has reasoning, and
//! `final` has the answer. `commentary` has either a tool call, which is left to the tool parser,
//! or a remark before one. Onyx has recipients instead of channels: the model itself, the user, or
//! a tool.

use graphmill_llm::{Constraint, ReasoningMarks};

use super::think::partial;
use super::{Parser, ReasoningFormat, ReasoningOutput};
use crate::text::tool_calls::grammar::{sequence, text};

const START: &str = "<|start|>";
const CHANNEL: &str = "<|channel|>";
const MESSAGE: &str = "<|message|>";
/// Texts with which a message may begin.
const BEGINS: [&str; 5] = [START, CHANNEL, MESSAGE, "to=", "assistant"];

/// Messages of a model, each with a head, a mark and a content.
#[derive(Clone, Copy, Debug)]
pub(super) struct Harmony {
    /// Heads of reasoning and of answers, without the role.
    reasoning: &'static str,
    answer: &'static str,
    /// Mark that ends reasoning, and marks that can end a message. The beginning of the next
    /// message ends one, too.
    end: &'static str,
    ends: &'static [&'static str],
    /// Content of the head of a call; `None` if the tool parser does not need the head.
    call: Option<&'static str>,
}

pub(super) const GPT_OSS: Harmony = Harmony {
    reasoning: "<|channel|>analysis",
    answer: "<|channel|>final",
    end: "<|end|>",
    ends: &["<|end|>", "<|return|>", "<|call|>", START, CHANNEL],
    call: Some("to=functions."),
};

pub(super) const ONYX: Harmony = Harmony {
    reasoning: " to=self",
    answer: " to=user",
    end: "<|eom|>",
    ends: &["<|eom|>", "<|eot|>", START],
    call: None,
};

impl ReasoningFormat for Harmony {
    fn parser(&self, _: &str) -> Box<dyn Parser> {
        Box::new(HarmonyParser {
            harmony: *self,
            held: String::new(),
            place: HarmonyPlace::Start,
            answered: false,
            reasoned: false,
        })
    }

    fn marks(&self, _: &str) -> ReasoningMarks {
        ReasoningMarks {
            begin: format!("{}{MESSAGE}", self.reasoning),
            end: self.end.to_owned(),
            is_open: false,
        }
    }

    fn closing(&self) -> String {
        format!("{}{START}assistant", self.end)
    }

    fn constrain(
        &self,
        _: &str,
        answer: Option<Constraint>,
        calls: Option<Constraint>,
    ) -> Constraint {
        let thought = Constraint::text_up_to(self.end);
        let assistant = text("<|start|>assistant");
        let reasoning = sequence([text(self.reasoning), text(MESSAGE), thought, assistant]);
        let answer = answer.map(|it| sequence([text(self.answer), text(MESSAGE), it]));
        let calls = calls.map(|calls| {
            if self.call.is_some() {
                return calls;
            }
            let recipient = Constraint::Regex("[A-Za-z0-9_.-]{1,64}".to_owned());
            sequence([text(" to="), recipient, text(MESSAGE), calls])
        });
        let then = Constraint::any_of(answer.into_iter().chain(calls));
        sequence([Constraint::Optional(Box::new(reasoning)), then])
    }

    fn marks_read(&self) -> Vec<&'static str> {
        [&BEGINS[..], self.ends].concat()
    }
}

struct HarmonyParser {
    harmony: Harmony,
    /// Text that was not passed on yet.
    held: String,
    place: HarmonyPlace,
    /// True if there was text of an answer, and of reasoning.
    answered: bool,
    reasoned: bool,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum HarmonyPlace {
    /// Before the first message, which a model may write without any marks.
    Start,
    /// Inside of a message's head, before its content.
    Head,
    Reasoning,
    Answer,
    /// Inside of a tool call.
    Call,
}

impl Parser for HarmonyParser {
    fn push(&mut self, text: &str, end: bool) -> ReasoningOutput {
        let mut parsed = ReasoningOutput::default();
        self.held.push_str(text);
        while let Some(next) = self.advance(end, &mut parsed) {
            self.place = next;
        }
        parsed
    }
}

impl HarmonyParser {
    /// Continues with the held text and returns the next place; `None` if more text is needed.
    fn advance(&mut self, end: bool, parsed: &mut ReasoningOutput) -> Option<HarmonyPlace> {
        match self.place {
            HarmonyPlace::Start => {
                let held = self.held.trim_start();
                if BEGINS.iter().any(|mark| held.starts_with(mark)) {
                    Some(HarmonyPlace::Head)
                } else if BEGINS.iter().any(|mark| mark.starts_with(held)) && !end {
                    None
                } else {
                    self.answered = true;
                    Some(HarmonyPlace::Answer)
                }
            }
            HarmonyPlace::Head => self.head(end, parsed),
            HarmonyPlace::Reasoning | HarmonyPlace::Answer | HarmonyPlace::Call => {
                self.content(end, parsed)
            }
        }
    }

    /// Reads a head, which names the channel and the recipient.
    fn head(&mut self, end: bool, parsed: &mut ReasoningOutput) -> Option<HarmonyPlace> {
        let Some(at) = self.held.find(MESSAGE) else {
            if end && !self.held.contains(START) && !self.held.contains(CHANNEL) {
                parsed.text.push_str(self.held.trim_start());
            }
            if end {
                // A head without content has no effect.
                self.held.clear();
            }
            return None;
        };
        let head = self.held[..at].to_owned();
        let channel = head
            .split_once(CHANNEL)
            .map_or("", |(_, after)| after.trim_start());
        let place = if self.harmony.call.is_some_and(|call| head.contains(call)) {
            // The tool parser needs the whole message.
            parsed.text.push_str(&head);
            parsed.text.push_str(MESSAGE);
            HarmonyPlace::Call
        } else if channel.starts_with("analysis") || self.is_aside(&head) {
            let again = std::mem::replace(&mut self.reasoned, true);
            parsed.reasoning.push_str(if again { "\n" } else { "" });
            HarmonyPlace::Reasoning
        } else {
            let again = std::mem::replace(&mut self.answered, true);
            parsed.text.push_str(if again { "\n" } else { "" });
            HarmonyPlace::Answer
        };
        self.held.drain(..at + MESSAGE.len());
        Some(place)
    }

    /// Returns true if a message is for the model itself, or for one of its own tools.
    fn is_aside(&self, head: &str) -> bool {
        let recipient = head.split("to=").nth(1).map(str::trim);
        recipient.is_some_and(|to| self.harmony.call.is_some() || to == "self")
    }

    /// Passes on the content of a message, up to its end.
    fn content(&mut self, end: bool, parsed: &mut ReasoningOutput) -> Option<HarmonyPlace> {
        let ends = self.harmony.ends;
        let found = ends
            .iter()
            .filter_map(|mark| Some((self.held.find(mark)?, *mark)))
            .min();
        let partial = |mark: &&str| partial(&self.held, mark);
        let length = match found {
            Some((at, _)) => at,
            None if end => self.held.len(),
            None => ends.iter().map(partial).min().unwrap_or(self.held.len()),
        };
        let content: String = self.held.drain(..length).collect();
        match self.place {
            HarmonyPlace::Reasoning => parsed.reasoning.push_str(&content),
            _ => parsed.text.push_str(&content),
        }
        let (_, mark) = found?;
        if ![START, CHANNEL].contains(&mark) {
            self.held.drain(..mark.len());
            if self.place == HarmonyPlace::Call {
                parsed.text.push_str(mark);
            }
        }
        Some(HarmonyPlace::Head)
    }
}
