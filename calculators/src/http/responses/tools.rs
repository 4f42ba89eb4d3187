//! Tools of a request: functions, tools that take a text, and namespaces with both.

use std::collections::BTreeMap;

use graphmill_dialects::{
    Fields,
    error::{at_most, invalid},
    limits::MAX_TOOLS,
};
use graphmill_engine::Result;
use regex_syntax::ast::{ErrorKind, parse::Parser};
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use super::lark::{self, Lacking};
use crate::http::chat::{Names, function_of};
use crate::payload::ToolOrigin;

/// Only argument of a tool that takes a text.
const INPUT: &str = "input";

/// The tools that are offered to the model.
#[derive(Debug, Default)]
pub(super) struct Toolbox {
    /// Tools as templates expect them, by the names that the model sees.
    pub(super) functions: Map<String, Value>,
    /// Tools as the request names them, by the names that the model sees.
    pub(super) origins: BTreeMap<String, ToolOrigin>,
    /// True if the request demands a call, so that calls are constrained to the tools' formats.
    pub(super) are_calls_held: bool,
}

impl Toolbox {
    /// Adds the list of tools at `path` in the request. Tools replace those of the same name in
    /// earlier lists. The provider's are left out.
    pub(super) fn add(
        &mut self,
        tools: Vec<Map<String, Value>>,
        path: &str,
        fields: &mut Fields,
    ) -> Result<()> {
        let mut names = Names::default();
        self.add_within(None, tools, path, &mut names, fields)?;
        at_most(path, self.functions.len(), MAX_TOOLS, "functions")
    }

    fn add_within(
        &mut self,
        namespace: Option<&str>,
        tools: Vec<Map<String, Value>>,
        path: &str,
        names: &mut Names,
        fields: &mut Fields,
    ) -> Result<()> {
        for (index, mut tool) in tools.into_iter().enumerate() {
            let path = format!("{path}[{index}]");
            let text = |name: &str| tool.get(name).and_then(Value::as_str).unwrap_or_default();
            let (kind, name) = (text("type").to_owned(), text("name").to_owned());
            match &*kind {
                "namespace" => {
                    let tools = serde_json::from_value(tool.remove("tools").unwrap_or_default());
                    let path = format!("{path}.tools");
                    self.add_within(Some(&name), tools.unwrap_or_default(), &path, names, fields)?;
                }
                "function" | "custom" => {
                    let known = name_within(namespace, &name);
                    names.add(&known, || format!("{path}.name"))?;
                    tool.insert("name".to_owned(), known.clone().into());
                    let takes_text = kind == "custom";
                    if takes_text {
                        let held = with_argument(&mut tool, self.are_calls_held);
                        let why = |why| invalid(format!("{path}.format.definition"), why);
                        if !held.map_err(why)? {
                            // The model sees the format, but it is not enforced.
                            fields.ignore(format!("{path}.format"));
                        }
                    }
                    let origin = ToolOrigin {
                        namespace: namespace.map(str::to_owned),
                        name,
                        takes_text,
                    };
                    self.functions
                        .insert(known.clone(), function_of(tool, "parameters"));
                    self.origins.insert(known, origin);
                }
                kind => fields.ignore(format!("{path}:{kind}")),
            }
        }
        Ok(())
    }
}

/// Converts a tool that takes a text to a function of one argument. Returns false if the text has a
/// format that is not enforced. The error describes the fault of the format.
fn with_argument(
    tool: &mut Map<String, Value>,
    are_calls_held: bool,
) -> std::result::Result<bool, String> {
    let format = tool.remove("format").unwrap_or_default();
    let mut input = json!({ "type": "string" });
    let definition = format["definition"].as_str();
    let expression = match (definition, format["syntax"].as_str()) {
        (Some(expression), Some("regex")) => {
            check(expression, are_calls_held)?;
            Some(expression.to_owned())
        }
        (Some(grammar), _) => {
            input["description"] = format!("Matches this grammar in Lark:\n{grammar}").into();
            // A regular expression would not help the model.
            match lark::expression(grammar) {
                Ok(expression) => Some(expression).filter(|_| are_calls_held),
                Err(Lacking::Expression) => None,
                Err(Lacking::Broken(why)) => return Err(format!("is not a Lark grammar: {why}")),
            }
        }
        (None, _) => None,
    };
    let is_held = definition.is_none() || are_calls_held && expression.is_some();
    if let Some(expression) = expression {
        input["pattern"] = format!("^(?:{expression})$").into();
    }
    let parameters = json!({
        "type": "object", "properties": { INPUT: input }, "required": [INPUT],
        "additionalProperties": false,
    });
    tool.insert("parameters".to_owned(), parameters);
    Ok(is_held)
}

/// Refuses invalid regular expressions, and those that cannot be enforced if calls are constrained.
fn check(expression: &str, are_calls_held: bool) -> std::result::Result<(), String> {
    match Parser::new().parse(expression) {
        Ok(_) => Ok(()),
        Err(error) if *error.kind() == ErrorKind::UnsupportedLookAround && !are_calls_held => {
            Ok(())
        }
        Err(error) => Err(format!(
            "is not a regular expression that can be enforced: {} at character {}",
            error.kind(),
            error.span().start.column
        )),
    }
}

/// Returns the arguments of a call of a tool that takes a text.
pub(super) fn arguments_of(text: String) -> Map<String, Value> {
    Map::from_iter([(INPUT.to_owned(), text.into())])
}

/// Returns the text in arguments that were cut off before its end; `None` if they were not.
fn begun(arguments: &str) -> Option<String> {
    if serde_json::from_str::<IgnoredAny>(arguments).is_ok() {
        return None;
    }
    let mut rest = arguments;
    for word in ["{", "\"input\"", ":", "\""] {
        rest = rest.trim_start();
        if word.starts_with(rest) && rest.len() < word.len() {
            return Some(String::new());
        }
        rest = rest.strip_prefix(word)?;
    }
    let string = &arguments[arguments.len() - rest.len() - 1..];
    let mut strings = serde_json::Deserializer::from_str(string).into_iter();
    if let Some(Ok(text)) = strings.next() {
        let behind = string[strings.byte_offset()..].trim();
        return behind.is_empty().then_some(text);
    }
    // The last escape may have been cut, and so may a pair of surrogates.
    let whole = |end| serde_json::from_str(&format!("\"{}\"", rest.get(..end)?)).ok();
    (rest.len().saturating_sub(12)..=rest.len())
        .rev()
        .find_map(whole)
}

/// Returns the text in the arguments of such a call. If the model wrote other arguments, it is the
/// only text in them, or all of them.
pub(super) fn text_of(arguments: &str) -> String {
    if let Some(text) = begun(arguments) {
        return text;
    }
    let mut fields = crate::http::arguments::object(arguments);
    let only = fields.len() == 1;
    let input = fields.remove(INPUT);
    match input.or_else(|| fields.into_values().next().filter(|_| only)) {
        Some(Value::String(text)) => text,
        _ => arguments.to_owned(),
    }
}

/// Returns the name of a tool for the model.
pub(super) fn name_within(namespace: Option<&str>, name: &str) -> String {
    match namespace {
        None | Some("") => name.to_owned(),
        Some(namespace) => format!("{namespace}__{name}"),
    }
}

/// Returns true if a choice of tools demands a call.
pub(super) fn demands_call(choice: &Value) -> bool {
    let kinds = [&choice["type"], &choice["mode"], choice];
    let demands = |kind: &&Value| matches!(kind.as_str(), Some("function" | "custom" | "required"));
    kinds.iter().any(demands)
}

/// Converts a choice of tools to the names that the model sees.
pub(super) fn choice(mut choice: Value) -> Value {
    let rename = |tool: &mut Value| {
        let namespace = tool["namespace"].as_str();
        let Some(name) = tool["name"].as_str().filter(|_| namespace.is_some()) else {
            return;
        };
        tool["name"] = name_within(namespace, name).into();
    };
    let list = choice.get_mut("tools").and_then(Value::as_array_mut);
    list.into_iter().flatten().for_each(rename);
    rename(&mut choice);
    choice
}

#[cfg(test)]
mod tests {
    use super::text_of;

    #[test]
    fn the_text_of_a_call_is_told_as_far_as_it_came() {
        for (arguments, text) in [
            (r#"{"input": "a\nb"}"#, "a\nb"),
            (r#"{"input": "a\nb""#, "a\nb"),
            (r#"{"input": "a\"#, "a"),
            (r#"{"input": "a\u00"#, "a"),
            (r#"{"input": "a\ud83d\ude"#, "a"),
            (r#"{"input": ""#, ""),
            (r#"{"inp"#, ""),
            ("", ""),
            (r#"{"patch": "x"}"#, "x"),
            (r#"{"input": "x\ud83d"}"#, "x\u{fffd}"),
            ("*** Begin", "*** Begin"),
            (r#"{"other": "#, r#"{"other": "#),
        ] {
            assert_eq!(text_of(arguments), text, "{arguments}");
        }
    }
}
