//! Conversion of a JSON configuration, by the rules of protocol buffers, to the text of a
//! `config.pbtxt`.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::super::graph::quoted;

/// The type of a field whose JSON value is ambiguous.
#[derive(Copy, Clone, PartialEq, Eq)]
enum FieldForm {
    /// A word of an enum, which JSON has in quotes.
    Word,
    /// A 64-bit number, which JSON may have in quotes.
    Number,
    /// A map, which JSON has as an object.
    Map,
}

impl FieldForm {
    fn for_field(field: &str) -> Option<Self> {
        match field {
            "data_type" | "format" | "kind" | "timeout_action" => Some(Self::Word),
            "default_timeout_microseconds"
            | "dims"
            | "max_queue_delay_microseconds"
            | "model_version"
            | "versions" => Some(Self::Number),
            "cc_model_filenames" | "input_map" | "metric_tags" | "output_map" | "parameters"
            | NUMBERED => Some(Self::Map),
            _ => None,
        }
    }
}

/// Map field whose keys are numbers.
const NUMBERED: &str = "priority_queue_policy";

/// Converts a JSON configuration to text.
///
/// # Errors
/// If it is not a JSON object, or a name is not that of a field.
pub(super) fn text(config: &str) -> Result<String, String> {
    let config: Value = serde_json::from_str(config).map_err(|error| error.to_string())?;
    let Value::Object(fields) = config else {
        return Err("it is not a JSON object".to_owned());
    };
    let mut text = String::new();
    write_message(&mut text, &fields)?;
    Ok(text)
}

fn write_message(text: &mut String, fields: &Map<String, Value>) -> Result<(), String> {
    for (name, value) in fields {
        let name = snake_case(name)?;
        let form = FieldForm::for_field(&name);
        match value {
            Value::Null => {}
            Value::Object(entries) if form == Some(FieldForm::Map) => {
                for (key, value) in entries {
                    let key = if name == NUMBERED && is_number(key) {
                        key.clone()
                    } else {
                        quoted(key)
                    };
                    let _ = write!(text, "{name} {{ key: {key} ");
                    write_field(text, "value", None, value)?;
                    text.push_str("}\n");
                }
            }
            Value::Array(values) => {
                for value in values {
                    write_field(text, &name, form, value)?;
                }
            }
            value => write_field(text, &name, form, value)?,
        }
    }
    Ok(())
}

fn write_field(
    text: &mut String,
    name: &str,
    form: Option<FieldForm>,
    value: &Value,
) -> Result<(), String> {
    // Writing to a string cannot fail.
    let _ = match value {
        Value::Object(fields) => {
            let _ = writeln!(text, "{name} {{");
            write_message(text, fields)?;
            writeln!(text, "}}")
        }
        Value::Null | Value::Array(_) => {
            return Err(format!(
                "`{name}` contains `null` or a list where a value is expected"
            ));
        }
        Value::String(word) => {
            let value = match form {
                Some(FieldForm::Word) if is_word(word) => word.clone(),
                Some(FieldForm::Number) if is_number(word) => word.clone(),
                _ => quoted(word),
            };
            writeln!(text, "{name}: {value}")
        }
        Value::Bool(_) | Value::Number(_) => writeln!(text, "{name}: {value}"),
    };
    Ok(())
}

/// Returns the name of a field, which JSON may have in `camelCase`.
fn snake_case(name: &str) -> Result<String, String> {
    let mut plain = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            plain.push('_');
        }
        plain.push(letter.to_ascii_lowercase());
    }
    let is_field = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '_';
    if plain.starts_with(|it: char| it.is_ascii_lowercase()) && plain.chars().all(is_field) {
        Ok(plain)
    } else {
        let shown = graphmill_engine::shortened(name, 100);
        Err(format!("unknown field `{shown}`"))
    }
}

fn is_word(text: &str) -> bool {
    let is_part = |it: char| it.is_ascii_uppercase() || it.is_ascii_digit() || it == '_';
    text.starts_with(|it: char| it.is_ascii_uppercase()) && text.chars().all(is_part)
}

fn is_number(text: &str) -> bool {
    text.parse::<i64>().is_ok_and(|it| it.to_string() == text)
        || text.parse::<u64>().is_ok_and(|it| it.to_string() == text)
}

#[cfg(test)]
mod tests {
    use graphmill_grammar::{SourceMap, diag::has_errors, parse};

    use super::*;

    #[test]
    fn what_is_written_can_be_read_and_what_cannot_be_written_is_refused() {
        let config = r#"{
            "parameters": {"a \"b\"\n}": {"stringValue": "\\ \u0001 \u2028 é"}},
            "dims": ["-1", 3], "nested": {"a": {"b": [{"c": 1.5}, {}]}}, "none": null, "empty": [],
            "data_type": "TYPE_FP32", "format": "no word", "priorityQueuePolicy": {"1": {}, "x": {}}
        }"#;
        let written = text(config).expect("a text");
        let mut sources = SourceMap::new();
        let id = sources.add("config", written.clone());
        let (_, diagnostics) = parse(&sources, id);
        assert!(!has_errors(&diagnostics), "{written}\n{diagnostics:?}");
        for part in [
            "dims: -1",
            "data_type: TYPE_FP32",
            "format: \"no word\"",
            "key: 1 ",
        ] {
            assert!(written.contains(part), "{written}");
        }
        let deep = format!("{}1{}", "{\"a\":".repeat(500), "}".repeat(500));
        for wrong in [
            "",
            "[]",
            "1",
            r#"{"a b": 1}"#,
            r#"{"": 1}"#,
            r#"{"a": [[1]]}"#,
            &deep,
        ] {
            assert!(text(wrong).is_err(), "{wrong}");
        }
    }
}
