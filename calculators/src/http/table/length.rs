//! Fields that say how many texts there are and where they end.

use super::super::fields::code::{TYPE, VALUE};
use super::super::limits::MAX_STOP_TOKENS;
use super::{BOTH, CHAT, COMPLETIONS, Field, Form, MOST, field, refused};

pub(super) const FIELDS: &[Field] = &[
    field(
        "n",
        BOTH,
        Form::Integer(1, 128),
        "Choices for each prompt, which is computed once. Below the graph's `best_of_limit`.",
    ),
    field(
        "best_of",
        BOTH,
        Form::Integer(1, 128),
        "Equal to `n`: choices are not ranked.",
    )
    .refusing(&[
        refused(r#"{"best_of": 3}"#, "best_of", VALUE),
        refused(r#"{"best_of": 1, "n": 2}"#, "best_of", VALUE),
    ]),
    field(
        "max_tokens",
        &[CHAT],
        Form::Limit(1),
        "Most tokens of a choice. At most the graph's `max_tokens_limit`.",
    ),
    field(
        "max_tokens",
        &[COMPLETIONS],
        Form::Limit(0),
        "Most tokens of a choice; 0 only with `echo`. At most the graph's `max_tokens_limit`.",
    )
    .refusing(&[refused(r#"{"max_tokens": 0}"#, "max_tokens", VALUE)]),
    field(
        "max_completion_tokens",
        BOTH,
        Form::Limit(1),
        "The same, and goes before `max_tokens`.",
    ),
    field(
        "min_tokens",
        BOTH,
        Form::Integer(0, MOST),
        "Tokens before the model's end token or one of `stop_token_ids` can come.",
    ),
    field(
        "stop",
        BOTH,
        Form::Own("a string, or an array of at most 16 strings; each of at most 1024 characters"),
        "Texts that end a choice where they appear. They are not part of it.",
    )
    .refusing(&[
        refused(r#"{"stop": 5}"#, "stop", TYPE),
        refused(r#"{"stop": {}}"#, "stop", TYPE),
        refused(r#"{"stop": ""}"#, "stop", VALUE),
        refused(r#"{"stop": ["a", ""]}"#, "stop[1]", VALUE),
        refused(r#"{"stop": ["a", 5]}"#, "stop[1]", TYPE),
        refused(
            r#"{"stop": ["a","b","c","d","e","f","g","h","i","j","k","l","m","n","o","p","q"]}"#,
            "stop",
            VALUE,
        ),
    ]),
    field(
        "include_stop_str_in_output",
        BOTH,
        Form::Boolean,
        "Makes the text of `stop` that ended a choice part of it.",
    ),
    field(
        "stop_token_ids",
        BOTH,
        Form::Array(MAX_STOP_TOKENS),
        "Tokens that end a choice. They are not part of it.",
    )
    .refusing(&[
        refused(r#"{"stop_token_ids": ["a"]}"#, "stop_token_ids[0]", TYPE),
        refused(r#"{"stop_token_ids": [1, -1]}"#, "stop_token_ids[1]", VALUE),
        refused(r#"{"stop_token_ids": [0.5]}"#, "stop_token_ids[0]", TYPE),
        refused(
            r#"{"stop_token_ids": [2000000000]}"#,
            "stop_token_ids",
            VALUE,
        ),
    ]),
    field(
        "ignore_eos",
        BOTH,
        Form::Boolean,
        "Goes on after the model's end token.",
    ),
    field(
        "truncate_prompt_tokens",
        BOTH,
        Form::Only(&[]),
        "A prompt that is too long is refused, never cut.",
    ),
];
