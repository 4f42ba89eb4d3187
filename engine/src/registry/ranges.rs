//! Ranges of numbers in options: `minimum` and `maximum` of the schema, which documents show too.

use graphmill_grammar::{
    Diagnostic,
    ast::{Literal, Message, Number, Value, ValueKind},
    codes::fields,
};
use schemars::Schema;
use serde_json::Value as Json;

/// Finds numbers of a message that are outside the ranges of its schema.
pub(super) fn out_of_range(schema: &Schema, message: &Message) -> Vec<Diagnostic> {
    let root = schema.as_value();
    let mut found = Vec::new();
    fields_of(root, root, message, &mut found);
    found
}

fn fields_of(root: &Json, schema: &Json, message: &Message, found: &mut Vec<Diagnostic>) {
    for field in &message.fields {
        let name = field.name.as_str();
        if let Some(schema) = schema["properties"].get(name) {
            check(root, one_of(root, schema), name, &field.value, found);
        }
    }
}

/// Returns the schema of a single value: that of an element for a repeated field, that of the value
/// for an optional one.
fn one_of<'s>(root: &'s Json, mut schema: &'s Json) -> &'s Json {
    loop {
        let reference = schema["$ref"].as_str();
        let definition = reference.and_then(|reference| root.pointer(&reference[1..]));
        let alternatives = schema["anyOf"].as_array();
        let inner = definition
            .or_else(|| schema.get("items"))
            .or_else(|| alternatives.and_then(|alternatives| alternatives.first()));
        match inner {
            Some(inner) => schema = inner,
            None => return schema,
        }
    }
}

fn check(root: &Json, schema: &Json, name: &str, value: &Value, found: &mut Vec<Diagnostic>) {
    let (is_negative, number, shown) = match &value.value {
        ValueKind::Message(message) => return fields_of(root, schema, message, found),
        ValueKind::List(values) => {
            for value in values {
                check(root, schema, name, value, found);
            }
            return;
        }
        ValueKind::Number(Number { negative, literal }) => match *literal {
            Literal::Integer { value, .. } => (*negative, value as f64, value.to_string()),
            Literal::HugeInteger(value) | Literal::Float(value) => {
                (*negative, value, format!("{value:?}"))
            }
        },
        ValueKind::Identifier { negative, name } => match name.parse::<f64>() {
            Ok(number) => (*negative, number, name.clone()),
            Err(_) => return,
        },
        ValueKind::String(_) | ValueKind::Invalid => return,
    };
    let (number, sign) = if is_negative {
        (-number, "-")
    } else {
        (number, "")
    };
    let (least, most) = (&schema["minimum"], &schema["maximum"]);
    let range =
        least.as_f64().unwrap_or(f64::NEG_INFINITY)..=most.as_f64().unwrap_or(f64::INFINITY);
    let expected = match (least, most) {
        (Json::Null, Json::Null) => return,
        (least, Json::Null) => format!("expected a number of at least {least}"),
        (Json::Null, most) => format!("expected a number of at most {most}"),
        (least, most) => format!("expected a number from {least} to {most}"),
    };
    if !range.contains(&number) {
        let message = format!("{sign}{shown} is out of range for `{name}`");
        let diagnostic = Diagnostic::error(&fields::OUT_OF_RANGE, value.span, message);
        found.push(diagnostic.label(expected));
    }
}
