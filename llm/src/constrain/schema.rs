//! Prepares a JSON schema for llguidance, which refuses most keywords that it cannot enforce. The
//! others that it does not enforce are refused here, and annotations are removed.
//!
//! Unbounded parts of a schema are bounded, as in llama.cpp and xgrammar, because a model might
//! never end them: integers without bounds have at most 16 digits, white space is short, and an
//! object that lists its properties has no others unless the schema says so.

use serde_json::{Map, Value, json};

use super::compiler::ConstraintError;
use super::{bounds, limits};

/// White space between the parts of a document: a space, or a new line and its indentation. A model
/// that gets lost in white space would otherwise never come out of it.
const WHITE_SPACE: &str = r"[ \t]|\r?\n[ \t]{0,40}";
/// Escapes that strings are written with. Without `\u`, a name has one spelling, and no second
/// value can hide behind another.
const ESCAPES: &str = "nrbtf\\\"";
/// Most properties of one object: what may come next is a list of them.
const MAX_PROPERTIES: usize = 1000;
/// The formats that texts are held to. All others are annotations.
const FORMATS: [&str; 10] = [
    "date-time",
    "time",
    "date",
    "duration",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "uuid",
    "uri",
];
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
/// Keywords whose value is data.
const DATA: [&str; 4] = ["const", "enum", "default", "examples"];
/// Keywords whose value is an object of schemas by name.
const NAMED: [&str; 5] = [
    "properties",
    "patternProperties",
    "$defs",
    "definitions",
    "dependentSchemas",
];

/// The schema as llguidance is to read it.
pub(super) fn prepared(schema: &Value) -> Result<Value, ConstraintError> {
    let mut schema = match schema {
        Value::Bool(true) => json!({}),
        Value::Bool(false) => return Err(ConstraintError("no text can match".to_owned())),
        Value::Object(_) => schema.clone(),
        _ => return Err(ConstraintError("a schema is a JSON object".to_owned())),
    };
    prepare(&mut schema)?;
    bounds::check_schema(&schema)?;
    limits::hold(&mut schema)?;
    close_objects(&mut schema);
    schema["x-guidance"] =
        json!({"whitespace_pattern": WHITE_SPACE, "json_allowed_escapes": ESCAPES});
    Ok(schema)
}

fn prepare(schema: &mut Value) -> Result<(), ConstraintError> {
    match schema {
        Value::Object(keywords) => {
            let is_annotation = |format: &Value| {
                format
                    .as_str()
                    .is_some_and(|format| !FORMATS.contains(&format))
            };
            if keywords.get("format").is_some_and(is_annotation) {
                keywords.remove("format");
            }
            if keywords.get("uniqueItems") == Some(&Value::Bool(false)) {
                keywords.remove("uniqueItems");
            }
            check_least_properties(keywords)?;
            let properties = keywords.get("properties").and_then(Value::as_object);
            let properties = properties.map_or(0, Map::len);
            if properties > MAX_PROPERTIES {
                return Err(ConstraintError(format!(
                    "an object has {properties} properties, and can have {MAX_PROPERTIES}"
                )));
            }
            for (keyword, value) in keywords {
                if NAMED.contains(&keyword.as_str()) {
                    let mut schemas = value.as_object_mut().into_iter().flat_map(Map::values_mut);
                    schemas.try_for_each(prepare)?;
                } else if !DATA.contains(&keyword.as_str()) {
                    prepare(value)?;
                }
            }
            Ok(())
        }
        Value::Array(schemas) => schemas.iter_mut().try_for_each(prepare),
        _ => Ok(()),
    }
}

/// Closes objects that list their properties and say nothing of others, unless they are a part of
/// what describes a value.
fn close_objects(schema: &mut Value) {
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

/// A grammar cannot know that a name has come before, so it can count at most one property whose
/// name is open.
fn check_least_properties(keywords: &Map<String, Value>) -> Result<(), ConstraintError> {
    let Some(least) = keywords.get("minProperties").and_then(Value::as_u64) else {
        return Ok(());
    };
    let required = keywords.get("required").and_then(Value::as_array);
    let required = required.map_or(0, Vec::len) as u64;
    let is_closed = keywords.get("additionalProperties") == Some(&Value::Bool(false))
        && !keywords.contains_key("patternProperties");
    if least > required + 1 && !is_closed {
        return Err(ConstraintError(format!(
            "`minProperties` is {least}, and only {required} of them are `required`: names cannot be held apart"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_are_taken_out_and_data_stays() {
        let schema = json!({
            "type": "object",
            "properties": {
                "format": {"type": "string", "format": "password"},
                "when": {"type": "string", "format": "date"},
                "list": {"type": "array", "uniqueItems": false, "default": {"format": "odd"}},
            },
        });
        let prepared = prepared(&schema).expect("can be compiled");
        assert_eq!(prepared["properties"]["format"], json!({"type": "string"}));
        assert_eq!(prepared["properties"]["when"]["format"], "date");
        assert_eq!(
            prepared["properties"]["list"],
            json!({"type": "array", "default": {"format": "odd"}})
        );
    }

    #[test]
    fn objects_that_list_their_properties_have_no_others() {
        let closed = |schema: &Value| {
            let schema = prepared(schema).expect("can be compiled").to_string();
            schema.matches("\"additionalProperties\":false").count()
        };
        let object = json!({"type": "object", "properties": {"a": {"type": "string"}}});
        for (schema, count) in [
            (object.clone(), 1),
            (json!({"properties": {}}), 1),
            (
                json!({"properties": {"a": object, "b": {"items": object}}}),
                3,
            ),
            (json!({"anyOf": [object, {"type": "null"}]}), 1),
            (json!({"$ref": "#/$defs/a", "$defs": {"a": object}}), 1),
            (
                json!({"properties": {"a": {"allOf": [{"$ref": "#/$defs/a"}], "description": "b"}}, "$defs": {"a": object}}),
                2,
            ),
            // What says more of its properties, or is a part of a whole, is left as it is.
            (json!({"type": "object"}), 0),
            (
                json!({"properties": {"a": {}}, "additionalProperties": {"type": "string"}}),
                0,
            ),
            (json!({"properties": {"a": {}}, "required": ["b"]}), 0),
            (json!({"allOf": [object, {"properties": {"b": {}}}]}), 0),
            (json!({"properties": {"b": {}}, "anyOf": [object]}), 0),
            (
                json!({"allOf": [{"$ref": "#/$defs/a"}, {"properties": {"b": {}}}], "$defs": {"a": object}}),
                0,
            ),
            (json!({"const": object}), 0),
        ] {
            assert_eq!(closed(&schema), count, "{schema}");
        }
    }

    #[test]
    fn what_cannot_be_guaranteed_is_refused() {
        for schema in [
            json!({"type": "object", "minProperties": 2}),
            json!({"items": [{"minProperties": 3, "required": ["a"]}]}),
            json!({"$defs": {"minProperties": {"minProperties": 2}}}),
            json!(false),
            json!([]),
            json!("{}"),
        ] {
            assert!(prepared(&schema).is_err(), "{schema}");
        }
        for schema in [
            json!({"type": "object", "minProperties": 1}),
            json!({"minProperties": 2, "required": ["a"]}),
            json!({"minProperties": 2, "additionalProperties": false}),
            json!({"properties": {"minProperties": {"type": "integer"}}}),
            json!({"enum": [{"minProperties": 5}]}),
            json!(true),
        ] {
            assert!(prepared(&schema).is_ok(), "{schema}");
        }
    }
}
