//! Calls of tools in the text of a model: how models write them, and the node that reads them.
//!
//! A family of models is a row of the `table`, whose patterns (`spelling`) say how it writes calls.
//! A pattern that no row has is `learned` from the chat template. All else is shared: `parser`
//! holds text back, forwards calls in pieces, and returns text that turns out not to be a call;
//! `read` follows a pattern through the text, and goes on where it stopped, so that the division
//! of a text into chunks makes no difference, and no text is read twice; `grammar` writes what a
//! pattern demands.

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

use self::objects::Call;
use self::spelling::{Opener, Part, Pattern, Spelling};
pub(crate) use self::table::FORMATS;
use self::table::Ids;
pub(crate) use self::tools::Tools;
use super::chat_template::ChatTemplate;

/// A row of the table of families.
pub(crate) struct Family {
    patterns: &'static [Pattern],
    ids: Ids,
}

/// The form of a model's calls of tools.
#[derive(Debug)]
pub(crate) struct Format {
    /// The first one that fits a text is what it is read by.
    spellings: Vec<Spelling>,
    /// The one that a grammar demands.
    demanded: usize,
    /// The texts that may begin a call.
    openers: Vec<Opener>,
    ids: Ids,
}

impl Format {
    /// The format of a family, as models with this chat template write it.
    pub(crate) fn from_family(family: &Family, template: &str) -> Arc<Self> {
        let mut patterns = family.patterns.iter();
        let taught = patterns.position(|pattern| template.contains(pattern.taught_by));
        let spellings = family.patterns.iter().map(Spelling::from).collect();
        Arc::new(Self::new(spellings, taught.unwrap_or(0), family.ids))
    }

    /// The format that a chat template teaches.
    pub(crate) fn taught_by(template: Option<&ChatTemplate>) -> Option<Arc<Self>> {
        let source = template.map_or("", ChatTemplate::source);
        let family = FORMATS.taught_by(source)?;
        // The one that any template teaches.
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

    /// The marks of its own, as those of all [families](marks) are.
    pub(crate) fn marks(&self) -> impl Iterator<Item = String> {
        let spelled = self.spellings.iter();
        let parts = spelled.flat_map(|it| [&it.open, &it.call, &it.close].into_iter().flatten());
        parts.filter_map(spelling::literal).flat_map(marks_of)
    }

    /// The spelling of calls that are demanded.
    fn demanded(&self) -> &Spelling {
        &self.spellings[self.demanded]
    }

    /// An id for a call, of `random` letters and digits if it has none.
    fn call_id(&self, call: &Call, random: &str) -> String {
        match (self.ids, &call.id) {
            (Ids::Nine, _) => random.chars().take(9).collect(),
            (Ids::Written, Some(id)) => id.clone(),
            _ => format!("call_{random}"),
        }
    }
}

/// The marks in a text.
pub(crate) fn marks_of(text: &str) -> impl Iterator<Item = String> + use<> {
    let parts = spelling::literals(text).into_iter();
    parts.filter_map(|part| match part {
        Part::Mark(mark) => Some(mark),
        _ => None,
    })
}

/// The spellings of tokens that have to be read, even where a vocabulary has them as special
/// tokens: the marks of all families.
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
