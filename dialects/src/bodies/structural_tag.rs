//! Structural tags: constraints on parts of a text, and the positions of these parts.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Value, json};

use super::shapes::short_text;

/// Maximum number of tags, and of triggers. Each is an alternative of a grammar.
pub const MAX_TAGS: usize = 128;

/// Maximum size of a format in bytes of JSON.
pub const MAX_FORMAT_BYTES: usize = 1 << 16;

/// Maximum number of characters of the text before or after a tag.
const MAX_TAG_CHARS: usize = 1_024;

/// A structural tag: a format, or its older form.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("x-shown" = shown()))]
pub struct StructuralTag {
    /// Constrained parts of the text.
    #[schemars(length(min = 1, max = MAX_TAGS))]
    pub structures: Option<Vec<Structure>>,
    /// Texts after which one of these parts must follow: prefixes of their `begin`.
    #[schemars(schema_with = "triggers")]
    pub triggers: Option<Vec<String>>,
    /// Format of the text: a [`Format`].
    #[schemars(schema_with = "any")]
    pub format: Option<Value>,
}

/// A part of a text that is JSON.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Structure {
    /// Text that comes before the JSON.
    #[schemars(schema_with = "mark")]
    pub begin: String,
    /// JSON schema to match; any JSON without one.
    #[serde(default)]
    #[schemars(schema_with = "any")]
    pub schema: Option<Value>,
    /// Text that comes after the JSON; none if absent.
    #[schemars(length(max = MAX_TAG_CHARS))]
    pub end: Option<String>,
}

/// The format of a text.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Format {
    /// A fixed text, which must appear exactly.
    ConstString {
        /// Text that the answer must contain here.
        value: String,
    },
    /// JSON that matches a schema.
    JsonSchema {
        /// JSON schema that this part must match.
        json_schema: Value,
    },
    /// Text that matches a regular expression.
    Regex {
        /// Regular expression that this part must match as a whole.
        pattern: String,
    },
    /// Text that follows a grammar.
    Grammar {
        /// Grammar of this part in GBNF.
        grammar: String,
    },
    /// Text without any constraint, of any length.
    AnyText,
    /// Several formats, one after the other.
    Sequence {
        /// Formats in the order of the text.
        elements: Vec<Format>,
    },
    /// Exactly one of several formats.
    Or {
        /// Formats from which one is chosen.
        elements: Vec<Format>,
    },
    /// A format between two texts.
    Tag(Tag),
    /// Free text that contains tags.
    TriggeredTags {
        /// Texts after which one of the tags must follow: prefixes of their `begin`.
        triggers: Vec<String>,
        /// Tags that may follow a trigger.
        tags: Vec<Tag>,
        /// Requires at least one tag.
        #[serde(default)]
        at_least_one: bool,
        /// Ends the text after the first tag.
        #[serde(default)]
        stop_after_first: bool,
    },
    /// Tags without free text between them.
    TagsWithSeparator {
        /// Tags of which each occurrence is one.
        tags: Vec<Tag>,
        /// Text that separates two tags.
        separator: String,
        /// Requires at least one tag.
        #[serde(default)]
        at_least_one: bool,
        /// Ends the text after the first tag.
        #[serde(default)]
        stop_after_first: bool,
    },
}

/// A format between two texts.
#[derive(Debug, Deserialize)]
pub struct Tag {
    /// Text that comes before the format.
    pub begin: String,
    /// Format of the text between them.
    pub content: Box<Format>,
    /// Text that comes after the format.
    pub end: String,
}

/// Makes the schema of a structural tag whose parts fit its triggers.
fn shown() -> Value {
    let part = json!({
        "type": "object", "required": ["begin"],
        "properties": {
            "begin": { "enum": ["<tag>"] }, "end": { "type": "string", "maxLength": MAX_TAG_CHARS },
        },
    });
    json!({
        "type": "object", "required": ["type", "structures", "triggers"],
        "properties": {
            "type": { "enum": ["structural_tag"] },
            "structures": { "type": "array", "items": part, "minItems": 1, "maxItems": MAX_TAGS },
            "triggers": { "type": "array", "items": { "enum": ["<tag>"] }, "minItems": 1, "maxItems": 1 },
        },
    })
}

fn any(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object" })
}

fn mark(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "minLength": 1, "maxLength": MAX_TAG_CHARS })
}

fn triggers(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array", "minItems": 1, "maxItems": MAX_TAGS, "items": short_text(MAX_TAG_CHARS),
    })
}
