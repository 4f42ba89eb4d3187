//! Fields of Ollama's API, beside which those of chat can be used where a text is generated. Most of
//! chat's fields about sampling are in `options` there, some under other names.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{ReadApart, shapes, tools::EFFORTS};
use crate::{
    limits::MAX_MESSAGES,
    schema::Plain::{self, Only},
};

/// The field that says how long a graph stays in memory.
pub const KEEP_ALIVE: &str = "keep_alive";

/// Options that are fields of a request here; the others are those of a load.
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

/// Fields of chat that are listed here, too.
pub const LISTED: &[&str] = &["tools", "logprobs", "top_logprobs"];

/// Fields of chat that ask for what no answer can tell here.
pub const WITHOUT: &[&str] = &[
    "messages",
    "n",
    "best_of",
    "stream_options",
    "functions",
    "function_call",
];

/// The same, of what has no calls.
pub const WITHOUT_TOOLS: &[&str] = &["tools", "tool_choice", "parallel_tool_calls"];

/// Fields of all requests for text.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Common {
    /// Sends the answer as lines of JSON (`application/x-ndjson`); true when left out.
    pub stream: Option<bool>,
    /// Form of the answer: `json`, or a JSON schema.
    #[schemars(schema_with = "format")]
    pub format: Option<Value>,
    /// Sampling and length: `num_predict`, `temperature`, `top_k`, `top_p`, `min_p`, `typical_p`, `seed`, `stop`, `repeat_penalty`, `presence_penalty`, `frequency_penalty`, `mirostat`, `mirostat_tau`, `mirostat_eta`. Others, such as `num_ctx`, have no effect, and the header `x-ignored-fields` names them.
    pub options: Map<String, Value>,
    /// True if the model reasons before it answers, or how much; `reasoning_effort` and `enable_thinking` of chat.
    #[schemars(schema_with = "think")]
    pub think: Option<Think>,
    /// 0 has the graph unloaded behind the answer, where requests have it loaded and the sender is an operator. Other times have no effect, and the header `x-ignored-fields` names the field.
    #[schemars(schema_with = "keep_alive")]
    pub keep_alive: ReadApart,
}

/// The option of a name of its own.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Limit {
    /// In `options`: maximum number of tokens of the answer, at most the graph's `max_tokens_limit`; 0, -1 and -2 are no limit.
    #[schemars(range(min = -2, max = u32::MAX))]
    pub num_predict: Option<i64>,
}

/// Wish for reasoning.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum Think {
    /// Whether the model reasons.
    Switch(bool),
    /// The effort.
    Effort(String),
}

/// Fields of a conversation.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Chat {
    /// The conversation: each message has a `role`, and `content`, `images` (Base64), `thinking`, `tool_calls`, `tool_name` or `tool_call_id`. A last message of the assistant is continued. Without messages, the graph is loaded.
    #[schemars(length(max = MAX_MESSAGES), extend("x-entries" = "messages"))]
    pub messages: Vec<Message>,
}

/// A message.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Message {
    /// Its author.
    #[schemars(length(min = 1))]
    pub role: String,
    /// Its text.
    pub content: Option<String>,
    /// Thoughts of the assistant before it.
    pub thinking: Option<String>,
    /// Images before the text, in Base64.
    pub images: Option<Vec<String>>,
    /// Calls of the assistant.
    pub tool_calls: Option<Vec<Call>>,
    /// The tool whose result it is.
    pub tool_name: Option<String>,
    /// The call whose result it is.
    pub tool_call_id: Option<String>,
}

/// A call of a tool.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Call {
    /// Names the call.
    pub id: Option<String>,
    /// The call itself.
    pub function: Function,
}

/// A tool and what it is called with.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Function {
    /// The tool.
    pub name: String,
    /// The arguments.
    pub arguments: Option<Map<String, Value>>,
}

/// Fields of a prompt.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Generate {
    /// The message of a user; with `raw` or `suffix`, a beginning that the text goes on from. Without it, the graph is loaded.
    pub prompt: String,
    /// Text behind the answer, for models that fill in; others refuse it.
    #[schemars(extend("x-beyond" = true))]
    pub suffix: String,
    /// The system message before the prompt.
    pub system: String,
    /// Images before the prompt, in Base64.
    pub images: Vec<String>,
    /// Takes the prompt as it is, without the chat template; spellings of special tokens are these tokens.
    pub raw: bool,
}

/// The others of a prompt.
pub const GENERATE: &[Plain] = &[
    Only(
        "template",
        &[r#""""#],
        "A request cannot bring its own template; a graph can (`chat_template_file`), and `raw` takes prompts as they are.",
    ),
    Only(
        "context",
        &["[]"],
        "Answers have no context: send the conversation to `api/chat`.",
    ),
];

/// Fields of a request for vectors.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Embed {
    /// The name of the graph that answers.
    #[schemars(length(min = 1))]
    pub model: Option<String>,
    /// The texts, as `input` of `embeddings`.
    #[schemars(schema_with = "shapes::texts")]
    pub input: ReadApart,
    /// Cuts a text that is too long at its end, or refuses it; true when left out.
    pub truncate: Option<bool>,
    /// As `dimensions` of `embeddings`.
    #[schemars(range(min = 1), extend("x-beyond" = true))]
    pub dimensions: Option<u32>,
    /// Without effect: the header `x-ignored-fields` names them.
    pub options: Map<String, Value>,
    /// As `keep_alive` of `api/chat`.
    #[schemars(schema_with = "keep_alive")]
    pub keep_alive: ReadApart,
}

/// Fields of a request for one vector.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Embeddings {
    /// The name of the graph that answers.
    #[schemars(length(min = 1))]
    pub model: Option<String>,
    /// The text. One that is too long is cut at its end.
    pub prompt: Option<String>,
    /// Without effect: the header `x-ignored-fields` names them.
    pub options: Map<String, Value>,
    /// As `keep_alive` of `api/chat`.
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
