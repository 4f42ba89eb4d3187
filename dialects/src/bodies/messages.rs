//! Fields of Anthropic's messages. Fields of chat can be used, too.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Map, Value, json};

use super::{
    Said, Text, shapes,
    tools::{self, EFFORTS},
};
use crate::{
    limits::{MAX_MESSAGES, MAX_STOP_CHARS, MAX_STOPS},
    schema::Plain,
};

/// Fields of requests to `messages`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Messages {
    /// Conversation. Content is a string or an array of blocks: `text`, `image`, `document`, `search_result`, `thinking`, `tool_use`, `tool_result`,
    /// `compaction`. If the last message is the assistant's, it is continued.
    #[schemars(length(min = 1, max = MAX_MESSAGES), extend("x-entries" = "messages", "x-shown" = shapes::messages(&["user", "assistant"], "MessagePart")))]
    pub messages: Option<Vec<Message>>,
    /// System message before the conversation.
    #[schemars(extend("x-shown" = json!({ "type": "string" })))]
    pub system: Option<Text<SystemBlock>>,
    /// Texts that end the answer where they appear; the answer names the one that was found. Each has at most 1024 characters.
    #[schemars(length(max = MAX_STOPS), inner(length(min = 1, max = MAX_STOP_CHARS)))]
    pub stop_sequences: Option<Vec<String>>,
    /// Tools of the client that the model may call. Tools of the provider are left out and named in the header `x-ignored-fields`.
    #[schemars(schema_with = "client_tools")]
    pub tools: Option<Vec<Map<String, Value>>>,
    /// Choice of a tool: `auto`, `any`, `tool` or `none`.
    #[schemars(extend("x-shown" = json!({ "type": "object", "required": ["type"], "properties": { "type": { "enum": ["auto", "none"] } } })))]
    pub tool_choice: Option<Choice>,
    /// Output settings: `format` is a JSON schema that the answer must match; `effort` is the template's `reasoning_effort`.
    #[schemars(extend("x-beyond" = true))]
    pub output_config: OutputConfig,
    /// Earlier name of `format` in `output_config`.
    #[schemars(extend("x-beyond" = true))]
    pub output_format: Option<Format>,
    /// Changes of earlier messages. They have no effect, because input that is too long is refused; the header `x-ignored-fields` names them.
    #[schemars(extend("x-beyond" = true))]
    pub context_management: ContextManagement,
}

/// Fields of `messages` that need no reading.
pub const PLAIN: &[Plain] = &plain! {
    /// Only one answer is generated.
    "n": Only(&["1"]),
    /// Log probabilities are available in `chat/completions`.
    "logprobs": Only(&["false"]),
    /// The server has no tools.
    "mcp_servers": Only(&["[]"]),
    /// The server has no tools.
    "container": Only(&[]),
    /// Has no effect; accepted for compatibility.
    "service_tier": Idle("string"),
};

/// Fields of chat that are also listed here.
pub const LISTED: &[&str] = &[
    "max_tokens",
    "stream",
    "temperature",
    "top_p",
    "top_k",
    "thinking",
];

/// Makes the schema of the client's tools; the provider's tools run elsewhere.
fn client_tools(_: &mut SchemaGenerator) -> Schema {
    let tool = shapes::tool("custom", "input_schema", &["name", "input_schema"]);
    let of_provider = [
        "advisor_*",
        "bash_*",
        "code_execution_*",
        "computer_*",
        "mcp_toolset",
        "memory_*",
        "text_editor_*",
        "tool_search_*",
        "web_fetch_*",
        "web_search_*",
    ];
    let mut tools = tools::offered(vec![tool], "`custom` is", &of_provider);
    tools["items"]["x-usual"] = "custom".into();
    Schema::try_from(tools).unwrap_or_default()
}

/// Changes of earlier messages, which this server never makes.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ContextManagement {
    /// Changes in order; all of them are ignored.
    #[schemars(length(max = 64))]
    pub edits: Vec<Edit>,
    /// Unknown fields, which are named in the header `x-ignored-fields`.
    #[serde(flatten)]
    #[schemars(skip)]
    #[expect(clippy::zero_sized_map_values, reason = "a set reads no map")]
    pub unknown: BTreeMap<String, IgnoredAny>,
}

/// A change of earlier messages.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Edit {
    /// Kind of the change, for the header `x-ignored-fields`.
    #[serde(rename = "type")]
    pub kind: String,
}

/// A message of a conversation.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Message {
    /// Role of the author, `user` for results of tools.
    #[schemars(extend("enum" = ["user", "assistant", "system"]))]
    pub role: String,
    /// Text or blocks of the message.
    pub content: Text<Block>,
}

/// A block of a message.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[schemars(extend("x-unsupported" = "messages are text, images, documents of text, thoughts, calls and results"))]
pub enum Block {
    /// Text of a message, from any author.
    Text(Said),
    /// An image from the user.
    Image(Image),
    /// Reasoning of the assistant before its answer.
    Thinking {
        /// Text of the reasoning, which the template gets.
        thinking: String,
    },
    /// Reasoning in encrypted form, which only its provider can read.
    RedactedThinking,
    /// A tool call of the assistant.
    ToolUse {
        /// Identifier of the call, which its result repeats.
        id: String,
        /// Name of the tool to call.
        name: String,
        /// Arguments of the call as an object; the default is empty.
        input: Option<Map<String, Value>>,
    },
    /// The result of a tool call.
    ToolResult {
        /// Identifier of the call that led to the result.
        tool_use_id: String,
        /// Result as text or blocks.
        content: Option<Text<ResultBlock>>,
        /// Has no effect: the result itself describes the error.
        is_error: Option<bool>,
    },
    /// A document from the user.
    Document(Document),
    /// A page found by a search of the user.
    SearchResult(SearchResult),
    /// A summary of the conversation before it.
    Compaction {
        /// Text of the summary; without one, the block is ignored.
        content: Option<String>,
    },
    /// Calls of the provider's tools and their results, which are left out.
    #[serde(other)]
    #[schemars(extend("x-tags" = [
        "server_tool_use", "mcp_tool_use", "mcp_tool_result", "advisor_tool_result", "bash_code_execution_tool_result",
        "code_execution_tool_result", "container_upload", "text_editor_code_execution_tool_result", "tool_search_tool_result",
        "web_fetch_tool_result", "web_search_tool_result",
    ]))]
    OfProvider,
}

/// A document, which the prompt contains as text.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Document {
    /// Source of the document's text.
    pub source: DocumentSource,
    /// Title of the document, written before its text.
    pub title: Option<String>,
    /// Remarks about the document, written before its text.
    pub context: Option<String>,
}

/// The text of a document.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[schemars(extend("x-unsupported" = "documents are text"))]
pub enum DocumentSource {
    /// A text file with its contents inline.
    Text {
        /// Contents of the file as text.
        data: String,
    },
    /// Text blocks instead of a file.
    Content {
        /// Text, as a string or in blocks.
        content: Text<Said>,
    },
}

/// Texts that a search found in one source.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct SearchResult {
    /// Address or name of the source.
    pub source: String,
    /// Title of the source, written before the texts.
    pub title: String,
    /// Texts that were found in the source.
    pub content: Vec<Said>,
}

/// A block of a system message.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[schemars(extend("x-unsupported" = "system messages are text"))]
pub enum SystemBlock {
    /// Text of the system message.
    Text(Said),
}

/// A block of a tool's result.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[schemars(extend("x-unsupported" = "results are text, images, documents of text and tools"))]
pub enum ResultBlock {
    /// Text of the result for the model.
    Text(Said),
    /// An image in the result.
    Image(Image),
    /// A document in the result.
    Document(Document),
    /// A page found by a search.
    SearchResult(SearchResult),
    /// A tool found by a search.
    ToolReference {
        /// Name of the tool that can be called.
        tool_name: String,
    },
}

/// An image of a message.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Image {
    /// Source of the image file.
    pub source: Source,
}

/// The source of an image file.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[schemars(extend("x-unsupported" = "`base64` is"))]
pub enum Source {
    /// The file itself in Base64.
    Base64 {
        /// Media type of the file.
        media_type: String,
        /// Contents of the file in Base64.
        data: String,
    },
    /// The URL of the file.
    Url {
        /// URL of the image: a remote or a data URL.
        url: String,
    },
}

/// A choice about calls of tools.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Choice {
    /// Decision about a call: required (`any`, `tool`), forbidden (`none`) or left to the model (`auto`).
    #[serde(rename = "type")]
    #[schemars(extend("enum" = ["auto", "any", "tool", "none"]))]
    pub kind: String,
    /// Name of the tool to call.
    pub name: Option<String>,
    /// Allows at most one call.
    pub disable_parallel_tool_use: Option<bool>,
}

/// Format and effort of an answer.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct OutputConfig {
    /// Format that the answer must match.
    pub format: Option<Format>,
    /// Effort of reasoning, such as `high`.
    #[schemars(extend("enum" = EFFORTS))]
    pub effort: Option<String>,
}

/// The format of an answer.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Format {
    /// JSON that matches a schema.
    JsonSchema {
        /// JSON schema that the answer must match.
        #[schemars(schema_with = "shapes::schema")]
        schema: Value,
    },
}
