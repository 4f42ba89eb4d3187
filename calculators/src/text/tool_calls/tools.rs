//! What the request says about its tools.

use std::collections::BTreeMap;

use serde_json::Value;

use super::schema::{self, Kinds};

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

    /// Returns the types that a parameter's value may have.
    pub(super) fn kinds(&self, tool: &str, parameter: &str) -> Kinds {
        let Some(root) = self.0.get(tool) else {
            return Kinds::ANY;
        };
        let objects = schema::alternatives(root, root);
        let named = objects.iter().filter_map(|object| {
            let properties = object.get("properties");
            let named = properties.and_then(|named| named.get(parameter));
            named.or_else(|| object.get("additionalProperties"))
        });
        let kinds = named.map(|property| Kinds::of(property, root));
        kinds.reduce(Kinds::or).unwrap_or(Kinds::ANY)
    }
}
