//! Tools of a request: functions, tools that take a text, and namespaces of both.

use std::collections::BTreeMap;

use graphmill_dialects::{Fields, error::at_most, limits::MAX_TOOLS};
use graphmill_engine::Result;
use serde_json::{Map, Value, json};

use crate::http::chat::{Names, function_of};
use crate::payload::ToolOrigin;

/// The one argument of a tool that takes a text.
const INPUT: &str = "input";

/// The tools that the model is offered.
#[derive(Debug, Default)]
pub(super) struct Toolbox {
    /// As templates expect them, by the names that the model knows.
    pub(super) functions: Map<String, Value>,
    /// The same in the words of the request.
    pub(super) origins: BTreeMap<String, ToolOrigin>,
}

impl Toolbox {
    /// Adds a list of tools, which is at `path` in the request. They take the place of those of
    /// their names in earlier lists. The provider's are left out.
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
                    if takes_text && with_argument(&mut tool) {
                        // The model is told of it, and not held to it.
                        fields.ignore(format!("{path}.format"));
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

/// Makes a tool that takes a text a function of one argument; true if the text is to have a form.
fn with_argument(tool: &mut Map<String, Value>) -> bool {
    let format = tool.remove("format").unwrap_or_default();
    let mut input = json!({ "type": "string" });
    let definition = format["definition"].as_str();
    match (definition, format["syntax"].as_str()) {
        (None, _) => {}
        (Some(expression), Some("regex")) => {
            input["pattern"] = format!("^(?:{expression})$").into();
        }
        (Some(grammar), _) => {
            input["description"] = format!("Matches this grammar in Lark:\n{grammar}").into();
        }
    }
    let parameters = json!({
        "type": "object", "properties": { INPUT: input }, "required": [INPUT],
        "additionalProperties": false,
    });
    tool.insert("parameters".to_owned(), parameters);
    definition.is_some()
}

/// The arguments of a call of a tool that takes a text.
pub(super) fn arguments_of(text: String) -> Map<String, Value> {
    Map::from_iter([(INPUT.to_owned(), text.into())])
}

/// The text in the arguments of such a call: of those that the model wrote otherwise, the only one,
/// or all.
pub(super) fn text_of(arguments: &str) -> String {
    let mut fields = crate::http::arguments::object(arguments);
    let only = fields.len() == 1;
    let input = fields.remove(INPUT);
    match input.or_else(|| fields.into_values().next().filter(|_| only)) {
        Some(Value::String(text)) => text,
        _ => arguments.to_owned(),
    }
}

/// The name of a tool for the model.
pub(super) fn name_within(namespace: Option<&str>, name: &str) -> String {
    match namespace {
        None | Some("") => name.to_owned(),
        Some(namespace) => format!("{namespace}__{name}"),
    }
}

/// A choice of tools by the names that the model knows.
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
