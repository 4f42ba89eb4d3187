//! Kinds of constraints.

use serde::Serialize;
use serde_json::Value;

/// Condition that a generated text must match from its first character to its last.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Constraint {
    /// JSON that validates against this schema.
    JsonSchema(Value),
    /// No text. The constraint could not be expressed, for this reason, which compiling returns as
    /// an error.
    Refused(String),
    /// Any JSON object, with any properties.
    JsonObject,
    /// This regular expression, in the syntax of the crate `regex`.
    Regex(String),
    /// Exactly one of these strings.
    Choice(Vec<String>),
    /// A grammar in GBNF, the notation of llama.cpp. It begins with the rule `root`.
    Gbnf(String),
    /// A grammar in the Lark dialect of llguidance. It begins with the rule `start`.
    Lark(String),
    /// A match of any one of these.
    AnyOf(Vec<Constraint>),
    /// Matches of these, one after the other.
    Sequence(Vec<Constraint>),
    /// A match of this, or nothing.
    Optional(Box<Constraint>),
    /// One or more matches, with separators between them.
    Repeated {
        /// The part that occurs at least once.
        each: Box<Constraint>,
        /// The part between two repetitions.
        separator: Box<Constraint>,
    },
    /// Exactly this text, as it is.
    Text(String),
    /// The special token with this spelling, or the text if the vocabulary has no such token.
    Mark(String),
    /// A text that ends with the first occurrence of a mark.
    TextUpTo {
        /// Lark expressions of llguidance, all of which the text before the end must match. If
        /// empty, any text does.
        text: Vec<String>,
        /// The mark, with white space before it that is part of it.
        end: String,
    },
    /// Any text, in which each of these marks must be followed by a match of its constraint. No
    /// mark may contain another one.
    TextWith(Vec<(String, Constraint)>),
    /// Reasoning of any length, followed by a match.
    AfterReasoning {
        /// Marks at the start and the end of the reasoning.
        marks: ReasoningMarks,
        /// Constraint on the text after the reasoning.
        then: Box<Constraint>,
    },
}

impl Constraint {
    /// Creates a choice between constraints; a single one is returned as it is.
    pub fn any_of(constraints: impl IntoIterator<Item = Constraint>) -> Self {
        let mut constraints: Vec<_> = constraints.into_iter().collect();
        if constraints.len() == 1 {
            constraints.remove(0)
        } else {
            Self::AnyOf(constraints)
        }
    }

    /// Creates a constraint for any text that ends with the first occurrence of this mark.
    pub fn text_up_to(mark: &str) -> Self {
        Self::TextUpTo {
            text: Vec::new(),
            end: mark.to_owned(),
        }
    }

    /// Returns true if it contains JSON whose numbers have no explicit grammar.
    pub(super) fn has_json(&self) -> bool {
        match self {
            Self::JsonSchema(_) | Self::JsonObject => true,
            Self::AnyOf(parts) | Self::Sequence(parts) => parts.iter().any(Self::has_json),
            Self::Optional(part) => part.has_json(),
            Self::Repeated { each, separator } => each.has_json() || separator.has_json(),
            Self::TextWith(marked) => marked.iter().any(|(_, then)| then.has_json()),
            Self::AfterReasoning { then, .. } => then.has_json(),
            Self::Refused(_)
            | Self::Regex(_)
            | Self::Choice(_)
            | Self::Gbnf(_)
            | Self::Lark(_)
            | Self::Text(_)
            | Self::Mark(_)
            | Self::TextUpTo { .. } => false,
        }
    }
}

/// Marks around reasoning in a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReasoningMarks {
    /// Mark at the start, such as `<think>`.
    pub begin: String,
    /// Mark at the end, such as `</think>`.
    pub end: String,
    /// True if the prompt ends inside the reasoning: the text then has only the end mark. Otherwise
    /// the text may have no reasoning.
    pub is_open: bool,
}
