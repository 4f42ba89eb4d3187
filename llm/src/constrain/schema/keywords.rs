//! Keywords of JSON Schema by the kind of their value, and visiting schemas within a schema.

use std::sync::LazyLock;

use rustc_hash::FxHashMap;
use serde_json::{Map, Value};

use super::{Result, refused, within};

pub(super) type Keywords = Map<String, Value>;
type Is = fn(&Value) -> bool;

/// Kind of a keyword's value.
#[derive(Clone, Copy)]
pub(super) enum KeywordKind {
    /// A schema, or a list of schemas.
    Schemas,
    /// An object of schemas by name.
    Named,
    /// A URI of a schema.
    Reference,
    /// Another value that restricts the text.
    Plain,
    /// Another value, without any restriction.
    Annotation,
}

/// Keywords, with the check and the description of their values.
#[rustfmt::skip]
const ROWS: [(&str, KeywordKind, Is, &str); 17] = [
    ("not if then else additionalItems additionalProperties", KeywordKind::Schemas, is_schema, "a schema"),
    ("propertyNames contains unevaluatedItems unevaluatedProperties", KeywordKind::Schemas, is_schema, "a schema"),
    ("allOf anyOf oneOf prefixItems", KeywordKind::Schemas, Value::is_array, "a list of schemas"),
    ("items", KeywordKind::Schemas, |items| is_schema(items) || items.is_array(), "a schema"),
    ("properties patternProperties $defs definitions", KeywordKind::Named, Value::is_object, "an object of schemas"),
    ("dependentSchemas dependencies", KeywordKind::Named, Value::is_object, "an object of schemas"),
    ("$ref $dynamicRef $recursiveRef", KeywordKind::Reference, Value::is_string, "a text"),
    ("pattern format", KeywordKind::Plain, Value::is_string, "a text"),
    ("type", KeywordKind::Plain, is_type, "null, boolean, integer, number, string, array or object, or a list of them"),
    ("const", KeywordKind::Plain, |_| true, "a value"),
    ("enum", KeywordKind::Plain, Value::is_array, "a list of values"),
    ("minimum maximum multipleOf", KeywordKind::Plain, Value::is_number, "a number"),
    ("exclusiveMinimum exclusiveMaximum", KeywordKind::Plain, |bound| bound.is_number() || bound.is_boolean(), "a number"),
    (COUNTS, KeywordKind::Plain, |count| whole(count).is_some(), "a whole number from 0 on"),
    ("uniqueItems nullable", KeywordKind::Plain, Value::is_boolean, "true or false"),
    ("required", KeywordKind::Plain, is_list_of_names, "a list of names"),
    ("dependentRequired", KeywordKind::Plain, are_lists_of_names, "an object of lists of names"),
];
/// Keywords whose value is a count.
pub(super) const COUNTS: &str =
    "minLength maxLength minItems maxItems minProperties maxProperties minContains maxContains";

static KEYWORDS: LazyLock<FxHashMap<&str, (KeywordKind, Is, &str)>> = LazyLock::new(|| {
    let each = ROWS.iter().flat_map(|(keywords, kind, is, expected)| {
        let keywords = keywords.split(' ');
        keywords.map(move |keyword| (keyword, (*kind, *is, *expected)))
    });
    each.collect()
});

/// Types of values, without integers, which are numbers.
pub(super) const TYPES: [(&str, Is); 6] = [
    ("null", Value::is_null),
    ("boolean", Value::is_boolean),
    ("number", Value::is_number),
    ("string", Value::is_string),
    ("array", Value::is_array),
    ("object", Value::is_object),
];

fn is_schema(value: &Value) -> bool {
    value.is_object() || value.is_boolean()
}

fn is_list_of_names(value: &Value) -> bool {
    let names = value.as_array();
    names.is_some_and(|names| names.iter().all(Value::is_string))
}

fn are_lists_of_names(value: &Value) -> bool {
    let lists = value.as_object();
    lists.is_some_and(|lists| lists.values().all(is_list_of_names))
}

fn is_type(value: &Value) -> bool {
    let is_known = |kind: &Value| kind == "integer" || TYPES.iter().any(|(it, _)| kind == it);
    one_or_more(value).iter().all(is_known)
}

/// Returns the values of a list, or the single value.
pub(super) fn one_or_more(value: &Value) -> &[Value] {
    let list = value.as_array();
    list.map_or(std::slice::from_ref(value), Vec::as_slice)
}

/// Returns the values of a keyword's list, or its single value.
pub(in crate::constrain) fn list<'a>(keywords: &'a Keywords, keyword: &str) -> &'a [Value] {
    keywords.get(keyword).map_or(&[][..], one_or_more)
}

/// Parses a whole number from 0 on, which may be written with a fraction of 0.
pub(super) fn whole(value: &Value) -> Option<u64> {
    let from = |value: f64| (value >= 0.0 && value.fract() == 0.0).then_some(value as u64);
    value.as_u64().or_else(|| value.as_f64().and_then(from))
}

/// Returns the kind of a keyword. Unknown keywords are annotations.
pub(super) fn kind(keyword: &str) -> KeywordKind {
    let known = KEYWORDS.get(keyword);
    known.map_or(KeywordKind::Annotation, |(kind, ..)| *kind)
}

/// Refuses invalid values of a keyword.
pub(super) fn check(keyword: &str, value: &Value, place: &str) -> Result {
    match KEYWORDS.get(keyword) {
        Some((_, is_valid, expected)) if !is_valid(value) => {
            let value: String = value.to_string().chars().take(100).collect();
            let why = format_args!("is {value}, expected {expected}");
            refused(keyword, why, place)
        }
        _ => Ok(()),
    }
}

/// Visits the schemas directly within a schema, with their keywords and places.
pub(super) fn each_part(
    keywords: &mut Keywords,
    place: &str,
    visit: &mut dyn FnMut(&str, &mut Value, &str) -> Result,
) -> Result {
    for (keyword, value) in keywords {
        let place = || within(place, keyword);
        match (kind(keyword), value) {
            (KeywordKind::Named, Value::Object(schemas)) => {
                let place = place();
                for (name, schema) in schemas {
                    // `dependencies` may also contain lists of names.
                    if keyword != "dependencies" || !schema.is_array() {
                        visit(keyword, schema, &within(&place, name))?;
                    }
                }
            }
            (KeywordKind::Schemas, Value::Array(schemas)) => {
                let place = place();
                for (at, schema) in schemas.iter_mut().enumerate() {
                    visit(keyword, schema, &within(&place, &at.to_string()))?;
                }
            }
            (KeywordKind::Schemas, schema) => visit(keyword, schema, &place())?,
            _ => {}
        }
    }
    Ok(())
}
