//! What becomes of schemas.

use super::*;

/// A schema as it is compiled.
fn json(schema: &Value) -> Value {
    match prepare(schema).expect("can be compiled") {
        Notation::Json(schema) => schema,
        Notation::Lark(grammar) => panic!("{schema} is {grammar}"),
    }
}

#[test]
fn annotations_are_taken_out() {
    let schema = json!({
        "type": "object",
        "properties": {
            "format": {"type": "string", "format": "password"},
            "when": {"type": "string", "format": "date"},
            "list": {"type": "array", "uniqueItems": false, "default": {"format": "odd"}},
        },
    });
    let prepared = json(&schema);
    assert_eq!(prepared["properties"]["format"], json!({"type": "string"}));
    assert_eq!(prepared["properties"]["when"]["format"], "date");
    assert_eq!(prepared["properties"]["list"], json!({"type": "array"}));
}

#[test]
fn objects_that_list_their_properties_have_no_others() {
    let closed = |schema: &Value| {
        let schema = json(schema).to_string();
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
        json!({"$ref": "#/$defs/minProperties", "$defs": {"minProperties": {"minProperties": 2}}}),
        json!(false),
        json!([]),
        json!("{}"),
    ] {
        assert!(prepare(&schema).is_err(), "{schema}");
    }
    for schema in [
        json!({"type": "object", "minProperties": 1}),
        json!({"minProperties": 2, "required": ["a"]}),
        json!({"minProperties": 2, "additionalProperties": false}),
        json!({"properties": {"minProperties": {"type": "integer"}}}),
        json!({"enum": [{"minProperties": 5}]}),
        json!(true),
    ] {
        assert!(prepare(&schema).is_ok(), "{schema}");
    }
}
