//! Holds what numbers can be multiples of within what a lexer can tell apart.

use serde_json::Number;

use super::limits::{float, refused};
use crate::constrain::compiler::ConstraintError;

/// The largest number that others can be multiples of, leaving its decimal point out: each
/// remainder is a state of the lexer.
const LARGEST_DIVISOR: u64 = 4096;
/// Maximum number of digits behind the decimal point of a divisor.
const DIVISOR_DECIMALS: usize = 9;

/// Divisor of `multipleOf`: `digits` divided by ten to the power of `decimals`.
pub(super) struct Divisor {
    digits: u64,
    decimals: usize,
}

impl Divisor {
    /// A lexer knows the remainder of what came so far, so there must not be many.
    pub(super) fn read(divisor: &Number) -> Result<Self, ConstraintError> {
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
pub(super) fn check_common_multiple(divisors: &[Divisor]) -> Result<(), ConstraintError> {
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
