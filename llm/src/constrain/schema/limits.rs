//! Limits the numbers of a schema to the range of llguidance's 64-bit floating-point numbers and
//! 64-bit integers. llguidance does not check their range, and recurses without end beyond it.
//!
//! Numbers beyond the range are [spelled](super::spelling), together with the nearest narrower
//! bound inside it. If that would allow more, or something else, the schema is refused.

use std::cmp::Ordering;

use serde_json::{Number, Value, json};

use super::keywords::{COUNTS, Keywords, list, one_or_more, whole};
use super::spelling::{EXACT, is_computable, is_of_type, range, spelled};
use super::{Result, refused};
use crate::constrain::compiler::ConstraintError;

/// Largest integer with 16 digits that is exact as a 64-bit floating-point number.
const LARGEST: i64 = 9_999_999_999_999_998;
/// Largest 64-bit integer that is exact as a 64-bit floating-point number.
pub(super) const LARGEST_OF_ALL: i64 = i64::MAX - 1023;
/// Largest bound of numbers with fractions.
const LARGEST_BOUND: i64 = 100_000_000_000_000_000;
/// 2^53. Above it, the neighbors of integers are not exact as 64-bit floating-point numbers, so
/// adding 1 does not exclude an integer.
pub(super) const UNITS: f64 = 9_007_199_254_740_992.0;
/// Smallest bound of numbers with fractions above 0.
const SMALLEST_BOUND: f64 = 1e-20;
/// Largest divisor of `multipleOf`, ignoring its decimal point: each remainder is a state of the
/// lexer.
const LARGEST_DIVISOR: u128 = 4096;
/// Maximum number of digits behind the decimal point of a divisor.
const DIVISOR_DECIMALS: usize = 9;
/// Maximum number of characters, elements or properties that a schema can count.
const LARGEST_COUNT: u64 = 1 << 20;

/// The keywords that bound a number on one side, inclusive and exclusive. With the sign, both sides
/// are lower bounds.
type Side = (&'static str, &'static str, i8);
pub(super) const SIDES: [Side; 2] = [
    ("minimum", "exclusiveMinimum", 1),
    ("maximum", "exclusiveMaximum", -1),
];

/// Limits on the numbers of a whole schema.
#[derive(Default)]
pub(super) struct NumberLimits {
    /// True if several schemas describe a value.
    combines: bool,
    /// Divisors: their digits, and the number of digits behind the decimal point.
    divisors: Vec<(u128, usize)>,
}

impl NumberLimits {
    /// Applies the limits to the numbers of one schema.
    pub(super) fn apply(&mut self, keywords: &mut Keywords, place: &str) -> Result {
        let mut combining = ["allOf", "anyOf", "$ref"].into_iter();
        self.combines |= combining.any(|keyword| keywords.contains_key(keyword));
        for keyword in COUNTS.split(' ') {
            if let Some(value) = keywords.get_mut(keyword) {
                limit_count(keyword, value, place)?;
            }
        }
        if let Some(divisor) = keywords.get("multipleOf").and_then(Value::as_number) {
            self.divisors.push(digits(divisor, place)?);
        }
        for keyword in ["const", "enum"] {
            limit_listed(keywords, keyword, place)?;
        }
        let exact = range(keywords);
        let near = match (is_of(keywords, "integer"), is_of(keywords, "number")) {
            (true, false) => bound_integer(keywords, LARGEST_OF_ALL, place),
            (true, true) => bound_integer(keywords, LARGEST_BOUND, place),
            _ => bound_number(keywords, place),
        };
        let Some(exact) = exact else { return near };
        let of = |keyword: &str| keywords.get(keyword).and_then(Value::as_f64);
        let bounds = of("minimum").zip(of("maximum"));
        let why = match (near, bounds) {
            (Err(why), _) => Some(why.0),
            (_, Some((least, most))) if least > most => Some(format!(
                "`minimum` and `maximum` are too close to each other at `#{place}`"
            )),
            _ => None,
        };
        keywords.insert(EXACT.to_owned(), json!([exact, why]));
        Ok(())
    }

    /// Refuses divisors for the same value whose common multiple exceeds 32 bits, or does so on the
    /// way.
    pub(super) fn check_multiples(&self) -> Result {
        let most = self.divisors.iter().map(|(_, decimals)| *decimals).max();
        let mut common = 1;
        for (digits, decimals) in self.divisors.iter().filter(|_| self.combines) {
            let scale = 10_u128.pow((most.unwrap_or(0) - decimals) as u32);
            let product = common * digits * scale;
            if product > u128::from(u32::MAX) {
                let why = "the values of `multipleOf` have no common multiple that is small enough";
                return Err(ConstraintError(why.to_owned()));
            }
            let (mut divisor, mut rest) = (common, digits * scale);
            while rest > 0 {
                (divisor, rest) = (rest, divisor % rest);
            }
            common = product / divisor;
        }
        Ok(())
    }
}

/// Returns the digits of a divisor. The lexer has a state for each remainder, so there must not be
/// many.
fn digits(divisor: &Number, place: &str) -> Result<(u128, usize)> {
    let written = float(divisor).to_string();
    let decimals = written.split_once('.');
    let decimals = decimals.map_or(0, |(_, decimals)| decimals.len());
    if let Ok(digits @ 1..=LARGEST_DIVISOR) = written.replace('.', "").parse()
        && decimals <= DIVISOR_DECIMALS
    {
        return Ok((digits, decimals));
    }
    let why = format_args!(
        "is {divisor}, expected digits from 1 to {LARGEST_DIVISOR}, at most {DIVISOR_DECIMALS} of them after the decimal point"
    );
    refused("multipleOf", why, place)
}

/// Returns true if a schema lists a type.
pub(super) fn is_of(keywords: &Keywords, kind: &str) -> bool {
    list(keywords, "type").iter().any(|it| it == kind)
}

/// Checks listed values: if one of them cannot be represented, all are spelled.
fn limit_listed(keywords: &mut Keywords, keyword: &str, place: &str) -> Result {
    let Some(value) = keywords.get(keyword) else {
        return Ok(());
    };
    let values = if keyword == "enum" {
        one_or_more(value)
    } else {
        std::slice::from_ref(value)
    };
    if values.iter().all(is_computable) {
        return Ok(());
    }
    let shown = if values.len() == 1 { &values[0] } else { value };
    let mut others = keywords
        .keys()
        .filter(|other| *other != "type" && *other != keyword);
    if let Some(other) = others.next() {
        let why =
            format_args!("is {shown}, which cannot be enforced exactly together with `{other}`");
        return refused(keyword, why, place);
    }
    let kinds = list(keywords, "type");
    let fits = |value: &&Value| kinds.is_empty() || kinds.iter().any(|it| is_of_type(value, it));
    let options: Vec<_> = values.iter().filter(fits).map(spelled).collect();
    if options.is_empty() {
        return refused(keyword, "has no value of its `type`", place);
    }
    let exact = json!([
        options.join(" | "),
        format!("`{keyword}` is {shown} at `#{place}`")
    ]);
    keywords.clear();
    keywords.insert(EXACT.to_owned(), exact);
    Ok(())
}

/// Returns a number that is written as an integer; `None` for others.
pub(super) fn integer(number: &Number) -> Option<i128> {
    let signed = number.as_i64().map(i128::from);
    signed.or_else(|| number.as_u64().map(i128::from))
}

pub(super) fn float(number: &Number) -> f64 {
    number.as_f64().unwrap_or_default()
}

/// Returns the nearest floating-point number that is not below an integer.
fn above(bound: i128) -> f64 {
    let near = bound as f64;
    if (near as i128) < bound {
        near.next_up()
    } else {
        near
    }
}

/// Returns the tightest integer bound on a side; `None` without one.
pub(super) fn integer_bound(keywords: &Keywords, side: Side) -> Option<i128> {
    let (inclusive, exclusive, sign) = side;
    let read = |keyword: &str, excludes: bool| {
        let number = keywords.get(keyword)?.as_number()?;
        let near = f64::from(sign) * float(number);
        let bound = integer(number).map(|bound| i128::from(sign) * bound);
        let steps = excludes && (bound.is_some() || near.fract() == 0.0);
        Some(
            bound
                .unwrap_or(near.ceil() as i128)
                .saturating_add(steps.into()),
        )
    };
    read(inclusive, false).max(read(exclusive, true))
}

/// Rounds the bounds of an integer to integers, and adds missing ones.
fn bound_integer(keywords: &mut Keywords, most: i64, place: &str) -> Result {
    let bounds = SIDES.map(|side| integer_bound(keywords, side));
    let is_listed = keywords.contains_key("enum") || keywords.contains_key("const");
    for (at, (inclusive, exclusive, sign)) in SIDES.into_iter().enumerate() {
        let bound = match (bounds[at], bounds[1 - at]) {
            (Some(bound), _) => bound,
            (None, _) if is_listed => continue,
            (None, Some(other)) if other >= i128::from(LARGEST) => (-most).into(),
            (None, _) => (-LARGEST).into(),
        };
        if bound > i128::from(most) {
            let keyword = [inclusive, exclusive]
                .into_iter()
                .find(|it| keywords.contains_key(*it));
            return out_of_reach(keywords, keyword.unwrap_or(inclusive), most, place);
        }
        let held = i64::from(sign) * above(bound.max((-most).into())) as i64;
        keywords.insert(inclusive.to_owned(), held.into());
        keywords.shift_remove(exclusive);
    }
    Ok(())
}

/// Limits the bounds of numbers that can have fractions.
fn bound_number(keywords: &mut Keywords, place: &str) -> Result {
    for (inclusive, exclusive, sign) in SIDES {
        for keyword in [inclusive, exclusive] {
            let Some(bound) = keywords.get(keyword).and_then(Value::as_number) else {
                continue;
            };
            let (written, most) = (float(bound), LARGEST_BOUND as f64);
            let near = match integer(bound) {
                Some(bound) => above(i128::from(sign) * bound),
                None => f64::from(sign) * written,
            };
            let steps = keyword == exclusive && near.abs() >= UNITS;
            let held = match if steps { near.next_up() } else { near } {
                least if least > most => {
                    return out_of_reach(keywords, keyword, LARGEST_BOUND, place);
                }
                least if least < -most => -most,
                least if 0.0 < least && least < SMALLEST_BOUND => SMALLEST_BOUND,
                least if -SMALLEST_BOUND < least && least < 0.0 => 0.0,
                least => least,
            };
            // Adding zero removes the sign of zero.
            let held = 0.0 + f64::from(sign) * held;
            if held.partial_cmp(&written) != Some(Ordering::Equal) {
                keywords.insert(keyword.to_owned(), held.into());
            }
        }
    }
    Ok(())
}

fn out_of_reach(keywords: &Keywords, keyword: &str, most: i64, place: &str) -> Result {
    let bound = &keywords[keyword];
    let why = format_args!("is {bound}, expected -{most} to {most}");
    refused(keyword, why, place)
}

fn limit_count(keyword: &str, value: &mut Value, place: &str) -> Result {
    let count = whole(value).unwrap_or_default();
    if count > LARGEST_COUNT && keyword.starts_with("min") {
        let why = format_args!("is {value}, expected at most {LARGEST_COUNT}");
        return refused(keyword, why, place);
    }
    *value = count.min(LARGEST_COUNT).into();
    Ok(())
}
