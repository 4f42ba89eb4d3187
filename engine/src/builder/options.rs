//! Conversion of options to messages of the text format, from any type that serde can serialize to
//! fields and values.
//!
//! A struct or map becomes a message, a sequence becomes a repeated field, and a variant without
//! content becomes a word of an enum. `None`, `()` and absent fields are left out.

use std::fmt::Display;

use graphmill_grammar::ast::{Field, ValueKind};
use serde::ser::{self, Impossible, Serialize, Serializer};

use super::message;

/// The reason why a value cannot be the options of a node.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Unwritable(String);

impl ser::Error for Unwritable {
    fn custom<T: Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

/// The field values that one Rust value becomes: none, one or several.
type Values = Vec<ValueKind>;

/// Converts options to the fields of their message.
pub(super) fn fields<T: Serialize + ?Sized>(options: &T) -> Result<Vec<Field>, Unwritable> {
    let mut values = options.serialize(OptionsWriter)?;
    match (values.pop(), values.is_empty()) {
        (None, _) => Ok(Vec::new()),
        (Some(ValueKind::Message(message)), true) => Ok(message.fields),
        _ => Err(Unwritable("options must be a struct or a map".to_owned())),
    }
}

/// A serde serializer that produces [`Values`].
struct OptionsWriter;

macro_rules! scalars {
    ($($method:ident($of:ty) => $make:expr;)*) => {$(
        fn $method(self, value: $of) -> Result<Values, Unwritable> {
            let make: fn($of) -> ValueKind = $make;
            Ok(vec![make(value)])
        }
    )*};
}

impl Serializer for OptionsWriter {
    type Ok = Values;
    type Error = Unwritable;
    type SerializeSeq = RepeatedValues;
    type SerializeTuple = RepeatedValues;
    type SerializeTupleStruct = RepeatedValues;
    type SerializeTupleVariant = Impossible<Values, Unwritable>;
    type SerializeMap = MessageFields;
    type SerializeStruct = MessageFields;
    type SerializeStructVariant = MessageFields;

    scalars! {
        serialize_bool(bool) => message::boolean;
        serialize_i8(i8) => |value| ValueKind::integer(value.into());
        serialize_i16(i16) => |value| ValueKind::integer(value.into());
        serialize_i32(i32) => |value| ValueKind::integer(value.into());
        serialize_i64(i64) => ValueKind::integer;
        serialize_u8(u8) => |value| message::unsigned(value.into());
        serialize_u16(u16) => |value| message::unsigned(value.into());
        serialize_u32(u32) => |value| message::unsigned(value.into());
        serialize_u64(u64) => message::unsigned;
        serialize_f32(f32) => |value| message::float(value.into());
        serialize_f64(f64) => message::float;
        serialize_char(char) => |value| message::text(value.encode_utf8(&mut [0; 4]));
        serialize_str(&str) => |value| message::text(value);
        serialize_bytes(&[u8]) => |value| message::text(value);
    }

    fn serialize_none(self) -> Result<Values, Unwritable> {
        Ok(Values::new())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Values, Unwritable> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<Values, Unwritable> {
        Ok(Values::new())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<Values, Unwritable> {
        Ok(Values::new())
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<Values, Unwritable> {
        Ok(vec![ValueKind::word(variant)])
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<Values, Unwritable> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<Values, Unwritable> {
        let mut fields = MessageFields::default();
        fields.add(variant, value)?;
        Ok(fields.done())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<RepeatedValues, Unwritable> {
        Ok(RepeatedValues(Vec::new()))
    }

    fn serialize_tuple(self, _: usize) -> Result<RepeatedValues, Unwritable> {
        Ok(RepeatedValues(Vec::new()))
    }

    fn serialize_tuple_struct(
        self,
        _: &'static str,
        _: usize,
    ) -> Result<RepeatedValues, Unwritable> {
        Ok(RepeatedValues(Vec::new()))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, Unwritable> {
        Err(Unwritable(format!(
            "`{variant}` holds several unnamed values; use a variant with named fields"
        )))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<MessageFields, Unwritable> {
        Ok(MessageFields::default())
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<MessageFields, Unwritable> {
        Ok(MessageFields::default())
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<MessageFields, Unwritable> {
        Ok(MessageFields {
            within: Some(variant),
            ..MessageFields::default()
        })
    }
}

/// The elements of a repeated field.
struct RepeatedValues(Vec<ValueKind>);

impl RepeatedValues {
    fn add<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unwritable> {
        let mut values = value.serialize(OptionsWriter)?;
        match (values.pop(), values.is_empty()) {
            (Some(value), true) => {
                self.0.push(value);
                Ok(())
            }
            _ => Err(Unwritable(
                "an element of a repeated field must be exactly one value".to_owned(),
            )),
        }
    }
}

#[derive(Default)]
struct MessageFields {
    fields: Vec<Field>,
    /// Name of the map entry whose value comes next.
    key: String,
    /// Variant that has this message as its content.
    within: Option<&'static str>,
}

impl MessageFields {
    fn add<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<(), Unwritable> {
        if !message::is_field_name(name) {
            return Err(Unwritable(format!("`{name}` is not a valid field name")));
        }
        self.fields
            .extend(message::repeated(name, value.serialize(OptionsWriter)?));
        Ok(())
    }

    fn done(self) -> Values {
        let content = message::message(self.fields);
        vec![match self.within {
            Some(variant) => message::message(vec![message::field(variant, content)]),
            None => content,
        }]
    }
}

macro_rules! sequences {
    ($($of:ident::$method:ident)*) => {$(
        impl ser::$of for RepeatedValues {
            type Ok = Values;
            type Error = Unwritable;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unwritable> {
                self.add(value)
            }

            fn end(self) -> Result<Values, Unwritable> {
                Ok(self.0)
            }
        }
    )*};
}
sequences!(SerializeSeq::serialize_element SerializeTuple::serialize_element SerializeTupleStruct::serialize_field);

macro_rules! structs {
    ($($of:ident)*) => {$(
        impl ser::$of for MessageFields {
            type Ok = Values;
            type Error = Unwritable;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                name: &'static str,
                value: &T,
            ) -> Result<(), Unwritable> {
                self.add(name, value)
            }

            fn end(self) -> Result<Values, Unwritable> {
                Ok(self.done())
            }
        }
    )*};
}
structs!(SerializeStruct SerializeStructVariant);

impl ser::SerializeMap for MessageFields {
    type Ok = Values;
    type Error = Unwritable;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Unwritable> {
        let key = key.serialize(OptionsWriter)?.pop();
        let Some(ValueKind::String(name)) = key else {
            return Err(Unwritable("map keys must be strings".to_owned()));
        };
        self.key = String::from_utf8_lossy(&name.bytes).into_owned();
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unwritable> {
        let name = std::mem::take(&mut self.key);
        self.add(&name, value)
    }

    fn end(self) -> Result<Values, Unwritable> {
        Ok(self.done())
    }
}
