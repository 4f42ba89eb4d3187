//! Calls as JSON objects with a name and arguments.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

use super::read::{Step, Stop, word};

/// A call as far as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Call {
    pub(super) name: String,
    /// The id that the model wrote.
    pub(super) id: Option<String>,
    /// A JSON object, or the beginning of one.
    pub(super) arguments: String,
    pub(super) complete: bool,
}

/// Keys that models name the tool with.
const NAME_KEYS: [&str; 4] = ["name", "function", "tool", "tool_name"];
/// Keys that models put the arguments under.
const ARGUMENT_KEYS: [&str; 4] = ["arguments", "parameters", "args", "input"];
/// Keys that stand beside them.
const OTHER_KEYS: [&str; 4] = ["type", "id", "tool_call_id", "tool_calls"];

/// The call that a JSON object describes. The arguments keep the text they came in.
pub(super) fn call(object: &str) -> Option<Call> {
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
    Some(Call {
        name: serde_json::from_str(name).ok()?,
        id: None,
        arguments,
        complete: true,
    })
}

/// The object inside a string of JSON.
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

/// Makes sure that the object at `at` has a first key that calls have.
pub(super) fn known_key(text: &str, at: usize) -> Step<()> {
    let at = word(text, word(text, at, "{")?, "\"")?;
    let key = text[at..].split_once('"').ok_or(Stop::More)?.0;
    let mut keys = NAME_KEYS.iter().chain(&ARGUMENT_KEYS).chain(&OTHER_KEYS);
    keys.any(|known| *known == key)
        .then_some(())
        .ok_or(Stop::Not)
}

/// The name in the object at `at`, and where its arguments begin, if it has them in this order:
/// they can be seen before the object ends.
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
