//! Fields of chats about tools and reasoning.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Value, json};

use super::shapes::parameters;
use crate::{limits::MAX_TOOLS, schema::Plain};

/// Tools and reasoning of a chat.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Tools {
    /// The functions that the model may call, for the template and the tool parser.
    #[schemars(schema_with = "tools")]
    pub tools: Option<Vec<Value>>,
    /// Decides if the model calls a function, and which.
    #[schemars(schema_with = "choice")]
    pub tool_choice: Option<Value>,
    /// Allows several calls in one answer; true when left out.
    pub parallel_tool_calls: Option<bool>,
    /// The form that `tools` had before: functions without the object around them. The answer has a `function_call`, and at most one.
    #[schemars(length(max = MAX_TOOLS), extend("items" = function(), "x-beyond" = true))]
    pub functions: Option<Vec<Value>>,
    /// The form that `tool_choice` had before.
    #[schemars(schema_with = "call", extend("x-beyond" = true))]
    pub function_call: Option<Value>,
    /// The template's variable of this name; `none` also sets its `enable_thinking` to false, and the others to true.
    #[schemars(extend("enum" = EFFORTS))]
    pub reasoning_effort: Option<String>,
    /// The template's variable of this name.
    pub enable_thinking: Option<bool>,
    /// `type` is `enabled`, `disabled` or `adaptive`; `budget_tokens` is the same as `thinking_token_budget`.
    #[schemars(extend("x-words" = "an object"))]
    pub thinking: Option<Thinking>,
    /// Maximum number of tokens of reasoning; -1 is without bound.
    #[schemars(range(min = -1, max = u32::MAX))]
    pub thinking_token_budget: Option<i64>,
}

/// Efforts of reasoning.
pub(crate) const EFFORTS: [&str; 7] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];

/// Names that clients of different servers know the budget under.
pub const PLAIN: &[Plain] = &plain! {
    /// The same.
    "thinking_budget_tokens": Alias("thinking_token_budget"),
    /// The same.
    "thinking_budget": Alias("thinking_token_budget"),
    /// The same.
    "reasoning_budget_tokens": Alias("thinking_token_budget"),
    /// The same.
    "reasoning_budget": Alias("thinking_token_budget"),
};

/// Reasoning as Anthropic has it.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Thinking {
    /// Value of the template's `enable_thinking`; `adaptive` leaves it.
    #[serde(rename = "type")]
    #[schemars(with = "String", extend("enum" = ["enabled", "disabled", "adaptive"]))]
    pub kind: ThinkingKind,
    /// Maximum number of tokens of reasoning.
    pub budget_tokens: Option<u32>,
}

/// Kinds of reasoning.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThinkingKind {
    /// The model reasons.
    Enabled,
    /// It does not.
    Disabled,
    /// The other fields.
    Adaptive,
}

fn function() -> Value {
    json!({
        "type": "object", "required": ["name"],
        "properties": {
            "name": { "type": "string", "minLength": 1 }, "description": { "type": "string" },
            "parameters": parameters(), "strict": { "type": "boolean" },
        },
    })
}

/// A list of tools of which the model is offered those of these forms. Those of the provider, whose
/// types these are or begin like these, are left out.
pub(crate) fn offered(mut forms: Vec<Value>, types: &str, of_provider: &[&str]) -> Value {
    let shown = alone(&forms[0]);
    forms.push(json!({ "type": "object", "x-tags": of_provider }));
    let why = format!("{types}; tools of a provider are left out");
    json!({
        "type": "array", "maxItems": MAX_TOOLS,
        "items": { "oneOf": forms, "x-unsupported": why },
        "x-shown": shown,
    })
}

/// A list of at most one tool: no schema says that the names of several differ.
fn alone(tool: &Value) -> Value {
    json!({ "type": "array", "maxItems": 1, "items": tool })
}

fn tools(_: &mut SchemaGenerator) -> Schema {
    let tool = json!({
        "type": "object", "required": ["type", "function"],
        "properties": { "type": { "type": "string", "enum": ["function"] }, "function": function() },
    });
    json_schema!({ "type": "array", "maxItems": MAX_TOOLS, "items": tool, "x-shown": alone(&tool) })
}

pub(crate) fn choice(_: &mut SchemaGenerator) -> Schema {
    let text = json!({ "type": "string" });
    let name = json!({ "name": text });
    let mode = json!({ "type": "string", "enum": ["auto", "required"] });
    let tools = json!({ "type": "array", "maxItems": MAX_TOOLS, "items": {
        "type": "object", "required": ["type"],
        "properties": { "type": text, "name": text, "function": { "type": "object", "properties": name } },
    } });
    json_schema!({
        "x-words": "`none`, `auto`, `required`, or an object that names a function or lists those that are allowed",
        // A call can be demanded, too, if the request has the tool.
        "x-shown": { "type": "string", "enum": ["none", "auto"] },
        "anyOf": [
            { "type": "string", "enum": ["none", "auto", "required"] },
            { "type": "object", "required": ["type"], "properties": {
                "type": { "type": "string", "enum": ["function", "custom", "allowed_tools"] },
                "function": { "type": "object", "properties": name },
                "name": text,
                "mode": mode,
                "tools": tools,
                "allowed_tools": {
                    "type": "object", "required": ["tools"],
                    "properties": { "mode": mode, "tools": tools },
                },
            } },
        ],
    })
}

fn call(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-words": "`none`, `auto`, or an object that names a function",
        "anyOf": [
            { "type": "string", "enum": ["none", "auto"] },
            { "type": "object", "required": ["name"], "properties": { "name": { "type": "string" } } },
        ],
    })
}
