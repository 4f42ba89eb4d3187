//! Descriptions of schemas, for errors and for the reference.

use serde_json::Value;

/// Describes the values of a field, such as `between 0 and 2`.
pub fn words(schema: &Value) -> String {
    if let Some(words) = schema["x-words"].as_str() {
        return words.to_owned();
    }
    if schema["x-only"] == true {
        return match schema["enum"].as_array().map(Vec::as_slice) {
            None | Some([]) => "not supported".to_owned(),
            Some(values) => format!("only {}", list(values, Value::to_string)),
        };
    }
    if let Some(branches) = branches(schema) {
        return either(branches.iter().map(words));
    }
    if let Some(values) = schema["enum"].as_array() {
        return format!("one of {}", list(values, plain));
    }
    if let Some(only) = schema.get("const") {
        return format!("`{}`", plain(only));
    }
    let number = |name: &str| schema[name].as_f64();
    let (least, most) = (number("minimum"), number("maximum"));
    match (schema["type"].as_str(), least, most) {
        (Some("array"), ..) => match (schema["maxItems"].as_u64(), schema["x-entries"].as_str()) {
            (Some(most), Some(what)) if schema["minItems"] == 1 => {
                format!("an array of 1 to {most} {what}")
            }
            (Some(most), _) => format!("an array of at most {most}"),
            (None, _) => kinds(schema),
        },
        (Some("integer"), Some(least), Some(most)) if most < f64::from(u32::MAX) => {
            format!("an integer between {least} and {most}")
        }
        (Some("integer"), Some(least), _) => format!("an integer of at least {least}"),
        (_, Some(least), Some(most)) => format!("between {least} and {most}"),
        (_, Some(least), None) => format!("a number of at least {least}"),
        _ => match number("exclusiveMinimum") {
            Some(bound) => format!("above {bound}"),
            None => kinds(schema),
        },
    }
}

/// Describes the types of a schema, such as `a string or an array`.
pub(crate) fn kinds(schema: &Value) -> String {
    if let Some(words) = schema["x-kind"].as_str() {
        return words.to_owned();
    }
    let kind = |name: &Value| match name.as_str() {
        Some("boolean") => "a boolean",
        Some("integer") => "an integer",
        Some("number") => "a number",
        Some("string") => "a string",
        Some("array") => "an array",
        Some("object") => "an object",
        _ => "null",
    };
    match &schema["type"] {
        Value::Array(names) => either(names.iter().map(|name| kind(name).to_owned())),
        Value::Null => {
            let branches = branches(schema).into_iter().flatten();
            let mut all: Vec<String> = branches.map(kinds).collect();
            all.dedup();
            either(all.into_iter())
        }
        name => kind(name).to_owned(),
    }
}

/// Returns the alternatives in a schema: those of `anyOf` or `oneOf`.
pub(super) fn branches(schema: &Value) -> Option<&Vec<Value>> {
    schema["anyOf"].as_array().or(schema["oneOf"].as_array())
}

fn either(all: impl Iterator<Item = String>) -> String {
    let all: Vec<String> = all
        .filter(|each| each != "null" && !each.is_empty())
        .collect();
    all.join(" or ")
}

/// Writes a value as JSON, but a string without its quotes.
fn plain(value: &Value) -> String {
    value.to_string().trim_matches('"').to_owned()
}

fn list(values: &[Value], written: impl Fn(&Value) -> String) -> String {
    let values: Vec<String> = values
        .iter()
        .map(|value| format!("`{}`", written(value)))
        .collect();
    values.join(", ")
}
