//! Fields that say what the answer has to look like.

use super::{BOTH, CHAT, Field, Form, field};

pub(super) const FIELDS: &[Field] = &[
    field(
        "response_format",
        BOTH,
        Form::Own("an object with a `type`"),
        "What the answer has to be.",
    ),
    field(
        "guided_json",
        BOTH,
        Form::Own("a JSON schema"),
        "The schema that the answer fits.",
    ),
    field(
        "guided_regex",
        BOTH,
        Form::Own("a regular expression"),
        "The expression that the answer matches.",
    ),
    field(
        "guided_choice",
        BOTH,
        Form::Own("an array of strings"),
        "The texts of which the answer is one.",
    ),
    field(
        "guided_grammar",
        BOTH,
        Form::Own("a grammar"),
        "The grammar that the answer follows.",
    ),
    field("grammar", BOTH, Form::Own("a grammar"), "The same."),
    field(
        "structured_outputs",
        BOTH,
        Form::Own("an object"),
        "The same four, as an object.",
    ),
    field(
        "skip_special_tokens",
        BOTH,
        Form::Boolean,
        "Leaves special tokens out of the text.",
    ),
    field(
        "spaces_between_special_tokens",
        BOTH,
        Form::Only(&["true"]),
        "Tokens are written as the model's vocabulary has them.",
    ),
    field(
        "add_special_tokens",
        &[CHAT],
        Form::Only(&["false"]),
        "The template writes them.",
    ),
    field(
        "return_token_ids",
        BOTH,
        Form::Only(&["false"]),
        "`/tokenize` and `?explain=1` tell them.",
    ),
    field(
        "return_tokens_as_token_ids",
        BOTH,
        Form::Only(&["false"]),
        "Tokens are told as text and bytes.",
    ),
];
