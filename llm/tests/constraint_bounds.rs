//! Constraints that would take without end to compile are refused at once, and those that people
//! have are not.

use crate::constraint::replying;
use graphmill_llm::{CompileError, Constraint};
use serde_json::{Value, json};

/// The refusal of a constraint for what it is, not for the time that it took.
fn refusal(constraint: &Constraint) -> String {
    let error = replying("a").compile(constraint).expect_err("is refused");
    assert!(matches!(error, CompileError::Constraint(_)), "{error}");
    error.to_string()
}

fn patterns(count: usize) -> Vec<Value> {
    let pattern =
        |number| json!({"type": "string", "pattern": format!("(a|b){{0,50}}.*{number}7.*")});
    (0..count).map(pattern).collect()
}

#[test]
fn patterns_that_hold_together_are_bounded_wherever_they_come_from() {
    let named: Vec<Value> = patterns(60)
        .into_iter()
        .map(|pattern| json!({"type": "object", "properties": {"a": pattern}}))
        .collect();
    let mut definitions = json!({"d60": {"type": "string"}});
    for (number, pattern) in patterns(60).into_iter().enumerate() {
        let next = json!({"$ref": format!("#/$defs/d{}", number + 1)});
        definitions[format!("d{number}")] = json!({"allOf": [pattern, next]});
    }
    let alternatives = |letter: char| -> Value {
        let each: Vec<_> = (0..900)
            .map(|number| format!(".*{letter}{number}"))
            .collect();
        json!({"type": "string", "pattern": each.join("|")})
    };
    for schema in [
        json!({"allOf": patterns(60)}),
        json!({"allOf": named}),
        json!({"$ref": "#/$defs/d0", "$defs": definitions}),
        json!({"allOf": [alternatives('a'), alternatives('b')]}),
    ] {
        let lark = Constraint::Lark(format!("start: %json {schema}"));
        for constraint in [Constraint::JsonSchema(schema), lark] {
            let refusal = refusal(&constraint);
            assert!(refusal.contains("patterns"), "{refusal}");
        }
    }
    let each: Vec<_> = (0..60)
        .map(|number| format!("/(a|b){{0,50}}.*{number}7.*/"))
        .collect();
    let refusal = refusal(&Constraint::Lark(format!(
        "start: A\nA: {}",
        each.join(" & ")
    )));
    assert!(refusal.contains('&'), "{refusal}");
}

#[test]
fn patterns_of_names_are_bounded_per_object_and_in_all() {
    let object = |count: usize, of: usize| -> Value {
        let name = |number| (format!("^x{of}n{number}[a-z]{{1,200}}$"), json!({}));
        json!({"type": "object", "patternProperties": Value::Object((0..count).map(name).collect())})
    };
    let many: Vec<Value> = (0..150).map(|of| object(60, of)).collect();
    let parts: Vec<Value> = (0..128).map(|of| object(8, of)).collect();
    for schema in [
        object(3_000, 0),
        json!({"type": "array", "prefixItems": many}),
        json!({"allOf": parts}),
    ] {
        let refusal = refusal(&Constraint::JsonSchema(schema));
        assert!(refusal.contains("patternProperties"), "{refusal}");
    }
    let few = Constraint::JsonSchema(object(100, 0));
    replying("{}").compile(&few).expect("can be compiled");
}

#[test]
fn texts_that_are_given_as_they_are_are_bounded() {
    let long = "x".repeat(900_000);
    for constraint in [
        Constraint::Choice(vec![long.clone()]),
        Constraint::JsonSchema(json!({"enum": [[long]]})),
        Constraint::JsonSchema(json!({"properties": {long.as_str(): {}}})),
        Constraint::JsonSchema(json!({"patternProperties": {long.as_str(): {}}})),
        Constraint::JsonSchema(json!({"pattern": long})),
    ] {
        let refusal = refusal(&constraint);
        assert!(refusal.contains("bytes"), "{refusal}");
    }
}

/// The parameters of a tool as programs have them.
fn tool(number: usize, properties: usize) -> Value {
    let kinds = [
        json!({"type": "string", "description": "x".repeat(200)}),
        json!({"type": "integer", "minimum": 0, "maximum": 100}),
        json!({"type": "string", "format": "date-time"}),
        json!({"type": "string", "format": "email", "maxLength": 200}),
        json!({"type": "string", "format": "uuid"}),
        json!({"type": "string", "pattern": r"^[A-Z]{2}-\d{3,8}$"}),
        json!({"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]}),
        json!({"type": "array", "items": {"enum": ["a", "b", "c"]}}),
        json!({"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "boolean"}}}),
        json!({"allOf": [{"$ref": "#/$defs/base"}]}),
    ];
    let property = |at: usize| (format!("p{number}_{at}"), kinds[at % kinds.len()].clone());
    let properties: Value = Value::Object((0..properties).map(property).collect());
    json!({
        "type": "object",
        "properties": properties,
        "$defs": {"base": {"type": "string", "pattern": "^[a-z]+(-[a-z]+)*$"}},
    })
}

/// Calls of tools, of which a model says the name first.
fn calls(tools: usize, properties: usize) -> Constraint {
    let call = |number| {
        let name = Constraint::Text(format!("tool{number} "));
        Constraint::Sequence(vec![name, Constraint::JsonSchema(tool(number, properties))])
    };
    Constraint::AnyOf((0..tools).map(call).collect())
}

#[test]
fn tools_and_large_schemas_as_people_have_them_pass() {
    let engine = replying("{}");
    for constraint in [calls(64, 30), Constraint::JsonSchema(tool(0, 900))] {
        engine.compile(&constraint).expect("can be compiled");
    }
}

#[test]
fn what_is_too_large_is_said_in_words() {
    let plain = |number| {
        let property = |at| (format!("p{at}"), json!({"type": "string"}));
        let properties: Value = Value::Object((0..20).map(property).collect());
        let schema = json!({"type": "object", "properties": properties});
        let name = Constraint::Text(format!("tool{number} "));
        Constraint::Sequence(vec![name, Constraint::JsonSchema(schema)])
    };
    for constraint in [
        Constraint::AnyOf((0..1024).map(plain).collect()),
        calls(800, 10),
    ] {
        let refusal = refusal(&constraint);
        assert!(refusal.contains("too large as a whole"), "{refusal}");
    }
}
