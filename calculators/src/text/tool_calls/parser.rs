//! A parser that separates tool calls from a text in pieces.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use super::objects::ParsedCall;
use super::read::{CallReading, Input, Stop};
use super::spelling::Opener;
use super::{CallFormat, Tools};
use crate::payload::{ToolCallDelta, ToolCallStart};
use crate::text::reasoning::partial;

/// The output of a parser for a piece of text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ToolCallOutput {
    /// Text that is not part of a call.
    pub(crate) text: String,
    pub(crate) calls: Vec<ToolCallDelta>,
}

/// A parser that separates the calls from one choice's text.
///
/// Text that may begin a call is held back, with the white space before it. A call is passed on
/// when it is complete. If `eager` is set, its arguments are passed on as they come, because a
/// grammar ensures that they are valid. Text that turns out not to be a call is passed on as text.
pub(crate) struct CallParser {
    format: Arc<CallFormat>,
    tools: Arc<Tools>,
    eager: bool,
    /// Maximum number of calls. Text after the last one is dropped.
    limit: usize,
    /// Text that was not passed on yet.
    held: String,
    /// Calls that are being read from an opener in `held`.
    section: Option<Section>,
    /// Number of calls whose beginning was passed on.
    calls: u32,
    /// True if anything but white space was passed on.
    begun: bool,
    /// True if a call was the last thing passed on.
    after_call: bool,
    /// True if a call ended early after its beginning was passed on. Later text is dropped.
    broken: bool,
}

/// The calls after an opener, while they are read.
struct Section {
    /// Position of the opener's end, after white space.
    opened: usize,
    reading: CallReading,
    /// Number of bytes of arguments that were passed on, for each call whose beginning was.
    passed: Vec<usize>,
}

impl CallParser {
    pub(crate) fn new(
        format: Arc<CallFormat>,
        tools: Arc<Tools>,
        eager: bool,
        limit: usize,
    ) -> Self {
        Self {
            format,
            tools,
            eager,
            limit,
            held: String::new(),
            section: None,
            calls: 0,
            begun: false,
            after_call: false,
            broken: false,
        }
    }

    /// Returns true if there were calls, and all that began are complete.
    pub(crate) fn has_called(&self) -> bool {
        self.calls > 0 && !self.broken
    }

    /// Returns true if the maximum number of calls was reached, and all are complete.
    pub(crate) fn is_done(&self) -> bool {
        self.calls as usize >= self.limit && self.section.is_none() && !self.broken
    }

    /// Adds text. `end` is true for the last piece.
    pub(crate) fn push(&mut self, text: &str, end: bool) -> ToolCallOutput {
        let mut parsed = ToolCallOutput::default();
        self.held.push_str(text);
        while !self.is_done() && !self.broken && self.advance(end, &mut parsed) {}
        if self.is_done() || self.broken {
            self.held.clear();
        }
        parsed
    }

    /// Continues with the held text. Returns false if more text is needed.
    fn advance(&mut self, end: bool, parsed: &mut ToolCallOutput) -> bool {
        let Some(mut section) = self.section.take() else {
            return self.find(end, parsed);
        };
        let input = Input {
            text: &self.held,
            end,
            tools: &self.tools,
        };
        let read = section.reading.advance(&self.format, input);
        let allowed = self.limit - (self.calls as usize - section.passed.len());
        let calls = &section.reading.calls;
        let enough = calls.get(allowed - 1).is_some_and(|call| call.complete);
        if read.is_ok() || enough || self.eager {
            self.pass(allowed, &mut section, parsed);
        }
        if read.is_ok() || enough {
            self.after_call = true;
            self.held.drain(..section.reading.at);
            return true;
        }
        if read == Err(Stop::More) && !end {
            self.section = Some(section);
            return false;
        }
        self.broken = !section.passed.is_empty();
        if !self.broken {
            let rest = self.held.split_off(section.opened);
            let opener = std::mem::replace(&mut self.held, rest);
            self.release(&opener, parsed);
        }
        true
    }

    /// Searches for an opener and passes on the text before it.
    fn find(&mut self, end: bool, parsed: &mut ToolCallOutput) -> bool {
        if self.after_call {
            let space = self.held.len() - self.held.trim_start().len();
            self.held.drain(..space);
        }
        if self.held.is_empty() {
            return false;
        }
        let held = std::mem::take(&mut self.held);
        let openers = &self.format.openers;
        let found = openers
            .iter()
            .filter_map(|opener| Some((self.position(&held, opener)?, opener.text.len())))
            .min();
        let keep = match found {
            Some((at, _)) => held[..at].trim_end().len(),
            None if end => held.len(),
            None => {
                let partial = openers
                    .iter()
                    .filter_map(|opener| self.partial(&held, opener));
                held[..partial.min().unwrap_or(held.len())].trim_end().len()
            }
        };
        self.release(&held[..keep], parsed);
        held[keep..].clone_into(&mut self.held);
        self.section = found.map(|(at, length)| Section {
            opened: at - keep + length,
            reading: CallReading::new(at - keep),
            passed: Vec::new(),
        });
        self.section.is_some()
    }

    /// Returns true if a call without a mark can begin here: before all text, and after other
    /// calls.
    fn is_at_start(&self) -> bool {
        !self.begun || self.after_call
    }

    /// Returns the position of an opener.
    fn position(&self, held: &str, opener: &Opener) -> Option<usize> {
        if !opener.at_start {
            return held.find(&*opener.text);
        }
        let space = held.len() - held.trim_start().len();
        (self.is_at_start() && held[space..].starts_with(&*opener.text)).then_some(space)
    }

    /// Returns the position at which the text ends with a beginning of an opener.
    fn partial(&self, held: &str, opener: &Opener) -> Option<usize> {
        let at = if !opener.at_start {
            partial(held, &opener.text)
        } else if self.is_at_start() && opener.text.starts_with(held.trim_start()) {
            held.len() - held.trim_start().len()
        } else {
            held.len()
        };
        (at < held.len()).then_some(at)
    }

    fn release(&mut self, text: &str, parsed: &mut ToolCallOutput) {
        parsed.text.push_str(text);
        if !text.trim_start().is_empty() {
            self.begun = true;
            self.after_call = false;
        }
    }

    /// Passes on the new parts of a section's calls, up to the allowed number of calls.
    fn pass(&mut self, allowed: usize, section: &mut Section, parsed: &mut ToolCallOutput) {
        let first = self.calls - section.passed.len() as u32;
        let calls: &[ParsedCall] = &section.reading.calls;
        for (number, call) in calls.iter().take(allowed).enumerate() {
            let mut start = None;
            if section.passed.len() <= number {
                section.passed.push(0);
                self.calls += 1;
                self.begun = true;
                start = Some(ToolCallStart {
                    id: self.format.call_id(call, &random()).into(),
                    name: call.name.clone(),
                });
            }
            let arguments = call.arguments[section.passed[number]..].to_owned();
            section.passed[number] = call.arguments.len();
            if start.is_some() || !arguments.is_empty() {
                parsed.calls.push(ToolCallDelta {
                    index: first + number as u32,
                    start,
                    arguments,
                });
            }
        }
    }
}

/// Returns 24 random letters and digits.
fn random() -> String {
    let mut text = String::with_capacity(24);
    while text.len() < 24 {
        let mut bits = RandomState::new().build_hasher().finish();
        for _ in 0..8 {
            let digit = (bits % 36) as u32;
            text.extend(char::from_digit(digit, 36));
            bits /= 36;
        }
    }
    text
}
