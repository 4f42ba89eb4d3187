//! Rewriting of keywords that llguidance does not support, each by one rule.
//!
//! A rewritten schema may allow less than the original, but never more.

#![expect(
    clippy::needless_pass_by_value,
    clippy::unnecessary_wraps,
    reason = "rules are in one table"
)]

use serde_json::{Map, Value, json};

use super::keywords::{Keywords, each_part};
use super::limits::NumberLimits;
use super::{Result, conditions, elements, exclusive, names, refused, within};

/// A function that rewrites a keyword. The keyword was removed from its schema; its value is
/// passed.
type RewriteRule = fn(&mut Keywords, Value, &Node) -> Result;

/// Rules in their order. The result of one may be rewritten by a later one.
const RULES: [(&str, RewriteRule); 15] = [
    ("nullable", nullable),
    ("dependencies", conditions::dependent),
    ("dependentRequired", conditions::dependent),
    ("dependentSchemas", conditions::dependent),
    ("if", conditions::condition),
    ("not", conditions::negation),
    ("oneOf", exclusive::one_of),
    ("propertyNames", names::property_names),
    ("unevaluatedProperties", names::unevaluated_properties),
    ("unevaluatedItems", names::unevaluated_items),
    ("contains", elements::contains),
    ("uniqueItems", elements::unique_items),
    ("pattern", look_ahead),
    ("format", format),
    ("minProperties", names::least_properties),
];
/// Keywords without effect on their own; the rule of another keyword has used them.
const IDLE: &str = "then else additionalItems minContains maxContains";
/// Keywords of schemas for the same value.
const PARTS: [&str; 2] = ["allOf", "anyOf"];
/// Formats that are enforced. All others are annotations.
const FORMATS: &str = "date-time time date duration email hostname ipv4 ipv6 uuid uri";

/// Context of the schema of a value.
pub(super) struct Node<'a> {
    /// The whole schema before rewriting.
    pub(super) root: &'a Value,
    pub(super) place: &'a str,
    /// Other schemas for the same value, around this one.
    pub(super) around: &'a [&'a Keywords],
}

impl<'a> Node<'a> {
    /// Returns the schemas for the same value, with `keywords` within the others.
    pub(super) fn around_with(&self, keywords: &'a Keywords) -> Vec<&'a Keywords> {
        self.around.iter().copied().chain([keywords]).collect()
    }
}

/// Rewrites a schema in place, and limits its numbers. `places` are those of its `$defs`.
pub(super) fn rewrite(schema: &mut Value, places: &[String]) -> Result {
    let root = schema.clone();
    let limits = NumberLimits::default();
    let mut rewriter = Rewriter {
        root: &root,
        limits,
    };
    let mut definitions = schema
        .as_object_mut()
        .and_then(|root| root.shift_remove("$defs"));
    rewriter.schema(schema, "", &[])?;
    let each = definitions.as_mut().and_then(Value::as_object_mut);
    for (definition, place) in each.into_iter().flat_map(Map::values_mut).zip(places) {
        rewriter.schema(definition, place, &[])?;
    }
    if let Some(definitions) = definitions {
        schema["$defs"] = definitions;
    }
    rewriter.limits.check_multiples()
}

struct Rewriter<'a> {
    root: &'a Value,
    limits: NumberLimits,
}

impl Rewriter<'_> {
    fn schema(&mut self, schema: &mut Value, place: &str, around: &[&Keywords]) -> Result {
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
            if let Some(value) = keywords.shift_remove(keyword) {
                rule(keywords, value, &node)?;
            }
        }
        for keyword in IDLE.split(' ') {
            keywords.shift_remove(keyword);
        }
        self.limits.apply(keywords, place)?;
        for keyword in PARTS {
            let Some(mut parts) = keywords.get_mut(keyword).map(Value::take) else {
                continue;
            };
            let around = node.around_with(keywords);
            let place = within(place, keyword);
            for (at, part) in parts.as_array_mut().into_iter().flatten().enumerate() {
                self.schema(part, &within(&place, &at.to_string()), &around)?;
            }
            keywords[keyword] = parts;
        }
        each_part(keywords, place, &mut |keyword, schema, place| {
            if PARTS.contains(&keyword) {
                Ok(())
            } else {
                self.schema(schema, place, &[])
            }
        })
    }
}

/// Adds a schema that must match, too.
pub(super) fn demand(keywords: &mut Keywords, schema: Value) {
    let all = keywords.entry("allOf").or_insert_with(|| json!([]));
    if let Value::Array(all) = all {
        all.push(schema);
    }
}

/// Returns true if a schema allows everything.
pub(super) fn is_open(schema: &Value) -> bool {
    schema == &Value::Bool(true) || schema == &json!({})
}

/// Allows `null`, for which older versions of `OpenAPI` have no type.
fn nullable(keywords: &mut Keywords, adds: Value, _: &Node) -> Result {
    if adds == Value::Bool(true) && keywords.contains_key("type") {
        let others = Value::Object(std::mem::take(keywords));
        keywords.insert("anyOf".to_owned(), json!([others, {"type": "null"}]));
    }
    Ok(())
}

/// Splits off the lookaheads of patterns, in a schema and all within it.
pub(super) fn split_patterns(schema: &mut Value, place: &str) -> Result {
    let Value::Object(keywords) = schema else {
        return Ok(());
    };
    if let Some(pattern) = keywords.shift_remove("pattern") {
        let node = Node {
            root: &Value::Null,
            place,
            around: &[],
        };
        look_ahead(keywords, pattern, &node)?;
    }
    each_part(keywords, place, &mut |_, schema, place| {
        split_patterns(schema, place)
    })
}

/// Converts lookaheads: positive ones become patterns for the same text, negative ones the
/// opposites of theirs.
fn look_ahead(keywords: &mut Keywords, pattern: Value, node: &Node) -> Result {
    let whole = pattern.as_str().unwrap_or_default();
    let mut patterns = Vec::new();
    let mut rest = whole.strip_prefix('^').unwrap_or_default();
    loop {
        let group = |sign| rest.strip_prefix(sign).and_then(split_group);
        let matching = group("(?=").map(|(ahead, behind)| (format!("^(?:{ahead})"), behind));
        let other = || group("(?!").and_then(|(ahead, behind)| Some((opposite(ahead)?, behind)));
        let Some((pattern, behind)) = matching.or_else(other) else {
            break;
        };
        patterns.push(json!({ "pattern": pattern }));
        rest = behind;
    }
    let is_ahead = !patterns.is_empty();
    let rest = if is_ahead { rest } else { whole };
    let plain = rest.replace(r"\\", "").replace(r"\(", "");
    let mut around = ["(?=", "(?!", "(?<=", "(?<!"].into_iter();
    // An alternative beside a lookahead would become one of its own.
    if around.any(|around| plain.contains(around)) || is_ahead && plain.contains('|') {
        let why = "has an unsupported lookaround: only lookaheads after a leading `^` are supported, with `(?=` or with a simple opposite";
        return refused("pattern", why, node.place);
    }
    if !is_ahead {
        keywords.insert("pattern".to_owned(), pattern);
        return Ok(());
    }
    patterns.push(json!({"pattern": format!("^{rest}")}));
    for pattern in patterns {
        demand(keywords, pattern);
    }
    Ok(())
}

/// Returns the pattern for texts whose beginning a pattern does not match, if that is simple: one
/// character (`(?!\.)`), one twice anywhere (`(?!.*\.\.)`), or only some characters
/// (`(?!^[-+.]*$)`).
fn opposite(pattern: &str) -> Option<String> {
    // The content of a class's brackets.
    let class = |one: &str| {
        let inner = match one.strip_prefix('[') {
            Some(rest) => rest.strip_suffix(']')?,
            None => one,
        };
        let mut chars = inner.chars();
        let is_one = match (chars.next()?, chars.next(), chars.next()) {
            ('\\', Some(c), None) => c.is_ascii_punctuation(),
            (c, None, _) => c.is_ascii_alphanumeric() || one != inner,
            _ => one != inner && !inner.contains(['[', ']', '\\']),
        };
        (is_one && !inner.starts_with('^')).then(|| inner.to_owned())
    };
    let anchored = pattern.strip_prefix('^').unwrap_or(pattern);
    let all = anchored.strip_suffix("*$").and_then(class);
    let first = || class(pattern).map(|one| format!("^(?:[^{one}](?s:.*))?$"));
    let twice = || {
        let both = pattern.strip_prefix(".*")?;
        let (one, other) = both.split_at_checked(both.len() / 2)?;
        let inner = class(one).filter(|_| one == other)?;
        Some(format!("^(?:{one}?[^{inner}])*{one}?$"))
    };
    let all = all.map(|some| format!("[^{some}]"));
    all.or_else(first).or_else(twice)
}

/// Splits a pattern into the rest of a group and the text behind it.
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

fn format(keywords: &mut Keywords, format: Value, _: &Node) -> Result {
    if FORMATS.split(' ').any(|known| format == known) {
        keywords.insert("format".to_owned(), format);
    }
    Ok(())
}
