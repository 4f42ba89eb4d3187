//! Refusal of references that lead back to themselves without a value in between: they define
//! nothing.

use serde_json::{Map, Value};

use super::{Result, refused};

/// Keywords of schemas for the same value; the last ones contain objects of schemas.
const SAME: [&str; 9] = [
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    DEPENDENT[0],
    DEPENDENT[1],
];
const DEPENDENT: [&str; 2] = ["dependentSchemas", "dependencies"];

/// Checks the definitions, which are numbered; `places` are their places in the schema.
pub(super) fn check(definitions: &Map<String, Value>, places: &[String]) -> Result {
    let leads: Vec<Vec<usize>> = definitions.values().map(targets).collect();
    // For each definition, whether it is on the path from the first one; `None` while unknown.
    let mut on_way: Vec<Option<bool>> = vec![None; leads.len()];
    for first in 0..leads.len() {
        let mut way = Vec::new();
        if on_way[first].is_none() {
            on_way[first] = Some(true);
            way.push((first, 0));
        }
        while let Some((at, next)) = way.last_mut() {
            let Some(target) = leads[*at].get(*next).copied() else {
                on_way[*at] = Some(false);
                way.pop();
                continue;
            };
            *next += 1;
            match on_way.get(target).copied() {
                Some(Some(true)) => {
                    let why = "leads back to itself with no value in between";
                    return refused("$ref", why, &places[target]);
                }
                Some(None) => {
                    on_way[target] = Some(true);
                    way.push((target, 0));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Returns the numbers of the definitions that a schema refers to for the same value.
fn targets(schema: &Value) -> Vec<usize> {
    let mut targets = Vec::new();
    add_targets(schema, &mut targets);
    targets
}

fn add_targets(schema: &Value, targets: &mut Vec<usize>) {
    let reference = schema.get("$ref").and_then(Value::as_str);
    let number: Option<usize> = reference.and_then(|it| it.strip_prefix("#/$defs/")?.parse().ok());
    targets.extend(number);
    for keyword in SAME {
        match schema.get(keyword) {
            Some(Value::Array(parts)) => parts.iter().for_each(|it| add_targets(it, targets)),
            Some(Value::Object(parts)) if DEPENDENT.contains(&keyword) => {
                parts.values().for_each(|it| add_targets(it, targets));
            }
            Some(part) => add_targets(part, targets),
            None => {}
        }
    }
}
