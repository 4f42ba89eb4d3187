//! Option messages. They are found and named here, and read by code that knows their types.
//!
//! There are two forms, and both are allowed wherever a calculator can have options: extensions,
//! `options { [mediapipe.X.ext] {..} }`, and messages with a type URL,
//! `node_options { [type.googleapis.com/mediapipe.X] {..} }`. Their bodies stay trees.

use std::collections::HashMap;

use super::slot::{FieldSlot, Read};
use super::table::{Lowering, message_of, unknown};
use crate::ast::{Field, Message, NameKind, Value, ValueKind};
use crate::codes::fields;
use crate::diag::Diagnostic;
use crate::scalar;
use crate::span::{Span, Spanned};

/// The form of an option message.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum OptionsKind {
    /// A type URL: `[type.googleapis.com/mediapipe.X]`.
    Any,
    /// An extension: `[mediapipe.X.ext]`.
    Extension,
}

/// An option message: the name of its type, and its body as a tree.
#[derive(Clone, Debug, PartialEq)]
pub struct OptionsMessage {
    /// Full name as it is written: of the message for [`OptionsKind::Any`], of the extension for
    /// [`OptionsKind::Extension`].
    pub name: Spanned<String>,
    /// Form in the file: extension or type URL.
    pub kind: OptionsKind,
    /// Body as a tree, read by code that knows the type.
    pub body: Message,
}

impl OptionsMessage {
    /// Returns the full name of the message's type. For an extension, this is the name without its
    /// last part.
    pub fn type_name(&self) -> &str {
        match self.kind {
            OptionsKind::Any => &self.name,
            OptionsKind::Extension => self
                .name
                .rsplit_once('.')
                .map_or(&self.name, |(message, _)| message),
        }
    }

    /// Makes the field in brackets that contains these options.
    fn to_field(&self) -> Field {
        let name = match self.kind {
            OptionsKind::Any => NameKind::Any {
                prefix: "type.googleapis.com".to_owned(),
                type_name: self.name.value.clone(),
            },
            OptionsKind::Extension => NameKind::Extension(self.name.value.clone()),
        };
        Field::new(name, ValueKind::Message(self.body.clone()))
    }

    /// Returns the type's name without its package.
    pub fn short_name(&self) -> &str {
        let name = self.type_name();
        name.rsplit_once('.').map_or(name, |(_, last)| last)
    }
}

/// A message of extensions: `options` of graphs, nodes, executors and handlers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extensions {
    /// Extensions in the order of the file.
    pub messages: Vec<OptionsMessage>,
    /// Merging of options field by field. Only calculators and generators have this setting, and it
    /// has no effect.
    pub merge_fields: Option<Spanned<bool>>,
    /// Location for diagnostics about the options as a whole.
    pub head: Option<Span>,
}

/// Iterates over extensions first, then messages with type URLs.
pub(super) fn both<'a>(
    extensions: Option<&'a Extensions>,
    messages: &'a [OptionsMessage],
) -> impl Iterator<Item = &'a OptionsMessage> {
    extensions
        .into_iter()
        .flat_map(|extensions| &extensions.messages)
        .chain(messages)
}

/// Reports two messages of the same type and form. An extension beside a type URL is allowed, and
/// the extension wins.
pub(super) fn report_duplicates(messages: &[OptionsMessage], cx: &mut Lowering) {
    let mut firsts = HashMap::new();
    for second in messages {
        let first = *firsts.entry(second.type_name()).or_insert(second);
        if !std::ptr::eq(first, second) {
            let message = format!("options of type `{}` are given twice", second.type_name());
            let diagnostic =
                Diagnostic::error(&fields::DUPLICATE_OPTIONS, second.name.span, message)
                    .label("given again here")
                    .also(first.name.span, "first given here")
                    .hint("join the two messages, or remove one");
            cx.report(diagnostic);
        }
    }
}

/// Reads the messages with bracketed names of one kind, and passes plain fields to `plain`. That
/// function returns whether it could read the field, or `None` if it does not know it. Returns the
/// messages, and `true` if everything was read.
fn read_messages(
    message: &Message,
    field: &Field,
    kind: OptionsKind,
    cx: &mut Lowering,
    mut plain: impl FnMut(&Field, &mut Lowering) -> Option<bool>,
) -> (Vec<OptionsMessage>, bool) {
    let mut messages: Vec<OptionsMessage> = Vec::new();
    let mut complete = !message.incomplete;
    for inner in &message.fields {
        let (found, name) = match &inner.name.kind {
            NameKind::Extension(name) => (OptionsKind::Extension, name),
            NameKind::Any { type_name, .. } => (OptionsKind::Any, type_name),
            NameKind::Plain(name) => {
                complete &= plain(inner, cx).unwrap_or_else(|| {
                    cx.report(without_brackets(field, inner, kind, name));
                    false
                });
                continue;
            }
        };
        if found != kind {
            cx.report(misplaced(field, inner, kind, name));
        } else if let (OptionsKind::Any, Some(first)) = (kind, messages.first()) {
            let diagnostic = second_message(field, inner, first);
            cx.report(diagnostic.hint(format!("give it its own `{} {{ .. }}`", field.name)));
        } else if let Some(body) = message_of(&inner.value, inner, cx) {
            messages.push(OptionsMessage {
                name: Spanned::new(name.clone(), inner.name.span),
                kind,
                body: body.clone(),
            });
            continue;
        }
        complete = false;
    }
    (messages, complete)
}

/// Reports a bracketed name of the kind that `field` does not take.
fn misplaced(field: &Field, inner: &Field, kind: OptionsKind, name: &str) -> Diagnostic {
    let (takes, found, hint) = match kind {
        OptionsKind::Extension => (
            "extensions, not messages with a type URL",
            "type URL",
            format!(
                "write `[{name}.ext] {{ .. }}`, or move it to `node_options` or `graph_options`"
            ),
        ),
        OptionsKind::Any => {
            let name = name.strip_suffix(".ext").unwrap_or(name);
            (
                "messages with a type URL, not extensions",
                "extension",
                format!("write `[type.googleapis.com/{name}] {{ .. }}`, or move it to `options`"),
            )
        }
    };
    let message = format!("`{}` takes {takes}", field.name);
    Diagnostic::error(&fields::MISPLACED_BRACKET_NAME, inner.name.span, message)
        .label(found)
        .hint(hint)
}

/// Reports a plain name where a name in brackets is required.
fn without_brackets(field: &Field, inner: &Field, kind: OptionsKind, name: &str) -> Diagnostic {
    let (what, before, after) = match kind {
        OptionsKind::Extension => ("the name of an extension", "mediapipe.", ".ext"),
        OptionsKind::Any => ("a type URL", "type.googleapis.com/mediapipe.", ""),
    };
    let hint = if matches!(inner.value.value, ValueKind::Message(_)) {
        format!("write {what} in brackets: `[{before}{name}{after}] {{ .. }}`")
    } else {
        let example = format!("`[{before}X{after}] {{ .. }}`");
        format!("write option fields in the message of their type: {example}")
    };
    let mut diagnostic = unknown(inner, field.name.as_str(), []);
    diagnostic.hints.clear();
    diagnostic.hint(hint)
}

/// Reports a second message in `field`.
fn second_message(field: &Field, second: &Field, first: &OptionsMessage) -> Diagnostic {
    let message = format!("each `{}` holds exactly one message", field.name);
    Diagnostic::error(&fields::DUPLICATE_OPTIONS, second.name.span, message)
        .label("second message")
        .also(first.name.span, "first message")
}

impl Read for Extensions {
    fn read(value: &Value, field: &Field, cx: &mut Lowering) -> Option<Self> {
        let message = message_of(value, field, cx)?;
        let mut merge_fields = None;
        let plain = |inner: &Field, cx: &mut Lowering| {
            (inner.name.as_plain() == Some("merge_fields")).then(|| {
                let read = cx.accept(scalar::boolean(&inner.value), &inner.value, inner);
                merge_fields = read.map(|merge| Spanned::new(merge, inner.value.span));
                merge_fields.is_some()
            })
        };
        let (messages, complete) = read_messages(message, field, OptionsKind::Extension, cx, plain);
        report_duplicates(&messages, cx);
        complete.then_some(Self {
            messages,
            merge_fields,
            head: Some(field.name.span),
        })
    }

    fn place(&self) -> Span {
        self.head.unwrap_or(Span::NONE)
    }

    fn to_value(&self) -> ValueKind {
        let mut message = Message::empty();
        self.merge_fields.put("merge_fields", &mut message.fields);
        let extensions = self.messages.iter().map(OptionsMessage::to_field);
        message.fields.extend(extensions);
        ValueKind::Message(message)
    }
}

impl Read for OptionsMessage {
    fn read(value: &Value, field: &Field, cx: &mut Lowering) -> Option<Self> {
        let message = message_of(value, field, cx)?;
        let type_url = message.fields_named("type_url").last();
        let plain = |inner: &Field, cx: &mut Lowering| match inner.name.as_plain()? {
            "type_url" => Some(true),
            // An empty value is the default message and needs no decoding.
            "value" if matches!(scalar::bytes(&inner.value), Ok([])) => Some(true),
            "value" => {
                let message = format!("`{}` holds serialized bytes", field.name);
                let diagnostic =
                    Diagnostic::error(&fields::SERIALIZED_ANY, inner.name.span, message);
                cx.report(
                    diagnostic
                        .label("cannot be read")
                        .hint("write the message out: `[type.googleapis.com/mediapipe.X] { .. }`"),
                );
                Some(false)
            }
            _ => None,
        };
        let (mut messages, complete) = read_messages(message, field, OptionsKind::Any, cx, plain);
        match (messages.pop(), type_url) {
            (Some(options), None) => complete.then_some(options),
            (Some(first), Some(url)) => {
                cx.report(second_message(field, url, &first));
                None
            }
            (None, Some(url)) => {
                let text = cx.accept(scalar::string(&url.value), &url.value, url)?;
                let type_name = text.rsplit_once('/').map_or(text, |(_, name)| name);
                let name = Spanned::new(type_name.to_owned(), url.value.span);
                complete.then_some(Self {
                    name,
                    kind: OptionsKind::Any,
                    body: Message::empty(),
                })
            }
            (None, None) => {
                if complete {
                    let message = format!("`{}` without a message", field.name);
                    let diagnostic =
                        Diagnostic::error(&fields::MISSING_FIELD, field.name.span, message)
                            .label("which options?")
                            .hint("write `[type.googleapis.com/mediapipe.X] { .. }` inside");
                    cx.report(diagnostic);
                }
                None
            }
        }
    }

    fn place(&self) -> Span {
        self.name.span
    }

    fn to_value(&self) -> ValueKind {
        ValueKind::Message(Message {
            fields: vec![self.to_field()],
            ..Message::empty()
        })
    }
}
