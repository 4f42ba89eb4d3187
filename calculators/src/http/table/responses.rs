//! Fields of OpenAI's responses. Those of chat that have no row here (`min_p`, `seed`, `stop` ...)
//! can be used as well.

use super::super::fields::code::{MISSING, TYPE, UNSUPPORTED, VALUE};
use super::super::limits::MAX_TOOLS;
use super::{Field, Form, RESPONSES, field, refused};

pub(super) const FIELDS: &[Field] = &[
    field(
        "input",
        &[RESPONSES],
        Form::Own("a string or an array of 1 to 16384 items"),
        "The conversation. An item is a message of text, images and sounds, a `function_call`, a `function_call_output` or `reasoning`.",
    )
    .refusing(&[
        refused(r#"{"input": null}"#, "input", MISSING),
        refused(r#"{"input": []}"#, "input", VALUE),
        refused(r#"{"input": 3}"#, "input", TYPE),
        refused(r#"{"input": ["Hi"]}"#, "input[0]", TYPE),
        refused(r#"{"input": [{"content": "Hi"}]}"#, "input[0].role", MISSING),
        refused(r#"{"input": [{"role": "nobody", "content": ""}]}"#, "input[0].role", VALUE),
        refused(r#"{"input": [{"role": "user"}]}"#, "input[0].content", MISSING),
        refused(r#"{"input": [{"role": "user", "content": 5}]}"#, "input[0].content", TYPE),
        refused(r#"{"input": [{"role": "user", "content": [{"type": "input_image"}]}]}"#, "input[0].content[0].image_url", MISSING),
        refused(r#"{"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]}"#, "input[0].content[0].file_id", UNSUPPORTED),
        refused(r#"{"input": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}]}"#, "input[0].content[0].input_audio.data", MISSING),
        refused(r#"{"input": [{"role": "user", "content": [{"type": "input_text"}]}]}"#, "input[0].content[0].text", MISSING),
        refused(r#"{"input": [{"type": "item_reference", "id": "x"}]}"#, "input[0].type", UNSUPPORTED),
        refused(r#"{"input": [{"type": "function_call", "name": "f", "arguments": "{}"}]}"#, "input[0].call_id", MISSING),
        refused(r#"{"input": [{"type": "function_call", "call_id": "c", "name": "f", "arguments": "no"}]}"#, "input[0].arguments", VALUE),
        refused(r#"{"input": [{"type": "function_call_output", "call_id": "c"}]}"#, "input[0].output", MISSING),
        refused(r#"{"input": [{"type": "reasoning", "summary": "thought"}]}"#, "input[0].summary", TYPE),
    ]),
    field("instructions", &[RESPONSES], Form::Text, "The system message before the input."),
    field(
        "max_output_tokens",
        &[RESPONSES],
        Form::Limit(1),
        "Most tokens of the answer.",
    ),
    field("text", &[RESPONSES], Form::Object, "Its `format` says what the answer has to be.").refusing(&[
        refused(r#"{"text": {"format": "json"}}"#, "text.format", TYPE),
        refused(r#"{"text": {"format": {}}}"#, "text.format.type", MISSING),
        refused(r#"{"text": {"format": {"type": "xml"}}}"#, "text.format.type", VALUE),
        refused(r#"{"text": {"format": {"type": "json_schema", "schema": {}}}}"#, "text.format.name", MISSING),
        refused(r#"{"text": {"format": {"type": "json_schema", "name": "a"}}}"#, "text.format.schema", MISSING),
    ]),
    field("reasoning", &[RESPONSES], Form::Object, "Its `effort` is the template's `reasoning_effort`.").refusing(&[
        refused(r#"{"reasoning": {"effort": 5}}"#, "reasoning.effort", TYPE),
    ]),
    field(
        "tools",
        &[RESPONSES],
        Form::Array(MAX_TOOLS),
        "The functions that the model may call.",
    )
    .refusing(&[
        refused(r#"{"tools": [5]}"#, "tools[0]", TYPE),
        refused(r#"{"tools": [{"type": "web_search"}]}"#, "tools[0].type", UNSUPPORTED),
        refused(r#"{"tools": [{"type": "function"}]}"#, "tools[0].name", MISSING),
        refused(r#"{"tools": [{"type": "function", "name": "f", "parameters": []}]}"#, "tools[0].parameters", TYPE),
    ]),
    field(
        "tool_choice",
        &[RESPONSES],
        Form::Own("`none`, `auto`, `required` or a function"),
        "Whether it calls one.",
    )
    .refusing(&[refused(
        r#"{"tool_choice": {"type": "file_search"}}"#,
        "tool_choice.type",
        UNSUPPORTED,
    )]),
    field("parallel_tool_calls", &[RESPONSES], Form::Boolean, "Whether it may call several."),
    field("stream", &[RESPONSES], Form::Boolean, "Sends the answer as named events, while it is generated."),
    field("temperature", &[RESPONSES], Form::Number(0.0, 2.0), "As in chat."),
    field("top_p", &[RESPONSES], Form::Number(0.0, 1.0), "As in chat."),
    field("store", &[RESPONSES], Form::Boolean, "Answers are never stored."),
    field(
        "include",
        &[RESPONSES],
        Form::Array(64),
        "`reasoning.encrypted_content` changes nothing: what is thought is sent as it is.",
    )
    .refusing(&[refused(
        r#"{"include": ["file_search_call.results"]}"#,
        "include[0]",
        UNSUPPORTED,
    )]),
    field("previous_response_id", &[RESPONSES], Form::Only(&[]), "Nothing is stored."),
    field("conversation", &[RESPONSES], Form::Only(&[]), "Nothing is stored."),
    field("background", &[RESPONSES], Form::Only(&["false"]), "Nothing is stored."),
    field("prompt", &[RESPONSES], Form::Only(&[]), "There are no stored prompts."),
    field("max_tool_calls", &[RESPONSES], Form::Only(&[]), "There are no tools of the server."),
    field(
        "truncation",
        &[RESPONSES],
        Form::Only(&["\"disabled\""]),
        "What does not fit is refused.",
    ),
    field(
        "top_logprobs",
        &[RESPONSES],
        Form::Only(&["0"]),
        "Chat has log probabilities.",
    ),
];
