//! Rules for the elements of arrays.

#![expect(clippy::needless_pass_by_value, reason = "rules are in one table")]

use serde_json::{Value, json};

use super::conditions::types_but;
use super::keywords::{Keywords, whole};
use super::parts::{is_same, values_of};
use super::rewriting::{Node, demand};
use super::{Result, refused};

/// Number of first elements, one of which must be the element that an array has to contain.
const MOST_PLACES: u64 = 8;
/// Maximum number of distinct elements.
const MOST_DIFFERENT: usize = 4;

/// Requires the contained element among the first few elements.
pub(super) fn contains(keywords: &mut Keywords, element: Value, node: &Node) -> Result {
    if keywords.contains_key("maxContains") {
        return refused("maxContains", "is not supported", node.place);
    }
    match keywords.get("minContains").map_or(Some(1), whole) {
        Some(0) => return Ok(()),
        Some(1) => {}
        _ => return refused("minContains", "must be 0 or 1", node.place),
    }
    let places = keywords.get("maxItems").and_then(whole);
    let places = 0..places.unwrap_or(MOST_PLACES).min(MOST_PLACES);
    let options = places.map(|place| {
        let mut first = vec![Value::Bool(true); place as usize];
        first.push(element.clone());
        json!({"type": "array", "prefixItems": first, "minItems": place + 1})
    });
    let options: Vec<_> = options.chain([types_but(&["array".into()])]).collect();
    demand(keywords, json!({ "anyOf": options }));
    Ok(())
}

/// Makes elements distinct if there are few possible values.
pub(super) fn unique_items(keywords: &mut Keywords, demanded: Value, node: &Node) -> Result {
    let most = keywords.get("maxItems").and_then(whole).unwrap_or(u64::MAX);
    if demanded == Value::Bool(false) || most <= 1 {
        return Ok(());
    }
    let items = keywords.get("items").and_then(Value::as_object);
    let items = items.filter(|_| !keywords.contains_key("prefixItems"));
    let listed = items.and_then(|items| values_of(items, node.root));
    let mut different: Vec<Value> = Vec::new();
    for value in listed.iter().flatten() {
        if different.len() <= MOST_DIFFERENT && !different.iter().any(|it| is_same(it, value)) {
            different.push((*value).clone());
        }
    }
    if listed.is_none() || different.len() > MOST_DIFFERENT {
        let why =
            format!("is supported for up to one element, or {MOST_DIFFERENT} values in an `enum`");
        return refused("uniqueItems", why, node.place);
    }
    let mut arrays: Vec<Vec<Value>> = vec![Vec::new()];
    let mut at = 0;
    while let Some(array) = arrays.get(at).cloned() {
        let rest = different.iter().filter(|value| !array.contains(value));
        arrays.extend(rest.map(|value| [&*array, std::slice::from_ref(value)].concat()));
        at += 1;
    }
    let least = keywords.get("minItems").and_then(whole).unwrap_or(0);
    arrays.retain(|array| (least..=most).contains(&(array.len() as u64)));
    let others = types_but(&["array".into()]);
    demand(keywords, json!({"anyOf": [{ "enum": arrays }, others]}));
    Ok(())
}
