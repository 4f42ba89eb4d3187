//! Fields of OpenAI's responses. Fields of chat can be used, too.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    Said, Text, shapes,
    tools::{self, EFFORTS},
};
use crate::{
    limits::MAX_MESSAGES,
    schema::{NAME, Plain},
};

/// Fields of requests to `responses`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Responses {
    /// Conversation. An item is a message of text, images and sounds, a `function_call`, a `custom_tool_call`, an output of one of these, `reasoning`,
    /// `additional_tools` or a `compaction` of this server. Calls of the provider's tools are left out and named in the header `x-ignored-fields`.
    #[schemars(schema_with = "input")]
    pub input: Option<Text<Item>>,
    /// System message before the input.
    pub instructions: Option<String>,
    /// Text settings: `format` is the required form of the answer.
    #[schemars(extend("x-beyond" = true))]
    pub text: TextConfig,
    /// Reasoning settings: `effort` is the template's `reasoning_effort`.
    #[schemars(extend("x-beyond" = true))]
    pub reasoning: Reasoning,
    /// Tools that the model may call: `function`, `custom`, and a `namespace` of these. Tools of the provider are left out and named in the header
    /// `x-ignored-fields`.
    #[schemars(schema_with = "client_tools")]
    pub tools: Option<Vec<Map<String, Value>>>,
    /// Choice of a tool: a mode, one tool, or a list of allowed tools.
    #[schemars(schema_with = "tools::choice", extend("x-unsupported" = "`function`, `custom` and `allowed_tools` are"))]
    pub tool_choice: Option<Value>,
    /// Has no effect: reasoning is always sent unencrypted (`reasoning.encrypted_content`), and there are no calls of the provider's tools that could have
    /// further parts.
    #[schemars(schema_with = "include")]
    pub include: Option<Vec<String>>,
    /// Stream settings. `include_obfuscation` has no effect: the last event has the token counts, and nothing is obfuscated.
    pub stream_options: Option<StreamOptions>,
}

/// Fields of `responses` that need no reading.
pub const PLAIN: &[Plain] = &plain! {
    /// Maximum number of tokens of the answer.
    "max_output_tokens": Alias("max_completion_tokens"),
    /// Has no effect: answers are never stored.
    "store": Idle("boolean"),
    /// Has no effect; accepted for compatibility.
    "service_tier": Idle("string"),
    /// Only one answer is generated.
    "n": Only(&["1"]),
    /// Answers and conversations are not stored.
    "previous_response_id": Only(&[]),
    /// Answers and conversations are not stored.
    "conversation": Only(&[]),
    /// Answers and conversations are not stored.
    "background": Only(&["false"]),
    /// Prompts are not stored: send `input` and `instructions`.
    "prompt": Only(&[]),
    /// The server has no tools.
    "max_tool_calls": Only(&[]),
    /// Input that is too long is refused.
    "truncation": Only(&["\"disabled\""]),
    /// Log probabilities are available in `chat/completions`.
    "top_logprobs": Only(&["0"]),
};

/// Fields of chat that are also listed here.
pub const LISTED: &[&str] = &["parallel_tool_calls", "stream", "temperature", "top_p"];

/// An item of the input.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[schemars(extend("x-usual" = "message", "x-unsupported" = "items are messages, calls, their outputs, tools, reasoning and compactions"))]
pub enum Item {
    /// A message of the conversation.
    Message {
        /// Role of the author; `developer` is read as `system`.
        #[schemars(extend("enum" = ROLES))]
        role: String,
        /// Text or parts of the message.
        content: Text<Part>,
    },
    /// A function call of the assistant.
    FunctionCall {
        /// Identifier of the call, which its result repeats.
        call_id: String,
        /// Namespace that contains the function, if any.
        namespace: Option<String>,
        /// Name of the function in its namespace.
        name: String,
        /// Arguments as the text of a JSON object.
        arguments: String,
    },
    /// The result of a function call.
    FunctionCallOutput {
        /// Identifier of the call that led to the result.
        call_id: String,
        /// Result as text or parts.
        output: Text<Part>,
    },
    /// A call of a tool that takes a text.
    CustomToolCall {
        /// Identifier of the call, which its result repeats.
        call_id: String,
        /// Namespace that contains the tool, if any.
        namespace: Option<String>,
        /// Name of the tool in its namespace.
        name: String,
        /// Text that the tool receives.
        input: String,
    },
    /// The result of a call of a tool that takes a text.
    CustomToolCallOutput {
        /// Identifier of the call that led to the result.
        call_id: String,
        /// Result as text or parts.
        output: Text<Part>,
    },
    /// Tools in addition to those of the request.
    AdditionalTools {
        /// Tools in the form of the request's `tools`.
        #[schemars(schema_with = "client_tools")]
        tools: Vec<Map<String, Value>>,
    },
    /// Tools found by a search.
    ToolSearchOutput {
        /// Tools in the form of the request's `tools`.
        #[schemars(schema_with = "client_tools")]
        tools: Vec<Map<String, Value>>,
    },
    /// A summary of the conversation before it.
    Compaction {
        /// Summary, if this server wrote it.
        encrypted_content: String,
    },
    /// Reasoning of the assistant before its answer.
    Reasoning {
        /// Reasoning in parts of text, which the template gets.
        content: Option<Vec<Said>>,
        /// Summary of the reasoning, which replaces missing reasoning.
        summary: Option<Vec<Said>>,
    },
    /// Calls of the provider's tools and their results, which are left out.
    #[serde(other)]
    #[schemars(extend("x-tags" = [
        "apply_patch_call*", "code_interpreter_call", "compaction_summary", "computer_call*", "context_compaction", "file_search_call",
        "ghost_snapshot", "image_generation_call", "local_shell_call*", "mcp_*", "program*", "shell_call*", "tool_search_call",
        "web_search_call",
    ]))]
    OfProvider,
}

/// Makes the schema of the client's tools; the provider's tools run elsewhere.
fn client_tools(_: &mut SchemaGenerator) -> Schema {
    let function = shapes::tool("function", "parameters", &["type", "name"]);
    let text = json!({ "type": "string" });
    let name = json!({ "type": "string", "minLength": 1 });
    let custom = json!({
        "type": "object", "required": ["type", "name"],
        "properties": {
            "type": { "type": "string", "enum": ["custom"] },
            "name": name,
            "description": text,
            "format": {
                "type": "object", "required": ["type"],
                "properties": {
                    "type": { "type": "string", "enum": ["text", "grammar"] },
                    "syntax": { "type": "string", "enum": ["lark", "regex"] },
                    "definition": text,
                },
            },
        },
    });
    let of_provider = [
        "apply_patch",
        "code_interpreter",
        "computer*",
        "file_search",
        "image_generation",
        "local_shell",
        "mcp",
        "programmatic_tool_calling",
        "shell",
        "tool_search",
        "web_search*",
    ];
    let mut forms = vec![function, custom];
    let types = "`function` and `custom` are";
    let inner = tools::offered(forms.clone(), types, &of_provider);
    forms.push(json!({
        "type": "object", "required": ["type", "name", "tools"],
        "properties": {
            "type": { "type": "string", "enum": ["namespace"] },
            "name": name, "description": text, "tools": inner,
        },
    }));
    let types = "`function`, `custom` and `namespace` are";
    Schema::try_from(tools::offered(forms, types, &of_provider)).unwrap_or_default()
}

const ROLES: [&str; 4] = ["user", "assistant", "system", "developer"];

/// A part of a message.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[schemars(extend("x-unsupported" = "messages are text, images and sounds"))]
pub enum Part {
    /// Text of a user or system message.
    InputText(Said),
    /// Text of an earlier answer of the assistant.
    OutputText(Said),
    /// Text of a message, whoever wrote it.
    Text(Said),
    /// A refusal of the assistant.
    Refusal {
        /// Text of the refusal, which is read like any other text.
        refusal: String,
    },
    /// An image from the user.
    InputImage {
        /// Files are not stored, so they cannot be named by an id.
        #[schemars(extend("enum" = [], "x-only" = true))]
        file_id: Option<String>,
        /// Has no effect: each model decides about the resolution.
        #[schemars(extend("enum" = ["auto", "low", "high", "original"]))]
        detail: Option<String>,
        /// URL of the image, or a data URL with its contents.
        image_url: String,
    },
    /// A sound from the user.
    InputAudio {
        /// File with the sound and its format.
        input_audio: Sound,
    },
}

/// A sound file with its contents inline.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Sound {
    /// Contents of the file in Base64.
    pub data: String,
    /// Format of the file, which the file itself contains, too.
    #[schemars(extend("enum" = ["wav", "mp3", "flac"]))]
    pub format: Option<String>,
}

/// Settings of an answer's text.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TextConfig {
    /// Format that the answer must match.
    pub format: Option<ResponsesFormat>,
    /// Has no effect: verbosity cannot be controlled.
    #[schemars(extend("enum" = ["low", "medium", "high"]))]
    pub verbosity: Option<String>,
}

/// OpenAI's form of an answer, with the schema's fields directly inside.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ResponsesFormat {
    /// Text without any constraint; the default.
    Text,
    /// A JSON object of any kind.
    JsonObject,
    /// JSON that matches a schema.
    JsonSchema {
        /// Name of the schema, without effect on the answer.
        #[schemars(extend("pattern" = NAME))]
        name: String,
        /// Has no effect: answers always match the schema.
        strict: Option<bool>,
        /// JSON schema that the answer must match.
        #[schemars(schema_with = "shapes::schema")]
        schema: Value,
    },
}

/// Settings of the reasoning before an answer.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Reasoning {
    /// Effort of reasoning, such as `high`.
    #[schemars(extend("enum" = EFFORTS))]
    pub effort: Option<String>,
}

/// Settings of a stream's events.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
pub struct StreamOptions {
    /// Has no effect: nothing is obfuscated.
    pub include_obfuscation: Option<bool>,
}

fn input(generator: &mut SchemaGenerator) -> Schema {
    let text = json!({ "type": "string" });
    let items = json!({
        "type": "array", "minItems": 1, "maxItems": MAX_MESSAGES, "x-entries": "items",
        "items": Item::json_schema(generator),
    });
    json_schema!({
        "anyOf": [text, items],
        "x-shown": { "anyOf": [text, shapes::messages(&ROLES, "ResponsePart")] },
    })
}

fn include(_: &mut SchemaGenerator) -> Schema {
    let known = [
        "reasoning.encrypted_content",
        "code_interpreter_call.outputs",
        "computer_call_output.output.image_url",
        "file_search_call.results",
        "web_search_call.action.sources",
        "web_search_call.results",
    ];
    json_schema!({
        "type": "array", "maxItems": 64, "items": { "enum": known, "x-only": true },
        "x-shown": { "type": "array", "maxItems": 64, "items": { "enum": known } },
    })
}
