//! Prepares a JSON schema for llguidance, which refuses most of what it cannot hold a text to. What it would let pass is refused
//! here, and what only annotates is taken out.

use serde_json::{Map, Value, json};

use super::compiler::ConstraintError;

/// White space between the parts of a document: a space, or a new line and its indentation. A model that gets lost in white
/// space would otherwise never come out of it.
const WHITE_SPACE: &str = r"[ \t]|\r?\n[ \t]{0,40}";
/// Escapes that strings are written with. Without `\u`, a name has one spelling, and no second value can hide behind another.
const ESCAPES: &str = "nrbtf\\\"";
/// Most properties of one object: what may come next is a list of them.
const MOST_PROPERTIES: usize = 1000;
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
            if properties > MOST_PROPERTIES {
                return Err(ConstraintError(format!(
                    "an object has {properties} properties, and can have {MOST_PROPERTIES}"
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

/// A grammar cannot know that a name has come before, so it can count at most one property whose name is open.
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
