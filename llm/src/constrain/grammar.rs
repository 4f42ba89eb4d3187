//! Translates a constraint to grammars of llguidance; the first one refers to the others.

use llguidance::api::{GrammarWithLexer, TopLevelGrammar};
use serde_json::{Value, json};

use super::compiler::ConstraintError;
use super::constraint::{Constraint, ReasoningMarks};
use super::schema::{self, Notation};
use super::vocabulary::{Piece, Vocabulary};
use super::{bounds, gbnf};

/// Maximum size of a regular expression, in bytes. Its optional parts are tried in all
/// combinations, so time grows with the square.
const LONGEST_REGEX: usize = 16 << 10;
/// Maximum size of a grammar, in bytes.
const LONGEST_GRAMMAR: usize = 64 << 10;
/// Maximum nesting of composed parts within one rule, because Lark limits nesting.
const LEVELS_OF_RULE: usize = 6;
const ANY_TEXT: &str = "/(?s:.*)/";
/// White space that may be between reasoning and the text after it.
const GAP: &str = r"/[ \t\r\n]{0,8}/";

/// Translates a constraint to a grammar.
pub(super) fn write(
    constraint: &Constraint,
    vocabulary: &Vocabulary,
) -> Result<TopLevelGrammar, ConstraintError> {
    let mut grammars = Vec::new();
    add(constraint, vocabulary, &mut grammars)?;
    // The constraint itself was added last, and a text begins with the first grammar.
    grammars.reverse();
    Ok(TopLevelGrammar {
        grammars,
        max_tokens: None,
    })
}

/// Adds the grammars of a constraint, its own last; returns the name of that one.
fn add(
    constraint: &Constraint,
    vocabulary: &Vocabulary,
    grammars: &mut Vec<GrammarWithLexer>,
) -> Result<String, ConstraintError> {
    let grammar = match constraint {
        Constraint::Refused(why) => return Err(ConstraintError(why.clone())),
        Constraint::JsonSchema(schema) => from_schema(schema::prepare(schema)?),
        Constraint::JsonObject => from_schema(schema::prepare(&json!({"type": "object"}))?),
        Constraint::Regex(regex) if regex.is_empty() => {
            return Err(ConstraintError(
                "the regular expression is empty".to_owned(),
            ));
        }
        Constraint::Regex(regex) => {
            bounds::check_size(regex, LONGEST_REGEX, "the regular expression")?;
            GrammarWithLexer::from_regex(regex)
        }
        Constraint::Choice(choices) => GrammarWithLexer::from_lark(choice(choices)?),
        Constraint::Gbnf(text) => {
            bounds::check_size(text, LONGEST_GRAMMAR, "the grammar")?;
            GrammarWithLexer::from_lark(gbnf::to_lark(text)?)
        }
        Constraint::Lark(text) => {
            bounds::check_size(text, LONGEST_GRAMMAR, "the grammar")?;
            bounds::check_lark(text)?;
            GrammarWithLexer::from_lark(with_prepared_schemas(text)?)
        }
        Constraint::AfterReasoning { marks, then } => {
            let name = add(then, vocabulary, grammars)?;
            GrammarWithLexer::from_lark(after_reasoning(marks, &name, vocabulary)?)
        }
        composed => {
            let mut rules = Vec::new();
            let start = expression(composed, vocabulary, grammars, &mut rules, 0)?;
            rules.insert(0, format!("start: {start}"));
            GrammarWithLexer::from_lark(rules.join("\n"))
        }
    };
    let name = format!("g{}", grammars.len());
    grammars.push(GrammarWithLexer {
        name: Some(name.clone()),
        ..grammar
    });
    Ok(name)
}

fn from_schema(schema: Notation) -> GrammarWithLexer {
    match schema {
        Notation::Json(schema) => GrammarWithLexer::from_json_schema(schema),
        Notation::Lark(text) => GrammarWithLexer::from_lark(text),
    }
}

/// Translates a constraint to an expression within a Lark rule. Composed constraints are written in
/// place, so that texts with the same beginning are distinguished where they differ. Additional
/// rules are added to `rules`.
fn expression(
    constraint: &Constraint,
    vocabulary: &Vocabulary,
    grammars: &mut Vec<GrammarWithLexer>,
    rules: &mut Vec<String>,
    level: usize,
) -> Result<String, ConstraintError> {
    let mut each = |constraints: &[Constraint], between: &str| {
        let parts = constraints
            .iter()
            .map(|constraint| expression(constraint, vocabulary, grammars, rules, level + 1))
            .collect::<Result<Vec<_>, _>>()?;
        let whole = format!("({})", parts.join(between));
        if level % LEVELS_OF_RULE < LEVELS_OF_RULE - 1 {
            return Ok(whole);
        }
        let name = format!("part{}", rules.len());
        rules.push(format!("{name}: {whole}"));
        Ok(name)
    };
    match constraint {
        Constraint::AnyOf(constraints) if constraints.is_empty() => Err(ConstraintError(
            "the list of choices has no entry".to_owned(),
        )),
        Constraint::AnyOf(constraints) => each(constraints, " | "),
        Constraint::Sequence(constraints) if constraints.is_empty() => Ok("\"\"".to_owned()),
        Constraint::Sequence(constraints) => each(constraints, " "),
        Constraint::Optional(constraint) => {
            Ok(format!("{}?", each(std::slice::from_ref(constraint), "")?))
        }
        Constraint::Repeated {
            each: one,
            separator,
        } => {
            let one = each(std::slice::from_ref(one), "")?;
            let separator = each(std::slice::from_ref(separator), "")?;
            // A separate rule, so that everything it refers to is written only once.
            let name = format!("each{}", rules.len());
            rules.push(format!("{name}: {one}"));
            Ok(format!("({name} ({separator} {name})*)"))
        }
        Constraint::Text(text) => Ok(quoted(text)),
        Constraint::Mark(mark) => Ok(mark_of(mark, vocabulary)),
        Constraint::TextUpTo { text, end } => {
            let number = rules.len();
            bounds::check_all(text)?;
            let mut all = vec![ANY_TEXT];
            if !text.is_empty() {
                all = text.iter().map(String::as_str).collect();
            }
            if let Some((before, control)) = divided(end, vocabulary) {
                let all = all.join(" & ");
                rules.push(format!("TEXT{number}: {}", ended(&all, before)));
                return Ok(format!("TEXT{number} {control}"));
            }
            let mark = quoted(end.trim());
            let end = quoted(end);
            let without = format!("~(/(?s:.*)/ {mark} /(?s:.*)/)");
            if !text.is_empty() {
                all.push(&without);
            }
            rules.push(format!("TEXT{number}: {}", all.join(" & ")));
            rules.push(format!("text{number}[lazy]: TEXT{number} {end}"));
            Ok(format!("text{number}"))
        }
        Constraint::TextWith(marked) => {
            let parts = marked.iter();
            let parts = parts.map(|(mark, then)| Ok((mark, each(std::slice::from_ref(then), "")?)));
            let parts = parts.collect::<Result<Vec<_>, ConstraintError>>()?;
            let number = rules.len();
            let texts = parts.iter().map(|(mark, _)| mark);
            let texts = texts.filter(|mark| divided(mark, vocabulary).is_none());
            let mut without = vec![ANY_TEXT.to_owned()];
            without.extend(texts.map(|mark| format!("~/(?s:.*{}.*)/", literal_regex(mark))));
            let without = without.join(" & ");
            let mut ways = Vec::new();
            for (index, (mark, then)) in parts.iter().enumerate() {
                let name = format!("{number}_{index}");
                if let Some((before, control)) = divided(mark, vocabulary) {
                    rules.push(format!("MARKED{name}: {}", ended(&without, before)));
                    ways.push(format!("MARKED{name} {control} {then}"));
                } else {
                    let mark = literal_regex(mark);
                    rules.push(format!("marked{name}[lazy]: /(?s:.*){mark}/"));
                    ways.push(format!("marked{name} {then}"));
                }
            }
            rules.push(format!("TEXT{number}: {without}"));
            Ok(format!("(({})* TEXT{number})", ways.join(" | ")))
        }
        other => Ok(format!("@{}", add(other, vocabulary, grammars)?)),
    }
}

/// Writes a mark in Lark: its control tokens and the text between them, or only text if the
/// vocabulary has no such tokens.
fn mark_of(mark: &str, vocabulary: &Vocabulary) -> String {
    match divided(mark, vocabulary) {
        Some(("", control)) => control,
        Some((before, control)) => format!("({} {control})", quoted(before)),
        None => quoted(mark),
    }
}

/// Appends a text to a Lark expression.
fn ended(expression: &str, text: &str) -> String {
    match text {
        "" => expression.to_owned(),
        text => format!("({expression}) {}", quoted(text)),
    }
}

/// Divides a mark before its first control token, and writes the rest in Lark; `None` if the
/// vocabulary has no control token in it.
fn divided<'a>(mark: &'a str, vocabulary: &Vocabulary) -> Option<(&'a str, String)> {
    let pieces = vocabulary.pieces(mark);
    let is_control = |piece: &Piece| matches!(piece, Piece::Control(_));
    let first = pieces.iter().position(is_control)?;
    let before = match &pieces[..first] {
        // Some tokenizers put a space before a text.
        [Piece::Text(text)] => &mark[..mark.find(text.trim_start())? + text.trim_start().len()],
        _ => "",
    };
    Some((before, spelled(&pieces[first..])))
}

/// Keyword before a schema in a Lark grammar.
const SCHEMA: &str = "%json";

/// Replaces the schemas of a Lark grammar by [prepared](schema::prepare_within) ones.
fn with_prepared_schemas(text: &str) -> Result<String, ConstraintError> {
    let mut held = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(SCHEMA) {
        let (before, after) = rest.split_at(at + SCHEMA.len());
        rest = after;
        let mut values = serde_json::Deserializer::from_str(after).into_iter::<Value>();
        // Text that is not JSON is not a schema; the compiler reports it.
        let Some(Ok(schema)) = values.next() else {
            held.push_str(before);
            continue;
        };
        held.push_str(&before[..at]);
        let written = match schema::prepare_within(&schema)? {
            Notation::Json(schema) => format!("{SCHEMA} {schema}"),
            Notation::Lark(text) => format!("%lark {{\n{text}\n}}"),
        };
        held.push_str(&written);
        rest = &after[values.byte_offset()..];
    }
    held.push_str(rest);
    Ok(held)
}

/// Writes one terminal that matches any of the strings, so that no string hides a longer one with
/// the same beginning.
fn choice(choices: &[String]) -> Result<String, ConstraintError> {
    if choices.is_empty() {
        return Err(ConstraintError(
            "the list of choices has no entry".to_owned(),
        ));
    }
    choices
        .iter()
        .try_for_each(|choice| bounds::check_length(choice, "a choice"))?;
    let choices: Vec<String> = choices.iter().map(|choice| quoted(choice)).collect();
    Ok(format!("start: CHOICE\nCHOICE: {}", choices.join(" | ")))
}

fn after_reasoning(
    marks: &ReasoningMarks,
    then: &str,
    vocabulary: &Vocabulary,
) -> Result<String, ConstraintError> {
    let begin = vocabulary.pieces(&marks.begin);
    let end = vocabulary.pieces(&marks.end);
    let (reasoning, rule) = match end.split_first() {
        None => return Err(ConstraintError("the reasoning has no end mark".to_owned())),
        // Text has no control tokens, so the first one ends it.
        Some((Piece::Control(_), _)) => (
            format!("REASONING {}", spelled(&end)),
            format!("REASONING: {ANY_TEXT}"),
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

/// Writes control tokens and the text between them in Lark.
fn spelled(pieces: &[Piece]) -> String {
    let piece = |piece: &Piece| match piece {
        Piece::Control(token) => format!("<[{token}]>"),
        Piece::Text(text) => quoted(text),
    };
    pieces.iter().map(piece).collect::<Vec<_>>().join(" ")
}

/// Writes a string literal of Lark.
pub(super) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Writes a Lark regular expression that matches exactly this text.
pub(super) fn literal_regex(text: &str) -> String {
    text.chars().map(regex_char).collect()
}

/// Writes a character for a Lark regular expression, valid inside brackets, too.
pub(super) fn regex_char(c: char) -> String {
    format!(r"\x{{{:X}}}", u32::from(c))
}
