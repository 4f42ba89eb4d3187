//! GBNF, the grammar notation of llama.cpp, written as Lark.
//!
//! Lark has a lexer, which takes the longest match and never reconsiders it, and GBNF has none. So
//! a grammar whose rules do not lead to themselves becomes one regular expression, which is exact.
//! In any other, what stands together and does not lead to itself is matched as a whole, but for an
//! end that may be left out: that is taken character by character, since what follows may begin
//! alike.

mod parser;
mod writer;

use super::compiler::ConstraintError;

/// The rule that a text matches.
const ROOT: &str = "root";

/// Any character.
const ANY: &str = "(?s:.)";

/// What a rule consists of.
#[derive(Clone, Debug, PartialEq)]
enum Node {
    Literal(String),
    /// A regular expression that matches one character.
    Class(String),
    /// The rule of this number.
    Rule(usize),
    /// A token, as Lark names it.
    Token(String),
    Group(Vec<Vec<Node>>),
    /// At least so many times, and at most.
    Repeat(Box<Node>, u32, Option<u32>),
}

/// A rule: its name, and what it was defined as.
struct Rule {
    name: String,
    alternatives: Option<Vec<Vec<Node>>>,
}

/// Writes a grammar as Lark.
///
/// # Errors
/// [`ConstraintError`] says what is wrong, and in which line.
pub(super) fn to_lark(text: &str) -> Result<String, ConstraintError> {
    let rules = parser::rules(text)?;
    if let Some(rule) = rules.iter().find(|rule| rule.alternatives.is_none()) {
        return Err(ConstraintError(format!(
            "the rule `{}` is missing",
            rule.name
        )));
    }
    let Some(root) = rules.iter().position(|rule| rule.name == ROOT) else {
        return Err(ConstraintError(format!("the rule `{ROOT}` is missing")));
    };
    Ok(writer::write(&rules, root))
}

impl Rule {
    fn alternatives(&self) -> &[Vec<Node>] {
        self.alternatives.as_deref().unwrap_or_default()
    }
}

impl Node {
    fn is_flat(&self, is_flat: &[bool]) -> bool {
        match self {
            Self::Literal(_) | Self::Class(_) => true,
            Self::Rule(rule) => is_flat[*rule],
            Self::Token(_) => false,
            Self::Group(alternatives) => alternatives
                .iter()
                .flatten()
                .all(|node| node.is_flat(is_flat)),
            Self::Repeat(node, ..) => node.is_flat(is_flat),
        }
    }

    /// Whether what it matches can end here, and also go on; only asked of what is flat.
    fn ends_openly(&self, rules: &[Rule]) -> bool {
        let any = |alternatives: &[Vec<Node>]| {
            alternatives
                .iter()
                .any(|nodes| nodes.last().is_none_or(|last| last.ends_openly(rules)))
        };
        match self {
            Self::Literal(text) => text.is_empty(),
            Self::Class(_) | Self::Token(_) => false,
            Self::Rule(rule) => any(rules[*rule].alternatives()),
            Self::Group(alternatives) => any(alternatives),
            // Almost any character can follow, so it has to be matched as a whole.
            Self::Repeat(node, ..) if matches!(&**node, Self::Class(class) if is_wide(class)) => {
                false
            }
            Self::Repeat(_, least, most) => *most != Some(*least),
        }
    }
}

/// Whether a class has all characters but a few.
fn is_wide(class: &str) -> bool {
    class.starts_with("[^") || class == ANY
}

#[cfg(test)]
mod tests;
