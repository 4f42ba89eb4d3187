//! Holds the numbers of a schema within what llguidance computes with, 64-bit floating-point
//! numbers and 64-bit integers: it does not check that these suffice, and recurses without end
//! where they do not.
//!
//! A bound that is out of reach is replaced by the nearest one within reach that allows less; what
//! would allow more, or something else, is refused.

use std::cmp::Ordering;

use serde_json::{Number, Value, json};

use super::Place;
use super::closing::each;
use super::keywords::DATA;
use super::multiples::{Divisor, check_common_multiple};
use super::rewriting::{Keywords, is_of};
use super::spelling::{exact_integer, exact_number, spell, spelled};
use crate::constrain::compiler::ConstraintError;

/// The largest integer of 16 digits that is one as a 64-bit floating-point number, too.
const LARGEST: i64 = 9_999_999_999_999_998;
/// The largest 64-bit integer that is one as a 64-bit floating-point number, too.
pub(super) const LARGEST_OF_ALL: i64 = i64::MAX - 1023;
/// The largest bound of numbers that can have fractions.
const LARGEST_BOUND: i64 = 100_000_000_000_000_000;
/// Above it, the neighbors of integers are none as 64-bit floating-point numbers: what excludes
/// an integer by adding 1 does not.
pub(super) const UNITS: f64 = 9_007_199_254_740_992.0;
/// The smallest such bound above 0.
const SMALLEST_BOUND: f64 = 1e-20;
/// The most characters, elements or properties that a schema can count.
const LARGEST_COUNT: u64 = 1 << 20;
/// Keywords that count.
const COUNTS: [&str; 6] = [
    "minLength",
    "minItems",
    "minProperties",
    "maxLength",
    "maxItems",
    "maxProperties",
];
/// Keywords with which one value is described by several schemas.
const COMBINING: [&str; 4] = ["allOf", "anyOf", "oneOf", "$ref"];
/// Limits of the numbers of one schema.
pub(super) struct Limits {
    /// Whether there are integers, which are computed with 64 bits.
    has_integers: bool,
    divisors: Vec<Divisor>,
}

impl Limits {
    pub(super) fn new(has_integers: bool) -> Self {
        let divisors = Vec::new();
        Self {
            has_integers,
            divisors,
        }
    }

    /// Holds the numbers of one schema within the limits.
    pub(super) fn hold(
        &mut self,
        keywords: &mut Keywords,
        place: &Place,
    ) -> Result<(), ConstraintError> {
        let at = |error: ConstraintError| ConstraintError(format!("{}{place}", error.0));
        self.hold_data(keywords).map_err(at)?;
        self.hold_keywords(keywords).map_err(at)
    }

    /// Refuses divisors that can hold for one value and have no multiple.
    pub(super) fn check_multiples(&self, schema: &mut Value) -> Result<(), ConstraintError> {
        let mut combines = false;
        each(schema, true, &mut |keywords, _| {
            combines |= COMBINING
                .iter()
                .any(|keyword| keywords.contains_key(*keyword));
        });
        if combines {
            check_common_multiple(&self.divisors)?;
        }
        Ok(())
    }

    fn hold_keywords(&mut self, keywords: &mut Keywords) -> Result<(), ConstraintError> {
        for keyword in COUNTS {
            hold_count(keywords, keyword)?;
        }
        if let Some(Value::Number(divisor)) = keywords.get("multipleOf") {
            self.divisors.push(Divisor::read(divisor)?);
        }
        if is_of(keywords, "integer") && !is_of(keywords, "number") {
            return bound_integer(keywords);
        }
        let exact = exact_number(keywords);
        let near = hold_bounds(keywords);
        let Some(exact) = exact else { return near };
        spell(keywords, &exact, near);
        Ok(())
    }

    /// Holds values that are given as they are: where one of them cannot be computed with, each is
    /// an option for itself.
    fn hold_data(&self, keywords: &mut Keywords) -> Result<(), ConstraintError> {
        for keyword in DATA {
            let values = match keywords.get_mut(keyword) {
                Some(Value::Array(values)) if keyword == "enum" => values.as_mut_slice(),
                Some(value) => std::slice::from_mut(value),
                None => continue,
            };
            values.iter_mut().for_each(write_as_floating_point);
            if values.iter().all(|value| self.is_exact(value)) {
                continue;
            }
            let failure = match &*values {
                [value] => format!("`{keyword}` is {value}"),
                values => format!("`{keyword}` is {}", json!(values)),
            };
            let mut options: Vec<Value> = values
                .iter()
                .map(|value| spelled(value, &failure))
                .collect();
            if let Some(kinds) = keywords.get("type") {
                let kinds = kinds
                    .as_array()
                    .map_or(std::slice::from_ref(kinds), Vec::as_slice);
                options.retain(|option| {
                    kinds.iter().any(|kind| {
                        *kind == option["type"] || kind == "number" && option["type"] == "integer"
                    })
                });
            }
            let mut others = keywords
                .keys()
                .filter(|other| !["type", "title", keyword].contains(&other.as_str()));
            if let Some(other) = others.next() {
                let value = &keywords[keyword];
                let why = format!("is {value}, which cannot be held exactly beside `{other}`");
                return Err(ConstraintError(format!("`{keyword}` {why}")));
            }
            keywords.clear();
            keywords.insert("anyOf".to_owned(), options.into());
        }
        Ok(())
    }

    /// Returns true if a value can be computed with.
    fn is_exact(&self, value: &Value) -> bool {
        match value {
            Value::Array(values) => values.iter().all(|value| self.is_exact(value)),
            Value::Object(values) => values.values().all(|value| self.is_exact(value)),
            Value::Number(number) => {
                let near = float(number);
                let is_small = near.abs() < -(i64::MIN as f64);
                match integer(number) {
                    Some(integer) => is_small && near as i128 == integer,
                    None => is_small || !self.has_integers,
                }
            }
            // A grammar of texts has no way to write other control characters.
            Value::String(text) => {
                !text.contains(|c: char| c.is_control() && !"\n\r\t\u{8}\u{c}".contains(c))
            }
            Value::Null | Value::Bool(_) => true,
        }
    }
}

pub(super) fn refused<T>(
    keyword: &str,
    value: impl std::fmt::Display,
    why: impl std::fmt::Display,
) -> Result<T, ConstraintError> {
    Err(ConstraintError(format!("`{keyword}` is {value}, {why}")))
}

/// A number that is written as an integer.
pub(super) fn integer(number: &Number) -> Option<i128> {
    let signed = number.as_i64().map(i128::from);
    signed.or_else(|| number.as_u64().map(i128::from))
}

pub(super) fn float(number: &Number) -> f64 {
    number.as_f64().unwrap_or_default()
}

/// Quantity that a bound limits.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(super) enum Side {
    Least,
    Most,
}

impl Side {
    /// The nearest floating-point number that allows no more than this integer.
    fn nearest(self, bound: i128) -> f64 {
        let near = bound as f64;
        match self {
            Self::Least if (near as i128) < bound => near.next_up(),
            Self::Most if (near as i128) > bound => near.next_down(),
            _ => near,
        }
    }

    /// The number as a lower bound; that of an upper one has the other sign.
    fn turned(self, bound: f64) -> f64 {
        match self {
            Self::Least => bound,
            // Without a sign of zero.
            Self::Most => 0.0 - bound,
        }
    }
}

/// Holds the bounds of numbers that can have fractions.
fn hold_bounds(keywords: &mut Keywords) -> Result<(), ConstraintError> {
    if is_of(keywords, "integer") {
        return bound_integer_to(keywords, LARGEST_BOUND);
    }
    for (keyword, side) in [
        ("minimum", Side::Least),
        ("exclusiveMinimum", Side::Least),
        ("maximum", Side::Most),
        ("exclusiveMaximum", Side::Most),
    ] {
        if let Some(Value::Number(bound)) = keywords.get_mut(keyword) {
            hold_bound(keyword, bound, side)?;
        }
    }
    Ok(())
}

fn hold_bound(keyword: &str, bound: &mut Number, side: Side) -> Result<(), ConstraintError> {
    let written = float(bound);
    let near = integer(bound).map_or(written, |bound| side.nearest(bound));
    let most = LARGEST_BOUND as f64;
    let near = match side.turned(near) {
        least if keyword.starts_with("exclusive") && least.abs() >= UNITS => least.next_up(),
        least => least,
    };
    let held = match near {
        least if least > most => {
            let bounds = format_args!("and can be from -{LARGEST_BOUND} to {LARGEST_BOUND}");
            return refused(keyword, &*bound, bounds);
        }
        least if least < -most => -most,
        least if 0.0 < least && least < SMALLEST_BOUND => SMALLEST_BOUND,
        least if -SMALLEST_BOUND < least && least < 0.0 => 0.0,
        least => least,
    };
    let held = side.turned(held);
    let changes = held.partial_cmp(&written) != Some(Ordering::Equal);
    if let Some(held) = Number::from_f64(held).filter(|_| changes) {
        *bound = held;
    }
    Ok(())
}

/// Gives an integer bounds that are integers, and those that it lacks: exactly, and as near as can
/// be computed with, for where that cannot be.
fn bound_integer(keywords: &mut Keywords) -> Result<(), ConstraintError> {
    let exact = exact_integer(keywords);
    let near = bound_integer_to(keywords, LARGEST_OF_ALL);
    let Some(exact) = exact else { return near };
    spell(keywords, &exact, near);
    Ok(())
}

fn bound_integer_to(keywords: &mut Keywords, most: i64) -> Result<(), ConstraintError> {
    let least_of = integer_bound(keywords, ["minimum", "exclusiveMinimum"], Side::Least);
    let most_of = integer_bound(keywords, ["maximum", "exclusiveMaximum"], Side::Most);
    let beyond = |bound: Option<i128>| match bound {
        Some(bound) if bound >= i128::from(LARGEST) => i128::from(most),
        _ => i128::from(LARGEST),
    };
    let is_listed = keywords.contains_key("enum") || keywords.contains_key("const");
    for (side, [inclusive, exclusive], bound, other) in [
        (
            Side::Least,
            ["minimum", "exclusiveMinimum"],
            least_of,
            most_of,
        ),
        (
            Side::Most,
            ["maximum", "exclusiveMaximum"],
            most_of,
            least_of,
        ),
    ] {
        let bound = match (bound, side) {
            (Some(bound), _) => bound,
            (None, _) if is_listed => continue,
            (None, Side::Least) => -beyond(other.map(|most| -most)),
            (None, Side::Most) => beyond(other),
        };
        let limit = i128::from(most);
        let is_out = match side {
            Side::Least => bound > limit,
            Side::Most => bound < -limit,
        };
        if is_out {
            let written = [inclusive, exclusive].into_iter();
            let written = written.filter_map(|keyword| {
                let bound = keywords.get(keyword)?;
                Some(format!("`{keyword}` is {bound}"))
            });
            return Err(ConstraintError(format!(
                "{}, and can be from -{most} to {most}",
                written.collect::<Vec<_>>().join(" and ")
            )));
        }
        let held = side.nearest(bound.clamp(-limit, limit)) as i64;
        keywords.insert(inclusive.to_owned(), held.into());
        keywords.remove(exclusive);
    }
    Ok(())
}

/// The bound of an integer on a side, if it has one: the closer one of both keywords. The exclusive
/// one can be a boolean that says what the other is.
pub(super) fn integer_bound(
    keywords: &Keywords,
    [inclusive, exclusive]: [&str; 2],
    side: Side,
) -> Option<i128> {
    let read = |value: Option<&Value>, excludes: bool| {
        let Some(Value::Number(number)) = value else {
            return None;
        };
        let step = i128::from(excludes);
        Some(match (integer(number), side) {
            (Some(bound), Side::Least) => bound + step,
            (Some(bound), Side::Most) => bound - step,
            (None, Side::Least) if excludes => (float(number).floor() as i128).saturating_add(1),
            (None, Side::Least) => float(number).ceil() as i128,
            (None, Side::Most) if excludes => (float(number).ceil() as i128).saturating_sub(1),
            (None, Side::Most) => float(number).floor() as i128,
        })
    };
    let excludes = keywords.get(exclusive) == Some(&Value::Bool(true));
    let bounds = [
        read(keywords.get(inclusive), excludes),
        read(keywords.get(exclusive), true),
    ];
    let bounds = bounds.into_iter().flatten();
    match side {
        Side::Least => bounds.max(),
        Side::Most => bounds.min(),
    }
}

fn hold_count(keywords: &mut Keywords, keyword: &str) -> Result<(), ConstraintError> {
    let Some(value) = keywords.get_mut(keyword) else {
        return Ok(());
    };
    let whole = |value: f64| (value >= 0.0 && value.fract() == 0.0).then_some(value as u64);
    let Some(count) = value.as_u64().or_else(|| value.as_f64().and_then(whole)) else {
        return refused(keyword, value, "and has to be a whole number from 0 on");
    };
    if count > LARGEST_COUNT && keyword.starts_with("min") {
        return refused(
            keyword,
            value,
            format_args!("and can be at most {LARGEST_COUNT}"),
        );
    }
    *value = count.min(LARGEST_COUNT).into();
    Ok(())
}

/// Writes integers beyond 64 bits so that they are not taken for such.
fn write_as_floating_point(value: &mut Value) {
    if let Value::Number(number) = value
        && number.is_u64()
        && float(number) as u128 == u128::from(number.as_u64().unwrap_or_default())
        && float(number).to_string() == number.to_string()
        && let Some(written) = Number::from_f64(float(number)).filter(|_| number.as_i64().is_none())
    {
        *number = written;
    }
}
