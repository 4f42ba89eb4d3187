//! Reading of calls by a pattern, in a text that may be incomplete.

use serde_json::{Map, Value};

use super::CallFormat;
use super::fields::Fields;
use super::objects::{self, ParsedCall};
use super::scan::{Scan, ScanResult};
use super::spelling::{Spelling, SpellingPart, literal};
use super::tools::Tools;

/// The reason why nothing was read.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The text is a beginning of the expected one.
    More,
    /// The text is something else, whatever follows.
    Not,
}

pub(super) type Step<T> = Result<T, Stop>;

/// The text so far. It begins with every text that was given before.
#[derive(Clone, Copy)]
pub(super) struct Input<'a> {
    pub(super) text: &'a str,
    /// True if no more text comes.
    pub(super) end: bool,
    pub(super) tools: &'a Tools,
}

impl Input<'_> {
    /// Returns the result of reading, or `None` if the text differs. At the end of the text, an
    /// incomplete result is `None`, too.
    pub(super) fn settled<T>(&self, read: Step<T>) -> Step<Option<T>> {
        match read {
            Err(Stop::More) if !self.end => Err(Stop::More),
            read => Ok(read.ok()),
        }
    }
}

/// Names under which clients offer a tool that runs Python.
const INTERPRETERS: [&str; 3] = ["python", "ipython", "code_interpreter"];
const MESSAGE: &str = "<|message|>";
/// Text before the name of a tool in the head of a Harmony message.
const RECIPIENT: &str = "to=functions.";

/// The state of reading from an opener on. The result does not depend on the pieces in which a text
/// comes, and no part of it is read twice.
#[derive(Debug, Default)]
pub(super) struct CallReading {
    /// Byte at which the opener begins.
    opener: usize,
    /// Number of the pattern that is followed.
    spelling: usize,
    /// Number of bytes that were read.
    pub(super) at: usize,
    /// Number of the phase, and index of the next part in it.
    phase: usize,
    index: usize,
    /// True if the calls are in a section.
    wrapped: bool,
    /// The calls so far; the last one may be incomplete.
    pub(super) calls: Vec<ParsedCall>,
    /// Parts of the current call.
    call: Current,
}

/// The known parts of the current call.
#[derive(Debug, Default)]
struct Current {
    name: String,
    id: Option<String>,
    /// True if its arguments have begun.
    begun: bool,
    object: Option<Scan>,
    arguments: Option<(usize, Scan)>,
    fields: Option<Fields>,
}

/// Number of the phase of a call, between those of the section's beginning and end.
const CALL: usize = 1;

/// Returns the position after the next word, which may have white space before it.
pub(super) fn word(text: &str, at: usize, word: &str) -> Step<usize> {
    let rest = text[at..].trim_start();
    if rest.starts_with(word) {
        Ok(text.len() - rest.len() + word.len())
    } else if word.starts_with(rest) {
        Err(Stop::More)
    } else {
        Err(Stop::Not)
    }
}

/// Returns the position after the next words of a pattern.
pub(super) fn words(text: &str, at: usize, pattern: &str) -> Step<usize> {
    // White space may also be between tags.
    let words = pattern.split_whitespace();
    let mut words = words.flat_map(|word| word.split_inclusive('>'));
    words.try_fold(at, |at, next| word(text, at, next))
}

impl CallReading {
    pub(super) fn new(opener: usize) -> Self {
        Self {
            opener,
            at: opener,
            ..Self::default()
        }
    }

    /// Reads on to the end of the calls. Once a pattern has led to arguments, no other is tried.
    pub(super) fn advance(&mut self, format: &CallFormat, input: Input<'_>) -> Step<()> {
        loop {
            let read = self.follow(&format.spellings[self.spelling], input);
            let fails = read == Err(Stop::Not) || (read.is_err() && input.end);
            if !fails || !self.calls.is_empty() || self.spelling + 1 == format.spellings.len() {
                return read;
            }
            *self = Self {
                spelling: self.spelling + 1,
                ..Self::new(self.opener)
            };
        }
    }

    fn follow(&mut self, spelling: &Spelling, input: Input<'_>) -> Step<()> {
        let phases = [&spelling.open, &spelling.call, &spelling.close];
        // A call may be written without the section that is usually around it.
        let begins = self.phase < CALL && self.index == 0 && !spelling.open.is_empty();
        let is_marked = matches!(spelling.call.first(), Some(SpellingPart::Mark(_)));
        let open = spelling.open.first().and_then(literal).unwrap_or_default();
        if begins && is_marked && words(input.text, self.at, open) == Err(Stop::Not) {
            self.phase = CALL;
        }
        loop {
            match phases[self.phase].get(self.index) {
                Some(part) => {
                    self.part(part, spelling, input)?;
                    self.wrapped |= self.phase < CALL;
                    self.index += 1;
                }
                None if self.phase > CALL => return Ok(()),
                None if self.phase == CALL && self.is_last(spelling, input)? => {
                    self.phase += 1;
                    self.index = if self.wrapped {
                        0
                    } else {
                        spelling.close.len()
                    };
                }
                None => {
                    self.phase = CALL;
                    self.index = 0;
                    self.call = Current::default();
                }
            }
        }
    }

    /// Returns true if no other call follows, and moves to it if there is one.
    fn is_last(&mut self, spelling: &Spelling, input: Input<'_>) -> Step<bool> {
        let comes = |at, next: &str| input.settled(words(input.text, at, next));
        let first = spelling.call.first().and_then(literal);
        if spelling.between.trim().is_empty() {
            let mut marks = spelling.close.iter().filter_map(literal);
            let close = marks.find(|text| !text.trim().is_empty());
            if !self.wrapped
                || close
                    .map_or(Ok(None), |close| comes(self.at, close))?
                    .is_some()
            {
                return Ok(true);
            }
            return Ok(first
                .map_or(Ok(Some(0)), |first| comes(self.at, first))?
                .is_none());
        }
        let Some(after) = comes(self.at, &spelling.between)? else {
            return Ok(true);
        };
        // If nothing else ends the calls, text may follow.
        let is_last = spelling.close.is_empty() && comes(after, "{")?.is_none();
        self.at = if is_last { self.at } else { after };
        Ok(is_last)
    }

    fn part(&mut self, part: &SpellingPart, spelling: &Spelling, input: Input<'_>) -> Step<()> {
        let Input { text, end, tools } = input;
        match part {
            // Marks after the arguments may be missing, because models end their turn instead.
            SpellingPart::Mark(mark) | SpellingPart::Maybe(mark)
                if self.call.begun || matches!(part, SpellingPart::Maybe(_)) =>
            {
                let read = input.settled(words(text, self.at, mark))?;
                self.at = read.unwrap_or(self.at);
            }
            SpellingPart::Mark(literal)
            | SpellingPart::Text(literal)
            | SpellingPart::Maybe(literal) => {
                self.at = words(text, self.at, literal)?;
            }
            SpellingPart::Name => self.call.name = self.name(text)?.to_owned(),
            SpellingPart::Id => {
                self.name(text)?;
            }
            SpellingPart::Numbered => {
                let id = self.name(text)?.to_owned();
                let name = id.split_once(':').map_or(&*id, |(name, _)| name);
                name.trim_start_matches("functions.")
                    .clone_into(&mut self.call.name);
                self.call.id = Some(id);
            }
            SpellingPart::Json => {
                let at = word(text, self.at, "{")? - 1;
                self.begin_arguments(spelling, tools)?;
                self.at = self.arguments(at, text)?;
            }
            SpellingPart::Object(_) => self.object(spelling, tools, text)?,
            SpellingPart::Parameters | SpellingPart::Python(_) | SpellingPart::Gemma => {
                if !self.call.begun {
                    if let SpellingPart::Python(suffix) = part {
                        let start = self.at;
                        let name = self.name(text)?.to_owned();
                        let opened = std::mem::replace(&mut self.at, start);
                        let opened = word(text, opened, "(")?;
                        let name = name.strip_suffix(suffix).ok_or(Stop::Not)?;
                        name.clone_into(&mut self.call.name);
                        self.at = opened;
                    } else if *part == SpellingPart::Gemma {
                        self.at = word(text, self.at, "{")?;
                    }
                    self.begin_arguments(spelling, tools)?;
                    self.call.fields = Some(Fields::new(part, spelling, self.index));
                }
                if let (Some(fields), Some(call)) = (&mut self.call.fields, self.calls.last_mut()) {
                    fields.advance(&mut self.at, call, input)?;
                }
            }
            SpellingPart::Program => {
                let interpreter = INTERPRETERS.iter().find(|name| tools.has(name));
                (*interpreter.ok_or(Stop::Not)?).clone_into(&mut self.call.name);
                if !end {
                    return Err(Stop::More);
                }
                let code = Value::from(text[self.at..].trim());
                self.begin_arguments(spelling, tools)?;
                self.at = text.len();
                if let Some(call) = self.calls.last_mut() {
                    let arguments = Map::from_iter([("code".to_owned(), code)]);
                    call.arguments = Value::Object(arguments).to_string();
                    call.complete = true;
                }
            }
            SpellingPart::Harmony => {
                let head = text[self.at..].find(MESSAGE).ok_or(Stop::More)?;
                let (head, at) = (&text[self.at..self.at + head], self.at + head);
                let mut words = head.split(' ');
                let recipient = words.find_map(|word| word.strip_prefix(RECIPIENT));
                let recipient = recipient.ok_or(Stop::Not)?;
                let ends = |c: char| c == '<' || c.is_whitespace();
                let name = recipient.split(ends).next().unwrap_or_default();
                name.clone_into(&mut self.call.name);
                self.at = at + MESSAGE.len();
            }
        }
        Ok(())
    }

    /// Reads a name, up to a character that no name has.
    fn name<'a>(&mut self, text: &'a str) -> Step<&'a str> {
        let rest = text[self.at..].trim_start();
        let ends = |c: char| c.is_whitespace() || "<>[]{}()=,\"\\".contains(c);
        let end = rest.find(ends).ok_or(Stop::More)?;
        if end == 0 {
            return Err(Stop::Not);
        }
        self.at = text.len() - rest.len() + end;
        Ok(&rest[..end])
    }

    /// Adds the call whose name was read. If nothing marks calls, the name must be that of a tool.
    fn begin_arguments(&mut self, spelling: &Spelling, tools: &Tools) -> Step<()> {
        if self.call.begun {
            return Ok(());
        }
        if spelling.bare && !tools.has(&self.call.name) {
            return Err(Stop::Not);
        }
        self.call.begun = true;
        self.calls.push(ParsedCall {
            name: std::mem::take(&mut self.call.name),
            id: self.call.id.take(),
            ..ParsedCall::default()
        });
        Ok(())
    }

    /// Reads the arguments at `start` as an object, and returns its end.
    fn arguments(&mut self, start: usize, text: &str) -> Step<usize> {
        let scans = &mut self.call.arguments;
        let (start, scan) = scans.get_or_insert_with(|| (start, Scan::new(start)));
        let scanned = scan.advance(text);
        let (upto, read) = match scanned {
            ScanResult::Ends(end) => (end, Ok(end)),
            ScanResult::Not(at) => (at, Err(Stop::Not)),
            ScanResult::More => (text.len(), Err(Stop::More)),
        };
        if let Some(call) = self.calls.last_mut() {
            let from = *start + call.arguments.len();
            call.arguments
                .push_str(text.get(from..upto).unwrap_or_default());
            call.complete = read.is_ok();
        }
        read
    }

    /// Reads an object with the name and the arguments of a call.
    fn object(&mut self, spelling: &Spelling, tools: &Tools, text: &str) -> Step<()> {
        let start = word(text, self.at, "{")? - 1;
        if spelling.bare {
            objects::known_key(text, start)?;
        }
        if self.call.object.is_none() {
            match objects::head(text, start) {
                Ok((name, arguments)) => {
                    self.call.name = name;
                    self.begin_arguments(spelling, tools)?;
                    self.call.arguments = Some((arguments, Scan::new(arguments)));
                    self.call.object = Some(Scan::new(start));
                }
                Err(Stop::Not) => self.call.object = Some(Scan::new(start)),
                Err(Stop::More) => {}
            }
        }
        if self.call.begun
            && let Some((arguments, _)) = self.call.arguments
            && self.arguments(arguments, text).is_ok()
            && let Some(call) = self.calls.last_mut()
        {
            // Another key may still make the object something else.
            call.complete = false;
        }
        let scan = self.call.object.as_mut().ok_or(Stop::More)?;
        let object = match scan.advance(text) {
            ScanResult::More => return Err(Stop::More),
            ScanResult::Not(_) => return Err(Stop::Not),
            ScanResult::Ends(end) => start..end,
        };
        self.at = object.end;
        if self.call.begun {
            if let Some(call) = self.calls.last_mut() {
                call.complete = true;
            }
            return Ok(());
        }
        let call = objects::call(&text[object]).ok_or(Stop::Not)?;
        self.call.name.clone_from(&call.name);
        self.begin_arguments(spelling, tools)?;
        if let Some(begun) = self.calls.last_mut() {
            *begun = call;
        }
        Ok(())
    }
}
