//! Fields of Anthropic's messages. Those of chat that have no row here (`min_p`, `seed` ...) can be
//! used as well.

use super::super::fields::code::{MISSING, TYPE, UNSUPPORTED, VALUE};
use super::super::limits::{MAX_STOPS, MAX_TOOLS};
use super::{Field, Form, MESSAGES, field, refused};

pub(super) const FIELDS: &[Field] = &[
    field(
        "messages",
        &[MESSAGES],
        Form::Own("an array of 1 to 16384 messages"),
        "The conversation. Content is a string or an array of blocks: `text`, `image`, `thinking`, `tool_use`, `tool_result`. A last message of the assistant is continued.",
    )
    .refusing(&[
        refused(r#"{"messages": null}"#, "messages", MISSING),
        refused(r#"{"messages": "Hi"}"#, "messages", TYPE),
        refused(r#"{"messages": []}"#, "messages", VALUE),
        refused(r#"{"messages": ["Hi"]}"#, "messages[0]", TYPE),
        refused(r#"{"messages": [{"content": "Hi"}]}"#, "messages[0].role", MISSING),
        refused(r#"{"messages": [{"role": "tool", "content": "Hi"}]}"#, "messages[0].role", VALUE),
        refused(r#"{"messages": [{"role": "user"}]}"#, "messages[0].content", MISSING),
        refused(r#"{"messages": [{"role": "user", "content": 5}]}"#, "messages[0].content", TYPE),
        refused(r#"{"messages": [{"role": "user", "content": ["Hi"]}]}"#, "messages[0].content[0]", TYPE),
        refused(r#"{"messages": [{"role": "user", "content": [{"type": "image"}]}]}"#, "messages[0].content[0].source", MISSING),
        refused(r#"{"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "file"}}]}]}"#, "messages[0].content[0].source.type", UNSUPPORTED),
        refused(r#"{"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "base64", "media_type": "image/png"}}]}]}"#, "messages[0].content[0].source.data", MISSING),
        refused(r#"{"messages": [{"role": "user", "content": [{"type": "text"}]}]}"#, "messages[0].content[0].text", MISSING),
        refused(r#"{"messages": [{"role": "user", "content": [{"type": "tool_use", "id": "c", "name": "f"}]}]}"#, "messages[0].content[0].type", UNSUPPORTED),
        refused(r#"{"messages": [{"role": "assistant", "content": [{"type": "tool_use", "name": "f"}]}]}"#, "messages[0].content[0].id", MISSING),
        refused(r#"{"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": "{}"}]}]}"#, "messages[0].content[0].input", TYPE),
        refused(r#"{"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]}"#, "messages[0].content[0].tool_use_id", MISSING),
    ]),
    field(
        "system",
        &[MESSAGES],
        Form::Own("a string or an array of text blocks"),
        "The system message before the conversation.",
    )
    .refusing(&[
        refused(r#"{"system": 5}"#, "system", TYPE),
        refused(r#"{"system": [{"type": "image"}]}"#, "system[0].type", UNSUPPORTED),
    ]),
    field("max_tokens", &[MESSAGES], Form::Limit(1), "Most tokens of the answer; can be left out."),
    field(
        "stop_sequences",
        &[MESSAGES],
        Form::Array(MAX_STOPS),
        "End the text where they appear; the answer says which. Each has at most 1024 characters.",
    )
    .refusing(&[
        refused(r#"{"stop_sequences": [1]}"#, "stop_sequences[0]", TYPE),
        refused(r#"{"stop_sequences": [""]}"#, "stop_sequences[0]", VALUE),
    ]),
    field("stream", &[MESSAGES], Form::Boolean, "Sends the answer as named events, while it is generated."),
    field("temperature", &[MESSAGES], Form::Number(0.0, 2.0), "As in chat."),
    field("top_p", &[MESSAGES], Form::Number(0.0, 1.0), "As in chat."),
    field("top_k", &[MESSAGES], Form::Integer(-1, i32::MAX as i64), "As in chat."),
    field("tools", &[MESSAGES], Form::Array(MAX_TOOLS), "The client's tools that the model may call.").refusing(&[
        refused(r#"{"tools": [5]}"#, "tools[0]", TYPE),
        refused(r#"{"tools": [{"name": "f"}]}"#, "tools[0].input_schema", MISSING),
        refused(r#"{"tools": [{"input_schema": {}}]}"#, "tools[0].name", MISSING),
        refused(r#"{"tools": [{"name": "", "input_schema": {}}]}"#, "tools[0].name", VALUE),
        refused(r#"{"tools": [{"name": "f", "input_schema": []}]}"#, "tools[0].input_schema", TYPE),
        refused(r#"{"tools": [{"name": "f", "input_schema": {"type": "array"}}]}"#, "tools[0].input_schema.type", VALUE),
        refused(r#"{"tools": [{"type": "web_search_20250305", "name": "f"}]}"#, "tools[0].type", UNSUPPORTED),
    ]),
    field("tool_choice", &[MESSAGES], Form::Object, "Whether it calls one: `auto`, `any`, `tool` or `none`.").refusing(&[
        refused(r#"{"tool_choice": {}}"#, "tool_choice.type", MISSING),
        refused(r#"{"tool_choice": {"type": "some"}}"#, "tool_choice.type", VALUE),
        refused(r#"{"tool_choice": {"type": "tool"}}"#, "tool_choice.name", MISSING),
        refused(
            r#"{"tool_choice": {"type": "auto", "disable_parallel_tool_use": 1}}"#,
            "tool_choice.disable_parallel_tool_use",
            TYPE,
        ),
    ]),
    field("thinking", &[MESSAGES], Form::Object, "Sets the template's `enable_thinking`, and limits what is thought.").refusing(&[
        refused(r#"{"thinking": {}}"#, "thinking.type", MISSING),
        refused(r#"{"thinking": {"type": "deep"}}"#, "thinking.type", VALUE),
    ]),
    field("output_config", &[MESSAGES], Form::Object, "Its `format` is a JSON schema that the answer has to match; `effort` is the template's `reasoning_effort`.").refusing(&[
        refused(r#"{"output_config": {"format": {"type": "xml"}}}"#, "output_config.format.type", VALUE),
        refused(r#"{"output_config": {"format": {"type": "json_schema"}}}"#, "output_config.format.schema", MISSING),
        refused(r#"{"output_config": {"effort": 5}}"#, "output_config.effort", TYPE),
    ]),
    field("mcp_servers", &[MESSAGES], Form::Only(&["[]"]), "There are no tools of the server."),
    field("container", &[MESSAGES], Form::Only(&[]), "There are no tools of the server."),
    field("context_management", &[MESSAGES], Form::Only(&[]), "What does not fit is refused."),
];
