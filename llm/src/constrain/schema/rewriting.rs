//! Rewrites keywords that llguidance does not know by those that it does, each by one rule.
//!
//! What a rule allows may be less than what the schema does, and is never more.

#![expect(clippy::unnecessary_wraps, reason = "rules are in one table")]

use serde_json::{Map, Value, json};

use super::keywords::{HELD, NAMED};
use super::limits::Limits;
use super::references::{Resolved, target};
use super::{Place, closing, conditions, elements, exclusive, refused};
use crate::constrain::compiler::ConstraintError;

pub(super) type Keywords = Map<String, Value>;
type Rule = fn(&mut Keywords, &Node) -> Result<(), ConstraintError>;

/// Rules in their order. What one leads to may be for others behind it.
const RULES: [(&str, Rule); 18] = [
    ("nullable", nullable),
    ("dependencies", conditions::dependencies),
    ("dependentRequired", conditions::dependent_required),
    ("dependentSchemas", conditions::dependent_schemas),
    ("if", conditions::condition),
    ("not", conditions::negation),
    ("oneOf", exclusive::one_of),
    ("propertyNames", property_names),
    ("unevaluatedProperties", unevaluated),
    ("unevaluatedItems", unevaluated),
    ("items", elements::items),
    ("contains", elements::contains),
    ("uniqueItems", elements::unique_items),
    ("pattern", look_ahead),
    ("format", format),
    ("minProperties", check_least_properties),
    ("required", required),
    ("type", kinds),
];
/// Keywords that demand nothing without another, whose rule has taken them into account.
const IDLE: [&str; 5] = [
    "then",
    "else",
    "additionalItems",
    "minContains",
    "maxContains",
];
/// The formats that texts are held to. All others are annotations.
const FORMATS: [&str; 10] = [
    "date-time",
    "time",
    "date",
    "duration",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "uuid",
    "uri",
];
pub(super) const TYPES: [&str; 6] = ["null", "boolean", "number", "string", "array", "object"];
/// Context of the schema of a value.
pub(super) struct Node<'a> {
    /// The whole schema as it was.
    pub(super) root: &'a Value,
    pub(super) place: Place,
    /// Other schemas of the same value, around this one.
    pub(super) around: &'a [&'a Keywords],
}

/// Rewrites a schema in place, and holds its numbers.
pub(super) fn rewrite(schema: &mut Value, resolved: &Resolved) -> Result<(), ConstraintError> {
    let mut has_integers = false;
    closing::each(schema, true, &mut |keywords, _| {
        has_integers |= is_of(keywords, "integer");
    });
    let mut rewriter = Rewriter {
        root: &resolved.schema,
        limits: Limits::new(has_integers),
    };
    let mut definitions = schema.as_object_mut().and_then(|root| root.remove("$defs"));
    rewriter.schema(schema, Place::default(), &[])?;
    if let Some(Value::Object(definitions)) = &mut definitions {
        for (definition, place) in definitions.values_mut().zip(&resolved.places) {
            rewriter.schema(definition, place.clone(), &[])?;
        }
    }
    if let Some(definitions) = definitions {
        schema["$defs"] = definitions;
    }
    rewriter.limits.check_multiples(schema)
}

struct Rewriter<'a> {
    root: &'a Value,
    limits: Limits,
}

impl Rewriter<'_> {
    fn schema(
        &mut self,
        schema: &mut Value,
        place: Place,
        around: &[&Keywords],
    ) -> Result<(), ConstraintError> {
        let Value::Object(keywords) = schema else {
            return Ok(());
        };
        let root = self.root;
        let node = Node {
            root,
            place,
            around,
        };
        for (keyword, rule) in RULES {
            if keywords.contains_key(keyword) {
                rule(keywords, &node)?;
            }
        }
        keywords.retain(|keyword, _| !IDLE.contains(&keyword.as_str()));
        if let Some(keyword) = keywords
            .keys()
            .find(|keyword| !HELD.contains(&keyword.as_str()))
        {
            return refused(keyword, "is not supported", &node.place);
        }
        self.limits.hold(keywords, &node.place)?;
        for keyword in ["allOf", "anyOf"] {
            let Some(mut parts) = keywords.get_mut(keyword).map(Value::take) else {
                continue;
            };
            let around: Vec<&Keywords> = around.iter().copied().chain([&*keywords]).collect();
            self.each(&mut parts, &node.place.of(keyword), &around)?;
            keywords[keyword] = parts;
        }
        for (keyword, value) in keywords {
            let place = node.place.of(keyword);
            match value {
                Value::Object(schemas) if NAMED.contains(&keyword.as_str()) => {
                    for (name, schema) in schemas {
                        self.schema(schema, place.of(name), &[])?;
                    }
                }
                schema if ["items", "additionalProperties"].contains(&keyword.as_str()) => {
                    self.schema(schema, place, &[])?;
                }
                schemas if keyword == "prefixItems" => self.each(schemas, &place, &[])?,
                _ => {}
            }
        }
        Ok(())
    }

    fn each(
        &mut self,
        schemas: &mut Value,
        place: &Place,
        around: &[&Keywords],
    ) -> Result<(), ConstraintError> {
        let schemas = schemas.as_array_mut().into_iter().flatten().enumerate();
        schemas
            .into_iter()
            .try_for_each(|(at, schema)| self.schema(schema, place.of(&at.to_string()), around))
    }
}

/// Adds a schema that holds, too.
pub(super) fn demand(keywords: &mut Keywords, schema: Value) {
    let all = keywords.entry("allOf").or_insert_with(|| json!([]));
    if let Value::Array(all) = all {
        all.push(schema);
    }
}

/// Returns true if the values of a schema can be of a type that it names.
pub(super) fn is_of(keywords: &Keywords, kind: &str) -> bool {
    match keywords.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(|it| it == kind),
        Some(it) => it == kind,
        None => false,
    }
}

/// Returns true if a schema demands nothing.
pub(super) fn is_open(schema: &Value) -> bool {
    schema == &Value::Bool(true) || schema == &json!({})
}

/// Adds `null`, for which the older versions of Open API have no type.
fn nullable(keywords: &mut Keywords, _: &Node) -> Result<(), ConstraintError> {
    if keywords.shift_remove("nullable") == Some(Value::Bool(true)) && keywords.contains_key("type")
    {
        let others = Value::Object(std::mem::take(keywords));
        keywords.insert("anyOf".to_owned(), json!([others, {"type": "null"}]));
    }
    Ok(())
}

/// Of names, what llguidance knows are lists and patterns.
fn property_names(keywords: &mut Keywords, node: &Node) -> Result<(), ConstraintError> {
    let mut names = keywords.shift_remove("propertyNames").unwrap_or_default();
    while let Some(target) = names.as_object().and_then(|names| target(node.root, names)) {
        if names.as_object().map(Map::len) != Some(1) {
            break;
        }
        names = target.clone();
    }
    if let Some(names) = names.as_object_mut() {
        names.retain(|keyword, value| keyword != "type" || value != "string");
    }
    if is_open(&names) {
        return Ok(());
    }
    let others = keywords
        .get("additionalProperties")
        .cloned()
        .unwrap_or(true.into());
    let listed = conditions::values(&names, node.root);
    if let (Some(listed), false) = (&listed, keywords.contains_key("patternProperties")) {
        let properties = keywords.get("properties").cloned().unwrap_or_default();
        let listed = listed.iter().filter_map(Value::as_str);
        let of = |name: &str| properties.get(name).unwrap_or(&others).clone();
        let allowed: Keywords = listed.map(|name| (name.to_owned(), of(name))).collect();
        keywords.insert("properties".to_owned(), Value::Object(allowed));
    } else {
        let only = names.as_object().filter(|names| names.len() == 1);
        let pattern = only.and_then(|names| names.get("pattern"));
        let has_names = ["properties", "patternProperties"].iter();
        let has_names = has_names
            .clone()
            .any(|keyword| keywords.contains_key(*keyword));
        let (Some(Value::String(pattern)), false) = (pattern, has_names) else {
            return refused(
                "propertyNames",
                "is more than a list or one `pattern`",
                &node.place,
            );
        };
        keywords.insert(
            "patternProperties".to_owned(),
            json!({ pattern.as_str(): others }),
        );
    }
    keywords.insert("additionalProperties".to_owned(), false.into());
    Ok(())
}

/// What is unevaluated is what is additional, where nothing but the same schema evaluates.
fn unevaluated(keywords: &mut Keywords, node: &Node) -> Result<(), ConstraintError> {
    for (keyword, same) in [
        ("unevaluatedProperties", "additionalProperties"),
        ("unevaluatedItems", "items"),
    ] {
        let Some(schema) = keywords.get(keyword) else {
            continue;
        };
        let composes = ["allOf", "anyOf", "$ref", "contains"].iter();
        let composes = composes.clone().any(|other| keywords.contains_key(*other));
        let has_same = keywords.contains_key(same);
        if composes && !has_same && !is_open(schema) || !node.around.is_empty() && !is_open(schema)
        {
            return refused(
                keyword,
                "is not supported beside what else evaluates",
                &node.place,
            );
        }
        if let (Some(schema), false) = (keywords.shift_remove(keyword), has_same) {
            keywords.insert(same.to_owned(), schema);
        }
    }
    Ok(())
}

/// Patterns that have to match ahead are patterns of the same text.
fn look_ahead(keywords: &mut Keywords, node: &Node) -> Result<(), ConstraintError> {
    let Some(Value::String(pattern)) = keywords.get("pattern") else {
        return Ok(());
    };
    let mut patterns = Vec::new();
    let mut rest = pattern.strip_prefix('^').unwrap_or_default();
    while let Some((ahead, behind)) = rest.strip_prefix("(?=").and_then(split_group) {
        patterns.push(format!("^(?:{ahead})"));
        rest = behind;
    }
    if patterns.is_empty() {
        rest = pattern;
    } else {
        patterns.push(format!("^{rest}"));
    }
    let plain = rest.replace(r"\\", "").replace(r"\(", "");
    let around = ["(?=", "(?!", "(?<=", "(?<!"];
    // An alternative that stands beside one would be one for itself.
    let has_around = around.iter().any(|around| plain.contains(around))
        || !patterns.is_empty() && plain.contains('|');
    if has_around {
        let why = "looks around, other than ahead with `(?=` where it begins with `^`";
        return refused("pattern", why, &node.place);
    }
    if !patterns.is_empty() {
        keywords.shift_remove("pattern");
    }
    for pattern in patterns {
        demand(keywords, json!({ "pattern": pattern }));
    }
    Ok(())
}

/// What is before the end of a group in a pattern, and behind it.
fn split_group(pattern: &str) -> Option<(&str, &str)> {
    let (mut depth, mut in_class, mut is_escaped) = (1, false, false);
    let end = pattern.bytes().position(|byte| {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'[' => in_class = true,
            b']' => in_class = false,
            b'(' if !in_class => depth += 1,
            b')' if !in_class => depth -= 1,
            _ => {}
        }
        depth == 0
    })?;
    Some((&pattern[..end], &pattern[end + 1..]))
}

fn format(keywords: &mut Keywords, _: &Node) -> Result<(), ConstraintError> {
    let is_annotation = |format: &str| !FORMATS.contains(&format);
    if keywords["format"].as_str().is_some_and(is_annotation) {
        keywords.shift_remove("format");
    }
    Ok(())
}

/// Refuses lists of names that are none, which would be read as less.
fn required(keywords: &mut Keywords, node: &Node) -> Result<(), ConstraintError> {
    let names = keywords["required"].as_array();
    if names.is_some_and(|names| names.iter().all(Value::is_string)) {
        return Ok(());
    }
    refused("required", "is no list of names", &node.place)
}

/// Names the place of a type that is none.
fn kinds(keywords: &mut Keywords, node: &Node) -> Result<(), ConstraintError> {
    let kinds = &keywords["type"];
    let kinds = kinds
        .as_array()
        .map_or(std::slice::from_ref(kinds), Vec::as_slice);
    let is_known = |kind: &&Value| {
        kind.as_str()
            .is_some_and(|kind| kind == "integer" || TYPES.contains(&kind))
    };
    match kinds.iter().find(|kind| !is_known(kind)) {
        Some(kind) => refused(
            "type",
            format_args!("is {kind}, which is none"),
            &node.place,
        ),
        None => Ok(()),
    }
}

/// A grammar cannot know that a name has come before, so it can count at most one property whose
/// name is open.
fn check_least_properties(keywords: &mut Keywords, node: &Node) -> Result<(), ConstraintError> {
    let Some(least) = keywords["minProperties"].as_u64() else {
        return Ok(());
    };
    let required = keywords.get("required").and_then(Value::as_array);
    let required = required.map_or(0, Vec::len) as u64;
    let is_closed = keywords.get("additionalProperties") == Some(&Value::Bool(false))
        && !keywords.contains_key("patternProperties");
    if least > required + 1 && !is_closed {
        let why = format!(
            "is {least}, and only {required} of them are `required`: names cannot be held apart"
        );
        return refused("minProperties", why, &node.place);
    }
    Ok(())
}
