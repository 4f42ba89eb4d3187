//! Writes a constraint as grammars of llguidance, the first of which refers to the others.

use std::fmt::Write;

use llguidance::api::{GrammarWithLexer, TopLevelGrammar};
use serde_json::json;

use super::compiler::ConstraintError;
use super::constraint::{Constraint, ReasoningMarks};
use super::vocabulary::{Piece, Vocabulary};
use super::{gbnf, schema};

/// Most bytes of a regular expression. What is optional in it is tried in all combinations, so time grows with the square.
const LONGEST_REGEX: usize = 16 << 10;
/// Most bytes of a grammar.
const LONGEST_GRAMMAR: usize = 64 << 10;
/// White space that may stand between reasoning and what follows it.
const GAP: &str = r"/[ \t\r\n]{0,8}/";

/// The grammar of a constraint.
pub(super) fn of(
    constraint: &Constraint,
    vocabulary: &Vocabulary,
) -> Result<TopLevelGrammar, ConstraintError> {
    let mut grammars = Vec::new();
    add(constraint, vocabulary, &mut grammars)?;
    // It was added last, and the first one is where a text begins.
    grammars.reverse();
    Ok(TopLevelGrammar {
        grammars,
        max_tokens: None,
    })
}

/// Adds what a constraint consists of, itself last; returns its name.
fn add(
    constraint: &Constraint,
    vocabulary: &Vocabulary,
    grammars: &mut Vec<GrammarWithLexer>,
) -> Result<String, ConstraintError> {
    let grammar = match constraint {
        Constraint::JsonSchema(schema) => {
            GrammarWithLexer::from_json_schema(schema::prepared(schema)?)
        }
        Constraint::JsonObject => {
            GrammarWithLexer::from_json_schema(schema::prepared(&json!({"type": "object"}))?)
        }
        Constraint::Regex(regex) if regex.is_empty() => {
            return Err(ConstraintError(
                "the regular expression is empty".to_owned(),
            ));
        }
        Constraint::Regex(regex) => {
            GrammarWithLexer::from_regex(within(regex, LONGEST_REGEX, "the regular expression")?)
        }
        Constraint::Choice(choices) => GrammarWithLexer::from_lark(choice(choices)?),
        Constraint::Gbnf(text) => {
            let text = within(text, LONGEST_GRAMMAR, "the grammar")?;
            GrammarWithLexer::from_lark(gbnf::to_lark(text)?)
        }
        Constraint::Lark(text) => {
            let text = within(text, LONGEST_GRAMMAR, "the grammar")?;
            GrammarWithLexer::from_lark(text.to_owned())
        }
        Constraint::AnyOf(constraints) => {
            let mut rule = String::from("start:");
            for (number, constraint) in constraints.iter().enumerate() {
                let name = add(constraint, vocabulary, grammars)?;
                let bar = if number > 0 { " |" } else { "" };
                write!(rule, "{bar} @{name}").expect("a string takes any text");
            }
            if constraints.is_empty() {
                return Err(ConstraintError(
                    "there is nothing to choose from".to_owned(),
                ));
            }
            GrammarWithLexer::from_lark(rule)
        }
        Constraint::AfterReasoning { marks, then } => {
            let name = add(then, vocabulary, grammars)?;
            GrammarWithLexer::from_lark(after_reasoning(marks, &name, vocabulary)?)
        }
    };
    let name = format!("g{}", grammars.len());
    grammars.push(GrammarWithLexer {
        name: Some(name.clone()),
        ..grammar
    });
    Ok(name)
}

/// The text, if it is no longer than that.
fn within<'a>(text: &'a str, longest: usize, what: &str) -> Result<&'a str, ConstraintError> {
    if text.len() <= longest {
        return Ok(text);
    }
    let bytes = text.len();
    Err(ConstraintError(format!(
        "{what} has {bytes} bytes, and can have {longest}"
    )))
}

/// One token that matches any of the strings, so that none hides another that it begins.
fn choice(choices: &[String]) -> Result<String, ConstraintError> {
    if choices.is_empty() {
        return Err(ConstraintError(
            "there is nothing to choose from".to_owned(),
        ));
    }
    let choices: Vec<String> = choices.iter().map(|choice| quoted(choice)).collect();
    Ok(format!("start: CHOICE\nCHOICE: {}", choices.join(" | ")))
}

fn after_reasoning(
    marks: &ReasoningMarks,
    then: &str,
    vocabulary: &Vocabulary,
) -> Result<String, ConstraintError> {
    let (begin, end) = (
        vocabulary.pieces(&marks.begin),
        vocabulary.pieces(&marks.end),
    );
    let (reasoning, rule) = match end.split_first() {
        None => return Err(ConstraintError("reasoning has no end".to_owned())),
        // Text has no control tokens, so the first one ends it.
        Some((Piece::Control(_), _)) => (
            format!("REASONING {}", spelled(&end)),
            "REASONING: /(?s:.*)/".to_owned(),
        ),
        Some((Piece::Text(text), rest)) => (
            format!("reasoning {}", spelled(rest)),
            format!("reasoning[lazy]: /(?s:.*){}/", literal_regex(text)),
        ),
    };
    let reasoning = if marks.is_open {
        format!("{reasoning} {GAP}")
    } else {
        format!("({} {reasoning} {GAP})?", spelled(&begin))
    };
    Ok(format!("start: {reasoning} @{then}\n{rule}"))
}

/// Pieces as Lark has them.
fn spelled(pieces: &[Piece]) -> String {
    let piece = |piece: &Piece| match piece {
        Piece::Control(token) => format!("<[{token}]>"),
        Piece::Text(text) => quoted(text),
    };
    pieces.iter().map(piece).collect::<Vec<_>>().join(" ")
}

/// A string of Lark.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A regular expression of Lark that matches this text.
pub(super) fn literal_regex(text: &str) -> String {
    text.chars().map(|c| regex_char(c)).collect()
}

/// A character in a regular expression of Lark, also within brackets.
pub(super) fn regex_char(c: char) -> String {
    format!(r"\x{{{:X}}}", u32::from(c))
}
