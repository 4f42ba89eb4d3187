//! Fields of conversations.

use super::super::fields::code::{MISSING, TYPE, UNSUPPORTED, VALUE};
use super::super::limits::MAX_DOCUMENTS;
use super::{CHAT, Field, Form, field, refused};

pub(super) const FIELDS: &[Field] = &[
    field(
        "messages",
        &[CHAT],
        Form::Own("an array of 1 to 16384 messages"),
        "The conversation. A message has a `role` (`system`, `developer`, `user`, `assistant`, `tool` or `function`) and a `content`: a string, \
         or an array of parts of type `text` and, for models that read images or sound, `image_url` and `input_audio`. `name`, `tool_calls` and `tool_call_id` reach the template.",
    )
    .refusing(&[
        refused(r#"{"messages": null}"#, "messages", MISSING),
        refused(r#"{"messages": "hi"}"#, "messages", TYPE),
        refused(r#"{"messages": {}}"#, "messages", TYPE),
        refused(r#"{"messages": []}"#, "messages", VALUE),
        refused(r#"{"messages": ["hi"]}"#, "messages[0]", TYPE),
        refused(r#"{"messages": [{"content": "hi"}]}"#, "messages[0].role", MISSING),
        refused(r#"{"messages": [{"role": 1, "content": "hi"}]}"#, "messages[0].role", TYPE),
        refused(r#"{"messages": [{"role": "", "content": "hi"}]}"#, "messages[0].role", VALUE),
        refused(r#"{"messages": [{"role": "user", "content": 5}]}"#, "messages[0].content", TYPE),
        refused(r#"{"messages": [{"role": "user", "content": {"type": "text"}}]}"#, "messages[0].content", TYPE),
        refused(r#"{"messages": [{"role": "user", "content": ["hi"]}]}"#, "messages[0].content[0]", TYPE),
        refused(r#"{"messages": [{"role": "user", "content": [{"text": "hi"}]}]}"#, "messages[0].content[0].type", MISSING),
        refused(r#"{"messages": [{"role": "user", "content": [{"type": 1}]}]}"#, "messages[0].content[0].type", TYPE),
        refused(r#"{"messages": [{"role": "user", "content": [{"type": "text"}]}]}"#, "messages[0].content[0].text", MISSING),
        refused(r#"{"messages": [{"role": "user", "content": [{"type": "text", "text": 1}]}]}"#, "messages[0].content[0].text", TYPE),
        refused(
            r#"{"messages": [{"role": "user", "content": [{"type": "text", "text": "what is it"}, {"type": "image_url"}]}]}"#,
            "messages[0].content[1].image_url",
            MISSING,
        ),
        refused(
            r#"{"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "data:,"}]}]}"#,
            "messages[0].content[0].image_url",
            TYPE,
        ),
        refused(
            r#"{"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": 1}}]}]}"#,
            "messages[0].content[0].image_url.url",
            TYPE,
        ),
        refused(
            r#"{"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,", "detail": "most"}}]}]}"#,
            "messages[0].content[0].image_url.detail",
            VALUE,
        ),
        refused(
            r#"{"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}]}"#,
            "messages[0].content[0].input_audio.data",
            MISSING,
        ),
        refused(
            r#"{"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "", "format": "ogg"}}]}]}"#,
            "messages[0].content[0].input_audio.format",
            VALUE,
        ),
        refused(r#"{"messages": [{"role": "user", "content": [{"type": "something"}]}]}"#, "messages[0].content[0].type", UNSUPPORTED),
        refused(r#"{"messages": [{"role": "user", "content": "hi", "name": 5}]}"#, "messages[0].name", TYPE),
        refused(r#"{"messages": [{"role": "assistant", "tool_calls": "f"}]}"#, "messages[0].tool_calls", TYPE),
        refused(r#"{"messages": [{"role": "assistant", "tool_calls": ["f"]}]}"#, "messages[0].tool_calls[0]", TYPE),
        refused(r#"{"messages": [{"role": "assistant", "tool_calls": [{}]}]}"#, "messages[0].tool_calls[0].function", MISSING),
        refused(
            r#"{"messages": [{"role": "assistant", "tool_calls": [{"function": {"arguments": "{}"}}]}]}"#,
            "messages[0].tool_calls[0].function.name",
            MISSING,
        ),
        refused(
            r#"{"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}]}"#,
            "messages[0].tool_calls[0].function.arguments",
            VALUE,
        ),
        refused(
            r#"{"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": 1}}]}]}"#,
            "messages[0].tool_calls[0].function.arguments",
            TYPE,
        ),
        refused(r#"{"messages": [{"role": "tool", "content": "42", "tool_call_id": 7}]}"#, "messages[0].tool_call_id", TYPE),
    ]),
    field(
        "add_generation_prompt",
        &[CHAT],
        Form::Boolean,
        "Whether the prompt ends with what begins an answer; true when left out.",
    ),
    field(
        "continue_final_message",
        &[CHAT],
        Form::Boolean,
        "The answer goes on with the last message, which the template leaves open, instead of beginning one.",
    )
    .refusing(&[refused(
        r#"{"continue_final_message": true, "add_generation_prompt": true}"#,
        "continue_final_message",
        VALUE,
    )]),
    field(
        "chat_template_kwargs",
        &[CHAT],
        Form::Object,
        "More variables for the chat template, such as `enable_thinking`.",
    )
    .refusing(&[refused(
        r#"{"chat_template_kwargs": {"add_generation_prompt": 1}}"#,
        "chat_template_kwargs.add_generation_prompt",
        TYPE,
    )]),
    field("documents", &[CHAT], Form::Array(MAX_DOCUMENTS), "The template's variable `documents`: strings or objects.")
        .refusing(&[refused(r#"{"documents": ["a", 5]}"#, "documents[1]", TYPE)]),
    field(
        "chat_template",
        &[CHAT],
        Form::Only(&[]),
        "A request cannot bring its own template; a graph can (`chat_template_file`).",
    ),
    field(
        "verbosity",
        &[CHAT],
        Form::Only(&[r#""medium""#]),
        "Verbosity cannot be controlled.",
    ),
    field("modalities", &[CHAT], Form::Only(&[r#"["text"]"#]), "Answers are text."),
    field("audio", &[CHAT], Form::Only(&[]), "Answers are text."),
    field("prediction", &[CHAT], Form::Only(&[]), "Use `num_assistant_tokens`: the prompt is searched for what comes next."),
    field("web_search_options", &[CHAT], Form::Only(&[]), "Nothing is searched."),
    field("mm_processor_kwargs", &[CHAT], Form::Only(&["{}"]), "Each model looks and listens in its own way."),
];
