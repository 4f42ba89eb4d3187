//! Fields of Anthropic's messages, beside which those of chat can be used.

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

/// Fields of messages.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Messages {
    /// The conversation. Content is a string or an array of blocks: `text`, `image`, `document`, `search_result`, `thinking`, `tool_use`, `tool_result`, `compaction`. A last message of the assistant is continued.
    #[schemars(length(min = 1, max = MAX_MESSAGES), extend("x-entries" = "messages", "x-shown" = shapes::messages(&["user", "assistant"], "MessagePart")))]
    pub messages: Option<Vec<Message>>,
    /// The system message before the conversation.
    #[schemars(extend("x-shown" = json!({ "type": "string" })))]
    pub system: Option<Text<SystemBlock>>,
    /// End the text where they appear; the answer says which. Each has at most 1024 characters.
    #[schemars(length(max = MAX_STOPS), inner(length(min = 1, max = MAX_STOP_CHARS)))]
    pub stop_sequences: Option<Vec<String>>,
    /// The client's tools that the model may call. Those of the provider are left out, and named in the header `x-ignored-fields`.
    #[schemars(schema_with = "client_tools")]
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
    /// Its `edits` are not made, as what does not fit is refused: the header `x-ignored-fields` names them.
    #[schemars(extend("x-beyond" = true))]
    pub context_management: ContextManagement,
}

/// The others of that kind.
pub const PLAIN: &[Plain] = &plain! {
    /// There is one answer.
    "n": Only(&["1"]),
    /// Chat has log probabilities.
    "logprobs": Only(&["false"]),
    /// There are no tools of the server.
    "mcp_servers": Only(&["[]"]),
    /// There are no tools of the server.
    "container": Only(&[]),
    /// Without effect.
    "service_tier": Idle("string"),
};

/// Fields of chat that are listed here, too.
pub const LISTED: &[&str] = &[
    "max_tokens",
    "stream",
    "temperature",
    "top_p",
    "top_k",
    "thinking",
];

/// The tools of the client; the others are run by the provider.
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

/// Changes of earlier messages.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ContextManagement {
    /// The changes.
    #[schemars(length(max = 64))]
    pub edits: Vec<Edit>,
    /// All that is not known.
    #[serde(flatten)]
    #[schemars(skip)]
    #[expect(clippy::zero_sized_map_values, reason = "a set reads no map")]
    pub unknown: BTreeMap<String, IgnoredAny>,
}

/// A change of earlier messages.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Edit {
    /// Its kind.
    #[serde(rename = "type")]
    pub kind: String,
}

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
#[schemars(extend("x-unsupported" = "messages are text, images, documents of text, thoughts, calls and results"))]
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
        /// Without effect: the result says why.
        is_error: Option<bool>,
    },
    /// A document of the user.
    Document(Document),
    /// A page that a search of the user found.
    SearchResult(SearchResult),
    /// Sums up the conversation before it.
    Compaction {
        /// The summary.
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

/// A document.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Document {
    /// Text of the document.
    pub source: DocumentSource,
    /// Its title.
    pub title: Option<String>,
    /// Remarks about the document.
    pub context: Option<String>,
}

/// The text of a document.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[schemars(extend("x-unsupported" = "documents are text"))]
pub enum DocumentSource {
    /// A file.
    Text {
        /// Its text.
        data: String,
    },
    /// Parts of a message.
    Content {
        /// The parts.
        content: Text<Said>,
    },
}

/// Texts that a search found at a place.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct SearchResult {
    /// The place.
    pub source: String,
    /// Its title.
    pub title: String,
    /// The texts there.
    pub content: Vec<Said>,
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
#[schemars(extend("x-unsupported" = "results are text, images, documents of text and tools"))]
pub enum ResultBlock {
    /// A text.
    Text(Said),
    /// An image.
    Image(Image),
    /// A document.
    Document(Document),
    /// A page that a search found.
    SearchResult(SearchResult),
    /// A tool that was found.
    ToolReference {
        /// Its name.
        tool_name: String,
    },
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
