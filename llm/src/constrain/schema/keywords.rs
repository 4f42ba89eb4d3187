//! Keywords of JSON Schema, by what their values are.

/// Value of a keyword.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// A schema, or a list of schemas.
    Schemas,
    /// An object of schemas by name.
    Named,
    /// A URI of a schema.
    Reference,
    /// A value as it is.
    Data,
    /// A number, a text or a list of texts.
    Plain,
    /// Something that demands nothing.
    Annotation,
}

pub(super) const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];
/// Keywords whose value is data.
pub(super) const DATA: [&str; 2] = ["const", "enum"];
/// Keywords whose value is an object of schemas by name.
pub(super) const NAMED: [&str; 5] = [
    "properties",
    "patternProperties",
    "$defs",
    "dependentSchemas",
    "dependencies",
];
/// Keywords whose value is a schema of the same value, or a list of them.
pub(super) const IN_PLACE: [&str; 7] = ["allOf", "anyOf", "oneOf", "not", "if", "then", "else"];
/// Keywords whose value is a schema of what a value contains.
const CONTAINED: [&str; 8] = [
    "items",
    "prefixItems",
    "additionalItems",
    "additionalProperties",
    "propertyNames",
    "contains",
    "unevaluatedItems",
    "unevaluatedProperties",
];
const PLAIN: [&str; 20] = [
    "type",
    "nullable",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minContains",
    "maxContains",
    "required",
    "minProperties",
    "maxProperties",
    "dependentRequired",
];
/// Keywords that the compiler of grammars holds.
pub(super) const HELD: [&str; 26] = [
    "$ref",
    "allOf",
    "anyOf",
    "const",
    "enum",
    "type",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "items",
    "prefixItems",
    "minItems",
    "maxItems",
    "properties",
    "patternProperties",
    "additionalProperties",
    "required",
    "minProperties",
    "maxProperties",
    super::exact::EXACT,
];

/// The kind of a keyword. Unknown ones are annotations.
pub(super) fn kind(keyword: &str) -> Kind {
    let is_in = |keywords: &[&str]| keywords.contains(&keyword);
    match keyword {
        "$defs" => Kind::Annotation,
        _ if is_in(&REFERENCES) => Kind::Reference,
        _ if is_in(&DATA) => Kind::Data,
        _ if is_in(&NAMED) => Kind::Named,
        _ if is_in(&IN_PLACE) || is_in(&CONTAINED) => Kind::Schemas,
        _ if is_in(&PLAIN) => Kind::Plain,
        _ => Kind::Annotation,
    }
}
