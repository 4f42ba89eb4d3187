//! Fields with the required form of the answer: OpenAI's `response_format`, the `guided_*` fields of OVMS and vLLM, vLLM's `structured_outputs`, llama-server's
//! `grammar` and `json_schema`, `SGLang`'s `regex` and `ebnf`.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{shapes, structural_tag::StructuralTag};
use crate::schema::{NAME, Plain};

/// Form of the answer. At most one of the fields may set it.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Output {
    /// Form that the answer must have.
    #[schemars(extend("x-words" = "an object with a `type`: `text`, `json_object`, `json_schema` or `structural_tag`", "x-kind" = "an object"))]
    pub response_format: Option<ResponseFormat>,
    /// JSON schema that the answer must match.
    #[schemars(schema_with = "shapes::schema", extend("x-beyond" = true))]
    pub guided_json: Option<Value>,
    /// Regular expression that the whole answer must match.
    #[schemars(schema_with = "shapes::some_text", extend("x-beyond" = true, "x-words" = "a regular expression"))]
    pub guided_regex: Option<String>,
    /// Texts from which the answer is chosen.
    #[schemars(length(min = 1), extend("x-beyond" = true, "x-words" = "an array of strings"))]
    pub guided_choice: Option<Vec<String>>,
    /// Grammar that the answer must follow.
    #[schemars(schema_with = "shapes::some_text", extend("x-beyond" = true, "x-words" = "a grammar in GBNF or Lark"))]
    pub guided_grammar: Option<String>,
    /// Alternative name of `guided_grammar`.
    #[schemars(schema_with = "shapes::some_text", extend("x-beyond" = true, "x-words" = "a grammar in GBNF or Lark"))]
    pub grammar: Option<String>,
    /// Alternative name of `guided_json`.
    #[schemars(schema_with = "shapes::schema", extend("x-beyond" = true))]
    pub json_schema: Option<Value>,
    /// Object with one of the constraints above.
    #[schemars(extend("x-beyond" = true, "x-words" = "an object with one of `json`, `json_object`, `regex`, `choice`, `grammar`, `structural_tag`"))]
    pub structured_outputs: Option<StructuredOutputs>,
    /// Words that the answer must not contain. The last token of a word is forbidden where it would complete the word.
    #[schemars(schema_with = "shapes::bad_words")]
    pub bad_words: Vec<String>,
    /// Leaves special tokens out of the text; the default is true.
    pub skip_special_tokens: Option<bool>,
}

/// Output fields that need no reading.
pub const PLAIN: &[Plain] = &plain! {
    /// Alternative name of `guided_regex`, which wins if both are given.
    "regex": Alias("guided_regex"),
    /// Alternative name of `guided_grammar`, which wins if both are given.
    "ebnf": Alias("guided_grammar"),
    /// White space in JSON is always a space, or a line break with its indentation.
    "guided_whitespace_pattern": Only(&[]),
    /// Has no effect: tokens are written as in the model's vocabulary.
    "spaces_between_special_tokens": Only(&["true", "false"]),
};

/// OpenAI's form of an answer.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ResponseFormat {
    /// Text without any constraint; the default.
    Text,
    /// A JSON object of any kind.
    JsonObject {
        /// JSON schema to match. TGI's clients call it `value`.
        #[serde(default, alias = "value")]
        #[schemars(schema_with = "shapes::schema")]
        schema: Option<Value>,
    },
    /// JSON that matches a schema.
    JsonSchema {
        /// JSON schema with its name.
        json_schema: NamedSchema,
    },
    /// Text of which some parts are constrained.
    StructuralTag(StructuralTag),
}

/// A schema in OpenAI's form.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct NamedSchema {
    /// Name of the schema, without effect on the answer.
    #[schemars(extend("pattern" = NAME))]
    pub name: Option<String>,
    /// Has no effect: answers always match the schema.
    pub strict: Option<bool>,
    /// JSON schema that the answer must match.
    #[schemars(schema_with = "shapes::schema")]
    pub schema: Value,
}

/// vLLM's form of an answer.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(transform = others_are_false)]
pub struct StructuredOutputs {
    /// JSON schema, as in `guided_json`.
    #[schemars(schema_with = "shapes::schema")]
    pub json: Option<Value>,
    /// Regular expression, as in `guided_regex`.
    #[schemars(schema_with = "shapes::some_text")]
    pub regex: Option<String>,
    /// Texts to choose from, as in `guided_choice`.
    #[schemars(length(min = 1))]
    pub choice: Option<Vec<String>>,
    /// Grammar in GBNF or Lark, as in `guided_grammar`.
    #[schemars(schema_with = "shapes::some_text")]
    pub grammar: Option<String>,
    /// Structural tag, as an object or a string.
    #[schemars(schema_with = "structural_tag")]
    pub structural_tag: Option<Value>,
    /// Requires a JSON object of any kind.
    pub json_object: bool,
    /// Has no effect: there is no fallback.
    pub disable_fallback: bool,
}

fn structural_tag(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["object", "string"], "x-kind": "a structural tag, or a string of one" })
}

/// Allows other fields only with the value `false`.
fn others_are_false(schema: &mut Schema) {
    schema.insert("additionalProperties".to_owned(), json!({ "const": false }));
}
