//! Reasoning in the text of a model: how models write it, and the node that reads it.

mod harmony;
mod think;

use graphmill_llm::{Constraint, ReasoningMarks};

use self::think::Think;
pub(crate) use self::think::partial;
use super::formats::{Formats, Named};
use super::tool_calls::marks_of;

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

    /// Texts with the marks that have to be read, even where the vocabulary has them as special
    /// tokens.
    fn marks_read(&self) -> Vec<&'static str>;
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

macro_rules! families {
    ($($names:expr, $taught_by:expr, $format:expr;)+) => {
        /// All formats.
        pub(crate) static FORMATS: Formats<dyn Format> = Formats {
            of: "reasoning",
            all: &[$(Named { names: $names, format: &$format, taught_by: $taught_by }),+],
        };
    };
}

families! {
    &["gptoss", "gpt_oss", "harmony", "openai_gptoss"], &[&["<|channel|>"]], harmony::GPT_OSS;
    &["onyx", "muse_glimmer"], &[&["<atem:function_calls>"], &["to=self", "<|eom|>"]], harmony::ONYX;
    &["gemma4"], &[&["<|channel>"]], Think::new("<|channel>thought", "<channel|>");
    &["seed", "seed_oss"], &[&["<seed:think>"]], Think::new("<seed:think>", "</seed:think>");
    &["mistral", "magistral", "ministral"], &[&["[THINK]"]], Think::new("[THINK]", "[/THINK]");
    &["command_r", "command_a", "cohere"], &[&["<|START_THINKING|>"], &["<|START_RESPONSE|>"]],
        Think::new("<|START_THINKING|>", "<|END_THINKING|>").answering(&[
            ("<|START_RESPONSE|>", "<|END_RESPONSE|>"),
            ("<|START_TEXT|>", "<|END_TEXT|>"),
        ]);
    &["apertus"], &[&["<|inner_prefix|>"]], Think::new("<|inner_prefix|>", "<|inner_suffix|>");
    &["minimax_m3"], &[&["<mm:think>"]], Think::new("<mm:think>", "</mm:think>");
    &["kimi_vl"], &[&["◁think▷"]], Think::new("◁think▷", "◁/think▷");
    &["granite", "granite32"], &[&["Here is my thought process:"]],
        Think::new("Here is my thought process:", "Here is my response:");
    &["hunyuan", "hunyuan_a13b"], &[&["<think>", "<answer>"]],
        Think::new("<think>", "</think>").answering(&[("<answer>", "</answer>")]);
    &["granite33"], &[&["<think>", "<response>"]],
        Think::new("<think>", "</think>").answering(&[("<response>", "</response>")]);
    &[
        "think", "qwen3", "deepseek_r1", "deepseek_v3", "glm45", "kimi_k2", "lfm2", "minicpm5",
        "minimax_m2", "nemotron", "olmo3", "step3",
    ], &[&["</think>"]], Think::new("<think>", "</think>");
}

/// The spellings of all formats' marks.
pub(crate) fn marks() -> impl Iterator<Item = String> {
    let all = FORMATS.all.iter();
    all.flat_map(|named| named.format.marks_read().into_iter().flat_map(marks_of))
}

#[cfg(test)]
mod tests;
