//! Rewriting of conditions as alternatives.

#![expect(
    clippy::needless_pass_by_value,
    clippy::unnecessary_wraps,
    reason = "rules are in one table"
)]

use serde_json::{Value, json};

use super::keywords::{Keywords, TYPES, list, one_or_more};
use super::parts::{Parts, is_same};
use super::references::target;
use super::rewriting::{Node, demand, is_open};
use super::{Result, refused};

/// Maximum number of schemas that are negated for one negation.
const MOST_NEGATED: usize = 1_000;
/// Bounds, each with the bound that applies if it does not.
const OPPOSITES: [(&str, &str); 4] = [
    ("minimum", "exclusiveMaximum"),
    ("maximum", "exclusiveMinimum"),
    ("exclusiveMinimum", "maximum"),
    ("exclusiveMaximum", "minimum"),
];

/// Requires names, or a schema, if a property is present.
pub(super) fn dependent(keywords: &mut Keywords, dependent: Value, _: &Node) -> Result {
    for (name, demanded) in dependent.as_object().into_iter().flatten() {
        let schema = match demanded {
            Value::Array(names) if names.is_empty() => continue,
            Value::Array(names) => json!({"type": "object", "required": names}),
            open if is_open(open) => continue,
            schema => json!({"allOf": [{"type": "object", "required": [name]}, schema]}),
        };
        let absent = json!({"properties": {name: false}});
        demand(keywords, json!({"anyOf": [absent, schema]}));
    }
    Ok(())
}

pub(super) fn condition(keywords: &mut Keywords, condition: Value, node: &Node) -> Result {
    let branch = |keyword: &str| keywords.get(keyword).cloned().unwrap_or(true.into());
    let (then, otherwise) = (branch("then"), branch("else"));
    if is_open(&then) && is_open(&otherwise) {
        return Ok(());
    }
    let Some(negations) = negations_in(keywords, &condition, node) else {
        return refused("if", "has no simple opposite", node.place);
    };
    let negations = negations.into_iter();
    let negations = negations.map(|negation| json!({"allOf": [negation, otherwise]}));
    let mut options = vec![json!({"allOf": [condition, then]})];
    options.extend(negations);
    demand(keywords, json!({ "anyOf": options }));
    Ok(())
}

pub(super) fn negation(keywords: &mut Keywords, negated: Value, node: &Node) -> Result {
    let Some(mut negations) = negations_in(keywords, &negated, node) else {
        return refused("not", "of this is not supported", node.place);
    };
    let negation = match negations.len() {
        0 => false.into(),
        1 => negations.remove(0),
        _ => json!({ "anyOf": negations }),
    };
    demand(keywords, negation);
    Ok(())
}

/// Returns a schema for values of all types but these.
pub(super) fn types_but(kinds: &[Value]) -> Value {
    let is_left = |kind: &&str| !kinds.iter().any(|other| other == kind);
    let left = TYPES.iter().map(|(kind, _)| *kind).filter(is_left);
    json!({ "type": left.collect::<Vec<_>>() })
}

fn negations_in(keywords: &Keywords, schema: &Value, node: &Node) -> Option<Vec<Value>> {
    let parts = Parts::new(None, &node.around_with(keywords), node.root);
    negations(schema, &parts, &mut { MOST_NEGATED })
}

/// Returns schemas of which one applies to a value if `schema` does not. `None` if they cannot be
/// written.
fn negations(schema: &Value, of: &Parts, left: &mut usize) -> Option<Vec<Value>> {
    *left = left.checked_sub(1)?;
    let Value::Object(keywords) = schema else {
        let never = schema == &Value::Bool(false);
        return Some(never.then(|| json!({})).into_iter().collect());
    };
    let mut negated = Vec::new();
    for (keyword, value) in keywords {
        match (keyword.as_str(), value) {
            ("type", kinds) if one_or_more(kinds).iter().any(|it| it == "integer") => return None,
            ("type", kinds) => negated.push(types_but(one_or_more(kinds))),
            ("const" | "enum", value) => {
                let excluded = match keyword.as_str() {
                    "enum" => one_or_more(value),
                    _ => std::slice::from_ref(value),
                };
                let mut others = of.values.clone()?;
                others.retain(|value| !excluded.iter().any(|other| is_same(other, value)));
                negated.push(json!({ "enum": others }));
            }
            ("required", _) => {
                for name in list(keywords, keyword).iter().filter_map(Value::as_str) {
                    negated.push(json!({"type": "object", "properties": {name: false}}));
                }
            }
            ("properties", Value::Object(properties)) => {
                for (name, schema) in properties {
                    for negation in negations(schema, &of.property(name), left)? {
                        let properties = json!({name: negation});
                        negated.push(
                            json!({"type": "object", "required": [name], "properties": properties}),
                        );
                    }
                }
            }
            ("not", value) => negated.push(value.clone()),
            ("allOf", Value::Array(parts)) => {
                for part in parts {
                    negated.extend(negations(part, of, left)?);
                }
            }
            ("anyOf", Value::Array(options)) => {
                let options = options.iter();
                let options = options.map(|option| negations(option, of, left));
                let options = options.map(|negated| Some(json!({ "anyOf": negated? })));
                negated.push(json!({"allOf": options.collect::<Option<Vec<_>>>()?}));
            }
            ("$ref", _) => negated.extend(negations(target(of.root, keywords)?, of, left)?),
            (bound, value) => {
                let (_, opposite) = OPPOSITES.iter().find(|(keyword, _)| *keyword == bound)?;
                negated.push(json!({"type": "number", (*opposite): value}));
            }
        }
    }
    Some(negated)
}
