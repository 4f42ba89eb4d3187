//! Conditions as alternatives: what holds, and what holds otherwise.

#![expect(clippy::unnecessary_wraps, reason = "rules are in one table")]

use serde_json::{Value, json};

use super::exclusive::is_same;
use super::references::target;
use super::refused;
use super::rewriting::{Keywords, Node, TYPES, demand, is_open};
use crate::constrain::compiler::ConstraintError;

/// Maximum nesting of what is negated, and of references to values.
const DEEPEST: usize = 8;

/// Both keywords of one, as it was until 2019.
pub(super) fn dependencies(keywords: &mut Keywords, _: &Node) -> Result<(), ConstraintError> {
    let dependencies = keywords.shift_remove("dependencies").unwrap_or_default();
    for (name, dependency) in dependencies.as_object().into_iter().flatten() {
        let keyword = match dependency {
            Value::Array(_) => "dependentRequired",
            _ => "dependentSchemas",
        };
        let others = keywords.entry(keyword).or_insert_with(|| json!({}));
        others[name] = dependency.clone();
    }
    Ok(())
}

pub(super) fn dependent_required(keywords: &mut Keywords, _: &Node) -> Result<(), ConstraintError> {
    let dependent = keywords
        .shift_remove("dependentRequired")
        .unwrap_or_default();
    for (name, required) in dependent.as_object().into_iter().flatten() {
        if required != &json!([]) {
            depend(
                keywords,
                name,
                &json!({"type": "object", "required": required}),
            );
        }
    }
    Ok(())
}

pub(super) fn dependent_schemas(keywords: &mut Keywords, _: &Node) -> Result<(), ConstraintError> {
    let dependent = keywords
        .shift_remove("dependentSchemas")
        .unwrap_or_default();
    for (name, schema) in dependent.as_object().into_iter().flatten() {
        if !is_open(schema) {
            let present = json!({"type": "object", "required": [name]});
            depend(keywords, name, &json!({"allOf": [present, schema]}));
        }
    }
    Ok(())
}

/// Demands a schema where a property is present.
fn depend(keywords: &mut Keywords, name: &str, schema: &Value) {
    demand(
        keywords,
        json!({"anyOf": [{"properties": {name: false}}, schema]}),
    );
}

pub(super) fn condition(keywords: &mut Keywords, node: &Node) -> Result<(), ConstraintError> {
    let condition = keywords.shift_remove("if").unwrap_or_default();
    let then = keywords.shift_remove("then").unwrap_or(true.into());
    let otherwise = keywords.shift_remove("else").unwrap_or(true.into());
    if is_open(&then) && is_open(&otherwise) {
        return Ok(());
    }
    let scope = Scope::of(keywords, node);
    let Some(negations) = scope.negations(&condition, None, DEEPEST) else {
        return refused("if", "has no simple opposite", &node.place);
    };
    let mut options = vec![json!({"allOf": [condition, then]})];
    let negations = negations.into_iter();
    options.extend(negations.map(|negation| json!({"allOf": [negation, otherwise]})));
    demand(keywords, json!({"anyOf": options}));
    Ok(())
}

pub(super) fn negation(keywords: &mut Keywords, node: &Node) -> Result<(), ConstraintError> {
    let negated = keywords.shift_remove("not").unwrap_or_default();
    let own = values(&Value::Object(keywords.clone()), node.root);
    let Some(negations) = Scope::of(keywords, node).negations(&negated, own.as_deref(), DEEPEST)
    else {
        return refused("not", "of this is not supported", &node.place);
    };
    match negations.as_slice() {
        [] => demand(keywords, false.into()),
        [only] => demand(keywords, only.clone()),
        several => demand(keywords, json!({"anyOf": several})),
    }
    Ok(())
}

/// The values that a schema lists, if it does.
pub(super) fn values(schema: &Value, root: &Value) -> Option<Vec<Value>> {
    fn within(schema: &Value, root: &Value, depth: usize) -> Option<Vec<Value>> {
        let keywords = schema.as_object().filter(|_| depth > 0)?;
        if let Some(value) = keywords.get("const") {
            return Some(vec![value.clone()]);
        }
        if let Some(Value::Array(values)) = keywords.get("enum") {
            return Some(values.clone());
        }
        match keywords.get("type").and_then(Value::as_str) {
            Some("boolean") => return Some(vec![true.into(), false.into()]),
            Some("null") => return Some(vec![Value::Null]),
            _ => {}
        }
        if let Some(target) = target(root, keywords) {
            return within(target, root, depth - 1);
        }
        let options = keywords.get("anyOf")?.as_array()?.iter();
        let options = options.map(|option| within(option, root, depth - 1));
        options
            .collect::<Option<Vec<_>>>()
            .map(|values| values.concat())
    }
    let mut different: Vec<Value> = Vec::new();
    for value in within(schema, root, DEEPEST)? {
        if !different.iter().any(|other| is_same(other, &value)) {
            different.push(value);
        }
    }
    Some(different)
}

/// The schemas of one value.
struct Scope<'a> {
    root: &'a Value,
    all: Vec<&'a Keywords>,
}

impl<'a> Scope<'a> {
    fn of(keywords: &'a Keywords, node: &Node<'a>) -> Self {
        let all = node.around.iter().copied().chain([keywords]).collect();
        let root = node.root;
        Self { root, all }
    }

    /// The values that a property is listed to have.
    fn values_of(&self, name: &str) -> Option<Vec<Value>> {
        let mut all = self.all.iter();
        all.find_map(|keywords| values(keywords.get("properties")?.get(name)?, self.root))
    }

    /// The schemas of which one holds where this one does not, for a value out of a list if there
    /// is one. `None` if there is no way to write one.
    fn negations(&self, schema: &Value, own: Option<&[Value]>, depth: usize) -> Option<Vec<Value>> {
        let keywords = match schema {
            Value::Bool(true) => return Some(Vec::new()),
            Value::Bool(false) => return Some(vec![json!({})]),
            Value::Object(keywords) if depth > 0 => keywords,
            _ => return None,
        };
        let mut negations = Vec::new();
        for (keyword, value) in keywords {
            match (keyword.as_str(), value) {
                ("type", value) => {
                    let kinds = value
                        .as_array()
                        .map_or(std::slice::from_ref(value), Vec::as_slice);
                    let is_left = |kind: &&&str| !kinds.iter().any(|other| other == **kind);
                    if kinds.iter().any(|kind| kind == "integer") {
                        return None;
                    }
                    let left: Vec<_> = TYPES.iter().filter(is_left).collect();
                    negations.push(json!({ "type": left }));
                }
                ("const" | "enum", value) => {
                    let excluded = match value.as_array() {
                        Some(values) if keyword == "enum" => values.as_slice(),
                        _ => std::slice::from_ref(value),
                    };
                    let mut left = own?.to_vec();
                    left.retain(|value| !excluded.iter().any(|other| is_same(other, value)));
                    negations.push(json!({ "enum": left }));
                }
                ("required", Value::Array(names)) => {
                    for name in names.iter().filter_map(Value::as_str) {
                        negations.push(json!({"type": "object", "properties": {name: false}}));
                    }
                }
                ("properties", Value::Object(properties)) => {
                    for (name, schema) in properties {
                        let listed = self.values_of(name);
                        for negation in self.negations(schema, listed.as_deref(), depth - 1)? {
                            negations.push(json!({
                                "type": "object",
                                "required": [name],
                                "properties": {name: negation},
                            }));
                        }
                    }
                }
                ("minimum", bound) => {
                    negations.push(json!({"type": "number", "exclusiveMaximum": bound}));
                }
                ("maximum", bound) => {
                    negations.push(json!({"type": "number", "exclusiveMinimum": bound}));
                }
                ("not", value) => negations.push(value.clone()),
                ("allOf", Value::Array(parts)) => {
                    for part in parts {
                        negations.extend(self.negations(part, own, depth - 1)?);
                    }
                }
                ("anyOf", Value::Array(options)) => {
                    let options = options.iter().map(|option| {
                        Some(json!({"anyOf": self.negations(option, own, depth - 1)?}))
                    });
                    negations.push(json!({"allOf": options.collect::<Option<Vec<_>>>()?}));
                }
                ("$ref", _) => {
                    let target = target(self.root, keywords)?;
                    negations.extend(self.negations(target, own, depth - 1)?);
                }
                _ => return None,
            }
        }
        Some(negations)
    }
}
