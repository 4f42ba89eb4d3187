//! Structural tags: what parts of a text have to match, and where these are.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Value, json};

use super::shapes::short_text;

/// Maximum number of tags, or of triggers: each is an alternative of a grammar.
pub const MAX_TAGS: usize = 128;

/// Longest format, in bytes of JSON.
pub const MAX_FORMAT_BYTES: usize = 1 << 16;

/// Longest text that a tag begins or ends with.
const MAX_TAG_CHARS: usize = 1_024;

/// A structural tag: either a format, or its older form.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("x-shown" = shown()))]
pub struct StructuralTag {
    /// Parts of the text.
    #[schemars(length(min = 1, max = MAX_TAGS))]
    pub structures: Option<Vec<Structure>>,
    /// Texts behind which one of these parts has to come: the beginnings of their `begin`.
    #[schemars(schema_with = "triggers")]
    pub triggers: Option<Vec<String>>,
    /// What the text is: a [`Format`].
    #[schemars(schema_with = "any")]
    pub format: Option<Value>,
}

/// A part of a text that is JSON.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Structure {
    /// The text before the JSON.
    #[schemars(schema_with = "mark")]
    pub begin: String,
    /// The schema that it fits; any JSON without one.
    #[serde(default)]
    #[schemars(schema_with = "any")]
    pub schema: Option<Value>,
    /// The text behind it.
    #[schemars(length(max = MAX_TAG_CHARS))]
    pub end: Option<String>,
}

/// A form of a text.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Format {
    /// This text.
    ConstString {
        /// The text.
        value: String,
    },
    /// JSON.
    JsonSchema {
        /// The schema that it fits.
        json_schema: Value,
    },
    /// A text that an expression matches.
    Regex {
        /// The expression.
        pattern: String,
    },
    /// A text that follows a grammar.
    Grammar {
        /// The grammar, in GBNF.
        grammar: String,
    },
    /// Any text.
    AnyText,
    /// Several, one after the other.
    Sequence {
        /// What they are.
        elements: Vec<Format>,
    },
    /// One of several.
    Or {
        /// What they are.
        elements: Vec<Format>,
    },
    /// Something between two texts.
    Tag(Tag),
    /// Free text with tags in it.
    TriggeredTags {
        /// Texts behind which one of the tags has to come: their beginnings.
        triggers: Vec<String>,
        /// The tags.
        tags: Vec<Tag>,
        /// Asks for one tag or more.
        #[serde(default)]
        at_least_one: bool,
        /// Ends the text with the first tag.
        #[serde(default)]
        stop_after_first: bool,
    },
    /// Tags and nothing else.
    TagsWithSeparator {
        /// The tags.
        tags: Vec<Tag>,
        /// The text between two of them.
        separator: String,
        /// Asks for one tag or more.
        #[serde(default)]
        at_least_one: bool,
        /// Ends the text with the first tag.
        #[serde(default)]
        stop_after_first: bool,
    },
}

/// Something between two texts.
#[derive(Debug, Deserialize)]
pub struct Tag {
    /// The text before it.
    pub begin: String,
    /// What it is.
    pub content: Box<Format>,
    /// The text behind it.
    pub end: String,
}

/// The schema of one whose parts fit to its triggers.
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
