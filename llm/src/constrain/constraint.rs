//! What a text can be asked to match.

use serde::Serialize;
use serde_json::Value;

/// What a generated text has to match from its first character to its last.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Constraint {
    /// JSON that validates against this schema.
    JsonSchema(Value),
    /// Any JSON object.
    JsonObject,
    /// This regular expression, in the syntax of the crate `regex`.
    Regex(String),
    /// One of these strings.
    Choice(Vec<String>),
    /// A grammar in GBNF, the notation of llama.cpp. It begins with the rule `root`.
    Gbnf(String),
    /// A grammar in the Lark dialect of llguidance. It begins with the rule `start`.
    Lark(String),
    /// Any one of these.
    AnyOf(Vec<Constraint>),
    /// Reasoning of any length, and then this.
    AfterReasoning {
        /// How the reasoning is told apart.
        marks: ReasoningMarks,
        /// What the text behind it has to match.
        then: Box<Constraint>,
    },
}

/// What reasoning begins and ends with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReasoningMarks {
    /// What it begins with, such as `<think>`.
    pub begin: String,
    /// What it ends with, such as `</think>`.
    pub end: String,
    /// Whether the prompt ends inside of the reasoning, so that the text has its end, not its beginning. Otherwise the text may
    /// do without reasoning.
    pub is_open: bool,
}
