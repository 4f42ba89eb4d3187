//! Refusal of references that lead back to themselves without a value in between: they define
//! nothing.

use petgraph::algo::toposort;
use petgraph::graph::DiGraph;
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
    let mut leads: Vec<(u32, u32)> = Vec::new();
    for (from, schema) in (0..).zip(definitions.values()) {
        let mut targets = Vec::new();
        add_targets(schema, &mut targets);
        targets.retain(|to| (*to as usize) < places.len());
        leads.extend(targets.into_iter().map(|to| (from, to)));
    }
    match toposort(&DiGraph::<(), ()>::from_edges(leads), None) {
        Ok(_) => Ok(()),
        Err(cycle) => {
            let why = "leads back to itself with no value in between";
            refused("$ref", why, &places[cycle.node_id().index()])
        }
    }
}

/// Adds the numbers of the definitions that a schema refers to for the same value.
fn add_targets(schema: &Value, targets: &mut Vec<u32>) {
    let reference = schema.get("$ref").and_then(Value::as_str);
    let number: Option<u32> = reference.and_then(|it| it.strip_prefix("#/$defs/")?.parse().ok());
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
