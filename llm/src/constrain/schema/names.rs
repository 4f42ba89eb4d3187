//! Rules for the names of properties, and for unevaluated properties and items.

use serde_json::{Value, json};

use super::keywords::{Keywords, list, whole};
use super::parts::values_of;
use super::references::target;
use super::rewriting::{Node, is_open};
use super::{DEEPEST, Result, refused};

/// Rewrites rules for names as lists and patterns, which llguidance supports.
pub(super) fn property_names(keywords: &mut Keywords, mut names: Value, node: &Node) -> Result {
    for _ in 0..DEEPEST {
        let only = names.as_object().filter(|names| names.len() == 1);
        let Some(target) = only.and_then(|names| target(node.root, names)) else {
            break;
        };
        names = target.clone();
    }
    if let Some(names) = names.as_object_mut() {
        names.retain(|keyword, value| keyword != "type" || value != "string");
    }
    if is_open(&names) {
        return Ok(());
    }
    let others = keywords.get("additionalProperties");
    let others = others.cloned().unwrap_or(true.into());
    let properties = keywords.get("properties").and_then(Value::as_object);
    let has_patterns = keywords.contains_key("patternProperties");
    let only = names
        .as_object()
        .filter(|names| names.len() == 1 && !has_patterns);
    let pattern = only.and_then(|names| names.get("pattern"));
    let only = only.filter(|names| names.contains_key("enum") || names.contains_key("const"));
    if let Some(listed) = only.and_then(|names| values_of(names, node.root)) {
        let of = |name: &str| properties.and_then(|properties| properties.get(name));
        let listed = listed.iter().filter_map(|name| name.as_str());
        let allowed = listed.map(|name| (name.to_owned(), of(name).unwrap_or(&others).clone()));
        let allowed: Keywords = allowed.collect();
        keywords.insert("properties".to_owned(), allowed.into());
    } else if let (Some(Value::String(pattern)), None) = (pattern, properties) {
        let allowed = json!({ pattern.as_str(): others });
        keywords.insert("patternProperties".to_owned(), allowed);
    } else {
        let why = "must be a list or one `pattern`";
        return refused("propertyNames", why, node.place);
    }
    keywords.insert("additionalProperties".to_owned(), false.into());
    Ok(())
}

pub(super) fn unevaluated_properties(keywords: &mut Keywords, it: Value, node: &Node) -> Result {
    unevaluated(
        ["unevaluatedProperties", "additionalProperties"],
        keywords,
        it,
        node,
    )
}

pub(super) fn unevaluated_items(keywords: &mut Keywords, it: Value, node: &Node) -> Result {
    unevaluated(["unevaluatedItems", "items"], keywords, it, node)
}

/// Replaces unevaluated parts by additional ones, if no other schema evaluates them.
fn unevaluated(
    [keyword, same]: [&str; 2],
    keywords: &mut Keywords,
    schema: Value,
    node: &Node,
) -> Result {
    let mut evaluating = ["allOf", "anyOf", "$ref", "contains"].into_iter();
    let composes = evaluating.any(|other| keywords.contains_key(other));
    let has_same = keywords.contains_key(same);
    if (composes && !has_same || !node.around.is_empty()) && !is_open(&schema) {
        let why = "is not supported together with other keywords that evaluate";
        return refused(keyword, why, node.place);
    }
    if !has_same {
        keywords.insert(same.to_owned(), schema);
    }
    Ok(())
}

/// Refuses counts that require distinct names. A grammar cannot know that a name has come before,
/// so it can count at most one property whose name is open.
pub(super) fn least_properties(keywords: &mut Keywords, count: Value, node: &Node) -> Result {
    let required = list(keywords, "required").len() as u64;
    let is_closed = keywords.get("additionalProperties") == Some(&Value::Bool(false))
        && !keywords.contains_key("patternProperties");
    if whole(&count).is_some_and(|least| least > required + 1) && !is_closed {
        let why = format!(
            "is {count}, but only {required} are `required`: other names cannot be counted"
        );
        return refused("minProperties", why, node.place);
    }
    keywords.insert("minProperties".to_owned(), count);
    Ok(())
}
