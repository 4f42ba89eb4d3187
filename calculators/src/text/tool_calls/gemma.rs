//! Constraints for arguments in Gemma's form, from the schema of a tool.

use graphmill_llm::Constraint;
use serde_json::{Value, json};

use super::arguments::{self, Object, count, optional, repeated, texts, with_definitions};
use super::grammar::{sequence, text};
use super::schema::{self, Keywords, Kinds};
use super::values::GEMMA_QUOTE;

/// Room for nested values, of which each value takes a share: `ROOM` for values that a schema
/// describes, `FREE_ROOM` for others.
pub(super) const ROOM: usize = 4096;
const FREE_ROOM: usize = 2;
/// Maximum number of elements that a schema can require.
const MOST_COUNTED: u64 = 64;

/// Returns the constraint of an object; `None` if it is nested beyond the room.
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
        let is_described = has("properties") || has("items") || has("prefixItems");
        let left = if is_described {
            left
        } else {
            left.min(FREE_ROOM)
        };
        let kinds = Kinds::new(&keywords).others();
        for kind in &kinds {
            match *kind {
                "object" | "array" if left == 0 || has("enum") || has("const") => {}
                "object" => {
                    values.extend(arguments::object(&keywords, |it| object(it, root, left)));
                }
                "array" => values.extend(array(&keywords, root, left)),
                // Integers are numbers.
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
    let one = |schema: &Value| value(schema, root, left / 2);
    let listed = keywords.get("prefixItems").and_then(Value::as_array);
    let listed = listed.map_or(&[][..], Vec::as_slice);
    let first = listed.iter().take(MOST_COUNTED as usize).map_while(one);
    let first: Vec<_> = first.collect();
    let others = (first.len() == listed.len()).then(|| one(keywords.get("items").unwrap_or(&any)));
    let other = others.flatten();
    let least = count(keywords, "minItems").unwrap_or(0);
    let most = count(keywords, "maxItems");
    if least > MOST_COUNTED || most.is_some_and(|most| least > most) {
        return None;
    }
    let begun = least.max(1).max(first.len() as u64);
    let begun = begun.min(most.unwrap_or(begun));
    let next = |item: &Constraint, rest| sequence([text(","), item.clone(), rest]);
    let mut items = match (&other, most) {
        (None, _) => text(""),
        (Some(item), None) => optional(next(&repeated(item.clone(), ","), text(""))),
        // The depth of grammars is limited, so the maximum may be lower.
        (Some(item), Some(most)) => {
            (begun..most.min(begun + 4)).fold(text(""), |rest, _| optional(next(item, rest)))
        }
    };
    for at in (0..begun).rev() {
        let item = first.get(at as usize).or(other.as_ref());
        items = match item {
            None if at < least => return None,
            None => text(""),
            Some(item) if at == 0 => sequence([item.clone(), items]),
            Some(item) => next(item, items),
        };
        if at >= least {
            items = optional(items);
        }
    }
    Some(sequence([text("["), items, text("]")]))
}
