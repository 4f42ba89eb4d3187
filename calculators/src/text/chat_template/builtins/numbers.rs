//! Filters on numbers.

use minijinja::value::Value;
use minijinja::{Error, State};

use super::super::python::call::{Arguments, int_or_none};
use super::super::python::value::{Type, as_float, as_int, error, from_int};

fn not_a_number(name: &str, value: &Value) -> Error {
    error(format!(
        "`{name}` needs a number, not '{}'",
        Type::of(value).name()
    ))
}

pub(super) fn abs(
    _: &mut State<'_, '_>,
    name: &'static str,
    value: &Value,
    arguments: Arguments,
) -> Result<Value, Error> {
    let [] = arguments.bind(name, [])?;
    match as_int(value) {
        Some(int) => Ok(from_int(int.abs())),
        None => as_float(value)
            .map(|float| Value::from(float.abs()))
            .ok_or_else(|| not_a_number(name, value)),
    }
}

pub(super) fn int(
    _: &mut State<'_, '_>,
    name: &'static str,
    value: &Value,
    arguments: Arguments,
) -> Result<Value, Error> {
    let [default, base] = arguments.bind(name, ["default", "base"])?;
    let base = int_or_none(name, base.as_ref())?
        .and_then(|base| u32::try_from(base).ok())
        .unwrap_or(10);
    let parsed = match value.as_str() {
        Some(text) => parse_int(text, base).or_else(|| parse_float(text).and_then(truncated)),
        None => as_int(value).or_else(|| as_float(value).and_then(truncated)),
    };
    Ok(parsed.map_or_else(|| default.unwrap_or_else(|| Value::from(0)), from_int))
}

fn truncated(float: f64) -> Option<i128> {
    float.is_finite().then_some(float.trunc() as i128)
}

/// `int(text, base)`: white space around, a sign and single underscores between digits are fine.
fn parse_int(text: &str, base: u32) -> Option<i128> {
    let text = text.trim();
    let (sign, digits) = text
        .strip_prefix('-')
        .map_or((1, text.strip_prefix('+').unwrap_or(text)), |rest| {
            (-1, rest)
        });
    let digits = match base {
        2 => digits
            .strip_prefix("0b")
            .or_else(|| digits.strip_prefix("0B")),
        8 => digits
            .strip_prefix("0o")
            .or_else(|| digits.strip_prefix("0O")),
        16 => digits
            .strip_prefix("0x")
            .or_else(|| digits.strip_prefix("0X")),
        _ => None,
    }
    .unwrap_or(digits);
    let misplaced =
        digits.starts_with(['_', '+', '-']) || digits.ends_with('_') || digits.contains("__");
    if misplaced || !(2..=36).contains(&base) {
        return None;
    }
    i128::from_str_radix(&digits.replace('_', ""), base)
        .ok()
        .map(|int| sign * int)
}

fn parse_float(text: &str) -> Option<f64> {
    text.trim().parse().ok()
}

pub(super) fn float(
    _: &mut State<'_, '_>,
    name: &'static str,
    value: &Value,
    arguments: Arguments,
) -> Result<Value, Error> {
    let [default] = arguments.bind(name, ["default"])?;
    let parsed = value.as_str().map_or_else(|| as_float(value), parse_float);
    Ok(parsed.map_or_else(|| default.unwrap_or_else(|| Value::from(0.0)), Value::from))
}

pub(super) fn round(
    _: &mut State<'_, '_>,
    name: &'static str,
    value: &Value,
    arguments: Arguments,
) -> Result<Value, Error> {
    let [precision, method] = arguments.bind(name, ["precision", "method"])?;
    let precision = int_or_none(name, precision.as_ref())?.unwrap_or(0);
    let number = as_float(value).ok_or_else(|| not_a_number(name, value))?;
    let scale = 10f64.powi(i32::try_from(precision).map_err(|_| error("precision out of range"))?);
    let rounded = match method.as_ref().map_or(Some("common"), Value::as_str) {
        Some("common") if precision >= 0 => {
            let digits = usize::try_from(precision).unwrap_or(0).min(300);
            // the decimal text of the exact value is rounded half to even, as Python does
            format!("{number:.digits$}").parse().unwrap_or(number)
        }
        Some("common") => (number * scale).round() / scale,
        Some("ceil") => (number * scale).ceil() / scale,
        Some("floor") => (number * scale).floor() / scale,
        _ => return Err(error("method must be common, ceil or floor")),
    };
    Ok(match as_int(value) {
        Some(_) if method.is_none() => from_int(rounded as i128),
        _ => Value::from(rounded),
    })
}
