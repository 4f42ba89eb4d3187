//! Spells values that llguidance cannot compute with as regular expressions.

use serde_json::{Value, json};

use super::exact::EXACT;
use super::limits::{LARGEST_OF_ALL, Side, UNITS, float, integer, integer_bound};
use super::rewriting::{Keywords, is_of};
use crate::constrain::compiler::ConstraintError;
use crate::constrain::grammar::literal_regex;

/// The largest integer that is spelled.
const FARTHEST: i128 = 10_i128.pow(30);
/// Keywords beside which a bound of an integer is held exactly.
const OF_INTEGERS: [&str; 5] = [
    "type",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
];

/// Adds a regular expression for what the bounds are, if these are not the nearest ones already.
pub(super) fn spell(keywords: &mut Keywords, exact: &str, near: Result<(), ConstraintError>) {
    let of = |keyword: &str| keywords.get(keyword).and_then(Value::as_f64);
    let is_empty = of("minimum")
        .zip(of("maximum"))
        .is_some_and(|(least, most)| least > most);
    let failure = match near {
        Ok(()) if is_empty => Value::from("`minimum` and `maximum` are too near to each other"),
        Ok(()) => Value::Null,
        Err(failure) => Value::from(failure.0),
    };
    keywords.insert(EXACT.to_owned(), json!([exact, failure]));
}

/// The bounds of numbers that can be spelled; what is farther than these is as none.
fn spelled_bounds(keywords: &Keywords) -> Option<[Option<i128>; 2]> {
    let least = integer_bound(keywords, ["minimum", "exclusiveMinimum"], Side::Least);
    let most = integer_bound(keywords, ["maximum", "exclusiveMaximum"], Side::Most);
    let mut others = keywords.keys();
    let is_simple = others.all(|keyword| OF_INTEGERS.contains(&keyword.as_str()));
    let is_near = least.is_none_or(|least| least <= FARTHEST)
        && most.is_none_or(|most| most >= -FARTHEST)
        && least.zip(most).is_none_or(|(least, most)| least <= most);
    let least = least.filter(|least| *least >= -FARTHEST);
    let most = most.filter(|most| *most <= FARTHEST);
    (is_simple && is_near).then_some([least, most])
}

/// The most that numbers without a bound on that side can be: 64 bits, or one digit more than the
/// least has.
fn open_bound(least: i128) -> i128 {
    let most = i128::from(i64::MAX);
    if least < most {
        most
    } else {
        10_i128.pow(least.ilog10() + 2)
    }
}

/// A regular expression of the integers of a schema whose bounds cannot be computed with.
pub(super) fn exact_integer(keywords: &Keywords) -> Option<String> {
    let bounds = spelled_bounds(keywords)?;
    let is_far =
        |bound: i128| (bound as f64) as i128 != bound || bound.abs() > i128::from(LARGEST_OF_ALL);
    let is_exact = bounds.into_iter().flatten().any(is_far);
    is_exact.then(|| within(bounds))
}

/// A regular expression of the numbers of a schema that are all beyond what can be computed with,
/// without those that have fractions, which floating-point numbers do not have there.
pub(super) fn exact_number(keywords: &Keywords) -> Option<String> {
    let bounds = spelled_bounds(keywords).filter(|_| is_of(keywords, "number"))?;
    let is_beyond =
        |bound: Option<i128>, sign: f64| bound.is_some_and(|it| sign * it as f64 > UNITS);
    (is_beyond(bounds[0], 1.0) || is_beyond(bounds[1], -1.0)).then(|| within(bounds))
}

fn within([least, most]: [Option<i128>; 2]) -> String {
    integers(
        least.unwrap_or_else(|| -open_bound(-most.unwrap_or(0))),
        most.unwrap_or_else(|| open_bound(least.unwrap_or(0))),
    )
}

/// A value as a schema, of which what cannot be computed with is spelled.
pub(super) fn spelled(value: &Value, failure: &str) -> Value {
    match value {
        Value::Array(values) => {
            let each: Vec<_> = values.iter().map(|value| spelled(value, failure)).collect();
            let count = each.len();
            json!({"type": "array", "prefixItems": each, "minItems": count, "maxItems": count})
        }
        Value::Object(values) => {
            let names: Vec<_> = values.keys().collect();
            let of = |(name, value): (&String, _)| (name.clone(), spelled(value, failure));
            let each: Keywords = values.iter().map(of).collect();
            json!({"type": "object", "properties": each, "required": names, "additionalProperties": false})
        }
        Value::Number(number) => {
            let written =
                integer(number).map_or_else(|| float(number).to_string(), |it| it.to_string());
            let kind = if written.contains('.') {
                "number"
            } else {
                "integer"
            };
            let regex = written.replace('.', r"\.");
            json!({"type": kind, EXACT: [regex, failure]})
        }
        Value::String(text) => {
            let regex = literal_regex(&Value::from(text.as_str()).to_string());
            json!({"type": "string", EXACT: [regex, failure]})
        }
        Value::Null => json!({"type": "null"}),
        Value::Bool(_) => json!({"type": "boolean", "const": value}),
    }
}

/// A regular expression of the integers from one to another.
fn integers(least: i128, most: i128) -> String {
    let mut parts = Vec::new();
    if least < 0 {
        let nearest = (-most).max(1);
        parts.push(format!("-{}", digits(nearest, -least)));
    }
    if most >= 0 {
        parts.push(digits(least.max(0), most));
    }
    format!("({})", parts.join("|"))
}

/// A regular expression of the natural numbers from one to another.
fn digits(mut least: i128, most: i128) -> String {
    let mut parts = Vec::new();
    while least <= most {
        // The largest block of numbers that differ in their last digits only.
        let (mut size, mut zeros) = (1_i128, 0);
        while least % (size * 10) == 0 && least > 0 && least + size * 10 - 1 <= most {
            (size, zeros) = (size * 10, zeros + 1);
        }
        let prefix = least / size;
        let digit = prefix % 10;
        let more = ((most - least + 1) / size - 1).min(9 - digit);
        let head = if prefix < 10 {
            String::new()
        } else {
            (prefix / 10).to_string()
        };
        let tail = if zeros > 0 {
            format!("[0-9]{{{zeros}}}")
        } else {
            String::new()
        };
        parts.push(format!("{head}[{digit}-{}]{tail}", digit + more));
        least += (more + 1) * size;
    }
    format!("({})", parts.join("|"))
}
