//! Fields of Anthropic's messages, beside which those of chat can be used.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Said, Text, shapes, tools::EFFORTS};
use crate::{
    limits::{MAX_MESSAGES, MAX_STOP_CHARS, MAX_STOPS, MAX_TOOLS},
    schema::Plain::{self, Idle, Only},
};

/// Fields of messages.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Messages {
    /// The conversation. Content is a string or an array of blocks: `text`, `image`, `thinking`, `tool_use`, `tool_result`. A last message of the assistant is continued.
    #[schemars(length(min = 1, max = MAX_MESSAGES), extend("x-entries" = "messages", "x-shown" = shapes::messages(&["user", "assistant"], "MessagePart")))]
    pub messages: Option<Vec<Message>>,
    /// The system message before the conversation.
    #[schemars(extend("x-shown" = json!({ "type": "string" })))]
    pub system: Option<Text<SystemBlock>>,
    /// End the text where they appear; the answer says which. Each has at most 1024 characters.
    #[schemars(length(max = MAX_STOPS), inner(length(min = 1, max = MAX_STOP_CHARS)))]
    pub stop_sequences: Option<Vec<String>>,
    /// The client's tools that the model may call.
    #[schemars(length(max = MAX_TOOLS), extend("items" = shapes::tool("custom", "input_schema", &["name", "input_schema"])))]
    pub tools: Option<Vec<Map<String, Value>>>,
    /// Choice of a call: `auto`, `any`, `tool` or `none`.
    #[schemars(extend("x-shown" = json!({ "type": "object", "required": ["type"], "properties": { "type": { "enum": ["auto", "none"] } } })))]
    pub tool_choice: Option<Choice>,
    /// Its `format` is a JSON schema that the answer has to match; `effort` is the template's `reasoning_effort`.
    #[schemars(extend("x-beyond" = true))]
    pub output_config: OutputConfig,
    /// The name that `format` of `output_config` had before.
    #[schemars(extend("x-beyond" = true))]
    pub output_format: Option<Format>,
}

/// The others of that kind.
pub const PLAIN: &[Plain] = &[
    Only("n", &["1"], "There is one answer."),
    Only("logprobs", &["false"], "Chat has log probabilities."),
    Only("mcp_servers", &["[]"], "There are no tools of the server."),
    Only("container", &[], "There are no tools of the server."),
    Only("context_management", &[], "What does not fit is refused."),
    Idle("service_tier", "string", "Without effect."),
];

/// Fields of chat that are listed here, too.
pub const LISTED: &[&str] = &[
    "max_tokens",
    "stream",
    "temperature",
    "top_p",
    "top_k",
    "thinking",
];

/// A message of a conversation.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Message {
    /// Its author.
    #[schemars(extend("enum" = ["user", "assistant", "system"]))]
    pub role: String,
    /// Its content.
    pub content: Text<Block>,
}

/// A part of a message.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[schemars(extend("x-unsupported" = "messages are text, images, thoughts, calls and results"))]
pub enum Block {
    /// A text.
    Text(Said),
    /// An image of the user.
    Image(Image),
    /// A thought of the assistant.
    Thinking {
        /// The thought.
        thinking: String,
    },
    /// Somebody else's thought, in a form that only they can read.
    RedactedThinking,
    /// A call of the assistant.
    ToolUse {
        /// Names the call.
        id: String,
        /// The tool.
        name: String,
        /// The arguments.
        input: Option<Map<String, Value>>,
    },
    /// The result of a call.
    ToolResult {
        /// The call.
        tool_use_id: String,
        /// The result.
        content: Option<Text<ResultBlock>>,
    },
}

/// A part of a system message.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[schemars(extend("x-unsupported" = "system messages are text"))]
pub enum SystemBlock {
    /// A text.
    Text(Said),
}

/// A part of the result of a call.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[schemars(extend("x-unsupported" = "results are text and images"))]
pub enum ResultBlock {
    /// A text.
    Text(Said),
    /// An image.
    Image(Image),
}

/// An image of a message.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Image {
    /// The file.
    pub source: Source,
}

/// The file of an image.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[schemars(extend("x-unsupported" = "`base64` is"))]
pub enum Source {
    /// The file itself.
    Base64 {
        /// The kind of file.
        media_type: String,
        /// Its bytes.
        data: String,
    },
    /// The place of the file.
    Url {
        /// The place.
        url: String,
    },
}

/// A choice of calls.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Choice {
    /// Demands a call, forbids it, or leaves it to the model.
    #[serde(rename = "type")]
    #[schemars(extend("enum" = ["auto", "any", "tool", "none"]))]
    pub kind: String,
    /// The tool to call.
    pub name: Option<String>,
    /// Allows one call at most.
    pub disable_parallel_tool_use: Option<bool>,
}

/// Form and effort of an answer.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct OutputConfig {
    /// The form.
    pub format: Option<Format>,
    /// The effort.
    #[schemars(extend("enum" = EFFORTS))]
    pub effort: Option<String>,
}

/// The form of an answer.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Format {
    /// JSON that fits a schema.
    JsonSchema {
        /// The schema.
        #[schemars(schema_with = "shapes::schema")]
        schema: Value,
    },
}
