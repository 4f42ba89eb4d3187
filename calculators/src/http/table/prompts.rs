//! Fields of questions about prompts.

use super::super::fields::code::{MISSING, TYPE, VALUE};
use super::{DETOKENIZE, Field, Form, MOST, TOKENIZE, field, refused};

pub(super) const FIELDS: &[Field] = &[
    field(
        "text",
        &[TOKENIZE],
        Form::Own("a string or an array of at most 1024 strings"),
        "What is tokenized. `prompt` and `content` are other names for it, and `messages` can be there instead.",
    )
    .refusing(&[
        refused(r#"{"text": null}"#, "text", MISSING),
        refused(r#"{"text": 5}"#, "text", TYPE),
        refused(r#"{"text": []}"#, "text", VALUE),
        refused(r#"{"text": ["a", 5]}"#, "text[1]", TYPE),
        refused(r#"{"prompt": "a"}"#, "prompt", VALUE),
        refused(r#"{"messages": [{"role": "user", "content": "a"}]}"#, "messages", VALUE),
    ]),
    field(
        "add_special_tokens",
        &[TOKENIZE],
        Form::Boolean,
        "Whether the model's begin token is added: true, but with `content` false.",
    ),
    field(
        "parse_special",
        &[TOKENIZE],
        Form::Boolean,
        "Whether the spelling of a special token means the token: true with `content` and `prompt`, false with `text`.",
    ),
    field("max_length", &[TOKENIZE], Form::Integer(1, MOST), "Longer lists are cut."),
    field(
        "pad_to_max_length",
        &[TOKENIZE],
        Form::Boolean,
        "Whether shorter lists are filled.",
    )
    .refusing(&[
        refused(r#"{"pad_to_max_length": true}"#, "max_length", MISSING),
        refused(
            r#"{"pad_to_max_length": true, "max_length": 4294967295}"#,
            "max_length",
            VALUE,
        ),
    ]),
    field(
        "padding_side",
        &[TOKENIZE],
        Form::OneOf(&["left", "right"]),
        "Where they are filled.",
    ),
    field(
        "return_token_strs",
        &[TOKENIZE],
        Form::Boolean,
        "Whether the text of each token is listed, too.",
    ),
    field(
        "with_pieces",
        &[TOKENIZE],
        Form::Boolean,
        "Whether tokens are objects of `id` and `piece`.",
    ),
    field("tokens", &[DETOKENIZE], Form::Own("an array of at most 4194304 token ids"), "The tokens of the text.").refusing(&[
        refused(r#"{"tokens": null}"#, "tokens", MISSING),
        refused(r#"{"tokens": ["a"]}"#, "tokens[0]", TYPE),
        refused(r#"{"tokens": [1.5]}"#, "tokens[0]", TYPE),
        refused(r#"{"tokens": [-1]}"#, "tokens[0]", VALUE),
        refused(r#"{"tokens": [2000000000]}"#, "tokens[0]", VALUE),
    ]),
];
