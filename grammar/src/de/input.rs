//! The value of a field as serde sees it: all occurrences of a repeated field, or one value.

use serde::de::{DeserializeSeed, SeqAccess, Visitor};

use super::Context;
use super::error::{Error, Problem};
use super::message::{Body, Entries, EntryKey, MapEntry, map_entry};
use super::variant::Variant;
use crate::ast::{Field, Literal, Value, ValueKind};
use crate::graph::table;
use crate::scalar::{self, Mismatch};

/// The contents of a field.
#[derive(Clone)]
pub(super) struct Input<'t, 'c> {
    cx: &'c Context,
    kind: InputKind<'t>,
}

#[derive(Clone)]
enum InputKind<'t> {
    /// All occurrences of the field; at least one.
    Fields(Vec<&'t Field>),
    /// One value of a repeated field.
    Element(&'t Field, &'t Value),
}

impl<'t, 'c> Input<'t, 'c> {
    pub(super) fn fields(cx: &'c Context, fields: Vec<&'t Field>) -> Self {
        Self {
            cx,
            kind: InputKind::Fields(fields),
        }
    }

    /// Returns the single value, for a type that is not repeated.
    fn one(&self) -> Result<(&'t Field, &'t Value), Error<'t>> {
        match &self.kind {
            InputKind::Element(field, value) => Ok((field, value)),
            InputKind::Fields(occurrences) => match occurrences.as_slice() {
                [first, second, ..] => {
                    let diagnostic = Box::new(table::duplicate(second, first.name.span));
                    Err(Error::new(
                        Problem::Diagnosed(diagnostic),
                        second,
                        &second.value,
                    ))
                }
                [field] => Ok((field, &field.value)),
                [] => Err(Problem::Reported.into()),
            },
        }
    }

    /// Returns all values with lists flattened, except those that were set aside.
    fn all(&self) -> Vec<(&'t Field, &'t Value)> {
        let occurrences = match &self.kind {
            InputKind::Element(field, value) => return vec![(*field, *value)],
            InputKind::Fields(occurrences) => occurrences,
        };
        let mut values = Vec::new();
        for field in occurrences {
            match &field.value.value {
                ValueKind::List(list) => values.extend(list.iter().map(|value| (*field, value))),
                _ => values.push((*field, &field.value)),
            }
        }
        values.retain(|(_, value)| !self.cx.is_aside(value));
        values
    }

    /// Reads the single value as a scalar.
    fn scalar<T>(
        &self,
        read: impl FnOnce(&'t Value) -> Result<T, Mismatch>,
    ) -> Result<T, Error<'t>> {
        let (field, value) = self.one()?;
        read(value).map_err(|mismatch| Error::new(Problem::Mismatch(mismatch), field, value))
    }

    fn with_body<V>(
        self,
        read: impl FnOnce(Body<'t, '_>) -> Result<V, Error<'t>>,
    ) -> Result<V, Error<'t>> {
        let (field, value) = self.one()?;
        let message = self.scalar(scalar::message)?;
        let read = read(Body::new(
            self.cx,
            message,
            field.name.as_str(),
            field.name.span,
        ));
        read.map_err(|error| error.within(field, value))
    }
}

/// Defines methods that read a scalar and pass it to the visitor.
macro_rules! scalars {
    ($($($method:ident)+ => $visit:ident $read:expr;)*) => {
        $($(scalars! { @ $method $visit $read })+)*
    };
    (@ $method:ident $visit:ident $read:expr) => {
        fn $method<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Error<'t>> {
            visitor.$visit(self.scalar($read)?)
        }
    };
}

/// Reads an integer in the range of its type.
macro_rules! integer {
    ($type:ty) => {
        |value| {
            let range = i128::from(<$type>::MIN)..=i128::from(<$type>::MAX);
            scalar::integer(value, range).map(|integer| integer as $type)
        }
    };
}

impl<'t> serde::Deserializer<'t> for Input<'t, '_> {
    type Error = Error<'t>;

    fn deserialize_any<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Error<'t>> {
        if let InputKind::Fields(occurrences) = &self.kind
            && (occurrences.len() > 1 || matches!(occurrences[0].value.value, ValueKind::List(_)))
        {
            return self.deserialize_seq(visitor);
        }
        let (field, value) = self.one()?;
        match &value.value {
            ValueKind::Message(_) => self.deserialize_map(visitor),
            ValueKind::String(string) => match string.as_str() {
                Some(text) => visitor.visit_borrowed_str(text),
                None => visitor.visit_borrowed_bytes(&string.bytes),
            },
            ValueKind::Number(number) => match number.literal {
                Literal::Integer { .. } if number.negative => self.deserialize_i64(visitor),
                Literal::Integer { .. } => self.deserialize_u64(visitor),
                Literal::HugeInteger(_) | Literal::Float(_) => self.deserialize_f64(visitor),
            },
            ValueKind::Identifier { negative, name } => {
                if let Ok(value) = scalar::boolean(value) {
                    visitor.visit_bool(value)
                } else if *negative {
                    self.deserialize_f64(visitor)
                } else {
                    visitor.visit_borrowed_str(name)
                }
            }
            ValueKind::List(_) => Err(Error::new(Problem::Mismatch(Mismatch::List), field, value)),
            ValueKind::Invalid => Err(Error::new(Problem::Reported, field, value)),
        }
    }

    scalars! {
        deserialize_bool => visit_bool scalar::boolean;
        deserialize_i8 => visit_i8 integer!(i8);
        deserialize_i16 => visit_i16 integer!(i16);
        deserialize_i32 => visit_i32 integer!(i32);
        deserialize_i64 => visit_i64 integer!(i64);
        deserialize_u8 => visit_u8 integer!(u8);
        deserialize_u16 => visit_u16 integer!(u16);
        deserialize_u32 => visit_u32 integer!(u32);
        deserialize_u64 => visit_u64 integer!(u64);
        deserialize_f32 => visit_f32 |value| scalar::float(value).map(|float| float as f32);
        deserialize_f64 => visit_f64 scalar::float;
        deserialize_char deserialize_str deserialize_string => visit_borrowed_str scalar::string;
        deserialize_bytes deserialize_byte_buf => visit_borrowed_bytes scalar::bytes;
    }

    fn deserialize_option<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Error<'t>> {
        visitor.visit_some(self)
    }

    fn deserialize_unit<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Error<'t>> {
        self.with_body(|body| body.deserialize_unit(visitor))
    }

    fn deserialize_unit_struct<V: Visitor<'t>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error<'t>> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'t>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error<'t>> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Error<'t>> {
        visitor.visit_seq(Elements {
            cx: self.cx,
            values: self.all().into_iter(),
        })
    }

    fn deserialize_tuple<V: Visitor<'t>>(
        self,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Error<'t>> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'t>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Error<'t>> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Error<'t>> {
        let mut pairs = Vec::new();
        for (field, value) in self.all() {
            let Ok(message) = scalar::message(value) else {
                return self.with_body(|body| body.deserialize_any(visitor));
            };
            match map_entry(self.cx, message)
                .map_err(|problem| Error::new(problem, field, value))?
            {
                MapEntry::Of(key, value) => pairs.push((EntryKey::Value(key), vec![value])),
                MapEntry::Aside => {}
                MapEntry::Map => return self.with_body(|body| body.deserialize_any(visitor)),
            }
        }
        visitor.visit_map(Entries::new(self.cx, pairs))
    }

    fn deserialize_struct<V: Visitor<'t>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error<'t>> {
        self.with_body(|body| body.deserialize_struct(name, fields, visitor))
    }

    fn deserialize_enum<V: Visitor<'t>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error<'t>> {
        let (field, value) = self.one()?;
        let variant = Variant::read(self.cx, value, variants);
        let variant = variant.map_err(|problem| Error::new(problem, field, value))?;
        visitor
            .visit_enum(variant)
            .map_err(|error| error.within(field, value))
    }

    fn deserialize_identifier<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Error<'t>> {
        self.deserialize_any(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, Error<'t>> {
        visitor.visit_unit()
    }
}

struct Elements<'t, 'c> {
    cx: &'c Context,
    values: std::vec::IntoIter<(&'t Field, &'t Value)>,
}

impl<'t> SeqAccess<'t> for Elements<'t, '_> {
    type Error = Error<'t>;

    fn next_element_seed<S: DeserializeSeed<'t>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Error<'t>> {
        let Some((field, value)) = self.values.next() else {
            return Ok(None);
        };
        let element = Input {
            cx: self.cx,
            kind: InputKind::Element(field, value),
        };
        seed.deserialize(element)
            .map(Some)
            .map_err(|error| error.within(field, value))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.values.len())
    }
}
