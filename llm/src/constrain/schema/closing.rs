//! Closes objects that list their properties.

use serde_json::{Map, Value};

use super::keywords::{DATA, NAMED};

/// Keywords beside which `properties` do not say alone what an object has.
const COMPOSING: [&str; 9] = [
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "$ref",
    "$dynamicRef",
    "dependentSchemas",
    "unevaluatedProperties",
];
/// Keywords that say themselves which other properties there are.
const OPENING: [&str; 5] = [
    "additionalProperties",
    "patternProperties",
    "propertyNames",
    "minProperties",
    "maxProperties",
];

/// Closes objects that list their properties and say nothing of others, unless they are a part of
/// what describes a value.
pub(super) fn close_objects(schema: &mut Value) {
    let mut refers_to_parts = false;
    each(schema, true, &mut |keywords, alone| {
        refers_to_parts |= keywords.contains_key("$ref") && !(alone && is_only("$ref", keywords));
    });
    // What is referred to may then be a part, too.
    if refers_to_parts {
        return;
    }
    each(schema, true, &mut |keywords, alone| {
        if alone && is_list_of_properties(keywords) {
            keywords.insert("additionalProperties".to_owned(), Value::Bool(false));
        }
    });
}

/// Visits the schemas within a schema. `alone` says that nothing else describes the values of this
/// one.
pub(super) fn each(
    schema: &mut Value,
    alone: bool,
    visit: &mut dyn FnMut(&mut Map<String, Value>, bool),
) {
    let keywords = match schema {
        Value::Array(schemas) => {
            return schemas
                .iter_mut()
                .for_each(|schema| each(schema, alone, visit));
        }
        Value::Object(keywords) => keywords,
        _ => return,
    };
    visit(keywords, alone);
    let has_patterns = keywords.contains_key("patternProperties");
    let is_only_one = |keyword: &str| alone && is_only(keyword, keywords);
    let of_options = is_only_one("anyOf") || is_only_one("oneOf");
    let of_one = is_only_one("allOf")
        && matches!(keywords.get("allOf"), Some(Value::Array(parts)) if parts.len() == 1);
    for (keyword, value) in keywords {
        let alone = match keyword.as_str() {
            "anyOf" | "oneOf" => of_options,
            "allOf" => of_one,
            "not" | "if" | "then" | "else" | "dependentSchemas" => false,
            "properties" | "patternProperties" => !has_patterns,
            keyword if DATA.contains(&keyword) => continue,
            _ => true,
        };
        match value {
            Value::Object(schemas) if NAMED.contains(&keyword.as_str()) => schemas
                .values_mut()
                .for_each(|schema| each(schema, alone, visit)),
            value => each(value, alone, visit),
        }
    }
}

/// Whether a keyword is the only one that says what an object has.
fn is_only(keyword: &str, keywords: &Map<String, Value>) -> bool {
    let mut others = COMPOSING
        .iter()
        .chain(&OPENING)
        .chain(&["properties", "required"]);
    !others.any(|other| *other != keyword && keywords.contains_key(*other))
        && keywords.contains_key(keyword)
}

/// Whether the properties of an object are listed, and what is required is among them.
fn is_list_of_properties(keywords: &Map<String, Value>) -> bool {
    let Some(Value::Object(properties)) = keywords.get("properties") else {
        return false;
    };
    let mut others = COMPOSING.iter().chain(&OPENING);
    let required = keywords.get("required").and_then(Value::as_array);
    let mut required = required.into_iter().flatten();
    !others.any(|other| keywords.contains_key(*other))
        && required.all(|name| {
            name.as_str()
                .is_some_and(|name| properties.contains_key(name))
        })
}
