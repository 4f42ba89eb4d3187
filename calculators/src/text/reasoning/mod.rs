//! Reasoning in the text of a model: its formats, and the parsers of these.

mod harmony;
mod think;

use graphmill_llm::{Constraint, ReasoningMarks};

use self::think::Think;
pub(crate) use self::think::partial;
use super::formats::{Formats, NamedFormat};
use super::tool_calls::marks_of;

/// A format in which a model writes reasoning before its answer.
pub(crate) trait ReasoningFormat: Send + Sync {
    /// Creates a parser for one answer to `prompt`.
    fn parser(&self, prompt: &str) -> Box<dyn Parser>;

    /// Returns the texts with which the reasoning of an answer to `prompt` begins and ends.
    fn marks(&self, prompt: &str) -> ReasoningMarks;

    /// Returns the text that ends reasoning at its limit.
    fn closing(&self) -> String;

    /// Returns the constraint of a whole answer to `prompt`, with reasoning before it. The answer
    /// has to match `answer`, or its tool calls `calls`.
    fn constrain(
        &self,
        prompt: &str,
        answer: Option<Constraint>,
        calls: Option<Constraint>,
    ) -> Constraint;

    /// Returns the texts with marks that the parser needs, even if the vocabulary has them as
    /// special tokens.
    fn marks_read(&self) -> Vec<&'static str>;
}

/// A parser that separates the reasoning from a text in pieces. The division into pieces makes no
/// difference.
pub(crate) trait Parser: Send {
    /// Adds text. `end` is true for the last piece.
    fn push(&mut self, text: &str, end: bool) -> ReasoningOutput;
}

/// The output of a parser for a piece of text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ReasoningOutput {
    pub(crate) reasoning: String,
    /// Text that is not reasoning.
    pub(crate) text: String,
}

macro_rules! families {
    ($($names:expr, $taught_by:expr, $format:expr;)+) => {
        /// The table of all formats.
        pub(crate) static FORMATS: Formats<dyn ReasoningFormat> = Formats {
            of: "reasoning",
            all: &[$(NamedFormat { names: $names, format: &$format, taught_by: $taught_by }),+],
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

/// Iterates over the spellings of all formats' marks.
pub(crate) fn marks() -> impl Iterator<Item = String> {
    let all = FORMATS.all.iter();
    all.flat_map(|named| named.format.marks_read().into_iter().flat_map(marks_of))
}

#[cfg(test)]
mod tests;
