//! Fields of completions.

use super::super::fields::code::{TYPE, VALUE};
use super::{COMPLETIONS, Field, Form, field, refused};

pub(super) const FIELDS: &[Field] = &[
    field(
        "prompt",
        &[COMPLETIONS],
        Form::Own(
            "a string, an array of strings, an array of token ids, or an array of such arrays; at most 1024 prompts, and 4194304 token ids together",
        ),
        "What the text goes on from. Several prompts are answered at once, `n` choices each.",
    )
    .refusing(&[
        refused(
            r#"{"prompt": null}"#,
            "prompt",
            "missing_required_parameter",
        ),
        refused(r#"{"prompt": 5}"#, "prompt", TYPE),
        refused(r#"{"prompt": {}}"#, "prompt", TYPE),
        refused(r#"{"prompt": ""}"#, "prompt", VALUE),
        refused(r#"{"prompt": []}"#, "prompt", VALUE),
        refused(r#"{"prompt": ["a", ""]}"#, "prompt[1]", VALUE),
        refused(r#"{"prompt": ["a", 1]}"#, "prompt[1]", TYPE),
        refused(r#"{"prompt": [true]}"#, "prompt[0]", TYPE),
        refused(r#"{"prompt": [1, "a"]}"#, "prompt[1]", TYPE),
        refused(r#"{"prompt": [1, 1.5]}"#, "prompt[1]", TYPE),
        refused(r#"{"prompt": [-1]}"#, "prompt[0]", VALUE),
        refused(r#"{"prompt": [[]]}"#, "prompt[0]", VALUE),
        refused(r#"{"prompt": [[1], [-2]]}"#, "prompt[1][0]", VALUE),
        refused(r#"{"prompt": [2000000000]}"#, "prompt", VALUE),
    ]),
    field(
        "echo",
        &[COMPLETIONS],
        Form::Boolean,
        "Repeats the prompt before the text, with log probabilities where these are asked for. With it, `max_tokens` may be 0.",
    ),
    field(
        "suffix",
        &[COMPLETIONS],
        Form::Text,
        "What comes after the text, for models that fill in; others refuse it.",
    )
    .refusing(&[
        refused(r#"{"suffix": "x", "echo": true}"#, "suffix", VALUE),
        refused(r#"{"suffix": "x", "prompt": [1, 2]}"#, "suffix", VALUE),
        refused(r#"{"suffix": "x"}"#, "suffix", "unsupported_parameter"),
    ]),
];
