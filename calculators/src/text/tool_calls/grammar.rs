//! Grammars of tool calls that a request demands.

use graphmill_llm::{Constraint, resolved_schema};
use serde_json::{Value, json};

use super::arguments::Object;
use super::spelling::{Spelling, SpellingPart, literals, opening};
use super::{CallFormat, arguments, gemma};
use crate::payload::ToolChoice;

/// Returns the constraint of an answer that consists of calls.
pub(crate) fn calls(
    format: &CallFormat,
    tools: &[Value],
    choice: &ToolChoice,
    one_call: bool,
) -> Constraint {
    repeated(format.demanded(), tools, choice, one_call)
}

fn repeated(
    spelling: &Spelling,
    tools: &[Value],
    choice: &ToolChoice,
    one_call: bool,
) -> Constraint {
    let functions = tools.iter().map(|tool| &tool["function"]);
    let chosen = functions.filter(|function| match choice {
        ToolChoice::Named(name) => function["name"] == **name,
        ToolChoice::Auto | ToolChoice::Required => true,
    });
    let spelled = |parts: &[SpellingPart], function: &Value| {
        sequence(parts.iter().map(|part| spelled(part, spelling, function)))
    };
    let each = chosen.map(|function| spelled(&spelling.call, function));
    let each = Constraint::AnyOf(each.collect());
    let calls = if spelling.single || one_call {
        each
    } else {
        arguments::repeated(each, &spelling.between)
    };
    let [open, close] = [&spelling.open, &spelling.close].map(|it| spelled(it, &Value::Null));
    sequence([open, calls, close])
}

/// Returns the constraint of a text in which every call is valid; `None` if the format does not
/// mark calls.
pub(crate) fn text_with_calls(format: &CallFormat, tools: &[Value]) -> Option<Constraint> {
    let spelling = format.demanded();
    if spelling.call.first() == Some(&SpellingPart::Harmony) {
        let any = Constraint::Regex("(?s:.*)".to_owned());
        let answer = sequence([text("<|channel|>final<|message|>"), any]);
        let call = calls(format, tools, &ToolChoice::Auto, true);
        return Some(Constraint::AnyOf(vec![answer, call]));
    }
    let mut unmarked = spelling.clone();
    let is_open = !spelling.open.is_empty();
    let marked = if is_open {
        &mut unmarked.open
    } else {
        &mut unmarked.call
    };
    let (opening, mark) = opening(marked);
    marked.drain(..opening);
    if mark.is_empty() || spelling.bare {
        return None;
    }
    // Each call has a mark of its own, unless all calls are in one section.
    let then = repeated(&unmarked, tools, &ToolChoice::Auto, !is_open);
    Some(Constraint::TextWith(vec![(mark, then)]))
}

pub(super) const HARMONY_CALL: [&str; 2] = [
    "<|channel|>commentary to=functions.",
    " <|constrain|>json<|message|>",
];

/// Joins constraints without nested sequences, because the depth of grammars is limited.
pub(crate) fn sequence(parts: impl IntoIterator<Item = Constraint>) -> Constraint {
    let parts = parts.into_iter().flat_map(|part| match part {
        Constraint::Sequence(parts) => parts,
        part => vec![part],
    });
    let mut parts: Vec<_> = parts.collect();
    match parts.pop() {
        Some(only) if parts.is_empty() => only,
        last => {
            parts.extend(last);
            Constraint::Sequence(parts)
        }
    }
}

/// Returns the constraint of a text with its marks.
pub(crate) fn text(text: &str) -> Constraint {
    let parts = literals(text).into_iter().filter_map(|part| match part {
        SpellingPart::Mark(mark) => Some(Constraint::Mark(mark)),
        SpellingPart::Text(text) => Some(Constraint::Text(text)),
        _ => None,
    });
    sequence(parts)
}

fn spelled(part: &SpellingPart, spelling: &Spelling, function: &Value) -> Constraint {
    let name = function["name"].as_str().unwrap_or_default();
    let schema = parameters(function);
    let plain = |text: String| Constraint::Text(text);
    match part {
        SpellingPart::Mark(mark) => Constraint::Mark(mark.clone()),
        SpellingPart::Text(text) => plain(text.clone()),
        SpellingPart::Name => plain(name.to_owned()),
        SpellingPart::Numbered => {
            let number = Constraint::Regex("[0-9]{1,3}".to_owned());
            sequence([plain(format!("functions.{name}:")), number])
        }
        SpellingPart::Json => Constraint::JsonSchema(schema),
        SpellingPart::Object([before, between]) => {
            let quoted = Value::from(name).to_string();
            let head = format!("{before}{}{between}", &quoted[1..quoted.len() - 1]);
            sequence([plain(head), Constraint::JsonSchema(schema), text("}")])
        }
        SpellingPart::Parameters => {
            arguments::any_of(&schema, |it, root| it.as_xml(root, &spelling.parameter))
        }
        SpellingPart::Python(suffix) => {
            let keywords = arguments::any_of(&schema, Object::as_keywords);
            sequence([plain(format!("{name}{suffix}(")), keywords, text(")")])
        }
        SpellingPart::Gemma => {
            arguments::any_of(&schema, |it, root| gemma::object(it, root, gemma::ROOM))
        }
        SpellingPart::Harmony => {
            let [before, after] = HARMONY_CALL.map(text);
            sequence([before, plain(name.to_owned()), after])
        }
        // These parts matter only when calls are read.
        SpellingPart::Maybe(_) | SpellingPart::Id | SpellingPart::Program => sequence([]),
    }
}

/// Returns the schema of a tool's arguments. A tool without a schema takes no arguments. Properties
/// that the schema does not name are not generated, unless it allows them explicitly.
fn parameters(function: &Value) -> Value {
    let mut schema = match &function["parameters"] {
        Value::Object(schema) if !schema.is_empty() => schema.clone(),
        _ => return json!({"type": "object", "properties": {}, "additionalProperties": false}),
    };
    schema.entry("type").or_insert_with(|| "object".into());
    let kinds = schema.get("type").and_then(Value::as_array);
    if kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind == "object")) {
        // A reference to the whole schema may still have the other types, so references are
        // resolved before the type is narrowed.
        if let Ok(Value::Object(resolved)) = resolved_schema(&schema.clone().into()) {
            schema = resolved;
        }
        schema.insert("type".to_owned(), "object".into());
    }
    if schema.contains_key("properties") {
        schema
            .entry("additionalProperties")
            .or_insert_with(|| false.into());
    }
    Value::Object(schema)
}
