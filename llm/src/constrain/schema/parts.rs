//! Schemas that apply to the same value, and their common restrictions.

use serde_json::Value;

use super::keywords::{Keywords, list, one_or_more};
use super::limits::{SIDES, integer_bound, is_of};
use super::references::target;

/// Maximum number of schemas that are combined.
const MOST_PARTS: usize = 64;
/// Maximum number of distinct values, plus the schemas that list them.
const MOST_VALUES: usize = 4_000;
static BOOLEANS: [Value; 2] = [Value::Bool(true), Value::Bool(false)];
static NULL: Value = Value::Null;

/// Schemas that apply to one value.
pub(super) struct Parts<'a> {
    pub(super) root: &'a Value,
    pub(super) all: Vec<&'a Keywords>,
    /// The possible values, if they are listed.
    pub(super) values: Option<Vec<&'a Value>>,
    /// Number of steps taken to find them.
    pub(super) steps: usize,
}

impl<'a> Parts<'a> {
    pub(super) fn new(
        schemas: impl IntoIterator<Item = &'a Value>,
        around: &[&'a Keywords],
        root: &'a Value,
    ) -> Self {
        let mut parts = Self {
            root,
            all: Vec::new(),
            values: None,
            steps: 1,
        };
        schemas.into_iter().for_each(|schema| parts.add(schema));
        for keywords in around {
            parts.add_keywords(keywords);
        }
        parts
    }

    fn add(&mut self, schema: &'a Value) {
        match schema {
            Value::Object(keywords) => self.add_keywords(keywords),
            Value::Bool(false) => self.values = Some(Vec::new()),
            _ => {}
        }
    }

    fn add_keywords(&mut self, keywords: &'a Keywords) {
        let is_known = self.all.iter().any(|other| std::ptr::eq(*other, keywords));
        if is_known || self.all.len() >= MOST_PARTS {
            return;
        }
        self.all.push(keywords);
        if self.values.is_none() {
            let mut left = MOST_VALUES;
            self.values = listed(keywords, self.root, &mut left);
            self.steps += MOST_VALUES - left;
        }
        let parts = list(keywords, "allOf").iter();
        let parts = parts.chain(target(self.root, keywords));
        parts.for_each(|schema| self.add(schema));
    }

    /// Returns the schemas of a property.
    pub(super) fn property(&self, name: &str) -> Self {
        let all = self.all.iter();
        let all = all.filter_map(|keywords| keywords.get("properties")?.get(name));
        Self::new(all, &[], self.root)
    }

    pub(super) fn required(&self) -> impl Iterator<Item = &'a str> {
        let names = self
            .all
            .iter()
            .flat_map(|keywords| list(keywords, "required"));
        names.filter_map(Value::as_str)
    }

    /// Returns true if a value of this type may match.
    pub(super) fn can_be(&self, kind: &str, is: fn(&Value) -> bool) -> bool {
        let is_named = |it: &Value| it == kind || kind == "number" && it == "integer";
        let mut types = self.all.iter().filter_map(|keywords| keywords.get("type"));
        let listed = self.values.as_ref();
        types.all(|types| one_or_more(types).iter().any(is_named))
            && listed.is_none_or(|values| values.iter().any(|value| is(value)))
    }

    pub(super) fn is_integer(&self) -> bool {
        let mut all = self.all.iter();
        all.any(|keywords| is_of(keywords, "integer") && !is_of(keywords, "number"))
    }

    /// Returns true if all integers of these schemas are below those of the others.
    pub(super) fn is_below(&self, other: &Self) -> bool {
        let bound = |parts: &Self, side: usize| {
            let all = parts.all.iter();
            all.filter_map(|keywords| integer_bound(keywords, SIDES[side]))
                .max()
        };
        let bounds = bound(self, 1).zip(bound(other, 0));
        bounds.is_some_and(|(most, least)| most.saturating_neg() < least)
    }
}

/// Returns the values that a schema lists, if it does: every match is among them.
pub(super) fn values_of<'a>(keywords: &'a Keywords, root: &'a Value) -> Option<Vec<&'a Value>> {
    listed(keywords, root, &mut { MOST_VALUES })
}

fn listed<'a>(keywords: &'a Keywords, root: &'a Value, left: &mut usize) -> Option<Vec<&'a Value>> {
    *left = left.checked_sub(1)?;
    let kind = keywords.get("type").and_then(Value::as_str);
    let values = match (keywords.get("const"), keywords.get("enum"), kind) {
        (Some(value), ..) => vec![value],
        (_, Some(values), _) => one_or_more(values).iter().collect(),
        (.., Some("boolean")) => BOOLEANS.iter().collect(),
        (.., Some("null")) => vec![&NULL],
        _ => {
            if let Some(target) = target(root, keywords) {
                return listed(target.as_object()?, root, left);
            }
            let options = keywords.get("anyOf")?.as_array()?.iter();
            let options = options.map(|option| listed(option.as_object()?, root, left));
            return Some(options.collect::<Option<Vec<_>>>()?.concat());
        }
    };
    *left = left.saturating_sub(values.len());
    (*left > 0).then_some(values)
}

/// Returns true if two values are equal in JSON, where 1 equals 1.0.
pub(super) fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            a == b || a.is_f64() != b.is_f64() && a.as_f64() == b.as_f64()
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            let is_in = |name: &str, a| b.get(name).is_some_and(|b| is_same(a, b));
            a.len() == b.len() && a.iter().all(|(name, a)| is_in(name, a))
        }
        _ => a == b,
    }
}
