//! The slots of a message's struct, which read the values of its fields: singular as `Option` and
//! repeated as `Vec`.

use super::table::{Lowering, duplicate};
use crate::ast::{Field, NameKind, Value, ValueKind};
use crate::scalar;
use crate::span::{Span, Spanned};

/// A value that a field can hold.
pub(crate) trait Read: Sized {
    /// Reads `value`, one of the values of `field`. If the value is wrong, reports it and returns
    /// `None`.
    fn read(value: &Value, field: &Field, cx: &mut Lowering) -> Option<Self>;

    /// Returns the location in the file.
    fn place(&self) -> Span;

    /// Returns the value as it is written in a file, without locations.
    fn to_value(&self) -> ValueKind;

    /// Returns `true` if nothing inside was refused.
    fn is_whole(&self) -> bool {
        true
    }
}

/// The outcome of reading one occurrence of a field.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(crate) enum ReadOutcome {
    /// All values were read completely.
    Whole,
    /// All values were read, but a part of one was refused.
    Partly,
    /// At least one value was refused.
    Refused,
}

/// A field of a struct, singular or repeated.
pub(crate) trait FieldSlot {
    /// Reads the values of one occurrence.
    fn take(&mut self, field: &Field, cx: &mut Lowering) -> ReadOutcome;

    /// Appends the values as fields of that name.
    fn put(&self, name: &str, fields: &mut Vec<Field>);

    /// Returns the location of the first value.
    fn first_place(&self) -> Option<Span>;
}

fn taken<'a, T: Read + 'a>(all: bool, mut values: impl Iterator<Item = &'a T>) -> ReadOutcome {
    match (all, values.all(T::is_whole)) {
        (true, true) => ReadOutcome::Whole,
        (true, false) => ReadOutcome::Partly,
        (false, _) => ReadOutcome::Refused,
    }
}

fn put<'a, T: Read + 'a>(
    values: impl IntoIterator<Item = &'a T>,
    name: &str,
    fields: &mut Vec<Field>,
) {
    let field = |value: &T| Field::new(NameKind::Plain(name.to_owned()), value.to_value());
    fields.extend(values.into_iter().map(field));
}

impl<T: Read> FieldSlot for Option<T> {
    fn take(&mut self, field: &Field, cx: &mut Lowering) -> ReadOutcome {
        if let Some(first) = self {
            cx.report(duplicate(field, first.place()));
            return ReadOutcome::Refused;
        }
        *self = T::read(&field.value, field, cx);
        taken(self.is_some(), self.iter())
    }

    fn put(&self, name: &str, fields: &mut Vec<Field>) {
        put(self, name, fields);
    }

    fn first_place(&self) -> Option<Span> {
        self.as_ref().map(T::place)
    }
}

impl<T: Read> FieldSlot for Vec<T> {
    fn take(&mut self, field: &Field, cx: &mut Lowering) -> ReadOutcome {
        let values = match &field.value.value {
            ValueKind::List(values) => values.as_slice(),
            _ => std::slice::from_ref(&field.value),
        };
        let before = self.len();
        if before == 0 {
            // Most repeated fields have one value.
            self.reserve_exact(values.len());
        }
        self.extend(values.iter().filter_map(|value| T::read(value, field, cx)));
        taken(self.len() == before + values.len(), self[before..].iter())
    }

    fn put(&self, name: &str, fields: &mut Vec<Field>) {
        put(self, name, fields);
    }

    fn first_place(&self) -> Option<Span> {
        self.first().map(T::place)
    }
}

impl<T: Read> Read for Box<T> {
    fn read(value: &Value, field: &Field, cx: &mut Lowering) -> Option<Self> {
        T::read(value, field, cx).map(Self::new)
    }

    fn place(&self) -> Span {
        T::place(self)
    }

    fn to_value(&self) -> ValueKind {
        T::to_value(self)
    }

    fn is_whole(&self) -> bool {
        T::is_whole(self)
    }
}

macro_rules! read_scalar {
    ($type:ty, $value:ident => $read:expr, $own:ident => $write:expr) => {
        impl Read for Spanned<$type> {
            fn read($value: &Value, field: &Field, cx: &mut Lowering) -> Option<Self> {
                let read = cx.accept($read, $value, field)?;
                Some(Spanned::new(read, $value.span))
            }

            fn place(&self) -> Span {
                self.span
            }

            fn to_value(&self) -> ValueKind {
                let $own = &self.value;
                $write
            }
        }
    };
}

macro_rules! read_integer {
    ($type:ty) => {
        read_scalar!(
            $type,
            value => scalar::integer(value, <$type>::MIN.into()..=<$type>::MAX.into())
                .map(|number| number as $type),
            own => ValueKind::integer((*own).into())
        );
    };
}

read_scalar!(String, value => scalar::string(value).map(str::to_owned), own => ValueKind::text(own));
read_scalar!(bool, value => scalar::boolean(value), own => ValueKind::word(if *own { "true" } else { "false" }));
read_integer!(i32);
read_integer!(u32);
read_integer!(i64);
