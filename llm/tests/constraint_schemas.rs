//! JSON schemas as generators write them: what they say is held, or they are refused with the place
//! of what cannot be.

use crate::constraint::replying;
use crate::constraint_suite::generate;
use crate::speculating::markov;
use graphmill_llm::{Constraint, LlmEngine};
use serde_json::{Value, json};

/// Texts that match a schema and texts that do not, as compiled by an engine.
fn check(engine: &LlmEngine, schema: &Value, matching: &[&str], others: &[&str]) {
    let within = Constraint::Lark(format!("start: %json {schema}"));
    for constraint in [Constraint::JsonSchema(schema.clone()), within] {
        let compiled = engine.compile(&constraint);
        let compiled = compiled.unwrap_or_else(|error| panic!("{schema}: {error}"));
        let matches = |text: &str| {
            let mut constrained = compiled.text();
            constrained.push(text);
            constrained.can_end()
        };
        for text in matching {
            assert!(matches(text), "{schema}: {text}");
        }
        for text in others {
            assert!(!matches(text), "{schema}: {text}");
        }
    }
}

fn object(property: &Value) -> Value {
    json!({"type": "object", "properties": {"a": property}, "required": ["a"], "additionalProperties": false})
}

#[test]
fn integers_beyond_floating_point_numbers_are_exact() {
    let engine = replying("{}");
    for (schema, matching, others) in [
        (
            json!({"const": 9_007_199_254_740_993_u64}),
            vec!["9007199254740993"],
            vec!["9007199254740992", "9007199254740994"],
        ),
        (
            json!({"const": u64::MAX}),
            vec!["18446744073709551615"],
            vec!["18446744073709551616"],
        ),
        (
            json!({"const": i64::MIN}),
            vec!["-9223372036854775808"],
            vec!["-9223372036854775807"],
        ),
        (
            json!({"type": "integer", "enum": [1_234_567_890_123_456_789_u64, 7]}),
            vec!["1234567890123456789", "7"],
            vec!["1234567890123456788"],
        ),
        (
            json!({"type": "integer", "minimum": 9_007_199_254_740_993_u64, "maximum": 9_007_199_254_740_993_u64}),
            vec!["9007199254740993"],
            vec!["9007199254740992"],
        ),
        (
            json!({"type": "integer", "exclusiveMinimum": i64::MAX, "maximum": 9_223_372_036_854_775_810_u64}),
            vec!["9223372036854775808", "9223372036854775810"],
            vec!["9223372036854775807", "9223372036854775811"],
        ),
        (
            json!({"type": "integer", "minimum": i64::MIN, "maximum": i64::MAX}),
            vec!["-9223372036854775808", "0", "-1", "9223372036854775807"],
            vec!["9223372036854775808", "-9223372036854775809", "-0", "01"],
        ),
        (
            json!({"type": ["integer", "null"], "minimum": 0, "maximum": u64::MAX}),
            vec!["0", "18446744073709551615", "null"],
            vec!["18446744073709551616", "-1"],
        ),
        (
            json!({"type": "number", "minimum": u64::MAX}),
            vec!["18446744073709551615", "18446744073709551616"],
            vec!["18446744073709551614", "1"],
        ),
        (
            json!({"type": "array", "items": {"const": 9_007_199_254_740_993_u64}, "minItems": 1, "maxItems": 2}),
            vec!["[9007199254740993]", "[9007199254740993, 9007199254740993]"],
            vec!["[]", "[9007199254740993,9007199254740993,9007199254740993]"],
        ),
        (
            json!({"const": {"id": [9_007_199_254_740_993_u64, "x\u{0}y"]}}),
            vec![r#"{"id": [9007199254740993, "x\u0000y"]}"#],
            vec![r#"{"id": [9007199254740993, "xy"]}"#],
        ),
        (
            json!({"anyOf": [{"$ref": "#/$defs/id"}, {"type": "string", "maxLength": 2}], "$defs": {"id": {"const": u64::MAX}}}),
            vec!["18446744073709551615", "\"ab\""],
            vec!["18446744073709551614", "\"abc\""],
        ),
    ] {
        check(&engine, &schema, &matching, &others);
        let within = |texts: &[&str]| {
            texts
                .iter()
                .map(|text| format!("{{\"a\": {text}}}"))
                .collect::<Vec<_>>()
        };
        let (matching, others) = (within(&matching), within(&others));
        let texts = |texts: &[String]| -> Vec<&'static str> {
            texts.iter().map(|text| &*text.clone().leak()).collect()
        };
        let definitions = schema.get("$defs").cloned().unwrap_or(json!({}));
        let mut schema = object(&schema);
        schema["$defs"] = definitions;
        check(&engine, &schema, &texts(&matching), &texts(&others));
    }
    let optional = json!({
        "type": "object",
        "properties": {"a": {"type": "integer", "minimum": i64::MIN}, "b": {"type": "boolean"}, "c": {"const": u64::MAX}},
        "required": ["b"],
    });
    let matching = [
        r#"{"b":true}"#,
        r#"{"a":-9223372036854775808,"b":false}"#,
        r#"{"b":true,"c":18446744073709551615}"#,
    ];
    check(
        &engine,
        &optional,
        &matching,
        &[r#"{"a":1}"#, r#"{"a":1,"b":true,}"#, r#"{,"b":true}"#],
    );
}

#[test]
fn what_cannot_be_exact_is_refused_with_its_place() {
    let engine = replying("{}");
    for (schema, keyword) in [
        (json!({"const": u64::MAX, "multipleOf": 5}), "`const`"),
        (
            json!({"allOf": [{"const": u64::MAX}, {"type": "integer"}]}),
            "`allOf`",
        ),
        (json!({"type": "integer", "minimum": 1e300}), "`minimum`"),
        (
            json!({"type": "array", "contains": {"const": 1}, "maxContains": 2}),
            "`maxContains`",
        ),
        (json!({"type": "string", "not": {"pattern": "a"}}), "`not`"),
        (
            json!({"oneOf": [{"minimum": 1}, {"minimum": 2}]}),
            "`oneOf`",
        ),
        (
            json!({"type": "array", "uniqueItems": true}),
            "`uniqueItems`",
        ),
        (json!({"$ref": "#/$defs/none"}), "`$ref`"),
        (json!({"type": "text"}), "`type`"),
        (json!({"type": "string", "pattern": "^(?!ab)"}), "`pattern`"),
    ] {
        let error = engine.compile(&Constraint::JsonSchema(object(&schema)));
        let error = error.expect_err(keyword).to_string();
        assert!(
            error.contains(keyword) && error.contains("`#/properties/a"),
            "{schema}: {error}"
        );
    }
}

#[test]
fn what_a_keyword_cannot_have_is_refused_by_its_name() {
    let engine = replying("{}");
    for (keyword, value) in [
        ("type", json!(5)),
        ("type", json!(["string", 3])),
        ("minimum", json!("x")),
        ("exclusiveMaximum", json!("3")),
        ("multipleOf", json!("2")),
        ("multipleOf", json!(0)),
        ("minLength", json!(-1)),
        ("maxItems", json!(1.5)),
        ("minContains", json!("1")),
        ("pattern", json!(3)),
        ("format", json!(null)),
        ("required", json!("a")),
        ("required", json!([1])),
        ("dependentRequired", json!({"a": "b"})),
        ("properties", json!([])),
        ("patternProperties", json!("a")),
        ("additionalProperties", json!("no")),
        ("propertyNames", json!(["a"])),
        ("items", json!("a")),
        ("prefixItems", json!({})),
        ("uniqueItems", json!(1)),
        ("nullable", json!("yes")),
        ("enum", json!("a")),
        ("allOf", json!({})),
        ("anyOf", json!([5])),
        ("oneOf", json!({"a": true})),
        ("not", json!(null)),
        ("if", json!("a")),
        ("$ref", json!(7)),
        ("$defs", json!([])),
    ] {
        let schema = object(&json!({ keyword: value }));
        let within = Constraint::Lark(format!("start: %json {schema}"));
        for constraint in [Constraint::JsonSchema(schema.clone()), within] {
            let error = engine.compile(&constraint).expect_err(keyword).to_string();
            let names_it = error.contains(&format!("`{keyword}`"));
            assert!(
                names_it && error.contains("`#/properties/a"),
                "{schema}: {error}"
            );
        }
    }
}

#[test]
fn conditions_within_conditions_end() {
    let engine = replying("{}");
    // Each of the options leads to as many of the next.
    let chain = |last: Value, keyword: &str| {
        let mut definitions = json!({"d12": last});
        for at in 0..12 {
            let next = json!({"$ref": format!("#/$defs/d{}", at + 1)});
            definitions[format!("d{at}")] = json!({ keyword: vec![next; 40] });
        }
        definitions
    };
    let first = json!({"$ref": "#/$defs/d0"});
    for (last, keyword) in [
        (json!({"const": 1}), "anyOf"),
        (json!({"enum": []}), "anyOf"),
        (json!({"anyOf": []}), "anyOf"),
        (json!({"required": ["a"]}), "allOf"),
    ] {
        for mut schema in [
            json!({"not": first}),
            json!({"if": first, "then": {"required": ["a"]}}),
            json!({"propertyNames": first}),
            json!({"items": first, "uniqueItems": true}),
            json!({"oneOf": [first, first]}),
        ] {
            schema["$defs"] = chain(last.clone(), keyword);
            drop(engine.compile(&Constraint::JsonSchema(schema)));
        }
    }
    let itself =
        json!({"propertyNames": {"$ref": "#/$defs/a"}, "$defs": {"a": {"$ref": "#/$defs/a"}}});
    drop(engine.compile(&Constraint::JsonSchema(itself)));
    engine.compile(&Constraint::JsonObject).expect("has a turn");
}

#[test]
fn no_reference_leads_around_the_limits() {
    let engine = replying("{}");
    let chain: serde_json::Map<String, Value> = (0..20_000)
        .map(|at| {
            (
                at.to_string(),
                json!({"$ref": format!("#/$defs/{}", at + 1)}),
            )
        })
        .collect();
    let deep = (0..120).fold(json!({"$ref": "#"}), |inner, _| json!({"items": inner}));
    for schema in [
        json!({"$ref": "#/default/x", "default": {"x": {"const": i64::MIN}}}),
        json!({"$ref": "#/properties", "properties": {"const": i64::MIN}}),
        json!({"$ref": "#/enum/0", "enum": [{"type": "integer", "minimum": i64::MAX, "maximum": i64::MAX}]}),
        json!({"$ref": "#"}),
        json!({"allOf": [{"$ref": "#"}]}),
        json!({"$ref": "#/$defs/0", "$defs": chain}),
        deep,
    ] {
        // Refused or not, the process is there.
        drop(engine.compile(&Constraint::JsonSchema(schema)));
    }
    engine.compile(&Constraint::JsonObject).expect("still runs");
}

#[test]
fn references_are_uris() {
    let engine = replying("{}");
    let q = json!({"enum": ["q"]});
    for (reference, definitions) in [
        ("#/$defs/x~1y", json!({"x/y": q})),
        ("#/$defs/x~0y", json!({"x~y": q})),
        ("#/$defs/List%3Cu8%3E", json!({"List<u8>": q})),
        ("#here", json!({"e": {"$anchor": "here", "enum": ["q"]}})),
        ("https://example.com/s#/$defs/e", json!({"e": q})),
        (
            "https://example.com/other",
            json!({"e": {"$id": "other", "enum": ["q"]}}),
        ),
        (
            "other#/$defs/in",
            json!({"e": {"$id": "other", "$defs": {"in": q}}}),
        ),
    ] {
        let mut schema = object(&json!({ "$ref": reference }));
        schema["$id"] = "https://example.com/s".into();
        schema["$defs"] = definitions;
        check(
            &engine,
            &schema,
            &[r#"{"a":"q"}"#],
            &[r#"{"a":"r"}"#, r#"{"a":1}"#],
        );
    }
}

#[test]
fn conditions_and_lists_are_held() {
    let engine = replying("{}");
    let kinds = json!({"enum": ["cat", "dog"]});
    for (schema, matching, others) in [
        (
            json!({"type": "object", "properties": {"kind": kinds, "name": {"type": "string"}}, "required": ["kind"],
                "if": {"properties": {"kind": {"const": "cat"}}}, "then": {"required": ["name"]}, "additionalProperties": false}),
            vec![
                r#"{"kind":"cat","name":"x"}"#,
                r#"{"kind":"dog"}"#,
                r#"{"kind":"dog","name":""}"#,
            ],
            vec![r#"{"kind":"cat"}"#],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "null"}, "b": {"type": "null"}}, "dependentRequired": {"a": ["b"]}}),
            vec!["{}", r#"{"b":null}"#, r#"{"a":null,"b":null}"#],
            vec![r#"{"a":null}"#],
        ),
        (
            json!({"enum": ["a", "b", 1], "not": {"enum": ["b", 1.0]}}),
            vec![r#""a""#],
            vec![r#""b""#, "1"],
        ),
        (
            json!({"not": {"type": ["string", "number"]}, "type": ["string", "null"]}),
            vec!["null"],
            vec![r#""a""#],
        ),
        (
            json!({"type": "array", "items": {"enum": ["a", "b", "c"]}, "contains": {"const": "c"}, "maxItems": 3}),
            vec![r#"["c"]"#, r#"["a","b","c"]"#, r#"["c","a"]"#],
            vec!["[]", r#"["a","b"]"#],
        ),
        (
            json!({"type": "array", "items": {"enum": ["a", "b"]}, "uniqueItems": true, "minItems": 1}),
            vec![r#"["a"]"#, r#"["b","a"]"#],
            vec!["[]", r#"["a","a"]"#, r#"["a","b","a"]"#],
        ),
        (
            // As pydantic has decimals, and zod e-mail addresses.
            json!({"anyOf": [{"type": "number"}, {"type": "string", "pattern": "^(?!^[-+.]*$)[+-]?0*\\d*\\.?\\d*$"}]}),
            vec!["\"-1.50\"", "\".5\"", "\"00\"", "2"],
            vec!["\"\"", "\"-.\"", "\"1e5\""],
        ),
        (
            json!({"type": "string", "format": "email", "pattern": "^(?!\\.)(?!.*\\.\\.)([A-Za-z0-9_'+\\-\\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\\-]*\\.)+[A-Za-z]{2,}$"}),
            vec!["\"a.b+c@mail.example\"", "\"o'hara@a-b.example.org\""],
            vec![
                "\".a@b.example\"",
                "\"a..b@c.example\"",
                "\"a@b\"",
                "\"a@b..org\"",
            ],
        ),
        (
            json!({"type": "string", "pattern": "^(?=.*[0-9])(?=.*[a-z]).{3,5}$"}),
            vec![r#""ab1""#],
            vec![r#""abc""#, r#""123""#, r#""a1""#],
        ),
        (
            json!({"oneOf": [{"type": "integer", "maximum": 3}, {"type": "integer", "exclusiveMinimum": 3}]}),
            vec!["3", "4"],
            vec!["3.5"],
        ),
        (
            json!({"oneOf": [{"type": "null"}, {"$ref": "#/$defs/e"}], "$defs": {"e": {"type": "string", "enum": ["q"]}}}),
            vec!["null", r#""q""#],
            vec![r#""r""#],
        ),
        (
            json!({"type": "object", "propertyNames": {"enum": ["x", "y"]}, "additionalProperties": {"type": "null"}}),
            vec!["{}", r#"{"y":null}"#],
            vec![r#"{"z":null}"#],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "null"}}, "unevaluatedProperties": {"not": {}}}),
            vec![r#"{"a":null}"#],
            vec![r#"{"b":null}"#],
        ),
    ] {
        check(&engine, &schema, &matching, &others);
    }
}

/// Schemas as generators of programs write them, with a text that matches.
#[test]
fn generators_are_understood() {
    let engine = replying("{}");
    let wild = markov(4096);
    for (generator, schema, text) in [
        (
            "pydantic",
            json!({"$defs": {"Color": {"enum": ["red", "blue"], "title": "Color", "type": "string"}, "Cat": {"properties": {"kind": {"const": "cat", "default": "cat", "title": "Kind", "type": "string"}, "color": {"$ref": "#/$defs/Color"}}, "required": ["color"], "title": "Cat", "type": "object"}, "Dog": {"properties": {"kind": {"const": "dog", "title": "Kind", "type": "string"}}, "required": ["kind"], "title": "Dog", "type": "object"}},
                "properties": {"pet": {"discriminator": {"mapping": {"cat": "#/$defs/Cat", "dog": "#/$defs/Dog"}, "propertyName": "kind"}, "anyOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}]}, "age": {"anyOf": [{"exclusiveMinimum": 0, "type": "integer"}, {"type": "null"}], "default": null}, "by": {"additionalProperties": {"type": "integer"}, "propertyNames": {"$ref": "#/$defs/Color"}, "type": "object"}}, "required": ["pet", "by"], "title": "Owner", "type": "object"}),
            r#"{"pet":{"kind":"dog"},"age":3,"by":{"red":1}}"#,
        ),
        (
            "zod 4",
            json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "properties": {"id": {"type": "integer", "minimum": -9_007_199_254_740_991_i64, "maximum": 9_007_199_254_740_991_i64}, "tags": {"type": "object", "propertyNames": {"type": "string"}, "additionalProperties": {"type": "string"}}}, "required": ["id", "tags"], "additionalProperties": false}),
            r#"{"id":9007199254740991,"tags":{"x":"y"}}"#,
        ),
        (
            "schemars",
            json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "T", "type": "object", "properties": {"shape": {"oneOf": [{"type": "string", "enum": ["A", "B"]}, {"description": "d", "type": "string", "const": "C"}, {"type": "object", "properties": {"D": {"$ref": "#/$defs/Pair%3Cu8%3E"}}, "required": ["D"], "additionalProperties": false}]}, "n": {"type": "integer", "format": "uint64", "minimum": 0}}, "required": ["shape", "n"], "$defs": {"Pair<u8>": {"type": "array", "prefixItems": [{"type": "integer", "format": "uint8", "minimum": 0, "maximum": 255}, {"type": "string"}], "minItems": 2, "maxItems": 2}}}),
            r#"{"shape":{"D":[255,""]},"n":7}"#,
        ),
        (
            ".NET",
            json!({"type": "object", "properties": {"next": {"oneOf": [{"type": "null"}, {"$ref": "#/properties/node"}]}, "node": {"type": "object", "properties": {"value": {"type": ["integer", "null"], "format": "int32"}}, "required": ["value"]}}, "required": ["next"]}),
            r#"{"next":{"value":null}}"#,
        ),
        (
            "Effect",
            json!({"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "object", "required": ["s"], "properties": {"s": {"type": "string", "minLength": 1, "title": "nonEmpty"}, "u": {"$id": "/schemas/unknown", "title": "unknown"}}, "additionalProperties": false}}}),
            r#"{"s":"x","u":[1]}"#,
        ),
        (
            "protoschema",
            json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "t.schema.json", "type": "object", "title": "T", "additionalProperties": false, "patternProperties": {"^(snake_id)$": {"type": "string"}}, "properties": {"id": {"anyOf": [{"type": "integer", "minimum": i64::MIN, "maximum": i64::MAX}, {"type": "string", "pattern": "^-?[0-9]+$"}], "default": 0}, "f": {"type": "number", "maximum": 3.402_823_466_385_288_6e38, "minimum": -3.402_823_466_385_288_6e38}}}),
            r#"{"id":7,"f":1.5}"#,
        ),
        (
            "OpenAPI 3.0",
            json!({"type": "object", "properties": {"a": {"type": "string", "nullable": true, "example": "x"}, "b": {"allOf": [{"$ref": "#/$defs/B"}], "nullable": true, "type": "object"}}, "required": ["a", "b"], "$defs": {"B": {"type": "object", "properties": {"c": {"type": "integer", "format": "int64"}}}}}),
            r#"{"a":null,"b":{"c":1}}"#,
        ),
    ] {
        println!("{generator}");
        check(&engine, &schema, &[text], &[]);
        // What a standard validator knows.
        let standard = match generator {
            "OpenAPI 3.0" => {
                json!({"properties": {"a": {"type": ["string", "null"]}, "b": {"type": ["object", "null"], "properties": {"c": {"type": "integer"}}}}, "required": ["a", "b"]})
            }
            _ => schema.clone(),
        };
        let validator = jsonschema::validator_for(&standard).expect("a schema");
        let compiled = wild.compile(&Constraint::JsonSchema(schema));
        let compiled = compiled.expect("can be compiled");
        let texts = (0..40).filter_map(|seed| generate(&wild, &compiled, seed));
        let values: Vec<Value> = texts
            .take(4)
            .map(|text| serde_json::from_str(&text).expect("JSON"))
            .collect();
        assert!(!values.is_empty(), "nothing is generated");
        for value in values {
            assert!(validator.is_valid(&value), "{value}");
        }
    }
}
