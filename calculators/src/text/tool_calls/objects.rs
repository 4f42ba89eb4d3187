//! Tool calls as JSON objects with a name and arguments.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

use super::read::{Step, Stop, word};

/// A call, as far as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ParsedCall {
    pub(super) name: String,
    /// Id that the model wrote, if it wrote one.
    pub(super) id: Option<String>,
    /// Arguments as a JSON object, or its beginning.
    pub(super) arguments: String,
    pub(super) complete: bool,
}

/// Keys that models use for the name of the tool.
const NAME_KEYS: [&str; 4] = ["name", "function", "tool", "tool_name"];
/// Keys that models use for the arguments.
const ARGUMENT_KEYS: [&str; 4] = ["arguments", "parameters", "args", "input"];
/// Other keys that a call can have.
const OTHER_KEYS: [&str; 4] = ["type", "id", "tool_call_id", "tool_calls"];

/// Returns the call that a JSON object describes. The arguments keep their text.
pub(super) fn call(object: &str) -> Option<ParsedCall> {
    let fields: BTreeMap<String, &RawValue> = serde_json::from_str(object).ok()?;
    let field = |keys: &[&str]| keys.iter().find_map(|key| fields.get(*key).copied());
    let name = field(&NAME_KEYS)?.get();
    if name.starts_with('{') {
        return call(name);
    }
    let arguments = match field(&ARGUMENT_KEYS).map(RawValue::get) {
        None | Some("null") => "{}".to_owned(),
        Some(object) if object.starts_with('{') => object.to_owned(),
        Some(text) => nested(text)?,
    };
    Some(ParsedCall {
        name: serde_json::from_str(name).ok()?,
        id: None,
        arguments,
        complete: true,
    })
}

/// Returns the object inside a string of JSON.
fn nested(text: &str) -> Option<String> {
    let text: String = serde_json::from_str(text).ok()?;
    if text.trim().is_empty() {
        return Some("{}".to_owned());
    }
    serde_json::from_str::<Value>(&text)
        .ok()?
        .is_object()
        .then_some(text)
}

/// Checks that the first key of the object at `at` is one that calls have.
pub(super) fn known_key(text: &str, at: usize) -> Step<()> {
    let at = word(text, word(text, at, "{")?, "\"")?;
    let key = text[at..].split_once('"').ok_or(Stop::More)?.0;
    let mut keys = NAME_KEYS.iter().chain(&ARGUMENT_KEYS).chain(&OTHER_KEYS);
    keys.any(|known| *known == key)
        .then_some(())
        .ok_or(Stop::Not)
}

/// Returns the name in the object at `at`, and the position of its arguments, if they come in this
/// order. Arguments can then be passed on before the object ends.
pub(super) fn head(text: &str, at: usize) -> Step<(String, usize)> {
    let mut at = at;
    for expected in ["{", "\"name\"", ":", "\""] {
        at = word(text, at, expected)?;
    }
    let ends = |c: char| c == '"' || c == '\\' || c.is_control();
    let end = at + text[at..].find(ends).ok_or(Stop::More)?;
    let name = text[at..end].to_owned();
    if name.is_empty() || !text[end..].starts_with('"') {
        return Err(Stop::Not);
    }
    at = word(text, end + 1, ",")?;
    at = match word(text, at, "\"arguments\"") {
        Err(Stop::Not) => word(text, at, "\"parameters\"")?,
        read => read?,
    };
    at = word(text, at, ":")?;
    let start = text.len() - text[at..].trim_start().len();
    word(text, at, "{").map(|_| (name, start))
}
