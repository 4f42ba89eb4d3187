//! Closing of objects that list their properties.

use serde_json::Value;

use super::keywords::{Keywords, each_part};

/// Keywords that allow or forbid other properties than those in `properties`. An object with one of
/// them is not closed.
const OTHERS: &str = "allOf anyOf oneOf not if $ref dependencies dependentSchemas \
    unevaluatedProperties additionalProperties patternProperties propertyNames minProperties \
    maxProperties";
const PROPERTIES: [&str; 2] = ["properties", "required"];

/// Forbids other properties in objects that list theirs and do not mention others, unless further
/// schemas describe the same value.
pub(super) fn close_objects(schema: &mut Value) {
    let mut refers_to_parts = false;
    each(schema, true, &mut |keywords, alone| {
        let is_alone = alone && is_only("$ref", keywords, &PROPERTIES);
        refers_to_parts |= keywords.contains_key("$ref") && !is_alone;
    });
    // Referenced schemas may then be parts, too.
    if refers_to_parts {
        return;
    }
    each(schema, true, &mut |keywords, alone| {
        if alone && is_list_of_properties(keywords) {
            keywords.insert("additionalProperties".to_owned(), false.into());
        }
    });
}

/// Visits the schemas within a schema. `alone` says that no other schema describes the same values.
fn each(schema: &mut Value, alone: bool, visit: &mut dyn FnMut(&mut Keywords, bool)) {
    let Value::Object(keywords) = schema else {
        return;
    };
    visit(keywords, alone);
    let has_patterns = keywords.contains_key("patternProperties");
    let [any_of, one_of, all_of] =
        ["anyOf", "oneOf", "allOf"].map(|keyword| alone && is_only(keyword, keywords, &PROPERTIES));
    let parts = keywords
        .get("allOf")
        .and_then(Value::as_array)
        .map(Vec::len);
    // Nothing is refused here.
    each_part(keywords, "", &mut |keyword, schema, _| {
        let alone = match keyword {
            "anyOf" => any_of,
            "oneOf" => one_of,
            "allOf" => all_of && parts == Some(1),
            "not" | "if" | "then" | "else" | "dependentSchemas" | "dependencies" => false,
            "properties" | "patternProperties" => !has_patterns,
            _ => true,
        };
        each(schema, alone, visit);
        Ok(())
    })
    .unwrap_or_default();
}

/// Returns true if, of these keywords and `more`, an object has none but `keyword`.
fn is_only(keyword: &str, keywords: &Keywords, more: &[&str]) -> bool {
    let mut others = OTHERS.split(' ').chain(more.iter().copied());
    others.all(|other| other == keyword || !keywords.contains_key(other))
}

/// Returns true if an object lists its properties, including all required ones.
fn is_list_of_properties(keywords: &Keywords) -> bool {
    let Some(Value::Object(properties)) = keywords.get("properties") else {
        return false;
    };
    let required = keywords.get("required").and_then(Value::as_array);
    let mut required = required.into_iter().flatten().filter_map(Value::as_str);
    is_only("", keywords, &[]) && required.all(|name| properties.contains_key(name))
}
