//! Messages of the text format, made by a program.

use graphmill_grammar::ast::{
    Field, Literal, Message, NameKind, Number, Radix, StringValue, ValueKind,
};

/// Makes a field with a plain name.
pub(super) fn field(name: impl Into<String>, value: ValueKind) -> Field {
    Field::new(NameKind::Plain(name.into()), value)
}

/// Makes a field of the form `[mediapipe.<type_name>.ext] { .. }`.
pub(super) fn extension(type_name: &str, fields: Vec<Field>) -> Field {
    let name = NameKind::Extension(format!("mediapipe.{type_name}.ext"));
    Field::new(name, message(fields))
}

/// Makes a field of the form `[type.googleapis.com/<type_name>] { .. }`.
pub(super) fn any(type_name: String, fields: Vec<Field>) -> Field {
    let prefix = "type.googleapis.com".to_owned();
    Field::new(NameKind::Any { prefix, type_name }, message(fields))
}

pub(super) fn message(fields: Vec<Field>) -> ValueKind {
    ValueKind::Message(root(fields))
}

/// Makes the top-level message of a file.
pub(super) fn root(fields: Vec<Field>) -> Message {
    Message {
        fields,
        ..Message::empty()
    }
}

pub(super) fn text(value: impl AsRef<[u8]>) -> ValueKind {
    ValueKind::String(StringValue {
        bytes: value.as_ref().to_vec(),
        pieces: Vec::new(),
    })
}

pub(super) fn boolean(value: bool) -> ValueKind {
    ValueKind::word(if value { "true" } else { "false" })
}

pub(super) fn unsigned(value: u64) -> ValueKind {
    let radix = Radix::Decimal;
    ValueKind::Number(Number {
        negative: false,
        literal: Literal::Integer { radix, value },
    })
}

pub(super) fn float(value: f64) -> ValueKind {
    let negative = value.is_sign_negative();
    if value.is_finite() {
        let literal = Literal::Float(value.abs());
        return ValueKind::Number(Number { negative, literal });
    }
    ValueKind::Identifier {
        negative: negative && !value.is_nan(),
        name: if value.is_nan() { "nan" } else { "inf" }.to_owned(),
    }
}

/// Makes one field per value, all with this name: the format writes repeated fields this way.
pub(super) fn repeated(name: &str, values: impl IntoIterator<Item = ValueKind>) -> Vec<Field> {
    let fields = values.into_iter().map(|value| field(name, value));
    fields.collect()
}

/// Returns `true` if the format can write a field of this name.
pub(super) fn is_field_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes
        .next()
        .is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
