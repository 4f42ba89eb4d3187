//! Fields of Ollama's API. Endpoints that generate text also take the fields of chat. Most of chat's sampling fields are in `options` there, some under other
//! names.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{ReadApart, shapes, tools::EFFORTS};
use crate::{limits::MAX_MESSAGES, schema::Plain};

/// Field with the time that a graph stays in memory.
pub const KEEP_ALIVE: &str = "keep_alive";

/// Options that are fields of a request here. All others concern the loading of a model.
pub const OPTIONS: &[&str] = &[
    "num_predict",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "typical_p",
    "seed",
    "stop",
    "repeat_penalty",
    "presence_penalty",
    "frequency_penalty",
    "mirostat",
    "mirostat_tau",
    "mirostat_eta",
];

/// Fields of chat that are also listed here.
pub const LISTED: &[&str] = &["tools", "logprobs", "top_logprobs"];

/// Fields of chat whose results Ollama's answers cannot contain.
pub const WITHOUT: &[&str] = &[
    "messages",
    "n",
    "best_of",
    "stream_options",
    "functions",
    "function_call",
];

/// Fields of chat that need tool calls, for endpoints without them.
pub const WITHOUT_TOOLS: &[&str] = &["tools", "tool_choice", "parallel_tool_calls"];

/// Fields of all requests for text.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Common {
    /// Sends the answer as lines of JSON (`application/x-ndjson`); the default is true.
    pub stream: Option<bool>,
    /// Format of the answer: `json`, or a JSON schema.
    #[schemars(schema_with = "format")]
    pub format: Option<Value>,
    /// Sampling and length: `num_predict`, `temperature`, `top_k`, `top_p`, `min_p`, `typical_p`, `seed`, `stop`, `repeat_penalty`, `presence_penalty`,
    /// `frequency_penalty`, `mirostat`, `mirostat_tau`, `mirostat_eta`. Others, such as `num_ctx`, have no effect, and the header `x-ignored-fields` names
    /// them.
    pub options: Map<String, Value>,
    /// Reasoning before the answer: a switch, or an effort. Sets chat's `reasoning_effort` and `enable_thinking`.
    #[schemars(schema_with = "think")]
    pub think: Option<Think>,
    /// Time that the graph stays in memory. 0 unloads the graph after the answer, if it was loaded on demand and the client is an operator. Other times have no
    /// effect, and the header `x-ignored-fields` names the field.
    #[schemars(schema_with = "keep_alive")]
    pub keep_alive: ReadApart,
}

/// An option with a name of its own.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Limit {
    /// Maximum number of tokens of the answer, in `options`. At most the graph's `max_tokens_limit`; 0, -1 and -2 are no limit.
    #[schemars(range(min = -2, max = u32::MAX))]
    pub num_predict: Option<i64>,
}

/// A request for reasoning: a switch, or an effort.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum Think {
    /// Switches reasoning on or off.
    Switch(bool),
    /// Effort of reasoning, such as `high`.
    Effort(String),
}

/// Fields of `api/chat`, for conversations.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct OllamaChat {
    /// Conversation. Each message has a `role`, and `content`, `images` (Base64), `thinking`, `tool_calls`, `tool_name` or `tool_call_id`. If the last message
    /// is the assistant's, it is continued. Without messages, the graph is only loaded.
    #[schemars(length(max = MAX_MESSAGES), extend("x-entries" = "messages"))]
    pub messages: Vec<OllamaMessage>,
}

/// A message of a conversation.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct OllamaMessage {
    /// Role of the author, such as `user`.
    #[schemars(length(min = 1))]
    pub role: String,
    /// Text of the message; may be missing beside images or calls.
    pub content: Option<String>,
    /// Reasoning of the assistant before the text.
    pub thinking: Option<String>,
    /// Images before the text, in Base64.
    pub images: Option<Vec<String>>,
    /// Tool calls of the assistant.
    pub tool_calls: Option<Vec<Call>>,
    /// Name of the tool whose result this is.
    pub tool_name: Option<String>,
    /// Identifier of the call whose result this is.
    pub tool_call_id: Option<String>,
}

/// A call of a tool by the assistant.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Call {
    /// Identifier of the call; results may refer to it.
    pub id: Option<String>,
    /// Tool and arguments of the call.
    pub function: Function,
}

/// A tool and the arguments of its call.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Function {
    /// Name of the tool to call.
    pub name: String,
    /// Arguments of the call as an object; the default is empty.
    pub arguments: Option<Map<String, Value>>,
}

/// Fields of `api/generate`, for single prompts.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct OllamaGenerate {
    /// User message; with `raw` or `suffix`, a text to continue. Without it, the graph is only loaded.
    pub prompt: String,
    /// Text after the answer, for models with fill-in-the-middle. Other models refuse it.
    #[schemars(extend("x-beyond" = true))]
    pub suffix: String,
    /// System message before the prompt.
    pub system: String,
    /// Images before the prompt, in Base64.
    pub images: Vec<String>,
    /// Uses the prompt unchanged, without the chat template. The spelling of a special token is read as the token.
    pub raw: bool,
}

/// Fields of `api/generate` that need no reading.
pub const GENERATE: &[Plain] = &plain! {
    /// A request cannot set a template. A graph can (`chat_template_file`), and `raw` uses prompts without one.
    "template": Only(&[r#""""#]),
    /// Answers contain no context: send the conversation to `api/chat`.
    "context": Only(&["[]"]),
};

/// Fields of `api/embed`, for vectors of several texts.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct OllamaEmbed {
    /// Name of the graph that answers.
    #[schemars(length(min = 1))]
    pub model: Option<String>,
    /// Texts to embed, as in `input` of `embeddings`.
    #[schemars(schema_with = "shapes::texts")]
    pub input: ReadApart,
    /// Cuts the end of a text that is too long instead of refusing it; the default is true.
    pub truncate: Option<bool>,
    /// Number of dimensions, as in `embeddings`.
    #[schemars(range(min = 1), extend("x-beyond" = true))]
    pub dimensions: Option<u32>,
    /// Options without effect. The header `x-ignored-fields` names them.
    pub options: Map<String, Value>,
    /// Time that the graph stays in memory, as in `api/chat`.
    #[schemars(schema_with = "keep_alive")]
    pub keep_alive: ReadApart,
}

/// Fields of `api/embeddings`, for the vector of one text.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Embeddings {
    /// Name of the graph that answers.
    #[schemars(length(min = 1))]
    pub model: Option<String>,
    /// Text to embed. The end of a text that is too long is cut.
    pub prompt: Option<String>,
    /// Options without effect. The header `x-ignored-fields` names them.
    pub options: Map<String, Value>,
    /// Time that the graph stays in memory, as in `api/chat`.
    #[schemars(schema_with = "keep_alive")]
    pub keep_alive: ReadApart,
}

fn format(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-words": "`json`, or a JSON schema", "x-kind": "a string or an object",
        "anyOf": [{ "type": "string", "enum": ["", "json"] }, { "type": "object" }],
    })
}

fn think(_: &mut SchemaGenerator) -> Schema {
    let efforts = json!({ "type": "string", "enum": EFFORTS });
    json_schema!({ "anyOf": [{ "type": "boolean" }, efforts] })
}

fn keep_alive(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-own": true, "x-words": "a number of seconds, or a time such as `5m`",
        "type": ["number", "string"],
    })
}
