//! GBNF, the grammar notation of llama.cpp, translated to Lark.
//!
//! Lark has a lexer, which takes the longest match and never reconsiders it; GBNF has none. So a
//! grammar without recursive rules becomes one regular expression, which is exact. In other
//! grammars, each longest non-recursive part of a rule is matched as a whole. If such a part has an
//! optional end, that is matched character by character, because the text after it may begin the
//! same way.

mod parser;
mod writer;

use super::compiler::ConstraintError;

/// The rule that a text matches.
const ROOT: &str = "root";

/// A class that has all characters.
const ANY: &str = "(?s:.)";

/// An element of a rule.
#[derive(Clone, Debug, PartialEq)]
enum GbnfNode {
    Literal(String),
    /// A regular expression that matches one character.
    Class(String),
    /// The rule of this number.
    Rule(usize),
    /// A token, as Lark names it.
    Token(String),
    Group(Vec<Vec<GbnfNode>>),
    /// A repetition, with its minimum and maximum number.
    Repeat(Box<GbnfNode>, u32, Option<u32>),
}

/// A rule: its name, and its definition.
struct Rule {
    name: String,
    alternatives: Option<Vec<Vec<GbnfNode>>>,
}

/// Translates a grammar to Lark.
///
/// # Errors
/// [`ConstraintError`] with the mistake and its line.
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
    fn alternatives(&self) -> &[Vec<GbnfNode>] {
        self.alternatives.as_deref().unwrap_or_default()
    }
}

impl GbnfNode {
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

    /// Returns true if a match can end at this node and could also continue. The node must not be
    /// recursive.
    fn ends_openly(&self, rules: &[Rule]) -> bool {
        let any = |alternatives: &[Vec<GbnfNode>]| {
            alternatives
                .iter()
                .any(|nodes| nodes.last().is_none_or(|last| last.ends_openly(rules)))
        };
        match self {
            Self::Literal(text) => text.is_empty(),
            Self::Class(_) | Self::Token(_) => false,
            Self::Rule(rule) => any(rules[*rule].alternatives()),
            Self::Group(alternatives) => any(alternatives),
            // Almost any character can follow, so it must be matched as a whole.
            Self::Repeat(node, ..) if matches!(&**node, Self::Class(class) if is_wide(class)) => {
                false
            }
            Self::Repeat(_, least, most) => *most != Some(*least),
        }
    }
}

/// Returns true if a class has all characters but a few.
fn is_wide(class: &str) -> bool {
    class.starts_with("[^") || class == ANY
}

#[cfg(test)]
mod tests;
