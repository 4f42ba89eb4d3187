//! Limits on the initial memory of a grammar's regular expressions, checked in advance, because
//! llguidance cannot be interrupted.
//!
//! llguidance follows an expression by its derivatives, which are alternatives: one for each part
//! with which the text can continue. In a row of optional parts, each part has as many alternatives
//! as there are parts behind it, and each letter that `\w` begins with in UTF-8 has its own. 20,000
//! times `\w?` would take 50 GB.

use llguidance::derivre::ExprRef;
use llguidance::derivre::raw::ExprSet;

use super::compiler::ConstraintError;

/// Maximum number of alternatives of all derivatives together, of a few bytes each: 2,800 optional
/// parts of one letter in a row, or 350 of any letter.
const MOST_ALTERNATIVES: u64 = 4 << 20;

/// Checks the expressions of a grammar, with all their parts.
pub(super) fn check(expressions: &ExprSet) -> Result<(), ConstraintError> {
    let mut samples = ExprSet::new(256);
    let [one, other] = [b'a', b'b'].map(|byte| {
        let byte = samples.mk_byte(byte);
        samples.mk_repeat(byte, 0, u32::MAX)
    });
    let concatenated = samples.mk_concat(one, other);
    let concatenated = samples.get_tag(concatenated);
    let literal = samples.mk_byte_literal(b"ab");
    let literal = samples.get_tag(literal);
    // Number of alternatives of each expression; parts precede the expressions that contain them.
    let mut alternatives = vec![0_u64];
    let mut total = 0_u64;
    for number in 1..expressions.len() {
        let expression = ExprRef::new(number as u32);
        let tag = expressions.get_tag(expression);
        let of = |part: &ExprRef| alternatives.get(part.as_usize()).copied().unwrap_or(1);
        let own = match expressions.get_args(expression) {
            [] => 1,
            _ if tag == literal => 1,
            [first, rest] if tag == concatenated => {
                let goes_on = expressions.is_nullable(*first);
                of(first).saturating_add(if goes_on { of(rest) } else { 0 })
            }
            parts => parts.iter().map(of).fold(0, u64::saturating_add),
        };
        alternatives.push(own);
        total = total.saturating_add(own);
    }
    if total <= MOST_ALTERNATIVES {
        return Ok(());
    }
    Err(ConstraintError(
        "too many optional parts in a row in a regular expression: use fewer, or a repetition such as `x{0,9}`".to_owned(),
    ))
}
