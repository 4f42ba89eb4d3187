//! Resolves the references of a schema, which are URIs, and removes annotations. The result has the
//! root, and in `$defs` the referenced schemas by number.

use std::collections::HashMap;

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};

use super::keywords::{KeywordKind, Keywords, check, each_part, kind, list};
use super::limits::SIDES;
use super::{Result, cycles, refused};
use crate::constrain::compiler::ConstraintError;

/// Maximum number of properties of one object: the possible next ones form a list.
const MAX_PROPERTIES: usize = 1000;
/// Maximum number of optional properties of one object. Each may come next, which takes four items
/// of the parser, and that has 1,200 for one byte.
const MAX_OPTIONAL: usize = 290;
/// Maximum nesting of all definitions together: the compiler recurses along it.
const MOST_LEVELS: usize = 16 << 10;
/// Maximum number of schemas, a limit of the compiler.
const MOST_SCHEMAS: usize = 50_000;

/// Resolves all references. Also returns the pointers to the schemas in `$defs`.
pub(super) fn resolve(root: &Value) -> Result<(Value, Vec<String>)> {
    let mut resolver = Resolver::default();
    let mut document = root.clone();
    resolver.parts.insert(String::new(), String::new());
    resolver.read(&mut document, "", "")?;
    resolver.document = document;
    let mut schema = resolver.definition("")?;
    let mut definitions = Map::new();
    while let Some(pointer) = resolver.pointers.get(definitions.len()).cloned() {
        let definition = resolver.definition(&pointer)?;
        definitions.insert(definitions.len().to_string(), definition);
    }
    cycles::check(&definitions, &resolver.pointers)?;
    if schema == Value::Bool(true) {
        schema = json!({});
    }
    if !definitions.is_empty() {
        schema["$defs"] = definitions.into();
    }
    Ok((schema, resolver.pointers))
}

#[derive(Default)]
struct Resolver {
    document: Value,
    /// Pointers by URI; URIs of anchors have a fragment.
    parts: HashMap<String, String>,
    dynamic_anchors: Vec<String>,
    /// Numbers of the referenced schemas, by pointer.
    numbers: HashMap<String, usize>,
    pointers: Vec<String>,
    /// Nesting of all definitions together; the next field is that of the present one.
    levels: usize,
    deepest: usize,
    schemas: usize,
}

impl Resolver {
    /// Collects the URIs of the parts of a document, and makes its references absolute.
    fn read(&mut self, schema: &mut Value, base: &str, place: &str) -> Result {
        let Value::Object(keywords) = schema else {
            return Ok(());
        };
        let mut base = base.to_owned();
        if let Some(id) = keywords.get("$id").and_then(Value::as_str) {
            let id = join(&base, id.strip_suffix('#').unwrap_or(id));
            let (uri, _) = id.split_once('#').unwrap_or((&id, ""));
            uri.clone_into(&mut base);
            self.parts.insert(id, place.to_owned());
        }
        for keyword in ["$anchor", "$dynamicAnchor"] {
            if let Some(Value::String(anchor)) = keywords.get(keyword) {
                self.parts
                    .insert(format!("{base}#{anchor}"), place.to_owned());
                if keyword == "$dynamicAnchor" {
                    self.dynamic_anchors.push(anchor.clone());
                }
            }
        }
        for keyword in ["$ref", "$dynamicRef", "$recursiveRef"] {
            if let Some(Value::String(reference)) = keywords.get_mut(keyword) {
                *reference = join(&base, reference);
            }
        }
        each_part(keywords, place, &mut |_, schema, place| {
            self.read(schema, &base, place)
        })
    }

    fn definition(&mut self, pointer: &str) -> Result<Value> {
        let mut schema = self.document.pointer(pointer).cloned().unwrap_or_default();
        self.deepest = 0;
        self.schema(&mut schema, "$ref", pointer, 1)?;
        self.levels += self.deepest;
        if self.levels > MOST_LEVELS {
            let why = "its definitions have too many levels together: nest them less";
            return Err(ConstraintError(why.to_owned()));
        }
        Ok(schema)
    }

    fn schema(&mut self, schema: &mut Value, at: &str, place: &str, level: usize) -> Result {
        self.deepest = level.max(self.deepest);
        self.schemas += 1;
        if self.schemas > MOST_SCHEMAS {
            let why = format!("it has more than {MOST_SCHEMAS} schemas with those it refers to");
            return Err(ConstraintError(why));
        }
        let keywords = match schema {
            Value::Object(keywords) => keywords,
            Value::Bool(_) => return Ok(()),
            other => return refused(at, format_args!("has {other}, expected a schema"), place),
        };
        for (keyword, value) in std::mem::take(keywords) {
            check(&keyword, &value, place)?;
            match (kind(&keyword), value) {
                (KeywordKind::Annotation, _) => {}
                (KeywordKind::Named, _) if ["$defs", "definitions"].contains(&&*keyword) => {}
                (KeywordKind::Reference, Value::String(reference)) => {
                    let number = self.number(&keyword, &reference, place)?;
                    let target = json!(format!("#/$defs/{number}"));
                    if let Some(other) = keywords.insert("$ref".to_owned(), target) {
                        return refused(&keyword, format_args!("conflicts with {other}"), place);
                    }
                }
                (_, value) => {
                    keywords.insert(keyword, value);
                }
            }
        }
        renew(keywords);
        let properties = keywords.get("properties").and_then(Value::as_object);
        let count = properties.map_or(0, Map::len);
        if count > MAX_PROPERTIES {
            let why =
                format!("an object has {count} properties, expected at most {MAX_PROPERTIES}");
            return Err(ConstraintError(why));
        }
        if count > MAX_OPTIONAL {
            let required = list(keywords, "required");
            let names = properties.into_iter().flat_map(Map::keys);
            let optional = names.filter(|name| !required.iter().any(|it| it == *name));
            let optional = optional.count();
            if optional > MAX_OPTIONAL {
                let why = format_args!(
                    "has {optional} optional properties, expected at most {MAX_OPTIONAL}"
                );
                return refused("properties", why, place);
            }
        }
        each_part(keywords, place, &mut |keyword, schema, place| {
            self.schema(schema, keyword, place, level + 1)
        })
    }

    /// Returns the number of a reference's target.
    fn number(&mut self, keyword: &str, reference: &str, place: &str) -> Result<usize> {
        let (uri, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let anchors = self.dynamic_anchors.iter();
        if keyword != "$ref" && anchors.filter(|anchor| *anchor == fragment).count() > 1 {
            return refused(keyword, "has several possible targets", place);
        }
        let fragment = percent_decode_str(fragment).decode_utf8_lossy();
        let pointer = if fragment.is_empty() || fragment.starts_with('/') {
            let part = self.parts.get(uri);
            part.map(|part| format!("{part}{fragment}"))
        } else {
            self.parts.get(&format!("{uri}#{fragment}")).cloned()
        };
        let exists = |pointer: &String| self.document.pointer(pointer).is_some();
        let Some(pointer) = pointer.filter(exists) else {
            let why = format_args!("`{reference}` refers to nothing");
            return refused(keyword, why, place);
        };
        let next = self.pointers.len();
        let number = *self.numbers.entry(pointer.clone()).or_insert(next);
        if number == next {
            self.pointers.push(pointer);
        }
        Ok(number)
    }
}

/// Makes a relative URI absolute.
fn join(base: &str, uri: &str) -> String {
    let scheme = uri.split_once(':').map_or("", |(scheme, _)| scheme);
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    let authority = base.find("://").map_or(0, |at| at + 3);
    let path = base[authority..].find('/').map(|at| at + authority);
    let kept = match path {
        _ if !scheme.is_empty() && scheme.chars().all(is_scheme) => "",
        _ if uri.is_empty() || uri.starts_with('#') => base,
        path if uri.starts_with('/') => &base[..path.unwrap_or(base.len())],
        Some(_) => &base[..=base.rfind('/').unwrap_or(0)],
        None if authority > 0 => return format!("{base}/{uri}"),
        None => "",
    };
    format!("{kept}{uri}")
}

/// Converts forms of older versions of JSON Schema: lists in `items`, and boolean
/// `exclusiveMinimum` and `exclusiveMaximum`.
fn renew(keywords: &mut Keywords) {
    if keywords.get("items").is_some_and(Value::is_array) {
        let first = keywords.shift_remove("items").unwrap_or_default();
        keywords.insert("prefixItems".to_owned(), first);
        let others = keywords.shift_remove("additionalItems");
        keywords.extend(others.map(|others| ("items".to_owned(), others)));
    }
    for (inclusive, exclusive, _) in SIDES {
        if let Some(excludes) = keywords.get(exclusive).and_then(Value::as_bool) {
            keywords.shift_remove(exclusive);
            let bound = excludes.then(|| keywords.shift_remove(inclusive)).flatten();
            keywords.extend(bound.map(|bound| (exclusive.to_owned(), bound)));
        }
    }
}

/// Returns the target of a resolved reference.
pub(super) fn target<'a>(root: &'a Value, keywords: &Keywords) -> Option<&'a Value> {
    let reference = keywords.get("$ref")?.as_str()?;
    root.pointer(reference.strip_prefix('#')?)
}
