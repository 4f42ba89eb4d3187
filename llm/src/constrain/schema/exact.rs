//! Writes a schema with values that llguidance cannot compute with as a grammar of Lark. These are
//! spelled as regular expressions; what has none of them stays a schema within the grammar.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::rewriting::Keywords;
use super::{Place, Prepared, WHITE_SPACE, refused};
use crate::constrain::compiler::ConstraintError;
use crate::constrain::grammar::quoted;

/// Keyword of what is spelled: a regular expression, and why the other keywords do not hold what is
/// nearest to it, unless they do.
pub(super) const EXACT: &str = "x-exact";

/// Writes a schema, as a grammar if it needs to be.
pub(super) fn write(
    mut schema: Value,
    options: Option<Value>,
    places: &[Place],
) -> Result<Prepared, ConstraintError> {
    let mut writer = Writer {
        definitions: schema["$defs"].take(),
        options: options.clone().unwrap_or_else(|| json!({})),
        places,
        exact: BTreeSet::new(),
        rules: Vec::new(),
    };
    let keywords = schema.as_object_mut();
    keywords.and_then(|keywords| keywords.shift_remove("$defs"));
    writer.find_exact();
    if writer.is_exact(&schema) || !writer.exact.is_empty() {
        let failure = match writer.grammar(&schema) {
            Ok(grammar) => return Ok(Prepared::Lark(grammar)),
            Err(failure) => failure,
        };
        let far = approximate(&mut schema).or(approximate(&mut writer.definitions));
        if let Some(far) = far {
            let message = format!("{far}, which cannot be held exactly here: {}", failure.0);
            return Err(ConstraintError(message));
        }
    }
    if writer.definitions.is_object() {
        schema["$defs"] = writer.definitions;
    }
    if let Some(options) = options {
        schema["x-guidance"] = options;
    }
    Ok(Prepared::Json(schema))
}

/// Takes what is spelled out. Returns why, if something has nothing that is near.
fn approximate(value: &mut Value) -> Option<String> {
    match value {
        Value::Object(keywords) => {
            let exact = keywords.shift_remove(EXACT);
            let far = exact.and_then(|exact| exact[1].as_str().map(str::to_owned));
            let within = keywords.values_mut().filter_map(approximate);
            // All of them, so that nothing that is spelled is left.
            far.into_iter().chain(within).reduce(|first, _| first)
        }
        Value::Array(values) => values
            .iter_mut()
            .filter_map(approximate)
            .reduce(|first, _| first),
        _ => None,
    }
}

struct Writer<'a> {
    definitions: Value,
    options: Value,
    places: &'a [Place],
    /// Definitions with something that is spelled.
    exact: BTreeSet<String>,
    rules: Vec<String>,
}

impl Writer<'_> {
    fn find_exact(&mut self) {
        loop {
            let found = self.definitions.as_object().into_iter().flatten();
            let found = found.filter(|(_, schema)| self.is_exact(schema));
            let found: BTreeSet<String> = found.map(|(name, _)| name.clone()).collect();
            if found.len() == self.exact.len() {
                return;
            }
            self.exact = found;
        }
    }

    fn is_exact(&self, value: &Value) -> bool {
        match value {
            Value::Object(keywords) => {
                let refers = reference(keywords).is_some_and(|name| self.exact.contains(name));
                refers
                    || keywords.contains_key(EXACT)
                    || keywords.values().any(|value| self.is_exact(value))
            }
            Value::Array(values) => values.iter().any(|value| self.is_exact(value)),
            _ => false,
        }
    }

    fn grammar(&mut self, schema: &Value) -> Result<String, ConstraintError> {
        // White space is that of the grammar around.
        self.options["whitespace_pattern"] = WHITE_SPACE.into();
        let mut rules = vec![
            r#"%llguidance {"ignore_once": true}"#.to_owned(),
            format!("%ignore /{WHITE_SPACE}/"),
            format!("start: {}", self.rule(schema, &Place::default())?),
        ];
        for name in self.exact.clone() {
            let place = name
                .parse::<usize>()
                .ok()
                .and_then(|at| self.places.get(at));
            let schema = self.definitions[&name].clone();
            let rule = self.rule(&schema, &place.cloned().unwrap_or_default())?;
            rules.push(format!("d{name}: {rule}"));
        }
        rules.append(&mut self.rules);
        Ok(rules.join("\n"))
    }

    /// The name of a rule that is added.
    fn add(&mut self, rule: &str) -> String {
        let name = format!("r{}", self.rules.len());
        self.rules.push(format!("{name}: {rule}"));
        name
    }

    fn rule(&mut self, schema: &Value, place: &Place) -> Result<String, ConstraintError> {
        let keywords = match schema {
            Value::Object(keywords) if self.is_exact(schema) => keywords,
            schema => return Ok(self.schema(schema)),
        };
        let has = |keyword: &str| keywords.contains_key(keyword);
        let (kind, known): (_, &[&str]) = match () {
            () if has(EXACT) => (
                "",
                &[
                    EXACT,
                    "type",
                    "minimum",
                    "maximum",
                    "exclusiveMinimum",
                    "exclusiveMaximum",
                ],
            ),
            () if has("$ref") => ("", &["$ref"]),
            () if has("anyOf") => ("", &["anyOf"]),
            () if has("allOf") => ("", &["allOf"]),
            () if has("properties") || keywords.get("type") == Some(&json!("object")) => (
                "object",
                &["type", "properties", "required", "additionalProperties"],
            ),
            () => (
                "array",
                &["type", "items", "prefixItems", "minItems", "maxItems"],
            ),
        };
        if let Some(other) = keywords
            .keys()
            .find(|keyword| !known.contains(&keyword.as_str()))
        {
            let why = "stands beside a number or a text that has to be written exactly, and cannot be written with it";
            return refused(other, why, place);
        }
        if let Some(exact) = keywords.get(EXACT) {
            let regex = exact[0].as_str().unwrap_or_default();
            let mut rule = format!("/{regex}/");
            if let Some(Value::Array(kinds)) = keywords.get("type") {
                let is_other = |kind: &&Value| **kind != "integer" && **kind != "number";
                let kinds: Vec<_> = kinds.iter().filter(is_other).collect();
                if !kinds.is_empty() {
                    rule = format!("({rule} | {})", self.schema(&json!({ "type": kinds })));
                }
            }
            return Ok(self.add(&rule));
        }
        if let Some(name) = reference(keywords) {
            return Ok(format!("d{name}"));
        }
        for keyword in ["anyOf", "allOf"] {
            if let Some(Value::Array(parts)) = keywords.get(keyword) {
                if keyword == "allOf" && parts.len() > 1 {
                    return refused(keyword, "combines what has to be written exactly", place);
                }
                let place = place.of(keyword);
                let each = parts.iter().enumerate();
                let each = each.filter(|(_, part)| **part != Value::Bool(false));
                let each = each.map(|(at, part)| self.rule(part, &place.of(&at.to_string())));
                let each = each.collect::<Result<Vec<_>, _>>()?.join(" | ");
                return Ok(self.add(&each));
            }
        }
        match kind {
            "object" => self.object(keywords, place),
            _ => self.array(keywords, place),
        }
    }

    /// A schema as it is, with the definitions that it leads to.
    fn schema(&mut self, schema: &Value) -> String {
        let mut schema = match schema {
            Value::Object(_) => schema.clone(),
            _ => json!({}),
        };
        let mut needed = BTreeSet::new();
        self.reach(&schema, &mut needed);
        for name in needed {
            schema["$defs"][&name] = self.definitions[&name].clone();
        }
        schema["x-guidance"] = self.options.clone();
        self.add(&format!("%json {schema}"))
    }

    fn reach(&self, value: &Value, needed: &mut BTreeSet<String>) {
        match value {
            Value::Object(keywords) => {
                if let Some(name) = reference(keywords)
                    && needed.insert(name.to_owned())
                {
                    self.reach(&self.definitions[name], needed);
                }
                keywords
                    .values()
                    .for_each(|value| self.reach(value, needed));
            }
            Value::Array(values) => values.iter().for_each(|value| self.reach(value, needed)),
            _ => {}
        }
    }

    /// An object of listed properties in their order.
    fn object(&mut self, keywords: &Keywords, place: &Place) -> Result<String, ConstraintError> {
        let properties = keywords.get("properties").and_then(Value::as_object);
        let required = keywords.get("required").and_then(Value::as_array);
        let required: Vec<_> = required
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let mut pairs = Vec::new();
        for (name, schema) in properties
            .into_iter()
            .flatten()
            .filter(|(_, schema)| **schema != Value::Bool(false))
        {
            let value = self.rule(schema, &place.of("properties").of(name))?;
            let name_in_json = quoted(&Value::from(name.as_str()).to_string());
            pairs.push((
                self.add(&format!("{name_in_json} \":\" {value}")),
                required.contains(&name.as_str()),
            ));
        }
        if required.len() > pairs.iter().filter(|(_, is_required)| *is_required).count() {
            return refused(
                "required",
                "names others than `properties`, beside what has to be written exactly",
                place,
            );
        }
        match keywords.get("additionalProperties") {
            Some(schema) if pairs.is_empty() => {
                let value = self.rule(schema, &place.of("additionalProperties"))?;
                let name = self.schema(&json!({"type": "string"}));
                let pair = self.add(&format!("{name} \":\" {value}"));
                return Ok(self.add(&format!(r#""{{" ({pair} ("," {pair})*)? "}}""#)));
            }
            Some(Value::Bool(_)) | None => {}
            Some(_) => {
                return refused(
                    "additionalProperties",
                    "stands beside what has to be written exactly",
                    place,
                );
            }
        }
        // What follows a pair, and what follows where none was before.
        let (mut after, mut first) = (String::new(), String::new());
        for (pair, is_required) in pairs.into_iter().rev() {
            let rest = self.add(&format!("{pair} {after}"));
            let next = format!("\",\" {rest}");
            first = match (is_required, first.as_str()) {
                (true, _) => rest,
                (false, "") => format!("{rest}?"),
                (false, first) => format!("({rest} | {first})"),
            };
            after = match (is_required, after.as_str()) {
                (true, _) => next,
                (false, "") => format!("({next})?"),
                (false, after) => format!("({next} | {after})"),
            };
            (after, first) = (self.add(&after), self.add(&first));
        }
        Ok(self.add(&format!(r#""{{" {first} "}}""#)))
    }

    fn array(&mut self, keywords: &Keywords, place: &Place) -> Result<String, ConstraintError> {
        let count = |keyword: &str| keywords.get(keyword).and_then(Value::as_u64);
        let least = count("minItems").unwrap_or(0) as usize;
        let most = count("maxItems").map_or(usize::MAX, |most| most as usize);
        let mut elements = Vec::new();
        let first = keywords.get("prefixItems").and_then(Value::as_array);
        for (at, schema) in first.into_iter().flatten().enumerate().take(most) {
            elements.push(self.rule(schema, &place.of("prefixItems").of(&at.to_string()))?);
        }
        // The others are one more, which is repeated.
        let (others_least, others_most) = (
            least.saturating_sub(elements.len()),
            most.saturating_sub(elements.len()),
        );
        let mut rest = String::new();
        let others = keywords.get("items").unwrap_or(&Value::Bool(true));
        if others_most > 0 && *others != Value::Bool(false) {
            let element = self.rule(others, &place.of("items"))?;
            let most = match others_most {
                most if most > 1 << 20 => String::new(),
                most => (most - 1).to_string(),
            };
            let least_again = others_least.saturating_sub(1);
            rest = format!("{element} (\",\" {element}){{{least_again},{most}}}");
        } else if others_least > 0 {
            return refused("minItems", "is more than there can be", place);
        }
        let mut is_optional = others_least == 0 && !rest.is_empty();
        for (at, element) in elements.iter().enumerate().rev() {
            rest = match (rest.as_str(), is_optional) {
                ("", _) => element.clone(),
                (rest, true) => format!("{element} (\",\" {rest})?"),
                (rest, false) => format!("{element} \",\" {rest}"),
            };
            rest = self.add(&rest);
            is_optional = at >= least;
        }
        let optional = if is_optional { "?" } else { "" };
        Ok(self.add(&format!("\"[\" ({rest}){optional} \"]\"")))
    }
}

/// The number of the definition that a schema refers to.
fn reference(keywords: &Keywords) -> Option<&str> {
    keywords.get("$ref")?.as_str()?.strip_prefix("#/$defs/")
}
