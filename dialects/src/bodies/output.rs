//! Fields that say what the answer has to look like: OpenAI's `response_format`, the `guided_*`
//! fields of OVMS and vLLM, vLLM's `structured_outputs`, llama-server's `grammar` and `json_schema`,
//! `SGLang`'s `regex` and `ebnf`.

use schemars::{JsonSchema, Schema};
use serde::Deserialize;
use serde_json::{Value, json};

use super::shapes;
use crate::schema::{NAME, Plain};

/// Form of the answer. One field at most says what it has to match.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Output {
    /// Form that the answer has.
    #[schemars(extend("x-words" = "an object with a `type`: `text`, `json_object` or `json_schema`", "x-kind" = "an object"))]
    pub response_format: Option<ResponseFormat>,
    /// The schema that the answer fits.
    #[schemars(schema_with = "shapes::schema", extend("x-beyond" = true))]
    pub guided_json: Option<Value>,
    /// The expression that the whole answer matches.
    #[schemars(schema_with = "shapes::some_text", extend("x-beyond" = true, "x-words" = "a regular expression"))]
    pub guided_regex: Option<String>,
    /// The texts of which the answer is one.
    #[schemars(length(min = 1), extend("x-beyond" = true, "x-words" = "an array of strings"))]
    pub guided_choice: Option<Vec<String>>,
    /// The grammar that the answer follows.
    #[schemars(schema_with = "shapes::some_text", extend("x-beyond" = true, "x-words" = "a grammar in GBNF or Lark"))]
    pub guided_grammar: Option<String>,
    /// The same as `guided_grammar`.
    #[schemars(schema_with = "shapes::some_text", extend("x-beyond" = true, "x-words" = "a grammar in GBNF or Lark"))]
    pub grammar: Option<String>,
    /// The same as `guided_json`.
    #[schemars(schema_with = "shapes::schema", extend("x-beyond" = true))]
    pub json_schema: Option<Value>,
    /// One of these in one field.
    #[schemars(extend("x-beyond" = true, "x-words" = "an object with one of `json`, `json_object`, `regex`, `choice`, `grammar`"))]
    pub structured_outputs: Option<StructuredOutputs>,
    /// Leaves special tokens out of the text; true when left out.
    pub skip_special_tokens: Option<bool>,
}

/// The others of that kind.
pub const PLAIN: &[Plain] = &plain! {
    /// The same, where there is no `guided_regex`.
    "regex": Alias("guided_regex"),
    /// The same, where there is no `guided_grammar`.
    "ebnf": Alias("guided_grammar"),
    /// White space in JSON is a space, or a new line and its indentation.
    "guided_whitespace_pattern": Only(&[]),
    /// Tokens are written as the model's vocabulary has them.
    "spaces_between_special_tokens": Only(&["true"]),
    /// `/tokenize` and `?explain=1` tell them.
    "return_token_ids": Only(&["false"]),
    /// Tokens are told as text and bytes.
    "return_tokens_as_token_ids": Only(&["false"]),
};

/// OpenAI's form of an answer.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ResponseFormat {
    /// Any text.
    Text,
    /// A JSON object.
    JsonObject {
        /// The schema that it fits. TGI's clients have it as `value`.
        #[serde(default, alias = "value")]
        #[schemars(schema_with = "shapes::schema")]
        schema: Option<Value>,
    },
    /// JSON that fits a schema.
    JsonSchema {
        /// The schema and its name.
        json_schema: NamedSchema,
    },
}

/// A schema as OpenAI has it.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct NamedSchema {
    /// Its name.
    #[schemars(extend("pattern" = NAME))]
    pub name: Option<String>,
    /// Without effect: every schema is kept to.
    pub strict: Option<bool>,
    /// The schema.
    #[schemars(schema_with = "shapes::schema")]
    pub schema: Value,
}

/// vLLM's form of an answer.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(transform = others_are_false)]
pub struct StructuredOutputs {
    /// As `guided_json`.
    #[schemars(schema_with = "shapes::schema")]
    pub json: Option<Value>,
    /// As `guided_regex`.
    #[schemars(schema_with = "shapes::some_text")]
    pub regex: Option<String>,
    /// As `guided_choice`.
    #[schemars(length(min = 1))]
    pub choice: Option<Vec<String>>,
    /// As `guided_grammar`.
    #[schemars(schema_with = "shapes::some_text")]
    pub grammar: Option<String>,
    /// Asks for a JSON object.
    pub json_object: bool,
    /// Without effect: there is nothing to fall back to.
    pub disable_fallback: bool,
}

/// Other fields may say nothing but no.
fn others_are_false(schema: &mut Schema) {
    schema.insert("additionalProperties".to_owned(), json!({ "const": false }));
}
