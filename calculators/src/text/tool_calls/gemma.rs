//! Arguments in the form of Gemma, held to the schema of a tool.

use graphmill_llm::Constraint;
use serde_json::{Value, json};

use super::arguments::{Object, count, optional, repeated, texts, with_definitions};
use super::grammar::{sequence, text};
use super::schema::{self, Keywords, Kinds};
use super::values::GEMMA_QUOTE;

/// Room for values within values, each of which takes its share of it: in those that a schema
/// describes, and in others.
pub(super) const ROOM: usize = 4096;
const FREE_ROOM: usize = 2;
/// The most elements that can be demanded.
const MOST_COUNTED: u64 = 64;

/// An object; none if its nesting goes beyond the room.
pub(super) fn object(object: &Object, root: &Value, left: usize) -> Option<Constraint> {
    let share = left / object.members.len().max(2);
    let members = object.separated(",", |name, schema| {
        Some(sequence([name, text(":"), value(schema, root, share)?]))
    });
    Some(sequence([text("{"), members?, text("}")]))
}

fn value(schema: &Value, root: &Value, left: usize) -> Option<Constraint> {
    let texts = texts(schema, root, GEMMA_QUOTE, GEMMA_QUOTE).into_iter();
    let mut values: Vec<_> = texts.map(|it| sequence([text(GEMMA_QUOTE), it])).collect();
    for keywords in schema::alternatives(schema, root) {
        let has = |keyword: &str| keywords.contains_key(keyword);
        let is_described = has("properties") || has("items");
        let left = if is_described {
            left
        } else {
            left.min(FREE_ROOM)
        };
        let kinds = Kinds::new(&keywords).others();
        for kind in &kinds {
            match *kind {
                "object" | "array" if left == 0 || has("enum") || has("const") => {}
                "object" => values.extend(object(&Object::new(&keywords), root, left)),
                "array" => values.extend(array(&keywords, root, left)),
                // Whole numbers are numbers.
                "integer" if kinds.contains(&"number") => {}
                kind => {
                    let schema = json!({"allOf": [keywords, {"type": kind}]});
                    values.push(Constraint::JsonSchema(with_definitions(schema, root)));
                }
            }
        }
    }
    (!values.is_empty()).then(|| Constraint::any_of(values))
}

fn array(keywords: &Keywords, root: &Value, left: usize) -> Option<Constraint> {
    let any = json!({});
    let item = value(keywords.get("items").unwrap_or(&any), root, left / 2);
    let least = count(keywords, "minItems").unwrap_or(0);
    let most = count(keywords, "maxItems");
    let items = match item {
        _ if least > item.as_ref().map_or(0, |_| MOST_COUNTED) => return None,
        Some(item) if most != Some(0) => {
            let begun = least.max(1);
            let next = |rest| sequence([text(","), item.clone(), rest]);
            let ending = match most {
                // Grammars are nested only so deep, so that there may be fewer.
                Some(most) => {
                    let rest =
                        (begun..most.min(begun + 4)).fold(text(""), |rest, _| optional(next(rest)));
                    sequence([item.clone(), rest])
                }
                None => repeated(item.clone(), ","),
            };
            let before = (1..begun).flat_map(|_| [item.clone(), text(",")]);
            let items = sequence(before.chain([ending]));
            if least == 0 { optional(items) } else { items }
        }
        _ => text(""),
    };
    Some(sequence([text("["), items, text("]")]))
}
