//! Updates of test files: actual packets become expected ones. The rest of the file stays as
//! written.

use std::collections::BTreeMap;

use serde_json::Value;
use toml_edit::{Array, DocumentMut, InlineTable, Item};

use super::line::Shown;

/// The text of a test file, with its structure.
pub(crate) struct TestDocument(DocumentMut);

impl TestDocument {
    /// Parses a test file. The error names the place.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        text.parse()
            .map(Self)
            .map_err(|error: toml_edit::TomlError| error.to_string())
    }

    pub(crate) fn text(&self) -> String {
        self.0.to_string()
    }

    /// Replaces the expected packets of case `at`. Returns false if that does not make the case
    /// pass: an expected error, text or part of a value cannot be replaced by packets.
    pub(crate) fn set(&mut self, at: usize, outputs: &BTreeMap<String, Vec<Shown>>) -> bool {
        let cases = self.0.get_mut("case");
        let cases = cases.and_then(Item::as_array_of_tables_mut);
        let Some(case) = cases.and_then(|cases| cases.get_mut(at)) else {
            return false;
        };
        if case.contains_key("error") || case.contains_key("stuck") {
            return false;
        }
        let expect = case.entry("expect").or_insert_with(toml_edit::table);
        let Some(expect) = expect.as_table_like_mut() else {
            return false;
        };
        let has_part = |packet: &toml_edit::Value| {
            let packet = packet.as_inline_table();
            packet.is_some_and(|packet| packet.contains_key("contains"))
        };
        let in_other_words = |item: &Item| {
            let packets = item.as_array();
            packets.is_none_or(|packets| packets.iter().any(has_part))
        };
        if expect.iter().any(|(_, item)| in_other_words(item)) {
            return false;
        }
        let named: Vec<String> = expect.iter().map(|(name, _)| name.to_owned()).collect();
        for stream in named {
            if !outputs.contains_key(&stream) {
                expect.insert(&stream, toml_edit::value(Array::new()));
            }
        }
        for (stream, packets) in outputs {
            let mut list = toml_edit::Value::from(list(packets));
            // A comment after the old value belongs to the new one.
            if let Some(before) = expect.get(stream).and_then(Item::as_value) {
                *list.decor_mut() = before.decor().clone();
            }
            expect.insert(stream, toml_edit::value(list));
        }
        true
    }
}

/// Lists the packets of a stream, one per line.
fn list(packets: &[Shown]) -> Array {
    let mut array = Array::new();
    for packet in packets {
        let mut table = InlineTable::new();
        for (name, value) in [("timestamp", &packet.timestamp), ("value", &packet.value)] {
            if let Some(value) = toml_value(value) {
                table.insert(name, value);
            }
        }
        let mut value = toml_edit::Value::from(table);
        value.decor_mut().set_prefix("\n  ");
        array.push_formatted(value);
    }
    if !array.is_empty() {
        array.set_trailing_comma(true);
        array.set_trailing("\n");
    }
    array
}

/// Converts a JSON value to TOML; `None` for null, which TOML does not have.
pub(crate) fn toml_value(value: &Value) -> Option<toml_edit::Value> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(value) => (*value).into(),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => integer.into(),
            None => number.as_f64()?.into(),
        },
        Value::String(text) => text.as_str().into(),
        Value::Array(values) => values.iter().filter_map(toml_value).collect(),
        Value::Object(fields) => {
            let fields = fields.iter();
            let fields = fields.filter_map(|(name, value)| Some((name, toml_value(value)?)));
            fields.collect::<InlineTable>().into()
        }
    })
}
