//! The error of one reading: a problem found by serde or by a field's type, and the value
//! concerned.

use std::fmt;

use serde::de::{Expected, Unexpected};

use crate::ast::{Field, Value, ValueKind};
use crate::codes::fields;
use crate::diag::Diagnostic;
use crate::scalar::{Mismatch, WantedType};
use crate::span::Span;
use crate::suggest;

/// An error that does not know its location yet.
#[derive(Debug)]
pub(super) struct Error<'t> {
    pub(super) problem: Problem,
    /// Field and value that are wrong.
    pub(super) culprit: Option<(&'t Field, &'t Value)>,
    /// Location of a problem that concerns a whole message.
    pub(super) place: Option<Span>,
}

/// A problem with a value or a message.
#[derive(Debug)]
pub(super) enum Problem {
    /// Reported already, so that nothing must be added.
    Reported,
    /// Reported by this diagnostic, which is complete.
    Diagnosed(Box<Diagnostic>),
    /// The value does not have the field's type.
    Mismatch(Mismatch),
    /// The value does not have the type that a custom `Deserialize` implementation expects.
    Unexpected(String),
    /// The value's type is right, but the value is not allowed.
    Invalid(String),
    /// The word is not a value of the enum.
    Variant {
        name: String,
        variants: &'static [&'static str],
    },
    /// The message lacks a field that has no default.
    Missing(&'static str),
    /// A message of a `Deserialize` implementation.
    Custom(String),
}

impl<'t> Error<'t> {
    pub(super) fn new(problem: Problem, field: &'t Field, value: &'t Value) -> Self {
        Self {
            problem,
            culprit: Some((field, value)),
            place: None,
        }
    }

    /// Returns the error with `value` as its location, unless an inner one is known.
    pub(super) fn within(mut self, field: &'t Field, value: &'t Value) -> Self {
        self.culprit = self.culprit.or(Some((field, value)));
        self
    }
}

impl From<Problem> for Error<'_> {
    fn from(problem: Problem) -> Self {
        Self {
            problem,
            culprit: None,
            place: None,
        }
    }
}

impl fmt::Display for Error<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.problem)
    }
}

impl std::error::Error for Error<'_> {}

impl serde::de::Error for Error<'_> {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Problem::Custom(message.to_string()).into()
    }

    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Problem::Unexpected(expected.to_string()).into()
    }

    fn invalid_value(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Problem::Invalid(expected.to_string()).into()
    }

    fn unknown_variant(variant: &str, variants: &'static [&'static str]) -> Self {
        Problem::Variant {
            name: variant.to_owned(),
            variants,
        }
        .into()
    }

    fn missing_field(field: &'static str) -> Self {
        Problem::Missing(field).into()
    }
}

impl Problem {
    /// Makes the diagnostic; `None` if the problem was reported before. `message` and `head` name
    /// and locate the message that is read.
    pub(super) fn diagnose(
        self,
        message: &str,
        head: Span,
        culprit: Option<(&Field, &Value)>,
    ) -> Option<Diagnostic> {
        let what = culprit.map_or(message, |(field, _)| field.name.as_str());
        let span = culprit.map_or(head, |(_, value)| value.span);
        let invalid = |message: String| Diagnostic::error(&fields::INVALID_VALUE, span, message);
        Some(match self {
            Self::Reported => return None,
            Self::Diagnosed(diagnostic) => *diagnostic,
            Self::Mismatch(mismatch) => return mismatch.diagnose(culprit?.1, what),
            Self::Unexpected(expected) => {
                if let Some((_, value)) = culprit {
                    return Mismatch::Type(WantedType::Other(expected)).diagnose(value, what);
                }
                let message = format!("`{what}` takes {expected}");
                Diagnostic::error(&fields::WRONG_TYPE, span, message)
            }
            Self::Invalid(expected) => {
                invalid(format!("invalid value for `{what}`")).label(format!("expected {expected}"))
            }
            Self::Variant { name, variants } => {
                let message = format!("`{what}` has no value `{name}`");
                let diagnostic = Diagnostic::error(&fields::UNKNOWN_ENUM_VALUE, span, message)
                    .label(format!("expected {}", one_of(variants)));
                match suggest::nearest(&name, variants.iter().copied()) {
                    Some(near) => diagnostic.fix(format!("did you mean `{near}`?"), span, near),
                    None => diagnostic,
                }
            }
            Self::Missing(field) => {
                let place = self_place(head, culprit);
                let message = format!("`{message}` needs a `{field}`");
                Diagnostic::error(&fields::MISSING_FIELD, place, message)
                    .label(format!("`{field}` is missing"))
            }
            Self::Custom(why) => invalid(format!("invalid value for `{what}`: {why}")),
        })
    }
}

/// Returns the location for something that a message lacks: the name of the field with this
/// message.
fn self_place(head: Span, culprit: Option<(&Field, &Value)>) -> Span {
    match culprit {
        Some((field, value)) if matches!(value.value, ValueKind::Message(_)) => field.name.span,
        _ => head,
    }
}

/// Joins names as an enumeration: `` `A`, `B` or `C` ``.
pub(super) fn one_of(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.as_slice() {
        [] => "nothing".to_owned(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}
