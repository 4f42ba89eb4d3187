//! Shares what a schema has several times: llguidance compiles each of it anew, and a definition
//! once. A schema of 100 kB takes a third of the time then.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::keywords::{Keywords, each_part, list};
use super::spelling::is_of_type;

/// Keywords of schemas that are the only ones of their values.
const ALONE: [&str; 3] = ["properties", "items", "additionalProperties"];
/// A length that texts of each format can have, and less.
const LONGEST_FORMAT: f64 = 40.0;

/// Moves schemas of values that contain none into `$defs`, where there are several of one.
pub(super) fn share(schema: &mut Value) {
    let mut counts: HashMap<String, usize> = HashMap::new();
    each_leaf(schema, &mut |leaf| {
        *counts.entry(leaf.to_string()).or_default() += 1;
    });
    let (mut names, mut shared) = (HashMap::new(), Keywords::new());
    each_leaf(schema, &mut |leaf| {
        let text = leaf.to_string();
        if counts.get(&text).is_some_and(|count| *count > 1) {
            let next = format!("s{}", names.len());
            let name = names.entry(text).or_insert(next);
            let reference = json!({"$ref": format!("#/$defs/{name}")});
            shared.insert(name.clone(), std::mem::replace(leaf, reference));
        }
    });
    if !shared.is_empty() {
        match &mut schema["$defs"] {
            Value::Object(definitions) => definitions.extend(shared),
            none => *none = shared.into(),
        }
    }
}

/// Visits the schemas of values that contain none. Returns true if this is one.
fn each_leaf(schema: &mut Value, visit: &mut dyn FnMut(&mut Value)) -> bool {
    let Value::Object(keywords) = schema else {
        return false;
    };
    let mut is_leaf = !keywords.is_empty() && can_hold(keywords);
    // Nothing is refused here.
    each_part(keywords, "", &mut |keyword, schema, _| {
        let is_inner = each_leaf(schema, visit);
        if is_inner && ALONE.contains(&keyword) {
            visit(schema);
        }
        is_leaf &= is_inner;
        Ok(())
    })
    .unwrap_or_default();
    is_leaf
}

/// Returns true if it is certain that a value can hold, as far as is known of such keywords: a
/// property of which none can is left out, and a definition must not be.
fn can_hold(keywords: &Keywords) -> bool {
    let of = |keyword: &str| keywords.get(keyword).and_then(Value::as_f64);
    let is_range = |least, most| {
        of(least)
            .zip(of(most))
            .is_none_or(|(least, most)| least <= most)
    };
    let kinds = list(keywords, "type");
    let fits = |value: &Value| kinds.is_empty() || kinds.iter().any(|it| is_of_type(value, it));
    let of_numbers = ["type", "minimum", "maximum"];
    let others = keywords.keys().map(String::as_str);
    let others = others.filter(|keyword| !of_numbers.contains(keyword));
    let can_hold = match *others.collect::<Vec<_>>() {
        [] | ["format" | "pattern" | "minLength" | "maxLength"] => true,
        ["minLength", "maxLength"] | ["maxLength", "minLength"] => {
            is_range("minLength", "maxLength")
        }
        ["maxLength", "format"] => of("maxLength") >= Some(LONGEST_FORMAT),
        ["enum"] => list(keywords, "enum").iter().any(fits),
        ["anyOf"] => !list(keywords, "anyOf").is_empty(),
        _ => false,
    };
    can_hold && is_range("minimum", "maximum")
}
