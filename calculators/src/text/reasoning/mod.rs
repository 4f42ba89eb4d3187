//! Reasoning in the text of a model: how models write it, and the node that reads it.

mod harmony;
mod think;

use graphmill_llm::{Constraint, ReasoningMarks};

use self::harmony::Harmony;
use self::think::Think;
use super::formats::{Formats, Named};

/// How a model writes what it thinks on its way to an answer.
pub(crate) trait Format: Send + Sync {
    /// A parser for one answer to `prompt`.
    fn parser(&self, prompt: &str) -> Box<dyn Parser>;

    /// What the reasoning of an answer to `prompt` begins and ends with.
    fn marks(&self, prompt: &str) -> ReasoningMarks;

    /// The text that ends reasoning which has taken too long.
    fn closing(&self) -> String;

    /// What an answer to `prompt` has to match, reasoning and all, that says what `answer` matches
    /// or does what `calls` matches.
    fn constrain(
        &self,
        prompt: &str,
        answer: Option<Constraint>,
        calls: Option<Constraint>,
    ) -> Constraint;

    /// Spellings of tokens that have to be read, even where the vocabulary has them as special
    /// tokens.
    fn markers(&self) -> &'static [&'static str];
}

/// Takes the reasoning out of a text that comes in pieces. The division into pieces makes no
/// difference.
pub(crate) trait Parser: Send {
    /// Takes more text in; `end` is set with the last.
    fn push(&mut self, text: &str, end: bool) -> Parsed;
}

/// What a parser has made of a piece of text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Parsed {
    pub(crate) reasoning: String,
    /// The rest.
    pub(crate) text: String,
}

/// All formats.
pub(crate) static FORMATS: Formats<dyn Format> = Formats {
    of: "reasoning",
    all: &[
        Named {
            names: &["gptoss", "gpt_oss", "harmony", "openai_gptoss"],
            format: &Harmony,
            taught_by: |template| template.contains("<|channel|>"),
        },
        Named {
            names: &["seed", "seed_oss"],
            format: &think::SEED,
            taught_by: |template| template.contains(think::SEED.open),
        },
        Named {
            names: &["mistral", "magistral"],
            format: &think::MISTRAL,
            taught_by: |template| template.contains(think::MISTRAL.open),
        },
        Named {
            names: &["think", "qwen3", "deepseek_r1", "deepseek_v3"],
            format: &think::THINK,
            taught_by: |template| template.contains(Think::CLOSE),
        },
    ],
};

/// The spellings of all formats' marks.
pub(crate) fn markers() -> impl Iterator<Item = &'static str> {
    FORMATS
        .all
        .iter()
        .flat_map(|format| format.format.markers().iter().copied())
}

#[cfg(test)]
mod tests;
