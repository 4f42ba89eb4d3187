//! The numbers of schemas: whatever they are, a schema is refused with the name of the keyword, or a
//! text is held to it exactly.

use crate::constraint::{replying, said};
use graphmill_llm::{Constraint, FinishReason, LlmEngine, Token};
use proptest::prelude::*;
use serde_json::{Number, Value, json};

/// Numbers at the edges of what machines compute with, as JSON has them.
const EXTREMES: [&str; 36] = [
    "0",
    "-0.0",
    "1",
    "-1",
    "0.5",
    "255",
    "2147483648",
    "4294967295",
    "4294967296",
    "-4294967297",
    "9007199254740991",
    "9007199254740992",
    "9007199254740993",
    "-9007199254740993",
    "999999999999999999",
    "1000000000000000001",
    "9223372036854774784",
    "9223372036854774785",
    "-9223372036854774785",
    "9223372036854775807",
    "-9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "-9223372036854775809",
    "18446744073709551615",
    "18446744073709551616",
    "1e17",
    "1e18",
    "-1e19",
    "1e30",
    "-1e300",
    "1.7976931348623157e308",
    "2.2250738585072014e-308",
    "5e-324",
    "-5e-324",
    "1e-21",
];

const KEYWORDS: [&str; 13] = [
    "const",
    "enum",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
];

const TYPES: [&str; 5] = ["integer", "number", "string", "array", "object"];

/// Schemas that have this keyword with this number, each in another place.
fn schemas(keyword: &str, number: &Value) -> Vec<Value> {
    let value = match keyword {
        "enum" => json!([number]),
        _ => number.clone(),
    };
    let mut schemas = vec![json!({ keyword: value })];
    schemas.extend(TYPES.map(|kind| json!({ "type": kind, keyword: value })));
    for kind in ["integer", "number"] {
        schemas.push(json!({ "allOf": [{ "type": kind }, { keyword: value }] }));
        schemas.push(
            json!({ "$ref": "#/$defs/a", keyword: value, "$defs": { "a": { "type": kind } } }),
        );
    }
    schemas.push(json!({ "type": ["integer", "number"], keyword: value }));
    if keyword == "const" {
        schemas.push(json!({ "const": [{ "a": value }] }));
    }
    schemas
}

/// Compares numbers of JSON as they are written.
fn compare(a: &Number, b: &Number) -> std::cmp::Ordering {
    let whole = |number: &Number| {
        let signed = number.as_i64().map(i128::from);
        signed.or_else(|| number.as_u64().map(i128::from))
    };
    let float = |number: &Number| number.as_f64().expect("a number");
    match (whole(a), whole(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        // What fits into an integer is compared as one, as far as the other has no fraction.
        (Some(a), None) if float(b).abs() < 1e30 && float(b).fract() == 0.0 => {
            a.cmp(&(float(b) as i128))
        }
        (None, Some(b)) if float(a).abs() < 1e30 && float(a).fract() == 0.0 => {
            (float(a) as i128).cmp(&b)
        }
        _ => float(a).partial_cmp(&float(b)).expect("numbers"),
    }
}

/// Whether a number is one that the schema allows, as far as one of its keywords says.
fn allows(keyword: &str, limit: &Number, given: &Number) -> bool {
    let order = compare(given, limit);
    match keyword {
        "const" | "enum" => order.is_eq(),
        "minimum" => order.is_ge(),
        "maximum" => order.is_le(),
        // llguidance lets a bound through that is written with a fraction of 0.
        "exclusiveMinimum" => order.is_gt() || (order.is_eq() && given.is_f64()),
        "exclusiveMaximum" => order.is_lt() || (order.is_eq() && given.is_f64()),
        _ => true,
    }
}

/// Numbers that a model held to a constraint gives, whatever it wants to say.
fn numbers(engines: &[LlmEngine], constraint: &Constraint) -> Vec<Value> {
    let text = |tokens: &[Token]| {
        let bytes = tokens.iter().map(|token| *token as u8);
        String::from_utf8(bytes.collect()).expect("ASCII")
    };
    let said = engines
        .iter()
        .map(|engine| said(engine, constraint, |request| request.max_tokens = Some(700)));
    let complete = said.filter(|said| said.finish == FinishReason::Stop);
    complete
        .map(|said| text(&said.tokens))
        .map(|text| serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}")))
        .collect()
}

fn engines() -> Vec<LlmEngine> {
    [
        "0",
        "-1",
        "99999999999999999999",
        "-99999999999999999999",
        "0.00001",
    ]
    .map(replying)
    .into()
}

/// A schema is refused by name, or held to.
fn check(engines: &[LlmEngine], keyword: &str, number: &Value, schema: &Value) {
    let lark = Constraint::Lark(format!("start: %json {schema}"));
    for constraint in [Constraint::JsonSchema(schema.clone()), lark] {
        if let Err(error) = engines[0].compile(&constraint) {
            let error = error.to_string();
            let named = error.contains(keyword) || error.contains("nsatisfiable");
            assert!(named || keyword == "enum", "{schema}: {error}");
            continue;
        }
        let Value::Number(limit) = number else {
            continue;
        };
        for given in numbers(engines, &constraint) {
            if let Value::Number(given) = &given {
                assert!(allows(keyword, limit, given), "{schema}: {given}");
            }
        }
    }
}

#[test]
fn extreme_numbers_are_held_exactly_or_refused_by_name() {
    let engines = engines();
    for keyword in KEYWORDS {
        for (index, number) in EXTREMES.iter().enumerate() {
            let number: Value = serde_json::from_str(number).expect("JSON");
            // Each number in some of the places, each place with some of the numbers.
            let schemas = schemas(keyword, &number);
            for schema in schemas.into_iter().skip(index % 5).step_by(5) {
                check(&engines, keyword, &number, &schema);
            }
        }
    }
}

#[test]
fn what_other_servers_generate_for_their_types_is_held() {
    let engines = engines();
    for schema in [
        json!({"type": "integer", "minimum": i64::MIN, "maximum": i64::MAX}),
        json!({"type": "integer", "minimum": 0, "maximum": u64::MAX}),
        json!({"type": "integer", "exclusiveMinimum": i64::MIN}),
        json!({"type": "number", "minimum": f64::MIN, "maximum": f64::MAX}),
        json!({"type": "number", "minimum": 5e-324, "maximum": 1.797_693_134_862_315_7e308}),
        json!({"type": "string", "minLength": 1, "maxLength": u32::MAX}),
        json!({"type": "array", "items": {"type": "integer"}, "maxItems": i64::MAX}),
        json!({"const": i64::MIN + 1024}),
        json!({"enum": [i64::MAX - 1023, 1e30]}),
        json!({"type": "number", "multipleOf": 0.01}),
        json!({"allOf": [{"type": "number", "multipleOf": 0.5}, {"multipleOf": 3}]}),
    ] {
        let constraint = Constraint::JsonSchema(schema.clone());
        engines[0]
            .compile(&constraint)
            .unwrap_or_else(|error| panic!("{schema}: {error}"));
    }
    let both = json!({"allOf": [{"multipleOf": 4093}, {"multipleOf": 0.4091}]});
    let error = engines[0].compile(&Constraint::JsonSchema(both));
    let error = error.expect_err("beyond 32 bits").to_string();
    assert!(error.contains("multipleOf"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_number_is_held_exactly_or_refused_by_name(
        keyword in prop::sample::select(KEYWORDS.as_slice()),
        number in prop_oneof![
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            (-4_i64..4, any::<i64>()).prop_map(|(near, edge)| {
                let edges = [i64::MIN, i64::MAX, 1 << 53, -(1 << 53), 1 << 31, 0];
                edges[edge.unsigned_abs() as usize % edges.len()].saturating_add(near).into()
            }),
            prop::num::f64::NORMAL.prop_map(Value::from),
            prop::num::f64::SUBNORMAL.prop_map(Value::from),
        ],
    ) {
        let engines = engines();
        for schema in schemas(keyword, &number) {
            check(&engines, keyword, &number, &schema);
        }
    }
}
