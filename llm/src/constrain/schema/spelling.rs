//! Writes values that llguidance cannot represent as Lark expressions.

use serde_json::Value;

use super::keywords::{Keywords, TYPES};
use super::limits::{LARGEST_OF_ALL, SIDES, UNITS, float, integer, integer_bound, is_of};
use crate::constrain::grammar::quoted;

/// Keyword of a spelled value: a Lark expression, and the reason why the other keywords do not
/// approximate it, if they do not.
pub(super) const EXACT: &str = "x-exact";
/// Largest integer that is spelled.
const FARTHEST: i128 = 10_i128.pow(30);

/// Returns true if llguidance can represent a value.
pub(super) fn is_computable(value: &Value) -> bool {
    match value {
        Value::Array(values) => values.iter().all(is_computable),
        Value::Object(values) => values.values().all(is_computable),
        Value::Number(number) => {
            let near = float(number);
            let is_near = |integer| near as i128 == integer;
            near.abs() < -(i64::MIN as f64) && integer(number).is_none_or(is_near)
        }
        // A grammar for texts cannot write other control characters.
        Value::String(text) => {
            !text.contains(|c: char| c.is_control() && !"\n\r\t\u{8}\u{c}".contains(c))
        }
        Value::Null | Value::Bool(_) => true,
    }
}

/// Returns true if a value has this type.
pub(super) fn is_of_type(value: &Value, kind: &Value) -> bool {
    let is_whole = || value.as_f64().is_some_and(|value| value.fract() == 0.0);
    let mut types = TYPES.iter();
    kind == "integer" && is_whole() || types.any(|(name, is)| kind == name && is(value))
}

/// Writes a value, with white space where it is allowed.
pub(super) fn spelled(value: &Value) -> String {
    let list = |open: &str, each: Vec<String>, close: &str| {
        format!("\"{open}\" {} \"{close}\"", each.join(" \",\" "))
    };
    let text = |name: &str| quoted(&Value::from(name).to_string());
    match value {
        Value::Array(values) => list("[", values.iter().map(spelled).collect(), "]"),
        Value::Object(values) => {
            let pairs = values.iter();
            let pairs = pairs.map(|(name, it)| format!("{} \":\" {}", text(name), spelled(it)));
            list("{", pairs.collect(), "}")
        }
        Value::Number(number) if number.is_f64() => quoted(&float(number).to_string()),
        other => quoted(&other.to_string()),
    }
}

/// Writes the numbers of a schema with bounds that cannot be represented, if they can be spelled:
/// integers, or numbers so large that floating-point numbers have no fractions there.
pub(super) fn range(keywords: &Keywords) -> Option<String> {
    let is_number = is_of(keywords, "number");
    let is_known = |keyword: &String| {
        let mut sides = SIDES.iter();
        keyword == "type" || sides.any(|(one, other, _)| keyword == one || keyword == other)
    };
    if !keywords.keys().all(is_known) || !is_number && !is_of(keywords, "integer") {
        return None;
    }
    let [least, most] = SIDES.map(|side| integer_bound(keywords, side));
    let is_far = |bound: i128| {
        let near = bound as f64;
        let is_out = near as i128 != bound || bound.abs() > i128::from(LARGEST_OF_ALL);
        if is_number { near > UNITS } else { is_out }
    };
    let is_empty = least
        .zip(most)
        .is_some_and(|(least, most)| least > most.saturating_neg());
    // A bound further away counts as absent, unless no number would be left.
    let is_held = |bound: &i128| *bound >= -FARTHEST;
    let mut bounds = [least, most].into_iter().flatten();
    if is_empty
        || bounds.clone().any(|bound| bound > FARTHEST)
        || !bounds.any(|bound| is_held(&bound) && is_far(bound))
    {
        return None;
    }
    let (least, most) = (least.filter(is_held), most.filter(is_held));
    Some(integers(
        least.unwrap_or_else(|| -open_bound(most.unwrap_or(0))),
        -most.unwrap_or_else(|| -open_bound(least.unwrap_or(0))),
    ))
}

/// Returns the upper bound of numbers that have none: 64 bits, or one digit more than the lower
/// bound.
fn open_bound(least: i128) -> i128 {
    let most = i128::from(i64::MAX);
    if least < most {
        most
    } else {
        10_i128.pow(least.ilog10() + 2)
    }
}

/// Writes an expression for the integers in a range.
fn integers(least: i128, most: i128) -> String {
    let mut parts = Vec::new();
    if least < 0 {
        parts.push(format!("-({})", naturals((-most).max(1), -least)));
    }
    if most >= 0 {
        parts.push(naturals(least.max(0), most));
    }
    format!("/{}/", parts.join("|"))
}

/// Writes a regular expression for the natural numbers in a range.
fn naturals(mut least: i128, most: i128) -> String {
    let mut parts = Vec::new();
    while least <= most {
        // The largest block of numbers that differ only in their last digits.
        let (mut size, mut tail) = (1, String::new());
        while least > 0 && least % (size * 10) == 0 && least + size * 10 - 1 <= most {
            size *= 10;
            tail += "[0-9]";
        }
        let (head, digit) = (least / size / 10, least / size % 10);
        let more = ((most - least + 1) / size - 1).min(9 - digit);
        let head = if head > 0 {
            head.to_string()
        } else {
            String::new()
        };
        parts.push(format!("{head}[{digit}-{}]{tail}", digit + more));
        least += (more + 1) * size;
    }
    parts.join("|")
}
