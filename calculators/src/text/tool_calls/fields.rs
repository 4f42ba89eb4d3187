//! Arguments that are written one by one: as XML, as keywords of Python, or in Gemma's form.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::Value;

use super::objects::ParsedCall;
use super::read::{Input, Step, Stop, word, words};
use super::scan::{Scan, ScanResult, is_json};
use super::schema::Domain;
use super::spelling::{Parameter, Spelling, SpellingPart, literal};
use super::values::{self, Ends, GEMMA_QUOTE, Syntax};

/// Maximum size of a key, in bytes.
const LONGEST_KEY: usize = 512;
const CDATA: &str = "<![CDATA[";

/// The arguments of one call, which are read on from where reading stopped.
#[derive(Debug)]
pub(super) struct Fields {
    form: ArgumentForm,
    keys: Vec<String>,
    /// The argument whose value is being read.
    field: Option<ArgumentField>,
}

#[derive(Debug)]
enum ArgumentForm {
    /// By a pattern, up to a text that is not part of the arguments.
    Xml(Parameter, String),
    Loose(Syntax),
}

#[derive(Debug)]
struct ArgumentField {
    key: String,
    /// True if the value is text, false if it is JSON, `None` if the text does not say.
    is_text: Option<bool>,
    domain: Option<Arc<Domain>>,
    /// Position at which the value begins.
    start: usize,
    scan: Option<Scan>,
    /// Position up to which the end was searched.
    seen: usize,
    ends: Ends,
}

impl Fields {
    pub(super) fn new(part: &SpellingPart, spelling: &Spelling, index: usize) -> Self {
        let form = match part {
            SpellingPart::Python(_) => ArgumentForm::Loose(Syntax::Python),
            SpellingPart::Gemma => ArgumentForm::Loose(Syntax::Gemma),
            _ => {
                let behind = spelling.call.iter().skip(index + 1).chain(&spelling.close);
                let behind = behind.filter_map(literal);
                let mut behind = behind.skip_while(|text| text.trim().is_empty());
                // A mark can be in the middle of a tag.
                let mut close = behind.next().unwrap_or_default().to_owned();
                let rest = behind.take_while(|text| !text.trim().is_empty());
                for text in rest {
                    if close.ends_with('>') {
                        break;
                    }
                    close.push_str(text);
                }
                ArgumentForm::Xml(spelling.parameter.clone(), close)
            }
        };
        Self {
            form,
            keys: Vec::new(),
            field: None,
        }
    }

    /// Adds arguments to the call as their values end, up to the last one.
    pub(super) fn advance(
        &mut self,
        at: &mut usize,
        call: &mut ParsedCall,
        input: Input<'_>,
    ) -> Step<()> {
        let text = input.text;
        loop {
            let Some(field) = &mut self.field else {
                let (field, next) = match &self.form {
                    ArgumentForm::Xml(parameter, close) => {
                        Self::xml_key(parameter, close, *at, text)?
                    }
                    ArgumentForm::Loose(syntax) => self.loose_key(*syntax, *at, text)?,
                };
                *at = next;
                if field.is_none() {
                    call.arguments
                        .push_str(if self.keys.is_empty() { "{}" } else { "}" });
                    call.complete = true;
                    return Ok(());
                }
                self.field = field;
                continue;
            };
            let (value, next) = match &self.form {
                ArgumentForm::Xml(parameter, close) => {
                    field.xml((parameter, &**close), &call.name, input)?
                }
                ArgumentForm::Loose(syntax) => {
                    let end = field.ends.advance(text, *syntax)?;
                    let value = values::json(&text[field.start..end], *syntax);
                    (value.ok_or(Stop::Not)?, end)
                }
            };
            *at = next;
            let key = std::mem::take(&mut field.key);
            self.field = None;
            // An object has each key once, and the first value may have been passed on.
            if !self.keys.contains(&key) {
                let before = if self.keys.is_empty() { '{' } else { ',' };
                let name = Value::from(&*key);
                // Writing to a string cannot fail.
                let _ = write!(call.arguments, "{before}{name}:{value}");
                self.keys.push(key);
            }
        }
    }

    fn xml_key(
        parameter: &Parameter,
        close: &str,
        at: usize,
        text: &str,
    ) -> Step<(Option<ArgumentField>, usize)> {
        let start = match (words(text, at, &parameter.before), words(text, at, close)) {
            (_, Ok(_)) => return Ok((None, at)),
            (Ok(start), _) => start,
            (Err(Stop::Not), Err(Stop::Not)) => return Err(Stop::Not),
            _ => return Err(Stop::More),
        };
        let between = parameter.between.split_whitespace().next();
        let mark = between.and_then(|word| word.split_inclusive('>').next());
        let (key, end) = key(text, start, mark.unwrap_or_default())?;
        let mut next = words(text, end, &parameter.between)?;
        let mut is_text = None;
        if let Some(after) = &parameter.typed {
            let (kind, end) = match word(text, next, "true") {
                Err(Stop::Not) => (false, word(text, next, "false")?),
                read => (true, read?),
            };
            is_text = Some(kind);
            next = words(text, end, after)?;
        }
        Ok((Some(ArgumentField::new(key, is_text, next)), next))
    }

    fn loose_key(
        &self,
        syntax: Syntax,
        at: usize,
        text: &str,
    ) -> Step<(Option<ArgumentField>, usize)> {
        let (close, mark) = match syntax {
            Syntax::Python => (")", '='),
            Syntax::Gemma => ("}", ':'),
        };
        let mut at = at;
        for separated in [false, true] {
            match word(text, at, close) {
                Ok(next) => return Ok((None, next)),
                Err(Stop::More) => return Err(Stop::More),
                Err(Stop::Not) => {}
            }
            if separated || self.keys.is_empty() {
                break;
            }
            at = word(text, at, ",")?;
        }
        let ends = |c: char| "(){}[],=:\n".contains(c);
        let rest = &text[at..];
        let end =
            rest.trim_start().find(ends).ok_or(Stop::More)? + rest.len() - rest.trim_start().len();
        if !rest[end..].starts_with(mark) || end > LONGEST_KEY {
            return Err(Stop::Not);
        }
        let key = rest[..end].trim();
        let key = key.strip_prefix(GEMMA_QUOTE).unwrap_or(key);
        let key = key.strip_suffix(GEMMA_QUOTE).unwrap_or(key);
        let next = at + end + 1;
        Ok((Some(ArgumentField::new(key.to_owned(), None, next)), next))
    }
}

/// Returns the key before a mark, and the position of the mark.
fn key(text: &str, start: usize, mark: &str) -> Step<(String, usize)> {
    let rest = &text[start..];
    match rest.find(mark) {
        Some(end) if end <= LONGEST_KEY => Ok((rest[..end].trim().to_owned(), start + end)),
        None if rest.len() < LONGEST_KEY + mark.len() => Err(Stop::More),
        _ => Err(Stop::Not),
    }
}

impl ArgumentField {
    fn new(key: String, is_text: Option<bool>, start: usize) -> Self {
        Self {
            key,
            is_text,
            domain: None,
            start,
            scan: None,
            seen: start,
            ends: Ends::new(start),
        }
    }

    /// Returns the value as JSON, and the position after its end mark. JSON can contain the mark.
    fn xml(
        &mut self,
        (parameter, close): (&Parameter, &str),
        tool: &str,
        input: Input<'_>,
    ) -> Step<(String, usize)> {
        let text = input.text;
        let first = text[self.start..].trim_start();
        if first.is_empty() {
            return Err(Stop::More);
        }
        let domain = || Arc::new(input.tools.domain(tool, &self.key));
        let domain = Arc::clone(self.domain.get_or_insert_with(domain));
        let is_nested = self.is_text.map_or(domain.has_nested(), |is_text| !is_text);
        if is_nested && first.starts_with(['{', '[']) {
            let from = text.len() - first.len();
            let scan = self.scan.get_or_insert_with(|| Scan::new(from));
            let scanned = match scan.advance(text) {
                ScanResult::Ends(stop) => Ok(stop),
                ScanResult::More => Err(Stop::More),
                ScanResult::Not(_) => Err(Stop::Not),
            };
            if let Some(stop) = input.settled(scanned)?
                && let Some(next) = input.settled(words(text, stop, &parameter.end))?
                && is_json(&text[from..stop])
            {
                return Ok((text[from..stop].to_owned(), next));
            }
        }
        if parameter.cdata && first.starts_with(CDATA) {
            let from = text.len() - first.len() + CDATA.len();
            self.seen = self.seen.max(from);
            let stop = self.search("]]>", text)?;
            let next = words(text, stop + 3, &parameter.end)?;
            return Ok((domain.json(&text[from..stop]), next));
        }
        let stop = self.end((parameter, close), input)?;
        let raw = &text[self.start..stop];
        let raw = raw.strip_prefix(&*parameter.gaps.0).unwrap_or(raw);
        let raw = raw.strip_suffix(&*parameter.gaps.1).unwrap_or(raw);
        let value = match self.is_text {
            None => domain.json(raw),
            Some(false) if is_json(raw.trim()) => raw.trim().to_owned(),
            Some(_) => Value::from(raw).to_string(),
        };
        Ok((value, stop + parameter.end.len()))
    }

    /// Returns the position of the end mark. A text can contain the mark: it is the end only if
    /// another argument follows, or the text that closes the call.
    fn end(&mut self, (parameter, close): (&Parameter, &str), input: Input<'_>) -> Step<usize> {
        let text = input.text;
        loop {
            let stop = self.search(&parameter.end, text)?;
            self.seen = stop;
            let behind = stop + parameter.end.len();
            let next = [&*parameter.before, close].map(|next| words(text, behind, next));
            let next = match next {
                [Err(Stop::Not), other] | [other, Err(Stop::Not)] => other,
                [Ok(at), _] | [_, Ok(at)] => Ok(at),
                [Err(Stop::More), Err(Stop::More)] => Err(Stop::More),
            };
            match next {
                Err(Stop::Not) => self.seen = behind,
                Err(Stop::More) if !input.end => return Err(Stop::More),
                Err(Stop::More) | Ok(_) => return Ok(stop),
            }
        }
    }

    /// Returns the position of the next occurrence of a mark.
    fn search(&mut self, mark: &str, text: &str) -> Step<usize> {
        if let Some(found) = text[self.seen..].find(mark) {
            return Ok(self.seen + found);
        }
        let seen = text.len().saturating_sub(mark.len() - 1);
        let seen = (self.seen..=seen)
            .rev()
            .find(|at| text.is_char_boundary(*at));
        self.seen = seen.unwrap_or(self.seen);
        Err(Stop::More)
    }
}
