//! Option messages: found and named here, read by whoever knows their type.
//!
//! Two forms exist and both are legal wherever a calculator's options are: extensions, `options { [mediapipe.X.ext] {..} }`,
//! and messages with a type URL, `node_options { [type.googleapis.com/mediapipe.X] {..} }`. Their bodies stay trees.

use std::collections::HashMap;

use super::table::{Lowering, Read, Slot, message_of, unknown};
use crate::ast::{Field, Message, NameKind, Value, ValueKind};
use crate::codes::fields;
use crate::diag::Diagnostic;
use crate::scalar;
use crate::span::{Span, Spanned};

/// How an option message was written.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum OptionsKind {
    /// `[type.googleapis.com/mediapipe.X]`.
    Any,
    /// `[mediapipe.X.ext]`.
    Extension,
}

/// An option message: its type's name, and its body as a tree.
#[derive(Clone, Debug, PartialEq)]
pub struct OptionsMessage {
    /// The full name as written: of the message for [`OptionsKind::Any`], of the extension for [`OptionsKind::Extension`].
    pub name: Spanned<String>,
    /// How it was written.
    pub kind: OptionsKind,
    /// The body.
    pub body: Message,
}

impl OptionsMessage {
    /// The full name of the message's type: for an extension that is the name without its last part.
    pub fn type_name(&self) -> &str {
        match self.kind {
            OptionsKind::Any => &self.name,
            OptionsKind::Extension => self
                .name
                .rsplit_once('.')
                .map_or(&self.name, |(message, _)| message),
        }
    }

    /// The field in brackets that gives these options.
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

    /// The type's name without its package.
    pub fn short_name(&self) -> &str {
        let name = self.type_name();
        name.rsplit_once('.').map_or(name, |(_, last)| last)
    }
}

/// A message that consists of extensions: `options` of graphs, nodes, executors and handlers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extensions {
    /// The extensions, in order.
    pub messages: Vec<OptionsMessage>,
    /// Whether options are merged field by field; only calculators and generators have it, and it has no effect.
    pub merge_fields: Option<Spanned<bool>>,
    /// What to point to when speaking of the options as a whole.
    pub head: Option<Span>,
}

/// Extensions first, then messages with type URLs.
pub(super) fn both<'a>(
    extensions: Option<&'a Extensions>,
    messages: &'a [OptionsMessage],
) -> impl Iterator<Item = &'a OptionsMessage> {
    extensions
        .into_iter()
        .flat_map(|extensions| &extensions.messages)
        .chain(messages)
}

/// Reports messages of one type in one form; an extension beside a type URL is legal, the extension counts.
pub(super) fn report_duplicates(messages: &[OptionsMessage], cx: &mut Lowering) {
    let mut firsts = HashMap::new();
    for second in messages {
        let first = *firsts.entry(second.type_name()).or_insert(second);
        if !std::ptr::eq(first, second) {
            cx.report(
                Diagnostic::error(
                    &fields::DUPLICATE_OPTIONS,
                    second.name.span,
                    format!("options of type `{}` are given twice", second.type_name()),
                )
                .label("given again here")
                .also(first.name.span, "first given here")
                .hint("join the two messages, or remove one"),
            );
        }
    }
}

impl Read for Extensions {
    fn read(value: &Value, field: &Field, cx: &mut Lowering) -> Option<Self> {
        let message = message_of(value, field, cx)?;
        let mut extensions = Self {
            head: Some(field.name.span),
            ..Self::default()
        };
        let mut complete = !message.incomplete;
        for inner in &message.fields {
            match &inner.name.kind {
                NameKind::Extension(name) => {
                    let body = message_of(&inner.value, inner, cx).map(|body| OptionsMessage {
                        name: Spanned::new(name.clone(), inner.name.span),
                        kind: OptionsKind::Extension,
                        body: body.clone(),
                    });
                    complete &= body.is_some();
                    extensions.messages.extend(body);
                }
                NameKind::Any { type_name, .. } => {
                    complete = false;
                    cx.report(
                        Diagnostic::error(
                            &fields::MISPLACED_BRACKET_NAME,
                            inner.name.span,
                            format!("`{}` takes extensions, not messages with a type URL", field.name),
                        )
                        .label("type URL")
                        .hint(format!("write `[{type_name}.ext] {{ .. }}`, or move it to `node_options` or `graph_options`")),
                    );
                }
                NameKind::Plain(name) if name == "merge_fields" => {
                    let read = cx.accept(scalar::boolean(&inner.value), &inner.value, inner);
                    complete &= read.is_some();
                    extensions.merge_fields =
                        read.map(|merge| Spanned::new(merge, inner.value.span));
                }
                NameKind::Plain(name) => {
                    complete = false;
                    let bare = unknown(inner, field.name.as_str(), []);
                    let hint = if matches!(inner.value.value, ValueKind::Message(_)) {
                        format!(
                            "the name of an extension stands in brackets: `[mediapipe.{name}.ext] {{ .. }}`"
                        )
                    } else {
                        "option fields stand in the message of their type: `[mediapipe.X.ext] { .. }`".to_owned()
                    };
                    cx.report(
                        Diagnostic {
                            hints: Vec::new(),
                            ..bare
                        }
                        .hint(hint),
                    );
                }
            }
        }
        report_duplicates(&extensions.messages, cx);
        complete.then_some(extensions)
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
        let mut expanded: Option<(&Field, Self)> = None;
        let mut type_url: Option<&Field> = None;
        let mut complete = !message.incomplete;
        for inner in &message.fields {
            match &inner.name.kind {
                NameKind::Any { type_name, .. } => {
                    if let Some((first, _)) = &expanded {
                        complete = false;
                        cx.report(
                            Diagnostic::error(
                                &fields::DUPLICATE_OPTIONS,
                                inner.name.span,
                                format!("one `{}` holds one message", field.name),
                            )
                            .label("second message")
                            .also(first.name.span, "first message")
                            .hint(format!("give it its own `{} {{ .. }}`", field.name)),
                        );
                        continue;
                    }
                    let Some(body) = message_of(&inner.value, inner, cx) else {
                        complete = false;
                        continue;
                    };
                    let name = Spanned::new(type_name.clone(), inner.name.span);
                    expanded = Some((
                        inner,
                        Self {
                            name,
                            kind: OptionsKind::Any,
                            body: body.clone(),
                        },
                    ));
                }
                NameKind::Extension(name) => {
                    complete = false;
                    let type_name = name.strip_suffix(".ext").unwrap_or(name);
                    cx.report(
                        Diagnostic::error(
                            &fields::MISPLACED_BRACKET_NAME,
                            inner.name.span,
                            format!("`{}` takes messages with a type URL, not extensions", field.name),
                        )
                        .label("extension")
                        .hint(format!("write `[type.googleapis.com/{type_name}] {{ .. }}`, or move it to `options`")),
                    );
                }
                NameKind::Plain(name) if name == "type_url" => type_url = Some(inner),
                NameKind::Plain(name) if name == "value" => {
                    // An empty value is the default message and needs no decoding.
                    if !matches!(scalar::bytes(&inner.value), Ok([])) {
                        complete = false;
                        cx.report(
                            Diagnostic::error(
                                &fields::SERIALIZED_ANY,
                                inner.name.span,
                                format!("`{}` holds serialised bytes", field.name),
                            )
                            .label("cannot be read")
                            .hint(
                                "write the message out: `[type.googleapis.com/mediapipe.X] { .. }`",
                            ),
                        );
                    }
                }
                NameKind::Plain(name) => {
                    complete = false;
                    let bare = unknown(inner, field.name.as_str(), []);
                    let hint = if matches!(inner.value.value, ValueKind::Message(_)) {
                        format!(
                            "a type URL stands in brackets: `[type.googleapis.com/mediapipe.{name}] {{ .. }}`"
                        )
                    } else {
                        "option fields stand in the message of their type: `[type.googleapis.com/mediapipe.X] { .. }`".to_owned()
                    };
                    cx.report(
                        Diagnostic {
                            hints: Vec::new(),
                            ..bare
                        }
                        .hint(hint),
                    );
                }
            }
        }
        match (expanded, type_url) {
            (Some((_, options)), None) => complete.then_some(options),
            (Some((first, _)), Some(url)) => {
                cx.report(
                    Diagnostic::error(
                        &fields::DUPLICATE_OPTIONS,
                        url.name.span,
                        format!("one `{}` holds one message", field.name),
                    )
                    .label("second message")
                    .also(first.name.span, "first message"),
                );
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
                    cx.report(
                        Diagnostic::error(
                            &fields::MISSING_FIELD,
                            field.name.span,
                            format!("`{}` without a message", field.name),
                        )
                        .label("which options?")
                        .hint("write `[type.googleapis.com/mediapipe.X] { .. }` inside"),
                    );
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
