//! Kinds of constraints.

use serde::Serialize;
use serde_json::Value;

/// What a generated text has to match from its first character to its last.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Constraint {
    /// JSON that validates against this schema.
    JsonSchema(Value),
    /// Nothing: a text cannot be held to what was asked, for this reason, which a compile gives.
    Refused(String),
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
    /// These, one after the other.
    Sequence(Vec<Constraint>),
    /// This or nothing.
    Optional(Box<Constraint>),
    /// One of these or more.
    Repeated {
        /// What comes once or more.
        each: Box<Constraint>,
        /// What stands between two of them.
        separator: Box<Constraint>,
    },
    /// This text.
    Text(String),
    /// The special token that is spelled like this, or the text where the vocabulary has none.
    Mark(String),
    /// A text, up to the first such mark and with it.
    TextUpTo {
        /// Expressions in the Lark dialect of llguidance, all of which the text before the end
        /// matches; any text does if there are none.
        text: Vec<String>,
        /// The mark, and white space before it that belongs to it.
        end: String,
    },
    /// Any text in which something follows wherever one of these marks comes: each mark, and what
    /// follows it. No mark is in another one.
    TextWith(Vec<(String, Constraint)>),
    /// Reasoning of any length, and then this.
    AfterReasoning {
        /// How the reasoning is told apart.
        marks: ReasoningMarks,
        /// What the text behind it has to match.
        then: Box<Constraint>,
    },
}

impl Constraint {
    /// Any one of these; the only one, if there is one.
    pub fn any_of(constraints: impl IntoIterator<Item = Constraint>) -> Self {
        let mut constraints: Vec<_> = constraints.into_iter().collect();
        match constraints.pop() {
            Some(only) if constraints.is_empty() => only,
            last => {
                constraints.extend(last);
                Self::AnyOf(constraints)
            }
        }
    }

    /// Any text, up to the first such mark and with it.
    pub fn text_up_to(mark: &str) -> Self {
        Self::TextUpTo {
            text: Vec::new(),
            end: mark.to_owned(),
        }
    }

    /// Whether there is JSON in it whose numbers nobody wrote a grammar for.
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

/// What reasoning begins and ends with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReasoningMarks {
    /// What it begins with, such as `<think>`.
    pub begin: String,
    /// What it ends with, such as `</think>`.
    pub end: String,
    /// Whether the prompt ends inside of the reasoning, so that the text has its end, not its
    /// beginning. Otherwise the text may do without reasoning.
    pub is_open: bool,
}
