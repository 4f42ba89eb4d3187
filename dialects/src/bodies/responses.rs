//! Fields of OpenAI's responses, beside which those of chat can be used.

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

/// Fields of responses.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Responses {
    /// The conversation. An item is a message of text, images and sounds, a `function_call`, a `custom_tool_call`, an output of one of these, `reasoning`, `additional_tools` or a `compaction` of this server. Calls of the provider's tools are left out, and named in the header `x-ignored-fields`.
    #[schemars(schema_with = "input")]
    pub input: Option<Text<Item>>,
    /// The system message before the input.
    pub instructions: Option<String>,
    /// Its `format` says what the answer has to be.
    #[schemars(extend("x-beyond" = true))]
    pub text: TextConfig,
    /// Its `effort` is the template's `reasoning_effort`.
    #[schemars(extend("x-beyond" = true))]
    pub reasoning: Reasoning,
    /// Tools that the model may call: `function`, `custom`, and a `namespace` of these. Those of the provider are left out, and named in the header `x-ignored-fields`.
    #[schemars(schema_with = "client_tools")]
    pub tools: Option<Vec<Map<String, Value>>>,
    /// Choice of a call.
    #[schemars(schema_with = "tools::choice", extend("x-unsupported" = "`function`, `custom` and `allowed_tools` are"))]
    pub tool_choice: Option<Value>,
    /// Changes nothing: what is thought is sent as it is (`reasoning.encrypted_content`), and there are no calls of the provider's tools whose parts it could ask for.
    #[schemars(schema_with = "include")]
    pub include: Option<Vec<String>>,
    /// `include_obfuscation` changes nothing: the last event has the counts, and nothing is obscured.
    pub stream_options: Option<StreamOptions>,
}

/// The others of that kind.
pub const PLAIN: &[Plain] = &plain! {
    /// Maximum number of tokens of the answer.
    "max_output_tokens": Alias("max_completion_tokens"),
    /// Answers are never stored.
    "store": Idle("boolean"),
    /// Without effect.
    "service_tier": Idle("string"),
    /// There is one answer.
    "n": Only(&["1"]),
    /// Nothing is stored.
    "previous_response_id": Only(&[]),
    /// Nothing is stored.
    "conversation": Only(&[]),
    /// Nothing is stored.
    "background": Only(&["false"]),
    /// There are no stored prompts.
    "prompt": Only(&[]),
    /// There are no tools of the server.
    "max_tool_calls": Only(&[]),
    /// Input that does not fit is refused.
    "truncation": Only(&["\"disabled\""]),
    /// Chat has log probabilities.
    "top_logprobs": Only(&["0"]),
};

/// Fields of chat that are listed here, too.
pub const LISTED: &[&str] = &["parallel_tool_calls", "stream", "temperature", "top_p"];

/// An item of the input.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[schemars(extend("x-usual" = "message", "x-unsupported" = "items are messages, calls, their outputs, tools, reasoning and compactions"))]
pub enum Item {
    /// A message.
    Message {
        /// Its author.
        #[schemars(extend("enum" = ROLES))]
        role: String,
        /// Its content.
        content: Text<Part>,
    },
    /// A call of the assistant.
    FunctionCall {
        /// Names the call.
        call_id: String,
        /// The namespace of the function.
        namespace: Option<String>,
        /// The function.
        name: String,
        /// JSON.
        arguments: String,
    },
    /// The result of a call.
    FunctionCallOutput {
        /// The call.
        call_id: String,
        /// The result.
        output: Text<Part>,
    },
    /// A call of a tool that takes a text.
    CustomToolCall {
        /// Names the call.
        call_id: String,
        /// The namespace of the tool.
        namespace: Option<String>,
        /// The tool.
        name: String,
        /// The text.
        input: String,
    },
    /// The result of such a call.
    CustomToolCallOutput {
        /// The call.
        call_id: String,
        /// The result.
        output: Text<Part>,
    },
    /// More tools.
    AdditionalTools {
        /// The tools.
        #[schemars(schema_with = "client_tools")]
        tools: Vec<Map<String, Value>>,
    },
    /// Tools that were found.
    ToolSearchOutput {
        /// The tools.
        #[schemars(schema_with = "client_tools")]
        tools: Vec<Map<String, Value>>,
    },
    /// Sums up the conversation before it.
    Compaction {
        /// The summary, where this server wrote it.
        encrypted_content: String,
    },
    /// Thoughts of the assistant.
    Reasoning {
        /// The thoughts.
        content: Option<Vec<Said>>,
        /// Summary of the thoughts, which stands in the place of thoughts that are not there.
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

/// The tools of the client; the others are run by the provider.
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
    /// A text.
    InputText(Said),
    /// A text of the assistant.
    OutputText(Said),
    /// A text.
    Text(Said),
    /// An answer that was denied.
    Refusal {
        /// Text of the refusal.
        refusal: String,
    },
    /// An image.
    InputImage {
        /// Refused: no files are stored.
        #[schemars(extend("enum" = [], "x-only" = true))]
        file_id: Option<String>,
        /// Without effect: each model decides itself how closely it looks.
        #[schemars(extend("enum" = ["auto", "low", "high", "original"]))]
        detail: Option<String>,
        /// Place of the image, or its bytes as a data URL.
        image_url: String,
    },
    /// A sound.
    InputAudio {
        /// The file.
        input_audio: Sound,
    },
}

/// The file of a sound.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Sound {
    /// Its bytes as Base64.
    pub data: String,
    /// Its kind, which the file itself tells, too.
    #[schemars(extend("enum" = ["wav", "mp3", "flac"]))]
    pub format: Option<String>,
}

/// The form of an answer.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TextConfig {
    /// The form.
    pub format: Option<Format>,
    /// Without effect: verbosity cannot be controlled.
    #[schemars(extend("enum" = ["low", "medium", "high"]))]
    pub verbosity: Option<String>,
}

/// OpenAI's form of an answer, without an object for the schema.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Format {
    /// Any text.
    Text,
    /// A JSON object.
    JsonObject,
    /// JSON that fits a schema.
    JsonSchema {
        /// Its name.
        #[schemars(extend("pattern" = NAME))]
        name: String,
        /// Without effect: every schema is kept to.
        strict: Option<bool>,
        /// The schema.
        #[schemars(schema_with = "shapes::schema")]
        schema: Value,
    },
}

/// Reasoning before an answer.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Reasoning {
    /// The effort.
    #[schemars(extend("enum" = EFFORTS))]
    pub effort: Option<String>,
}

/// The events of a stream.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
pub struct StreamOptions {
    /// Without effect: nothing is obscured.
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
