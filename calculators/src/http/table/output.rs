//! Fields that say what the answer has to look like.

use super::super::fields::code::{MISSING, TYPE, UNSUPPORTED, VALUE};
use super::{BOTH, CHAT, Field, Form, field, refused};

/// What cannot be enforced.
const CONSTRAINT: &str = "invalid_constraint";

pub(super) const FIELDS: &[Field] = &[
    field(
        "response_format",
        BOTH,
        Form::Own("an object with a `type`: `text`, `json_object` or `json_schema`"),
        "What the answer has to be.",
    )
    .refusing(&[
        refused(r#"{"response_format": "json_object"}"#, "response_format", TYPE),
        refused(r#"{"response_format": {}}"#, "response_format.type", MISSING),
        refused(r#"{"response_format": {"type": 1}}"#, "response_format.type", TYPE),
        refused(r#"{"response_format": {"type": "xml"}}"#, "response_format.type", VALUE),
        refused(r#"{"response_format": {"type": "json_schema"}}"#, "response_format.json_schema", MISSING),
        refused(
            r#"{"response_format": {"type": "json_schema", "json_schema": []}}"#,
            "response_format.json_schema",
            TYPE,
        ),
        refused(
            r#"{"response_format": {"type": "json_schema", "json_schema": {"name": "a"}}}"#,
            "response_format.json_schema.schema",
            MISSING,
        ),
        refused(
            r#"{"response_format": {"type": "json_schema", "json_schema": {"schema": 5}}}"#,
            "response_format.json_schema.schema",
            TYPE,
        ),
        refused(
            r#"{"response_format": {"type": "json_schema", "json_schema": {"name": "a b", "schema": {}}}}"#,
            "response_format.json_schema.name",
            VALUE,
        ),
        refused(
            r#"{"response_format": {"type": "json_schema", "json_schema": {"name": 5, "schema": {}}}}"#,
            "response_format.json_schema.name",
            TYPE,
        ),
        refused(
            r#"{"response_format": {"type": "json_schema", "json_schema": {"schema": {}, "strict": 1}}}"#,
            "response_format.json_schema.strict",
            TYPE,
        ),
        refused(
            r#"{"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "strin"}}}}"#,
            "response_format.json_schema.schema",
            CONSTRAINT,
        ),
        refused(
            r##"{"response_format": {"type": "json_schema", "json_schema": {"schema": {"$ref": "#/no"}}}}"##,
            "response_format.json_schema.schema",
            CONSTRAINT,
        ),
        refused(
            r#"{"response_format": {"type": "json_object"}, "guided_regex": "a"}"#,
            "guided_regex",
            VALUE,
        ),
    ]),
    field(
        "guided_json",
        BOTH,
        Form::Own("a JSON schema, or a string of one"),
        "The schema that the answer fits.",
    )
    .refusing(&[
        refused(r#"{"guided_json": 5}"#, "guided_json", TYPE),
        refused(r#"{"guided_json": "{"}"#, "guided_json", VALUE),
        refused(r#"{"guided_json": "[]"}"#, "guided_json", VALUE),
        refused(r#"{"guided_json": false}"#, "guided_json", CONSTRAINT),
        refused(r#"{"guided_json": {"uniqueItems": true}}"#, "guided_json", CONSTRAINT),
    ]),
    field(
        "json_schema",
        BOTH,
        Form::Own("a JSON schema, or a string of one"),
        "The same.",
    )
    .refusing(&[
        refused(r#"{"json_schema": []}"#, "json_schema", TYPE),
        refused(r#"{"json_schema": {"not": {}}}"#, "json_schema", CONSTRAINT),
    ]),
    field(
        "guided_regex",
        BOTH,
        Form::Own("a regular expression"),
        "The expression that the whole answer matches.",
    )
    .refusing(&[
        refused(r#"{"guided_regex": ["a"]}"#, "guided_regex", TYPE),
        refused(r#"{"guided_regex": ""}"#, "guided_regex", VALUE),
        refused(r#"{"guided_regex": "("}"#, "guided_regex", CONSTRAINT),
        refused(r#"{"guided_regex": "(?=a)a"}"#, "guided_regex", CONSTRAINT),
        refused(r#"{"guided_regex": "a", "guided_json": {}}"#, "guided_regex", VALUE),
    ]),
    field(
        "guided_choice",
        BOTH,
        Form::Own("an array of strings"),
        "The texts of which the answer is one.",
    )
    .refusing(&[
        refused(r#"{"guided_choice": "a"}"#, "guided_choice", TYPE),
        refused(r#"{"guided_choice": []}"#, "guided_choice", VALUE),
        refused(r#"{"guided_choice": ["a", 5]}"#, "guided_choice[1]", TYPE),
    ]),
    field(
        "guided_grammar",
        BOTH,
        Form::Own("a grammar in GBNF or Lark"),
        "The grammar that the answer follows.",
    )
    .refusing(&[
        refused(r#"{"guided_grammar": 5}"#, "guided_grammar", TYPE),
        refused(r#"{"guided_grammar": " "}"#, "guided_grammar", VALUE),
        refused(r#"{"guided_grammar": "a b c"}"#, "guided_grammar", CONSTRAINT),
    ]),
    field("grammar", BOTH, Form::Own("a grammar in GBNF or Lark"), "The same.").refusing(&[
        refused(r#"{"grammar": {}}"#, "grammar", TYPE),
        refused(r#"{"grammar": "root ::= a"}"#, "grammar", CONSTRAINT),
    ]),
    field(
        "guided_whitespace_pattern",
        BOTH,
        Form::Only(&[]),
        "White space in JSON is a space, or a new line and its indentation.",
    ),
    field(
        "structured_outputs",
        BOTH,
        Form::Own("an object with one of `json`, `json_object`, `regex`, `choice`, `grammar`"),
        "The same in one field.",
    )
    .refusing(&[
        refused(r#"{"structured_outputs": []}"#, "structured_outputs", TYPE),
        refused(r#"{"structured_outputs": {}}"#, "structured_outputs", VALUE),
        refused(r#"{"structured_outputs": {"json": 5}}"#, "structured_outputs.json", TYPE),
        refused(
            r#"{"structured_outputs": {"json_object": 1}}"#,
            "structured_outputs.json_object",
            TYPE,
        ),
        refused(
            r#"{"structured_outputs": {"json": {}, "regex": "a"}}"#,
            "structured_outputs.regex",
            VALUE,
        ),
        refused(
            r#"{"structured_outputs": {"json": {}, "whitespace_pattern": " "}}"#,
            "structured_outputs.whitespace_pattern",
            UNSUPPORTED,
        ),
    ]),
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
