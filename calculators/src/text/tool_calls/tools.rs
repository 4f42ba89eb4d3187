//! The tools of a request, and the schemas of their parameters.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use graphmill_llm::resolved_schema;
use serde_json::Value;

use super::schema::{self, Domain};

/// The tools of a request by name, with the schemas of their parameters.
#[derive(Debug, Default)]
pub(crate) struct Tools(BTreeMap<String, ToolParameters>);

/// The schema of a tool's parameters.
#[derive(Debug, Default)]
struct ToolParameters {
    given: Value,
    /// Schema with its references resolved, as far as they can be.
    resolved: OnceLock<Value>,
}

impl Tools {
    /// Reads the tools that a request lists.
    pub(crate) fn new(tools: &[Value]) -> Self {
        let functions = tools.iter().map(|tool| &tool["function"]);
        let named = functions.filter_map(|function| {
            let name = function["name"].as_str()?;
            let parameters = ToolParameters {
                given: function["parameters"].clone(),
                ..ToolParameters::default()
            };
            Some((name.to_owned(), parameters))
        });
        Self(named.collect())
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Returns the values that a parameter can have.
    pub(super) fn domain(&self, tool: &str, parameter: &str) -> Domain {
        let Some(ToolParameters { given, resolved }) = self.0.get(tool) else {
            return Domain::new(&[]);
        };
        let root = || resolved_schema(given).unwrap_or_else(|_| given.clone());
        let root = resolved.get_or_init(root);
        let objects = schema::alternatives(root, root);
        let named = objects.iter().filter_map(|object| {
            let properties = object.get("properties");
            let named = properties.and_then(|named| named.get(parameter));
            named.or_else(|| object.get("additionalProperties"))
        });
        let all = named.flat_map(|property| schema::alternatives(property, root));
        Domain::new(&all.collect::<Vec<_>>())
    }
}
