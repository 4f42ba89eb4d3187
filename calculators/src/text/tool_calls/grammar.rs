//! What calls of tools have to look like where the request demands them.

use graphmill_llm::Constraint;
use serde_json::{Value, json};

use crate::payload::ToolChoice;

/// How a format spells calls.
pub(crate) struct Spelling {
    /// Before the first call.
    pub(crate) open: &'static [Part],
    pub(crate) call: &'static [Part],
    /// Between calls; none where an answer has one call.
    pub(crate) separator: Option<&'static [Part]>,
    /// After the last call.
    pub(crate) close: &'static [Part],
}

/// A part of a spelling.
pub(crate) enum Part {
    /// A mark, which many vocabularies have a token for.
    Mark(&'static str),
    Text(&'static str),
    /// The tool's name, as inside of a JSON string.
    Name,
    /// The arguments, as JSON.
    Arguments,
    /// Each argument by itself. A value that is a string is written as it is, another as JSON.
    Parameters(Parameter),
}

/// A call as an object with its name and its arguments.
pub(crate) const JSON_CALL: &[Part] = &[
    Part::Text("{\"name\": \""),
    Part::Name,
    Part::Text("\", \"arguments\": "),
    Part::Arguments,
    Part::Text("}"),
];

/// How an argument is spelled that stands by itself.
#[derive(Clone, Copy)]
pub(crate) struct Parameter {
    /// Before its name.
    pub(crate) before: &'static str,
    /// Between its name and its value.
    pub(crate) between: &'static str,
    /// Between its value and its end, if it has any.
    pub(crate) gap: &'static str,
    /// Its end, which is in no value.
    pub(crate) end: &'static str,
}

/// What the calls of an answer have to match.
pub(crate) fn calls(
    spelling: &Spelling,
    tools: &[Value],
    choice: &ToolChoice,
    one_call: bool,
) -> Constraint {
    let functions = tools.iter().map(|tool| &tool["function"]);
    let chosen = functions.filter(|function| match choice {
        ToolChoice::Named(name) => function["name"] == **name,
        ToolChoice::Auto | ToolChoice::Required => true,
    });
    let call = Constraint::AnyOf(
        chosen
            .map(|function| sequence(spelling.call, function))
            .collect(),
    );
    let calls = match spelling.separator {
        Some(separator) if !one_call => Constraint::Repeated {
            each: Box::new(call),
            separator: Box::new(sequence(separator, &Value::Null)),
        },
        _ => call,
    };
    Constraint::Sequence(vec![
        sequence(spelling.open, &Value::Null),
        calls,
        sequence(spelling.close, &Value::Null),
    ])
}

/// What a text has to match in which every call is right, if the format marks calls.
pub(crate) fn text_with_calls(spelling: &Spelling, tools: &[Value]) -> Option<Constraint> {
    let (opened, mark) = match (spelling.open, spelling.call) {
        ([Part::Mark(mark) | Part::Text(mark), ..], _) => (true, *mark),
        ([], [Part::Mark(mark), ..]) => (false, *mark),
        _ => return None,
    };
    let without_mark = Spelling {
        open: if opened { &spelling.open[1..] } else { &[] },
        call: if opened {
            spelling.call
        } else {
            &spelling.call[1..]
        },
        // Calls that are not wrapped together have a mark each.
        separator: spelling.separator.filter(|_| opened),
        close: spelling.close,
    };
    Some(Constraint::TextWith {
        mark: mark.to_owned(),
        then: Box::new(calls(&without_mark, tools, &ToolChoice::Auto, false)),
    })
}

fn sequence(parts: &[Part], function: &Value) -> Constraint {
    let name = || function["name"].as_str().unwrap_or_default();
    let constraint = |part: &Part| match part {
        Part::Mark(mark) => Constraint::Mark((*mark).to_owned()),
        Part::Text(text) => Constraint::Text((*text).to_owned()),
        Part::Name => {
            let quoted = Value::from(name()).to_string();
            Constraint::Text(quoted[1..quoted.len() - 1].to_owned())
        }
        Part::Arguments => Constraint::JsonSchema(parameters(function)),
        Part::Parameters(spelling) => each_parameter(&parameters(function), *spelling),
    };
    Constraint::Sequence(parts.iter().map(constraint).collect())
}

/// The schema of a tool's arguments. A tool without one takes none; properties that the schema does
/// not name are left out.
fn parameters(function: &Value) -> Value {
    let mut schema = match &function["parameters"] {
        Value::Object(schema) if !schema.is_empty() => schema.clone(),
        _ => return json!({"type": "object", "properties": {}, "additionalProperties": false}),
    };
    schema.entry("type").or_insert_with(|| "object".into());
    if schema.contains_key("properties") {
        schema
            .entry("additionalProperties")
            .or_insert_with(|| false.into());
    }
    Value::Object(schema)
}

/// Each property of an object schema in turn; those that are not required may be left out.
fn each_parameter(schema: &Value, spelling: Parameter) -> Constraint {
    let required = |name: &str| {
        let required = schema["required"].as_array().map_or(&[][..], Vec::as_slice);
        required.iter().any(|required| required == name)
    };
    let properties = schema["properties"].as_object().into_iter().flatten();
    let parameters = properties.map(|(name, property)| {
        let Parameter {
            before, between, ..
        } = spelling;
        let head = Constraint::Text(format!("{before}{name}{between}"));
        let mut parts = vec![head];
        parts.extend(value(schema, property, spelling));
        parts.push(Constraint::Text("\n".to_owned()));
        if required(name) {
            Constraint::Sequence(parts)
        } else {
            Constraint::Optional(Box::new(Constraint::Sequence(parts)))
        }
    });
    Constraint::Sequence(parameters.collect())
}

/// A value and what ends it.
fn value(schema: &Value, property: &Value, spelling: Parameter) -> Vec<Constraint> {
    let end = Constraint::Text(format!("{}{}", spelling.gap, spelling.end));
    if let Value::Array(values) = &property["enum"] {
        let text = |value: &Value| {
            value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned)
        };
        let values = values.iter().map(|value| Constraint::Text(text(value)));
        return vec![Constraint::AnyOf(values.collect()), end];
    }
    if property["type"] == "string" {
        return vec![Constraint::TextUpTo(spelling.end.to_owned())];
    }
    let mut property = property.clone();
    // References are to the whole schema.
    for name in ["$defs", "definitions"] {
        if let Some(definitions) = schema.get(name) {
            property[name] = definitions.clone();
        }
    }
    vec![Constraint::JsonSchema(property), end]
}
