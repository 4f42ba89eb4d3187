//! Options that exclude each other, so that any one of them is the only one.

use serde_json::Value;

use super::references::target;
use super::refused;
use super::rewriting::{Keywords, Node};
use crate::constrain::compiler::ConstraintError;

/// Maximum nesting of schemas that are compared.
const DEEPEST: usize = 12;
/// Maximum number of comparisons: each option is compared with each other.
const MOST_STEPS: usize = 200_000;

/// Takes `oneOf` for `anyOf` where its options exclude each other.
pub(super) fn one_of(keywords: &mut Keywords, node: &Node) -> Result<(), ConstraintError> {
    let options = keywords.shift_remove("oneOf").unwrap_or_default();
    let around = node.around.iter().copied().chain([&*keywords]);
    let around: Vec<&Keywords> = around.collect();
    let mut comparison = Comparison {
        root: node.root,
        steps: 0,
    };
    let each = options.as_array().map_or(&[][..], Vec::as_slice);
    for (at, option) in each.iter().enumerate() {
        for (other_at, other) in each.iter().enumerate().skip(at + 1) {
            let with = |option| Parts::of(&[option], &around, comparison.root);
            let (first, second) = (with(option), with(other));
            if !comparison.is_disjoint(&first, &second, DEEPEST) {
                let why = format!(
                    "has options that may hold together, {at} and {other_at}: use `anyOf`, or tell them apart by a required property"
                );
                return refused("oneOf", why, &node.place);
            }
        }
    }
    if keywords.contains_key("anyOf") {
        super::rewriting::demand(keywords, serde_json::json!({ "anyOf": options }));
    } else {
        keywords.insert("anyOf".to_owned(), options);
    }
    Ok(())
}

/// Returns true if two values are equal in JSON, where 1 and 1.0 are.
pub(super) fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            a == b || a.is_f64() != b.is_f64() && a.as_f64() == b.as_f64()
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(name, a)| b.get(name).is_some_and(|b| is_same(a, b)))
        }
        _ => a == b,
    }
}

/// Schemas that hold for one value together.
struct Parts<'a> {
    all: Vec<&'a Keywords>,
    /// Whether one of them is `false`.
    is_none: bool,
}

impl<'a> Parts<'a> {
    fn of(schemas: &[&'a Value], around: &[&'a Keywords], root: &'a Value) -> Self {
        let mut parts = Self {
            all: Vec::new(),
            is_none: false,
        };
        for keywords in around {
            parts.add(keywords, root);
        }
        for schema in schemas {
            match schema {
                Value::Object(keywords) => parts.add(keywords, root),
                schema => parts.is_none |= **schema == Value::Bool(false),
            }
        }
        parts
    }

    fn add(&mut self, keywords: &'a Keywords, root: &'a Value) {
        if self.all.len() > 64 || self.all.iter().any(|other| std::ptr::eq(*other, keywords)) {
            return;
        }
        self.all.push(keywords);
        let all = keywords.get("allOf").and_then(Value::as_array);
        for schema in all.into_iter().flatten().chain(target(root, keywords)) {
            match schema {
                Value::Object(keywords) => self.add(keywords, root),
                schema => self.is_none |= *schema == Value::Bool(false),
            }
        }
    }

    /// The values, if they are listed.
    fn values(&self) -> Option<&'a [Value]> {
        self.all.iter().find_map(|keywords| {
            let listed = keywords.get("enum").and_then(Value::as_array);
            let listed = listed.map(Vec::as_slice);
            keywords.get("const").map(std::slice::from_ref).or(listed)
        })
    }

    /// Returns true if a value of a type can hold.
    fn can_be(&self, kind: &str) -> bool {
        let of = |value: &Value| match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        let is_listed = |values: &[Value]| values.iter().any(|value| of(value) == kind);
        let names = |it: &Value| it == kind || kind == "number" && it == "integer";
        let allows = |keywords: &&Keywords| match keywords.get("type") {
            Some(Value::Array(kinds)) => kinds.iter().any(names),
            Some(it) => names(it),
            None => true,
        };
        self.all.iter().all(allows) && self.values().is_none_or(is_listed)
    }

    /// The closest bound of two keywords, of which the second one excludes it.
    fn bound(&self, [inclusive, exclusive]: [&str; 2], sign: f64) -> Option<(f64, bool)> {
        let bounds = self.all.iter().flat_map(|keywords| {
            let read = |keyword: &str| keywords.get(keyword).and_then(Value::as_f64);
            let excludes = keywords.get(exclusive) == Some(&Value::Bool(true));
            [
                read(inclusive).map(|bound| (sign * bound, excludes)),
                read(exclusive).map(|bound| (sign * bound, true)),
            ]
        });
        bounds
            .flatten()
            .max_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)))
    }

    fn requires(&self, name: &str) -> bool {
        self.required().any(|other| other == name)
    }

    fn required(&self) -> impl Iterator<Item = &'a str> {
        let all = self
            .all
            .iter()
            .filter_map(|keywords| keywords.get("required")?.as_array());
        all.flatten().filter_map(Value::as_str)
    }

    fn property(&self, name: &str, root: &'a Value) -> Self {
        let all = self.all.iter();
        let schemas: Vec<&Value> = all
            .filter_map(|keywords| keywords.get("properties")?.get(name))
            .collect();
        Self::of(&schemas, &[], root)
    }
}

struct Comparison<'a> {
    root: &'a Value,
    steps: usize,
}

impl<'a> Comparison<'a> {
    /// Returns true if it is certain that no value holds for both.
    fn is_disjoint(&mut self, a: &Parts<'a>, b: &Parts<'a>, depth: usize) -> bool {
        self.steps += 1;
        if depth == 0 || self.steps > MOST_STEPS {
            return false;
        }
        if a.is_none || b.is_none {
            return true;
        }
        if let (Some(a), Some(b)) = (a.values(), b.values()) {
            return !a.iter().any(|a| b.iter().any(|b| is_same(a, b)));
        }
        let kinds = super::rewriting::TYPES.iter();
        let shared: Vec<&str> = kinds
            .copied()
            .filter(|kind| a.can_be(kind) && b.can_be(kind))
            .collect();
        let is_apart = match shared.as_slice() {
            [] => true,
            ["number"] => is_below(a, b) || is_below(b, a),
            ["object"] => {
                let names = a
                    .required()
                    .chain(b.required().filter(|name| !a.requires(name)));
                names.collect::<Vec<_>>().into_iter().any(|name| {
                    let (a, b) = (a.property(name, self.root), b.property(name, self.root));
                    self.is_disjoint(&a, &b, depth - 1)
                })
            }
            _ => false,
        };
        is_apart || self.is_disjoint_in_each(a, b, depth) || self.is_disjoint_in_each(b, a, depth)
    }

    /// Returns true if all options of one part of the first one are.
    fn is_disjoint_in_each(&mut self, a: &Parts<'a>, b: &Parts<'a>, depth: usize) -> bool {
        a.all.iter().any(|keywords| {
            ["anyOf", "oneOf"].iter().any(|keyword| {
                let Some(Value::Array(options)) = keywords.get(*keyword) else {
                    return false;
                };
                options.iter().all(|option| {
                    let mut option = Parts::of(&[option], &[], self.root);
                    for keywords in &a.all {
                        if !keywords.contains_key(*keyword) {
                            option.add(keywords, self.root);
                        }
                    }
                    self.is_disjoint(&option, b, depth - 1)
                })
            })
        })
    }
}

/// Returns true if all numbers of the first one are less than those of the second one.
fn is_below(a: &Parts, b: &Parts) -> bool {
    let most = a.bound(["maximum", "exclusiveMaximum"], -1.0);
    let least = b.bound(["minimum", "exclusiveMinimum"], 1.0);
    most.zip(least)
        .is_some_and(|((most, is_open), (least, is_also))| {
            // Beyond these, what is equal as a floating-point number need not be.
            let is_between = (is_open || is_also) && least.abs() < 9e15;
            -most < least || is_between && -most <= least
        })
}
