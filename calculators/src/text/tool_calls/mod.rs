//! Tool calls in the text of a model: their formats, and the parser of these.
//!
//! A family of models is a row of the `table`, whose patterns (`spelling`) describe its calls. A
//! pattern that no row has is `learned` from the chat template. The rest is shared: `parser` holds
//! text back, forwards calls in pieces, and returns text that turns out not to be a call. `read`
//! follows a pattern through the text, and continues where it stopped, so that the division of a
//! text into chunks makes no difference, and no text is read twice. `grammar` makes constraints
//! from patterns.

mod arguments;
mod fields;
mod formats;
mod gemma;
pub(crate) mod grammar;
mod learned;
mod objects;
pub(crate) mod parser;
mod read;
mod scan;
mod schema;
mod spelling;
mod table;
mod tools;
mod values;

use std::sync::Arc;

use self::objects::ParsedCall;
use self::spelling::{Opener, Pattern, Spelling, SpellingPart};
pub(crate) use self::table::FORMATS;
use self::table::Ids;
pub(crate) use self::tools::Tools;
use super::chat_template::ChatTemplate;

/// A row of the table of families.
pub(crate) struct CallFamily {
    patterns: &'static [Pattern],
    ids: Ids,
}

/// The form of a model's tool calls.
#[derive(Debug)]
pub(crate) struct CallFormat {
    /// Patterns of calls. The first one that fits a text reads it.
    spellings: Vec<Spelling>,
    /// Index of the pattern that a grammar demands.
    demanded: usize,
    /// Texts that may begin a call.
    openers: Vec<Opener>,
    ids: Ids,
}

impl CallFormat {
    /// Returns the format of a family, for models with this chat template.
    pub(crate) fn from_family(family: &CallFamily, template: &str) -> Arc<Self> {
        let mut patterns = family.patterns.iter();
        let taught = patterns.position(|pattern| template.contains(pattern.taught_by));
        let spellings = family.patterns.iter().map(Spelling::from).collect();
        Arc::new(Self::new(spellings, taught.unwrap_or(0), family.ids))
    }

    /// Returns the format that a chat template teaches.
    pub(crate) fn taught_by(template: Option<&ChatTemplate>) -> Option<Arc<Self>> {
        let source = template.map_or("", ChatTemplate::source);
        let family = FORMATS.taught_by(source)?;
        // This is the family that any template teaches.
        let unknown = template.filter(|_| family.taught_by == [&[] as &[&str]]);
        let learned = unknown.and_then(learned::spelling);
        Some(match learned {
            Some(spelling) => Arc::new(Self::new(vec![spelling], 0, Ids::Random)),
            None => Self::from_family(family.format, source),
        })
    }

    fn new(spellings: Vec<Spelling>, demanded: usize, ids: Ids) -> Self {
        let mut openers: Vec<Opener> = Vec::new();
        for opener in spellings.iter().flat_map(Spelling::openers) {
            if !openers.contains(&opener) {
                openers.push(opener);
            }
        }
        Self {
            spellings,
            demanded,
            openers,
            ids,
        }
    }

    /// Iterates over the format's own marks, as [`marks`] does over those of all families.
    pub(crate) fn marks(&self) -> impl Iterator<Item = String> {
        let spelled = self.spellings.iter();
        let parts = spelled.flat_map(|it| [&it.open, &it.call, &it.close].into_iter().flatten());
        parts.filter_map(spelling::literal).flat_map(marks_of)
    }

    /// Returns the pattern of demanded calls.
    fn demanded(&self) -> &Spelling {
        &self.spellings[self.demanded]
    }

    /// Returns the id of a call, made from `random` letters and digits if it has none.
    fn call_id(&self, call: &ParsedCall, random: &str) -> String {
        match (self.ids, &call.id) {
            (Ids::Nine, _) => random.chars().take(9).collect(),
            (Ids::Written, Some(id)) => id.clone(),
            _ => format!("call_{random}"),
        }
    }
}

/// Iterates over the marks in a text.
pub(crate) fn marks_of(text: &str) -> impl Iterator<Item = String> + use<> {
    let parts = spelling::literals(text).into_iter();
    parts.filter_map(|part| match part {
        SpellingPart::Mark(mark) => Some(mark),
        _ => None,
    })
}

/// Iterates over the marks of all families. Parsers need these tokens, even if a vocabulary has
/// them as special tokens.
pub(crate) fn marks() -> impl Iterator<Item = String> {
    let families = FORMATS.all.iter().map(|named| named.format);
    let patterns = families.flat_map(|family| family.patterns);
    let texts = patterns.flat_map(|pattern| {
        let (open, close) = pattern.section;
        [open, close, pattern.call, pattern.parameter]
    });
    let texts = texts.chain(grammar::HARMONY_CALL);
    texts.chain([values::GEMMA_QUOTE]).flat_map(marks_of)
}

#[cfg(test)]
mod tests;
