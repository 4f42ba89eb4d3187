//! Schemas as the libraries of several languages write them, in the calls of every family of models:
//! what a model writes at random is held to them, or they are refused before it writes.

use graphmill_calculators::payload::HttpResponse;
use serde_json::{Value, json};

use super::demanded_calls::FAMILIES;
use super::tools::model;
use super::{Chat, body};

/// Schemas by the library that writes such, and words of the refusal where not all families can hold
/// a call to it.
fn schemas() -> Vec<(&'static str, Value, Option<&'static str>)> {
    let flag = json!({"type": "boolean"});
    let point = json!({"type": "object", "properties": {"x": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["x"], "additionalProperties": false});
    let object = |properties: Value, required: Value| json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
    let tagged = |tag: &str| {
        object(
            json!({"t": {"type": "string", "const": tag}, "v": flag}),
            json!(["t", "v"]),
        )
    };
    vec![
        (
            "zod-to-json-schema: a schema that is used twice",
            object(
                json!({"from": point, "to": {"$ref": "#/properties/from"}}),
                json!(["from", "to"]),
            ),
            None,
        ),
        (
            "zod-to-json-schema: of a schema within",
            object(
                json!({"a": point, "l": {"type": "array", "items": {"$ref": "#/properties/a/properties/x"}, "minItems": 1, "maxItems": 2}}),
                json!(["a", "l"]),
            ),
            None,
        ),
        (
            "zod-to-json-schema: lazy",
            object(json!({"n": flag, "p": {"$ref": "#"}}), json!(["n"])),
            None,
        ),
        (
            ".NET: a class within itself",
            json!({"type": ["object", "null"], "properties": {"N": flag, "P": {"$ref": "#"}}, "required": ["N"]}),
            None,
        ),
        (
            ".NET: a class that is used twice",
            json!({"type": "object", "properties": {"A": point, "B": {"$ref": "#/properties/A"}, "L": {"type": ["array", "null"], "items": {"$ref": "#/properties/A"}, "maxItems": 2}}, "required": ["A", "B"]}),
            None,
        ),
        (
            ".NET: numbers as texts",
            json!({"type": "object", "properties": {"Age": {"type": ["string", "integer"], "pattern": "^-?(?:0|[1-9]\\d{0,3})$"}}, "required": ["Age"]}),
            None,
        ),
        (
            ".NET: an enum that may be null",
            object(json!({"K": {"enum": ["A", "B", null]}}), json!(["K"])),
            None,
        ),
        (
            ".NET: polymorphism",
            json!({"type": "object", "required": ["$type"], "anyOf": [{"properties": {"$type": {"const": "a"}, "V": flag}}, {"properties": {"$type": {"const": "b"}, "W": flag}}]}),
            None,
        ),
        (
            "zod 4: never",
            object(json!({"a": flag, "n": {"not": {}}}), json!(["a"])),
            None,
        ),
        (
            "zod 4: a tuple",
            object(
                json!({"t": {"type": "array", "prefixItems": [flag, {"type": "null"}], "items": false, "minItems": 2, "maxItems": 2}}),
                json!(["t"]),
            ),
            None,
        ),
        (
            "zod 4: a tuple with a rest",
            object(
                json!({"t": {"type": "array", "prefixItems": [{"enum": ["a", "b"]}], "items": flag, "minItems": 1, "maxItems": 3}}),
                json!(["t"]),
            ),
            None,
        ),
        (
            "zod 4: a record",
            object(
                json!({"r": {"type": "object", "propertyNames": {"enum": ["a", "b"]}, "additionalProperties": flag}}),
                json!(["r"]),
            ),
            None,
        ),
        (
            "zod 4: a record at the root",
            json!({"type": "object", "propertyNames": {"type": "string", "enum": ["a", "b"]}, "additionalProperties": flag, "required": ["a", "b"]}),
            None,
        ),
        (
            "zod 4: a record of any names",
            object(
                json!({"r": {"type": "object", "propertyNames": {"type": "string"}, "additionalProperties": flag, "maxProperties": 1}}),
                json!(["r"]),
            ),
            None,
        ),
        (
            "zod 4: a discriminated union",
            object(
                json!({"u": {"oneOf": [tagged("a"), tagged("b")]}}),
                json!(["u"]),
            ),
            None,
        ),
        (
            "zod 4: an intersection",
            json!({"allOf": [{"type": "object", "properties": {"a": {"enum": ["x", ", "]}}, "required": ["a"]}, {"type": "object", "properties": {"b": {"type": "number", "minimum": 0, "maximum": 9}}, "required": ["b"]}]}),
            None,
        ),
        (
            "zod 4: literals",
            object(json!({"k": {"enum": [1, "1", true, null]}}), json!(["k"])),
            None,
        ),
        (
            "pydantic: definitions",
            json!({"type": "object", "title": "M", "properties": {"c": {"$ref": "#/$defs/Color"}, "p": {"anyOf": [{"$ref": "#/$defs/P"}, {"type": "null"}], "default": null}, "s": {"type": "string", "minLength": 1, "maxLength": 3, "title": "S"}}, "required": ["c", "s"], "$defs": {"Color": {"enum": ["red", "green"], "title": "Color", "type": "string"}, "P": point}}),
            None,
        ),
        (
            "pydantic: a discriminator",
            json!({"type": "object", "properties": {"pet": {"discriminator": {"mapping": {"a": "#/$defs/A", "b": "#/$defs/B"}, "propertyName": "t"}, "oneOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}]}}, "required": ["pet"], "$defs": {"A": tagged("a"), "B": tagged("b")}}),
            None,
        ),
        (
            "pydantic: a tree",
            json!({"$ref": "#/$defs/Node", "$defs": {"Node": {"type": "object", "properties": {"v": flag, "l": {"type": "array", "items": {"$ref": "#/$defs/Node"}, "maxItems": 2}}, "required": ["v"]}}}),
            None,
        ),
        (
            "schemars: an enum with values",
            object(
                json!({"e": {"oneOf": [{"type": "string", "enum": ["Unit"]}, object(json!({"Tup": {"type": "array", "prefixItems": [flag, flag], "minItems": 2, "maxItems": 2}}), json!(["Tup"]))]}}),
                json!(["e"]),
            ),
            None,
        ),
        (
            "schemars: integers",
            object(
                json!({"a": {"type": "integer", "format": "uint8", "minimum": 0, "maximum": 255}, "b": {"type": ["integer", "null"], "format": "int64"}}),
                json!(["a", "b"]),
            ),
            None,
        ),
        (
            "schemars: of draft 7",
            json!({"type": "object", "properties": {"d": {"allOf": [{"$ref": "#/definitions/D"}], "default": {"x": 1}}}, "required": ["d"], "definitions": {"D": point}}),
            None,
        ),
        (
            "Effect: an id",
            json!({"$id": "https://e.x/s", "type": "object", "properties": {"t": {"$ref": "https://e.x/s#/$defs/x"}}, "required": ["t"], "additionalProperties": false, "$defs": {"x": flag}}),
            None,
        ),
        (
            "Effect: an anchor",
            json!({"type": "object", "properties": {"t": {"$ref": "#x"}}, "required": ["t"], "$defs": {"x": {"$anchor": "x", "type": "boolean"}}}),
            None,
        ),
        (
            "Effect: nothing but an object",
            json!({"$id": "/schemas/{}", "type": "object", "properties": {"v": {"anyOf": [flag, point]}}, "required": ["v"], "additionalProperties": false}),
            None,
        ),
        (
            "by hand: a dependency",
            json!({"type": "object", "properties": {"a": flag, "b": flag}, "dependentRequired": {"a": ["b"]}, "additionalProperties": false}),
            Some("dependentRequired"),
        ),
        (
            "by hand: a loop",
            object(
                json!({"a": {"$ref": "#/properties/b"}, "b": {"$ref": "#/properties/a"}}),
                json!(["a"]),
            ),
            Some("leads back to itself"),
        ),
        (
            "by hand: no end",
            object(json!({"n": {"$ref": "#"}}), json!(["n"])),
            Some(""),
        ),
    ]
}

/// The calls of an answer whose model would write anything, or why there is none.
fn calls(chat: &Chat, schema: &Value, seed: u64) -> Result<Value, String> {
    let tool = json!({"type": "function", "function": {"name": "f", "parameters": schema}});
    let request = json!({
        "model": "m", "messages": [{"role": "user", "content": "Hi"}], "tools": [tool],
        "tool_choice": "required", "parallel_tool_calls": false, "max_tokens": 1000,
        "temperature": 1, "seed": seed, "n": 2,
    });
    let mut harness = chat.start("/v1/chat/completions", &request);
    harness.block_until(graphmill_engine::testing::Harness::ended);
    let out: Vec<HttpResponse> = super::taken(&mut harness);
    if out.is_empty() {
        let error = harness.error();
        assert_eq!(error.code.as_deref(), Some("invalid_constraint"), "{error}");
        return Err(error.to_string());
    }
    Ok(body(&out)["choices"].clone())
}

#[test]
fn schemas_of_all_libraries_hold_in_all_families() {
    let mut wrong = Vec::new();
    for mark in FAMILIES {
        let reply = match mark {
            "<|channel|>" => "<|channel|>commentary",
            _ => "",
        };
        let chat = Chat::new(&model(mark, reply));
        for (at, (name, schema, refusal)) in schemas().into_iter().enumerate() {
            let choices = match (calls(&chat, &schema, at as u64), refusal) {
                (Ok(choices), _) => choices,
                (Err(why), Some(words)) if why.contains(words) => continue,
                (Err(why), _) => {
                    wrong.push(format!("{mark} {name}: {why}"));
                    continue;
                }
            };
            // It is no URI.
            let mut standard = schema.clone();
            if standard.get("$id") == Some(&json!("/schemas/{}")) {
                standard["$id"] = json!("/schemas/all");
            }
            let validator = jsonschema::validator_for(&standard);
            for choice in choices.as_array().expect("a list") {
                if choice["finish_reason"] == "length" {
                    continue;
                }
                let call = &choice["message"]["tool_calls"][0]["function"]["arguments"];
                let arguments = call.as_str().and_then(|it| serde_json::from_str(it).ok());
                let arguments: Value = arguments.unwrap_or_default();
                let holds = validator.as_ref().is_ok_and(|it| it.is_valid(&arguments));
                if !holds {
                    wrong.push(format!("{mark} {name}: {choice}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
