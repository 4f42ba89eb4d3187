//! The value of an enum as serde sees it: a word, a number, or a message with one field.

use serde::de::value::{BorrowedStrDeserializer, U64Deserializer};
use serde::de::{DeserializeSeed, EnumAccess, VariantAccess, Visitor};

use super::Context;
use super::error::{Error, Problem, one_of};
use super::input::Input;
use crate::ast::{Field, Literal, Number, Value, ValueKind};
use crate::codes::fields;
use crate::diag::Diagnostic;
use crate::scalar::{self, Mismatch, WantedType};

/// The value of an enum.
pub(super) enum Variant<'t, 'c> {
    /// A value given by its name.
    Name(&'t str),
    /// A value given by its position among the enum's words.
    Index(u64),
    /// A message with one field, for an enum whose values have contents. The field chooses the
    /// value.
    Field(&'c Context, &'t Field),
}

impl<'t, 'c> Variant<'t, 'c> {
    /// Reads a value of the enum with these words.
    pub(super) fn read(
        cx: &'c Context,
        value: &'t Value,
        variants: &[&str],
    ) -> Result<Self, Problem> {
        if let Some(name) = value.value.as_word() {
            return Ok(Self::Name(name));
        }
        match &value.value {
            ValueKind::Number(Number {
                negative: false,
                literal: Literal::Integer { value: index, .. },
            }) if *index < variants.len() as u64 => Ok(Self::Index(*index)),
            ValueKind::Message(message) => match message.fields.as_slice() {
                [inner] if cx.is_aside(&inner.value) => Err(Problem::Reported),
                [inner] => Ok(Self::Field(cx, inner)),
                [] => Err(no_variant(value, variants)),
                [first, second, ..] => Err(several_variants(first, second)),
            },
            ValueKind::Invalid => Err(Problem::Reported),
            ValueKind::List(_) => Err(Problem::Mismatch(Mismatch::List)),
            _ => Err(no_variant(value, variants)),
        }
    }
}

/// Describes a value that is not a word of the enum. A quoted word gets the advice to remove its
/// quotes.
fn no_variant(value: &Value, variants: &[&str]) -> Problem {
    let expected = one_of(variants);
    let Some(text) = scalar::string(value)
        .ok()
        .filter(|text| variants.contains(text))
    else {
        return Problem::Mismatch(Mismatch::Type(WantedType::Other(expected)));
    };
    let message = "enum values are written without quotes";
    let diagnostic = Diagnostic::error(&fields::WRONG_TYPE, value.span, message)
        .label(format!("expected {expected}"))
        .fix(format!("remove the quotes: `{text}`"), value.span, text);
    Problem::Diagnosed(Box::new(diagnostic))
}

/// Describes a message with several fields of which only one is allowed.
fn several_variants(first: &Field, second: &Field) -> Problem {
    let message = format!(
        "`{}` and `{}` cannot be given together",
        second.name, first.name
    );
    let diagnostic = Diagnostic::error(&fields::DUPLICATE_FIELD, second.name.span, message)
        .label("given as well")
        .also(first.name.span, "first given here");
    Problem::Diagnosed(Box::new(diagnostic))
}

impl<'t, 'c> EnumAccess<'t> for Variant<'t, 'c> {
    type Error = Error<'t>;
    type Variant = VariantContent<'t, 'c>;

    fn variant_seed<S: DeserializeSeed<'t>>(
        self,
        seed: S,
    ) -> Result<(S::Value, VariantContent<'t, 'c>), Error<'t>> {
        let word = |name| BorrowedStrDeserializer::<Error<'t>>::new(name);
        Ok(match self {
            Self::Name(name) => (seed.deserialize(word(name))?, VariantContent(None)),
            Self::Index(index) => {
                let index = U64Deserializer::<Error<'t>>::new(index);
                (seed.deserialize(index)?, VariantContent(None))
            }
            Self::Field(cx, field) => {
                let content = Input::fields(cx, vec![field]);
                (
                    seed.deserialize(word(field.name.as_str()))?,
                    VariantContent(Some(content)),
                )
            }
        })
    }
}

/// The contents of an enum's value.
pub(super) struct VariantContent<'t, 'c>(Option<Input<'t, 'c>>);

impl<'t, 'c> VariantContent<'t, 'c> {
    fn input(self) -> Result<Input<'t, 'c>, Error<'t>> {
        let expected = "a message with exactly one field".to_owned();
        self.0.ok_or_else(|| Problem::Unexpected(expected).into())
    }
}

impl<'t> VariantAccess<'t> for VariantContent<'t, '_> {
    type Error = Error<'t>;

    fn unit_variant(self) -> Result<(), Error<'t>> {
        match self.0 {
            None => Ok(()),
            Some(input) => serde::Deserialize::deserialize(input),
        }
    }

    fn newtype_variant_seed<S: DeserializeSeed<'t>>(self, seed: S) -> Result<S::Value, Error<'t>> {
        seed.deserialize(self.input()?)
    }

    fn tuple_variant<V: Visitor<'t>>(
        self,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, Error<'t>> {
        serde::Deserializer::deserialize_tuple(self.input()?, length, visitor)
    }

    fn struct_variant<V: Visitor<'t>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error<'t>> {
        serde::Deserializer::deserialize_struct(self.input()?, "", fields, visitor)
    }
}
