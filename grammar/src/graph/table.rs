//! The field table, which declares a message's struct and the lowering of its fields in one place.
//!
//! `message!` takes a struct whose fields are preceded by their names in the file. The type of a
//! field decides the rest. `Option` is a singular field, and a second value is an error. `Vec` is a
//! repeated field, into which lists are flattened. The inner type implements
//! [`Read`](super::slot::Read): `Spanned<String>`, a port, options, another message. The table
//! always covers all fields of its struct.

use super::slot::{FieldSlot, ReadOutcome};
use crate::ast::{Field, Message, NameKind, Value};
use crate::codes::fields;
use crate::diag::{Diagnostic, Findings};
use crate::scalar::{self, Mismatch};
use crate::span::Span;
use crate::suggest;

/// Collects diagnostics while a tree is lowered.
#[derive(Default)]
pub(crate) struct Lowering {
    pub(crate) diagnostics: Findings,
}

impl Lowering {
    pub(crate) fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    /// Reports a mismatch and returns `None`.
    pub(crate) fn accept<T>(
        &mut self,
        read: Result<T, Mismatch>,
        value: &Value,
        field: &Field,
    ) -> Option<T> {
        read.map_err(|mismatch| {
            if let Some(diagnostic) = mismatch.diagnose(value, field.name.as_str()) {
                self.report(diagnostic);
            }
        })
        .ok()
    }
}

/// Reports a second occurrence of a singular field.
pub(crate) fn duplicate(field: &Field, first: Span) -> Diagnostic {
    let message = format!("`{}` is given twice", field.name.as_str());
    Diagnostic::error(&fields::DUPLICATE_FIELD, field.name.span, message)
        .label("given again here")
        .also(first, "first given here")
}

/// Reports a field that a message does not have.
pub(crate) fn unknown<'a>(
    field: &Field,
    message: &str,
    known: impl IntoIterator<Item = &'a str> + Clone,
) -> Diagnostic {
    let name = &field.name;
    let headline = format!("`{message}` has no field `{name}`");
    let diagnostic =
        Diagnostic::error(&fields::UNKNOWN_FIELD, name.span, headline).label("unknown field");
    if let (NameKind::Plain(plain), mut names) = (&name.kind, known.clone().into_iter()) {
        if let Some(near) = suggest::nearest(plain, known) {
            return diagnostic.fix(format!("did you mean `{near}`?"), name.span, near);
        }
        if names.next().is_none() {
            return diagnostic.hint(format!("`{message}` has no fields"));
        }
    }
    diagnostic
}

/// A message that is lowered field by field.
pub(crate) trait Table: Default {
    /// Name of the message in diagnostics.
    const NAME: &'static str;
    /// Names of its fields in the order of the schema.
    const FIELDS: &'static [&'static str];
    /// Deprecated fields, each with the advice for its replacement.
    const DEPRECATED: &'static [(&'static str, &'static str)];

    /// Returns the name and the slot of a field.
    fn slot(&mut self, name: &str) -> Option<(&'static str, &mut dyn FieldSlot)>;
    /// Checks the message as a whole, after all fields have been read.
    fn finish(&mut self, cx: &mut Lowering);
    /// Sets the locations of the message and its refused fields.
    fn set_place(&mut self, span: Span, head: Span, refused: RefusedFields);
}

/// The fields of a message that were refused and reported. A field that seems to be missing may be
/// among them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RefusedFields {
    fields: Vec<&'static str>,
    /// Set if a refused part may have been any field.
    any: bool,
    /// Set if a part inside a field's message was refused, which has its own record.
    inside: bool,
}

impl RefusedFields {
    /// Returns `true` if a refused part may have been a value of this field.
    pub fn may_be(&self, field: &str) -> bool {
        self.any || self.fields.contains(&field)
    }

    /// Returns `true` if nothing was refused, here and in inner messages.
    pub fn is_empty(&self) -> bool {
        !self.any && !self.inside && self.fields.is_empty()
    }

    /// Records that a part of an inner message was refused.
    pub(crate) fn inside(&mut self) {
        self.inside = true;
    }

    pub(super) fn field(&mut self, field: &'static str) {
        if !self.fields.contains(&field) {
            self.fields.push(field);
        }
    }
}

/// Lowers the fields of `message`. `head` is the location of diagnostics about the whole message.
pub(crate) fn lower<T: Table>(message: &Message, head: Span, cx: &mut Lowering) -> T {
    let mut lowered = T::default();
    let mut refused = RefusedFields {
        any: message.incomplete,
        ..RefusedFields::default()
    };
    for field in &message.fields {
        let name = field.name.as_str();
        let plain = field.name.as_plain();
        let Some((known, slot)) = plain.and_then(|name| lowered.slot(name)) else {
            cx.report(unknown(field, T::NAME, T::FIELDS.iter().copied()));
            match suggest::nearest(name, T::FIELDS.iter().copied()) {
                Some(meant) => refused.field(meant),
                None => refused.any = true,
            }
            continue;
        };
        match slot.take(field, cx) {
            ReadOutcome::Whole => {}
            ReadOutcome::Partly => refused.inside = true,
            ReadOutcome::Refused => refused.field(known),
        }
        let mut deprecated = T::DEPRECATED.iter();
        if let Some((_, instead)) = deprecated.find(|(deprecated, _)| *deprecated == name) {
            let message = format!("`{name}` of `{}` is deprecated", T::NAME);
            cx.report(
                Diagnostic::warning(&fields::DEPRECATED_FIELD, field.name.span, message)
                    .hint(*instead),
            );
        }
    }
    lowered.set_place(message.span, head, refused);
    lowered.finish(cx);
    lowered
}

/// Declares a message: its struct, its table, and how it is read as a field's value.
macro_rules! message {
    (
        $(#[$attribute:meta])*
        pub struct $message:ident = $name:literal $(, finish = $finish:path)? {
            $( $(#[$field_attribute:meta])* $field_name:literal $field:ident : $type:ty $(, deprecated = $instead:literal)? ; )*
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $message {
            $( $(#[$field_attribute])* pub $field: $type, )*
            /// Location of the message, delimiters included.
            pub span: $crate::span::Span,
            /// Location for diagnostics about the message as a whole: the name of the field with
            /// this message.
            pub head: $crate::span::Span,
            /// Parts that were refused and reported. A field that seems to be missing may be among
            /// them.
            pub refused: $crate::graph::RefusedFields,
        }

        impl Default for $message {
            fn default() -> Self {
                Self {
                    $( $field: Default::default(), )*
                    span: $crate::span::Span::NONE,
                    head: $crate::span::Span::NONE,
                    refused: Default::default(),
                }
            }
        }

        impl $message {
            /// Returns the message as a tree without locations, with fields in the order of the
            /// schema, as [`print`](crate::fmt::print) writes it.
            pub fn to_message(&self) -> $crate::ast::Message {
                let mut message = $crate::ast::Message::empty();
                $( $crate::graph::slot::FieldSlot::put(&self.$field, $field_name, &mut message.fields); )*
                message
            }

            /// Iterates over the names of the fields that are set, in the order of the schema, each
            /// with the location of its first value.
            pub fn places(&self) -> impl Iterator<Item = (&'static str, $crate::span::Span)> {
                let fields = [$( ($field_name, $crate::graph::slot::FieldSlot::first_place(&self.$field)) ),*];
                fields.into_iter().filter_map(|(name, place)| Some((name, place?)))
            }
        }

        impl $crate::graph::table::Table for $message {
            const NAME: &'static str = $name;
            const FIELDS: &'static [&'static str] = &[$($field_name),*];
            const DEPRECATED: &'static [(&'static str, &'static str)] = &[$($(($field_name, $instead),)?)*];

            fn slot(&mut self, name: &str) -> Option<(&'static str, &mut dyn $crate::graph::slot::FieldSlot)> {
                match name {
                    $( $field_name => Some(($field_name, &mut self.$field)), )*
                    _ => None,
                }
            }

            #[allow(unused_variables, reason = "most messages have nothing to check as a whole")]
            fn finish(&mut self, cx: &mut $crate::graph::table::Lowering) {
                $( $finish(self, cx); )?
            }

            fn set_place(&mut self, span: $crate::span::Span, head: $crate::span::Span, refused: $crate::graph::RefusedFields) {
                (self.span, self.head, self.refused) = (span, head, refused);
            }
        }

        impl $crate::graph::slot::Read for $message {
            fn read(value: &$crate::ast::Value, field: &$crate::ast::Field, cx: &mut $crate::graph::table::Lowering) -> Option<Self> {
                let message = $crate::graph::table::message_of(value, field, cx)?;
                Some($crate::graph::table::lower(message, field.name.span, cx))
            }

            fn place(&self) -> $crate::span::Span {
                self.head
            }

            fn to_value(&self) -> $crate::ast::ValueKind {
                $crate::ast::ValueKind::Message(self.to_message())
            }

            fn is_whole(&self) -> bool {
                self.refused.is_empty()
            }
        }
    };
}
pub(crate) use message;

/// Returns the message in `value`, and reports anything else.
pub(crate) fn message_of<'a>(
    value: &'a Value,
    field: &Field,
    cx: &mut Lowering,
) -> Option<&'a Message> {
    cx.accept(scalar::message(value), value, field)
}
