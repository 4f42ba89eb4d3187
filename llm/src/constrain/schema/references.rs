//! Resolves the references of a schema, which are URIs, and takes what it does not demand anything
//! with out of it: what is left consists of the root and of the schemas that references lead to,
//! by number in `$defs`.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::keywords::{Kind, REFERENCES, kind};
use super::{Place, refused};
use crate::constrain::compiler::ConstraintError;

/// Most properties of one object: what may come next is a list of them.
const MAX_PROPERTIES: usize = 1000;
/// Maximum nesting of all definitions together: the compiler recurses along it.
const MOST_LEVELS: usize = 16 << 10;

/// A schema whose references are resolved.
pub(super) struct Resolved {
    pub(super) schema: Value,
    /// Where the schemas of `$defs` were, by their numbers.
    pub(super) places: Vec<Place>,
}

/// Resolves all references of a schema.
pub(super) fn resolve(root: &Value) -> Result<Resolved, ConstraintError> {
    let mut resolver = Resolver {
        document: Document::read(root),
        numbers: HashMap::new(),
        places: Vec::new(),
        levels: 0,
    };
    let mut schema = resolver.definition("")?;
    let mut definitions = Map::new();
    while let Some(place) = resolver.places.get(definitions.len()).cloned() {
        let definition = resolver.definition(&place.0)?;
        definitions.insert(definitions.len().to_string(), definition);
    }
    if let (Some(keywords), false) = (schema.as_object_mut(), definitions.is_empty()) {
        keywords.insert("$defs".to_owned(), Value::Object(definitions));
    }
    let places = resolver.places;
    Ok(Resolved { schema, places })
}

struct Resolver<'a> {
    document: Document<'a>,
    /// By pointers.
    numbers: HashMap<String, usize>,
    places: Vec<Place>,
    levels: usize,
}

impl Resolver<'_> {
    fn definition(&mut self, pointer: &str) -> Result<Value, ConstraintError> {
        let schema = self.document.root.pointer(pointer).unwrap_or(&Value::Null);
        let mut deepest = 0;
        let base = self.document.base(pointer).to_owned();
        let schema = self.schema(schema, &base, &Place(pointer.to_owned()), 1, &mut deepest)?;
        self.levels += deepest;
        if self.levels > MOST_LEVELS {
            let why = "its definitions have too many levels together: nest them less";
            return Err(ConstraintError(why.to_owned()));
        }
        Ok(schema)
    }

    fn schema(
        &mut self,
        schema: &Value,
        base: &str,
        place: &Place,
        level: usize,
        deepest: &mut usize,
    ) -> Result<Value, ConstraintError> {
        *deepest = level.max(*deepest);
        let keywords = match schema {
            Value::Object(keywords) => keywords,
            Value::Bool(_) => return Ok(schema.clone()),
            _ => {
                let message = format!("{schema} is no schema, which is a JSON object{place}");
                return Err(ConstraintError(message));
            }
        };
        let base = match keywords.get("$id") {
            Some(Value::String(id)) => &join(base, id),
            _ => base,
        };
        let mut resolved = Map::new();
        for (keyword, value) in keywords {
            let place = place.of(keyword);
            let mut each =
                |value: &Value, place: &Place| self.schema(value, base, place, level + 1, deepest);
            let value = match (kind(keyword), value) {
                (Kind::Annotation, _) => continue,
                (Kind::Reference, value) => {
                    let number = self.number(keyword, value, base, &place)?;
                    let target = json!(format!("#/$defs/{number}"));
                    if let Some(other) = resolved.insert("$ref".to_owned(), target) {
                        return refused(keyword, format_args!("beside {other}"), &place);
                    }
                    continue;
                }
                (Kind::Schemas, Value::Array(schemas)) => {
                    let schemas = schemas.iter().enumerate();
                    let each = schemas.map(|(at, schema)| each(schema, &place.of(&at.to_string())));
                    Value::Array(each.collect::<Result<_, _>>()?)
                }
                (Kind::Schemas, schema) => each(schema, &place)?,
                (Kind::Named, Value::Object(schemas)) => {
                    if keyword == "properties" && schemas.len() > MAX_PROPERTIES {
                        let count = schemas.len();
                        return Err(ConstraintError(format!(
                            "an object has {count} properties, and can have {MAX_PROPERTIES}"
                        )));
                    }
                    let schemas = schemas.iter().map(|(name, schema)| match schema {
                        Value::Array(_) if keyword == "dependencies" => {
                            Ok((name.clone(), schema.clone()))
                        }
                        schema => Ok((name.clone(), each(schema, &place.of(name))?)),
                    });
                    Value::Object(schemas.collect::<Result<_, ConstraintError>>()?)
                }
                (Kind::Named, _) => return refused(keyword, "is no object", &place),
                (Kind::Data | Kind::Plain, value) => value.clone(),
            };
            resolved.insert(keyword.clone(), value);
        }
        Ok(Value::Object(resolved))
    }

    /// The number of what a reference leads to.
    fn number(
        &mut self,
        keyword: &str,
        reference: &Value,
        base: &str,
        place: &Place,
    ) -> Result<usize, ConstraintError> {
        let Value::String(reference) = reference else {
            return refused(keyword, "is no text", place);
        };
        if keyword != "$ref" && !self.document.is_static(reference) {
            return refused(keyword, "depends on how it is reached", place);
        }
        let target = self.document.find(base, reference);
        let target = target.filter(|target| self.document.root.pointer(target).is_some());
        let Some(target) = target else {
            return refused(
                keyword,
                format_args!("`{reference}` leads to nothing"),
                place,
            );
        };
        let next = self.places.len();
        let number = *self.numbers.entry(target.clone()).or_insert(next);
        if number == next {
            self.places.push(Place(target));
        }
        Ok(number)
    }
}

/// A schema with the URIs of its parts.
struct Document<'a> {
    root: &'a Value,
    /// Pointers by URIs, which have a fragment if they are anchors.
    parts: HashMap<String, String>,
    /// Base URIs by pointers, the inner ones behind the outer ones.
    bases: Vec<(String, String)>,
    dynamic_anchors: HashMap<&'a str, usize>,
}

impl<'a> Document<'a> {
    fn read(root: &'a Value) -> Self {
        let mut document = Self {
            root,
            parts: HashMap::from([(String::new(), String::new())]),
            bases: vec![(String::new(), String::new())],
            dynamic_anchors: HashMap::new(),
        };
        document.add(root, "", "");
        document
    }

    fn add(&mut self, schema: &'a Value, base: &str, pointer: &str) {
        let Value::Object(keywords) = schema else {
            return;
        };
        let mut base = base.to_owned();
        match keywords.get("$id") {
            Some(Value::String(id)) if id.starts_with('#') => {
                self.parts.insert(format!("{base}{id}"), pointer.to_owned());
            }
            Some(Value::String(id)) => {
                base = join(&base, id);
                self.parts.insert(base.clone(), pointer.to_owned());
                self.bases.push((pointer.to_owned(), base.clone()));
            }
            _ => {}
        }
        for keyword in ["$anchor", "$dynamicAnchor"] {
            if let Some(Value::String(anchor)) = keywords.get(keyword) {
                self.parts
                    .insert(format!("{base}#{anchor}"), pointer.to_owned());
                if keyword == "$dynamicAnchor" {
                    *self.dynamic_anchors.entry(anchor).or_default() += 1;
                }
            }
        }
        for (keyword, value) in keywords {
            let place = Place(pointer.to_owned()).of(keyword);
            let is_named = matches!(kind(keyword), Kind::Named) || is_definitions(keyword);
            match value {
                Value::Object(schemas) if is_named => {
                    for (name, schema) in schemas {
                        self.add(schema, &base, &place.of(name).0);
                    }
                }
                Value::Array(schemas) if matches!(kind(keyword), Kind::Schemas) => {
                    for (at, schema) in schemas.iter().enumerate() {
                        self.add(schema, &base, &place.of(&at.to_string()).0);
                    }
                }
                schema if matches!(kind(keyword), Kind::Schemas) => {
                    self.add(schema, &base, &place.0);
                }
                _ => {}
            }
        }
    }

    /// Returns true if a dynamic reference can lead to one place only.
    fn is_static(&self, reference: &str) -> bool {
        let anchor = reference.split_once('#').map_or("", |(_, anchor)| anchor);
        self.dynamic_anchors
            .get(anchor)
            .is_none_or(|count| *count == 1)
    }

    fn base(&self, pointer: &str) -> &str {
        let is_within = |(outer, _): &&(String, String)| {
            let rest = pointer.strip_prefix(outer.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let base = self.bases.iter().rev().find(is_within);
        base.map_or("", |(_, base)| base)
    }

    /// The pointer of what a reference leads to.
    fn find(&self, base: &str, reference: &str) -> Option<String> {
        let (uri, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let uri = join(base, uri);
        let fragment = decoded(fragment)?;
        if fragment.is_empty() || fragment.starts_with('/') {
            return Some(format!("{}{fragment}", self.parts.get(&uri)?));
        }
        self.parts.get(&format!("{uri}#{fragment}")).cloned()
    }
}

fn is_definitions(keyword: &str) -> bool {
    matches!(keyword, "$defs" | "definitions")
}

/// Reads a URI, without an empty fragment, as one that is relative to another.
fn join(base: &str, uri: &str) -> String {
    let uri = uri.strip_suffix('#').unwrap_or(uri);
    let scheme = uri.split_once(':').map_or("", |(scheme, _)| scheme);
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    if !scheme.is_empty() && scheme.chars().all(is_scheme) {
        return uri.to_owned();
    }
    let authority = base.find("://").map_or(0, |at| at + 3);
    let path = base[authority..].find('/').map(|at| at + authority);
    match (uri, path) {
        ("", _) => base.to_owned(),
        (uri, path) if uri.starts_with('/') => {
            format!("{}{uri}", &base[..path.unwrap_or(base.len())])
        }
        (uri, Some(_)) => format!("{}{uri}", &base[..=base.rfind('/').unwrap_or(0)]),
        (uri, None) if authority > 0 => format!("{base}/{uri}"),
        (uri, None) => uri.to_owned(),
    }
}

/// The text of a fragment with percent escapes.
fn decoded(fragment: &str) -> Option<String> {
    let mut parts = fragment.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let code = part.get(..2)?;
        bytes.push(u8::from_str_radix(code, 16).ok()?);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).ok()
}

/// The schema that a resolved reference leads to.
pub(super) fn target<'a>(root: &'a Value, keywords: &Map<String, Value>) -> Option<&'a Value> {
    let Some(Value::String(reference)) = keywords.get(REFERENCES[0]) else {
        return None;
    };
    root.pointer(reference.strip_prefix('#')?)
}
