//! What the request says about its tools.

use std::collections::BTreeMap;

use serde_json::Value;

/// The tools of a request by name, with the schemas of their parameters.
#[derive(Debug, Default)]
pub(crate) struct Tools(BTreeMap<String, Value>);

impl Tools {
    /// Reads the tools that a request lists.
    pub(crate) fn new(tools: &[Value]) -> Self {
        let functions = tools.iter().map(|tool| &tool["function"]);
        let named = functions.filter_map(|function| {
            let name = function["name"].as_str()?;
            Some((name.to_owned(), function["parameters"].clone()))
        });
        Self(named.collect())
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Whether a parameter's value is a string and nothing else, so that it is not read as JSON.
    pub(super) fn takes_text(&self, tool: &str, parameter: &str) -> bool {
        let schema = self.0.get(tool).map(|tool| &tool["properties"][parameter]);
        schema.is_some_and(|schema| {
            schema["type"] == "string"
                || schema["enum"]
                    .as_array()
                    .is_some_and(|values| values.iter().all(Value::is_string))
        })
    }
}
