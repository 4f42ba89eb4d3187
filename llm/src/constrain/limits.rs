//! Holds the numbers of a schema within what llguidance computes with, 64-bit floating-point
//! numbers and 64-bit integers: it does not check that these suffice, and recurses without end
//! where they do not.
//!
//! A bound that is out of reach is replaced by the nearest one within reach that allows less; what
//! would allow more, or something else, is refused.

use std::cmp::Ordering;

use serde_json::{Map, Number, Value};

use super::compiler::ConstraintError;
use super::schema::each;

/// The largest integer of 16 digits that is one as a 64-bit floating-point number, too.
const LARGEST: i64 = 9_999_999_999_999_998;
/// The largest 64-bit integer that is one as a 64-bit floating-point number, too.
const LARGEST_OF_ALL: i64 = i64::MAX - 1023;
/// The largest bound of numbers that can have fractions.
const LARGEST_BOUND: i64 = 100_000_000_000_000_000;
/// Above it, the neighbors of integers are none as 64-bit floating-point numbers: what excludes
/// an integer by adding 1 does not.
const UNITS: f64 = 9_007_199_254_740_992.0;
/// The smallest such bound above 0.
const SMALLEST_BOUND: f64 = 1e-20;
/// The largest number that others can be multiples of, leaving its decimal point out: each
/// remainder is a state of the lexer.
const LARGEST_DIVISOR: u64 = 4096;
/// Maximum number of digits behind the decimal point of a divisor.
const DIVISOR_DECIMALS: usize = 9;
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

/// Holds all numbers of a schema within the limits.
pub(super) fn hold(schema: &mut Value) -> Result<(), ConstraintError> {
    let (mut has_integers, mut combines) = (false, false);
    let mut divisors = Vec::new();
    let mut held = Ok(());
    each(schema, true, &mut |keywords, _| {
        has_integers |= is_of(keywords, "integer");
        combines |= COMBINING
            .iter()
            .any(|keyword| keywords.contains_key(*keyword));
        if held.is_ok() {
            held = hold_keywords(keywords, &mut divisors);
        }
    });
    held?;
    if combines {
        check_common_multiple(&divisors)?;
    }
    let mut held = Ok(());
    each(schema, true, &mut |keywords, _| {
        for keyword in ["const", "enum"] {
            if let (true, Some(value)) = (held.is_ok(), keywords.get_mut(keyword)) {
                held = hold_data(keyword, value, has_integers);
            }
        }
    });
    held
}

fn hold_keywords(
    keywords: &mut Map<String, Value>,
    divisors: &mut Vec<Divisor>,
) -> Result<(), ConstraintError> {
    for keyword in COUNTS {
        hold_count(keywords, keyword)?;
    }
    if let Some(Value::Number(divisor)) = keywords.get("multipleOf") {
        divisors.push(Divisor::read(divisor)?);
    }
    if is_of(keywords, "integer") {
        let most = if is_of(keywords, "number") {
            LARGEST_BOUND
        } else {
            LARGEST_OF_ALL
        };
        return bound_integer(keywords, most);
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

/// Returns true if the values of a schema can be of a type that it names.
fn is_of(keywords: &Map<String, Value>, kind: &str) -> bool {
    match keywords.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(|it| it == kind),
        Some(it) => it == kind,
        None => false,
    }
}

fn refused<T>(
    keyword: &str,
    value: impl std::fmt::Display,
    why: impl std::fmt::Display,
) -> Result<T, ConstraintError> {
    Err(ConstraintError(format!("`{keyword}` is {value}, {why}")))
}

/// A number that is written as an integer.
fn integer(number: &Number) -> Option<i128> {
    let signed = number.as_i64().map(i128::from);
    signed.or_else(|| number.as_u64().map(i128::from))
}

fn float(number: &Number) -> f64 {
    number.as_f64().unwrap_or_default()
}

/// Quantity that a bound limits.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Side {
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

/// Gives an integer bounds that are integers, and those that it lacks.
fn bound_integer(keywords: &mut Map<String, Value>, most: i64) -> Result<(), ConstraintError> {
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
fn integer_bound(
    keywords: &Map<String, Value>,
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

fn hold_count(keywords: &mut Map<String, Value>, keyword: &str) -> Result<(), ConstraintError> {
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

/// Divisor of `multipleOf`: `digits` divided by ten to the power of `decimals`.
struct Divisor {
    digits: u64,
    decimals: usize,
}

impl Divisor {
    /// A lexer knows the remainder of what came so far, so there must not be many.
    fn read(divisor: &Number) -> Result<Self, ConstraintError> {
        let written = float(divisor).to_string();
        let decimals = written
            .split_once('.')
            .map_or(0, |(_, decimals)| decimals.len());
        let digits = written.replace('.', "").parse::<u64>();
        match digits {
            Ok(digits @ 1..=LARGEST_DIVISOR) if decimals <= DIVISOR_DECIMALS => {
                Ok(Self { digits, decimals })
            }
            _ => refused(
                "multipleOf",
                divisor,
                format_args!(
                    "and can have digits from 1 to {LARGEST_DIVISOR}, {DIVISOR_DECIMALS} of them behind the point"
                ),
            ),
        }
    }
}

/// Refuses divisors whose common multiple is beyond 32 bits, or becomes so on the way.
fn check_common_multiple(divisors: &[Divisor]) -> Result<(), ConstraintError> {
    let scale = divisors.iter().map(|divisor| divisor.decimals).max();
    let scale = scale.unwrap_or(0);
    let scaled = |divisor: &Divisor| {
        let zeros = (scale - divisor.decimals) as u32;
        u128::from(divisor.digits) * 10_u128.pow(zeros)
    };
    let mut common = 1;
    for divisor in divisors.iter().map(scaled) {
        let product = common * divisor;
        if product > u128::from(u32::MAX) {
            let why = "the values of `multipleOf` have no common multiple that is small enough";
            return Err(ConstraintError(why.to_owned()));
        }
        common = product / greatest_common_divisor(common, divisor);
    }
    Ok(())
}

fn greatest_common_divisor(a: u128, b: u128) -> u128 {
    if b == 0 {
        a
    } else {
        greatest_common_divisor(b, a % b)
    }
}

/// Holds the numbers of a value that is given as it is.
fn hold_data(keyword: &str, value: &mut Value, has_integers: bool) -> Result<(), ConstraintError> {
    match value {
        Value::Array(values) => values
            .iter_mut()
            .try_for_each(|value| hold_data(keyword, value, has_integers)),
        Value::Object(values) => values
            .values_mut()
            .try_for_each(|value| hold_data(keyword, value, has_integers)),
        Value::Number(number) => hold_number(keyword, number, has_integers),
        Value::Null | Value::Bool(_) | Value::String(_) => Ok(()),
    }
}

fn hold_number(
    keyword: &str,
    number: &mut Number,
    has_integers: bool,
) -> Result<(), ConstraintError> {
    let near = float(number);
    if integer(number).is_some_and(|integer| near as i128 != integer) {
        let why = "is an integer that no 64-bit floating-point number is";
        return Err(ConstraintError(format!("`{keyword}`: {number} {why}")));
    }
    // What a 64-bit integer is computed from is less.
    if near.abs() < -(i64::MIN as f64) {
        return Ok(());
    }
    // What comes of it is the shortest text that is read as the same floating-point number.
    if integer(number).is_some_and(|integer| near.to_string() != integer.to_string()) {
        let why = "is an integer that cannot be held exactly";
        return Err(ConstraintError(format!("`{keyword}`: {number} {why}")));
    }
    if has_integers {
        return Err(ConstraintError(format!(
            "`{keyword}`: {number} is out of range: in a schema with integers, numbers can be from -{LARGEST_OF_ALL} to {LARGEST_OF_ALL}"
        )));
    }
    // So written, it is not taken for a 64-bit integer.
    if let Some(written) = Number::from_f64(near) {
        *number = written;
    }
    Ok(())
}
