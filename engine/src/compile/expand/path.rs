//! Paths of option fields, as in `option_value`: `options/parts/0/name`.

use graphmill_grammar::{
    OptionsMessage, Span, Spanned,
    ast::{Field, Message, Name, NameKind, Value, ValueKind},
};

/// First words of a path that mean the options as a whole.
const ROOTS: [&str; 4] = ["options", "OPTIONS", "graph_options", "node_options"];

/// Prefix of a step that names a message type.
const TYPE: &str = "Ext::";

/// A path of option fields: its message type and its steps.
pub(super) struct Path<'a> {
    /// Type of the options to start in; any type if absent.
    pub(super) of_type: Option<&'a str>,
    /// Field names and numbers of elements; empty for the options as a whole.
    pub(super) steps: Vec<PathStep<'a>>,
    pub(super) span: Span,
}

/// One step of a [`Path`].
#[derive(Copy, Clone)]
pub(super) enum PathStep<'a> {
    Field(&'a str),
    /// The element with this number in the field before.
    Element(usize),
}

impl<'a> Path<'a> {
    pub(super) fn new(text: &'a Spanned<String>) -> Self {
        let mut parts = text.value.split('/').peekable();
        if parts.peek().is_some_and(|first| ROOTS.contains(first)) {
            parts.next();
        }
        let of_type = parts.peek().and_then(|part| part.strip_prefix(TYPE));
        if of_type.is_some() {
            parts.next();
        }
        let step = |part: &'a str| match part.parse() {
            Ok(number) => PathStep::Element(number),
            Err(_) => PathStep::Field(part),
        };
        Self {
            of_type,
            steps: parts.map(step).collect(),
            span: text.span,
        }
    }

    /// Returns `true` if the path can start in these options.
    pub(super) fn fits(&self, options: &OptionsMessage) -> bool {
        self.of_type.is_none_or(|wanted| {
            let short = wanted.rsplit_once('.').map_or(wanted, |(_, short)| short);
            short == options.short_name()
        })
    }
}

/// Returns the values at the end of the steps, in order. Empty if none is set. The error says why a
/// step is not possible.
pub(super) fn values<'m>(
    message: &'m Message,
    steps: &[PathStep<'_>],
) -> Result<Vec<&'m Value>, String> {
    let Some((PathStep::Field(name), mut rest)) = steps.split_first() else {
        return Err("a path must begin with the name of a field".to_owned());
    };
    let mut found = all_of(message, name);
    if let Some((PathStep::Element(number), after)) = rest.split_first() {
        found = found.get(*number).copied().into_iter().collect();
        rest = after;
    }
    if rest.is_empty() {
        return Ok(found);
    }
    match found.last().map(|value| &value.value) {
        None | Some(ValueKind::Invalid) => Ok(Vec::new()),
        Some(ValueKind::Message(inner)) => values(inner, rest),
        Some(other) => Err(format!("`{name}` is {}, not a message", other.describe())),
    }
}

/// Returns all values of a field; those of lists one by one.
fn all_of<'m>(message: &'m Message, name: &str) -> Vec<&'m Value> {
    let mut found = Vec::new();
    for field in message.fields_named(name) {
        match &field.value.value {
            ValueKind::List(values) => found.extend(values),
            _ => found.push(&field.value),
        }
    }
    found
}

/// Sets the values at the end of the steps. Missing messages are made, with their names at `span`.
/// The error says why a step is not possible.
pub(super) fn set(
    message: &mut Message,
    steps: &[PathStep<'_>],
    values: Vec<Value>,
    span: Span,
) -> Result<(), String> {
    let Some((PathStep::Field(name), rest)) = steps.split_first() else {
        return Err("a path must begin with the name of a field".to_owned());
    };
    let (element, rest) = match rest.split_first() {
        Some((PathStep::Element(number), rest)) => (Some(*number), rest),
        _ => (None, rest),
    };
    let mut present: Vec<Value> = all_of(message, name).into_iter().cloned().collect();
    if element.is_none() && rest.is_empty() {
        present = joined(present, values);
    } else {
        let at = element.unwrap_or(present.len().saturating_sub(1));
        if at > present.len() {
            let there = present.len();
            return Err(format!(
                "`{name}` has {there} elements, so `{name}/{at}` cannot be set"
            ));
        }
        if at == present.len() {
            present.push(Value::new(ValueKind::Message(Message::empty()), span));
        }
        if rest.is_empty() {
            present.splice(at..=at, values);
        } else {
            let ValueKind::Message(inner) = &mut present[at].value else {
                let found = present[at].value.describe();
                return Err(format!("`{name}` is {found}, not a message"));
            };
            set(inner, rest, values, span)?;
        }
    }
    message
        .fields
        .retain(|field| field.name.as_plain() != Some(name));
    let fields = present.into_iter().map(|value| field(name, value, span));
    message.fields.extend(fields);
    Ok(())
}

/// Returns the contents of a field after it has been set to `values`. They replace what it had, but
/// a message is merged into a message.
fn joined(mut present: Vec<Value>, values: Vec<Value>) -> Vec<Value> {
    if let ([base], [over]) = (present.as_mut_slice(), values.as_slice())
        && let (ValueKind::Message(base), ValueKind::Message(over)) = (&mut base.value, &over.value)
    {
        merge(base, over);
        return present;
    }
    values
}

/// Sets every field of `over` in `base`. Fields of `over` win; inner messages are merged in the
/// same way.
pub(super) fn merge(base: &mut Message, over: &Message) {
    let mut done: Vec<&Name> = Vec::new();
    base.incomplete |= over.incomplete;
    for field in &over.fields {
        if done.iter().any(|name| name.kind == field.name.kind) {
            continue;
        }
        done.push(&field.name);
        let same = |other: &&Field| other.name.kind == field.name.kind;
        let values = |message: &Message| -> Vec<Value> {
            message
                .fields
                .iter()
                .filter(same)
                .map(|field| field.value.clone())
                .collect()
        };
        let held = joined(values(base), values(over));
        base.fields.retain(|other| !same(&other));
        base.fields.extend(held.into_iter().map(|value| Field {
            value,
            ..field.clone()
        }));
    }
}

fn field(name: &str, value: Value, span: Span) -> Field {
    let mut field = Field::new(NameKind::Plain(name.to_owned()), value);
    (field.span, field.name.span) = (span, span);
    field
}
