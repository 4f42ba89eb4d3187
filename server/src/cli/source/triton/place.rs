//! Positions of fields in a configuration.

use std::slice;

use graphmill_grammar::{Span, ast};

/// Returns the position of a field's value, or of the message if the field is missing.
pub(super) fn place(tree: &ast::Message, field: &str) -> Span {
    let found = tree.fields_named(field).next();
    found.map_or_else(|| tree.head(), |field| field.value.span)
}

/// Returns the messages of a repeated field, in order.
pub(super) fn messages<'a>(
    tree: &'a ast::Message,
    field: &'a str,
) -> impl Iterator<Item = &'a ast::Message> {
    let values = tree
        .fields_named(field)
        .flat_map(|field| match &field.value.value {
            ast::ValueKind::List(values) => values.as_slice(),
            _ => slice::from_ref(&field.value),
        });
    values.filter_map(|value| match &value.value {
        ast::ValueKind::Message(message) => Some(message),
        _ => None,
    })
}
