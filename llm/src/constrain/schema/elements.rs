//! Rules of the elements of arrays.

#![expect(clippy::unnecessary_wraps, reason = "rules are in one table")]

use serde_json::{Value, json};

use super::rewriting::{Keywords, Node, TYPES, demand};
use super::{conditions, refused};
use crate::constrain::compiler::ConstraintError;

/// Number of elements among which the one that an array has to contain can be.
const MOST_PLACES: u64 = 8;
/// Maximum number of different elements that are told apart.
const MOST_DIFFERENT: usize = 4;

/// Until 2020, `items` could be a list.
pub(super) fn items(keywords: &mut Keywords, _: &Node) -> Result<(), ConstraintError> {
    let others = keywords.shift_remove("additionalItems");
    if keywords.get("items").is_some_and(Value::is_array) {
        let items = keywords.shift_remove("items").unwrap_or_default();
        keywords.insert("prefixItems".to_owned(), items);
        keywords.extend(others.map(|others| ("items".to_owned(), others)));
    }
    Ok(())
}

/// A schema of all values but arrays.
fn no_array() -> Value {
    json!({"type": TYPES.iter().filter(|kind| **kind != "array").collect::<Vec<_>>()})
}

/// The element can be one of the first few.
pub(super) fn contains(keywords: &mut Keywords, node: &Node) -> Result<(), ConstraintError> {
    let least = keywords.shift_remove("minContains");
    let most = keywords.shift_remove("maxContains");
    let element = keywords.shift_remove("contains").unwrap_or_default();
    let least = least.map_or(Some(1), |least| least.as_u64());
    match least {
        _ if most.is_some() => return refused("maxContains", "is not supported", &node.place),
        Some(0) => return Ok(()),
        Some(1) => {}
        _ => return refused("minContains", "can be 0 or 1", &node.place),
    }
    let places = keywords.get("maxItems").and_then(Value::as_u64);
    let at = |place: u64| {
        let mut first = vec![Value::Bool(true); place as usize];
        first.push(element.clone());
        json!({"type": "array", "prefixItems": first, "minItems": place + 1})
    };
    let mut options: Vec<Value> = (0..places.unwrap_or(MOST_PLACES).min(MOST_PLACES))
        .map(at)
        .collect();
    options.push(no_array());
    demand(keywords, json!({"anyOf": options}));
    Ok(())
}

/// Elements are told apart where there are few values for them.
pub(super) fn unique_items(keywords: &mut Keywords, node: &Node) -> Result<(), ConstraintError> {
    let is_demanded = keywords.shift_remove("uniqueItems") != Some(Value::Bool(false));
    let most = keywords
        .get("maxItems")
        .and_then(Value::as_u64)
        .unwrap_or(u64::MAX);
    if !is_demanded || most <= 1 {
        return Ok(());
    }
    let items = keywords.get("items").unwrap_or(&Value::Null);
    let values =
        conditions::values(items, node.root).filter(|_| !keywords.contains_key("prefixItems"));
    let Some(values) = values.filter(|values| values.len() <= MOST_DIFFERENT) else {
        let why =
            format!("is supported for up to one element, or {MOST_DIFFERENT} values in an `enum`");
        return refused("uniqueItems", why, &node.place);
    };
    let mut arrays: Vec<Vec<&Value>> = vec![Vec::new()];
    let mut at = 0;
    while let Some(array) = arrays.get(at).cloned() {
        let rest = values.iter().filter(|value| !array.contains(value));
        arrays.extend(rest.map(|value| [&*array, &[value]].concat()));
        at += 1;
    }
    let least = keywords
        .get("minItems")
        .and_then(Value::as_u64)
        .unwrap_or(0);
    arrays.retain(|array| (least..=most).contains(&(array.len() as u64)));
    let arrays: Vec<_> = arrays.iter().map(|array| json!({"const": array})).collect();
    let others = no_array();
    demand(keywords, json!({"anyOf": [{"anyOf": arrays}, others]}));
    Ok(())
}
