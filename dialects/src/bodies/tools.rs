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
    /// Functions that the model may call. The template and the tool parser read them.
    #[schemars(schema_with = "tools")]
    pub tools: Option<Vec<Value>>,
    /// Choice of a function: whether the model calls one, and which.
    #[schemars(schema_with = "choice")]
    pub tool_choice: Option<Value>,
    /// Allows several calls in one answer; the default is true.
    pub parallel_tool_calls: Option<bool>,
    /// Earlier form of `tools`: functions without an object around them. The answer has at most one `function_call`.
    #[schemars(length(max = MAX_TOOLS), extend("items" = function(), "x-beyond" = true))]
    pub functions: Option<Vec<Value>>,
    /// Earlier form of `tool_choice`, for `functions`.
    #[schemars(schema_with = "call", extend("x-beyond" = true))]
    pub function_call: Option<Value>,
    /// Variable `reasoning_effort` of the template. `none` also sets its `enable_thinking` to false, other efforts to true.
    #[schemars(extend("enum" = EFFORTS))]
    pub reasoning_effort: Option<String>,
    /// Variable `enable_thinking` of the template.
    pub enable_thinking: Option<bool>,
    /// Reasoning in Anthropic's form: `type` is `enabled`, `disabled` or `adaptive`; `budget_tokens` sets `thinking_token_budget`.
    #[schemars(extend("x-words" = "an object"))]
    pub thinking: Option<Thinking>,
    /// Maximum number of tokens of reasoning; -1 is no limit.
    #[schemars(range(min = -1, max = u32::MAX))]
    pub thinking_token_budget: Option<i64>,
}

/// Names of reasoning efforts, in ascending order.
pub(crate) const EFFORTS: [&str; 7] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];

/// Names that clients of other servers use for the reasoning budget.
pub const PLAIN: &[Plain] = &plain! {
    /// Alternative name of `thinking_token_budget`.
    "thinking_budget_tokens": Alias("thinking_token_budget"),
    /// Alternative name of `thinking_token_budget`.
    "thinking_budget": Alias("thinking_token_budget"),
    /// Alternative name of `thinking_token_budget`.
    "reasoning_budget_tokens": Alias("thinking_token_budget"),
    /// Alternative name of `thinking_token_budget`.
    "reasoning_budget": Alias("thinking_token_budget"),
};

/// Settings of reasoning in Anthropic's form.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Thinking {
    /// Value of the template's `enable_thinking`; `adaptive` does not set it.
    #[serde(rename = "type")]
    #[schemars(with = "String", extend("enum" = ["enabled", "disabled", "adaptive"]))]
    pub kind: ThinkingKind,
    /// Maximum number of tokens of reasoning.
    pub budget_tokens: Option<u32>,
}

/// The kinds of reasoning in Anthropic's form.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThinkingKind {
    /// Reasoning is on: `enable_thinking` is true.
    Enabled,
    /// Reasoning is off: `enable_thinking` is false.
    Disabled,
    /// Other fields, or the template, decide about reasoning.
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

/// Makes the schema of a list of tools. The model gets the tools of the given forms. Tools that a provider runs are left out; `of_provider` lists their types,
/// or prefixes of them that end in `*`.
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

/// Makes the schema of a list of at most one tool, because no JSON schema can require that the names of several tools differ.
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
        // A call can also be required, but only if the request has the tool.
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
