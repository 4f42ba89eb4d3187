//! Translates a schema with values that llguidance cannot represent to a Lark grammar, in which
//! these are [spelled](super::spelling). Parts without such values remain schemas within the
//! grammar.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::keywords::{Keywords, list, whole};
use super::limits::SIDES;
use super::sharing::share;
use super::spelling::{EXACT, spelled};
use super::{Notation, Result, WHITE_SPACE, refused, within};
use crate::constrain::compiler::ConstraintError;

/// Writes a schema, as a Lark grammar if necessary.
pub(super) fn write(
    mut schema: Value,
    options: Option<Value>,
    places: &[String],
) -> Result<Notation> {
    let definitions = schema
        .as_object_mut()
        .and_then(|root| root.shift_remove("$defs"));
    let mut definitions = definitions.unwrap_or_default();
    if has(&schema, EXACT) || has(&definitions, EXACT) {
        let mut writer = GrammarWriter {
            options: options.clone().unwrap_or_else(|| json!({})),
            rules: BTreeMap::new(),
        };
        let failure = match writer.grammar(&schema, &definitions, places) {
            Ok(grammar) => return Ok(Notation::Lark(grammar)),
            Err(failure) => failure.0,
        };
        let far = approximate(&mut schema).or(approximate(&mut definitions));
        if let Some(far) = far {
            let message = format!("{far}, which cannot be enforced exactly here: {failure}");
            return Err(ConstraintError(message));
        }
    }
    if definitions.is_object() {
        schema["$defs"] = definitions;
    }
    share(&mut schema);
    if let Some(options) = options {
        schema["x-guidance"] = options;
    }
    Ok(Notation::Json(schema))
}

/// Returns true if a schema, or one within it, has a keyword.
fn has(schema: &Value, keyword: &str) -> bool {
    match schema {
        Value::Object(keywords) => {
            keywords.contains_key(keyword) || keywords.values().any(|value| has(value, keyword))
        }
        Value::Array(values) => values.iter().any(|value| has(value, keyword)),
        _ => false,
    }
}

/// Removes spelled values, so that the nearest supported ones apply. Returns the reason if a value
/// has no such approximation.
fn approximate(value: &mut Value) -> Option<String> {
    match value {
        Value::Object(keywords) => {
            let exact = keywords.shift_remove(EXACT);
            let far = exact.and_then(|exact| exact[1].as_str().map(str::to_owned));
            far.or_else(|| keywords.values_mut().find_map(approximate))
        }
        Value::Array(values) => values.iter_mut().find_map(approximate),
        _ => None,
    }
}

struct GrammarWriter {
    options: Value,
    /// Number of each rule that was written.
    rules: BTreeMap<String, usize>,
}

impl GrammarWriter {
    fn grammar(
        &mut self,
        schema: &Value,
        definitions: &Value,
        places: &[String],
    ) -> Result<String> {
        // The grammar around defines the white space.
        self.options["whitespace_pattern"] = WHITE_SPACE.into();
        let start = self.rule(schema, "")?;
        let mut lines = vec![
            r#"%llguidance {"ignore_once": true}"#.to_owned(),
            format!("%ignore /{WHITE_SPACE}/"),
            format!("start: {start}"),
        ];
        for (at, place) in places.iter().enumerate() {
            let rule = self.rule(&definitions[at.to_string()], place)?;
            lines.push(format!("d{at}: {rule}"));
        }
        lines.extend(self.rules.iter().map(|(rule, at)| format!("r{at}: {rule}")));
        Ok(lines.join("\n"))
    }

    /// Adds a rule and returns its name.
    fn add(&mut self, rule: String) -> String {
        let next = self.rules.len();
        format!("r{}", self.rules.entry(rule).or_insert(next))
    }

    fn rule(&mut self, schema: &Value, place: &str) -> Result<String> {
        let keywords = match schema {
            Value::Object(keywords) if has(schema, EXACT) || has(schema, "$ref") => keywords,
            schema => return Ok(self.schema(schema)),
        };
        if let Some(exact) = keywords.get(EXACT) {
            let [(least, above, _), (most, below, _)] = SIDES;
            only(keywords, &[EXACT, "type", least, above, most, below], place)?;
            let mut rule = exact[0].as_str().unwrap_or_default().to_owned();
            let kinds = list(keywords, "type").iter();
            let others: Vec<_> = kinds
                .filter(|it| *it != "integer" && *it != "number")
                .collect();
            if !others.is_empty() {
                rule = format!("{rule} | {}", self.schema(&json!({ "type": others })));
            }
            return Ok(self.add(rule));
        }
        if let Some(Value::String(reference)) = keywords.get("$ref") {
            only(keywords, &["$ref"], place)?;
            return Ok(reference.replace("#/$defs/", "d"));
        }
        for keyword in ["anyOf", "allOf"] {
            let parts = list(keywords, keyword);
            if parts.is_empty() {
                continue;
            }
            only(keywords, &[keyword], place)?;
            if keyword == "allOf" && parts.len() > 1 {
                return refused(keyword, "combines values to be written exactly", place);
            }
            let place = within(place, keyword);
            let each = parts.iter().enumerate();
            let each = each.filter(|(_, part)| **part != Value::Bool(false));
            let each = each.map(|(at, part)| self.rule(part, &within(&place, &at.to_string())));
            let each = each.collect::<Result<Vec<_>>>()?;
            return Ok(self.add(each.join(" | ")));
        }
        if keywords.contains_key("items") {
            return self.array(keywords, place);
        }
        self.object(keywords, place)
    }

    /// Writes a schema without spelled values as it is.
    fn schema(&mut self, schema: &Value) -> String {
        let mut schema = match schema {
            Value::Object(_) => schema.clone(),
            _ => json!({}),
        };
        schema["x-guidance"] = self.options.clone();
        self.add(format!("%json {schema}"))
    }

    /// Writes an object with listed properties in their order.
    fn object(&mut self, keywords: &Keywords, place: &str) -> Result<String> {
        only(
            keywords,
            &["type", "properties", "required", "additionalProperties"],
            place,
        )?;
        let properties = keywords.get("properties").and_then(Value::as_object);
        let properties = properties.into_iter().flatten();
        let properties = properties.filter(|(_, schema)| **schema != Value::Bool(false));
        let required = list(keywords, "required");
        let mut pairs = Vec::new();
        for (name, schema) in properties {
            let place = within(place, "properties");
            let value = self.rule(schema, &within(&place, name))?;
            let name = Value::from(name.as_str());
            let pair = self.add(format!("{} \":\" {value}", spelled(&name)));
            pairs.push((pair, required.contains(&name)));
        }
        if required.len() > pairs.iter().filter(|(_, is_required)| *is_required).count() {
            let why = "names properties outside of `properties`, together with values that must be written exactly";
            return refused("required", why, place);
        }
        let others = keywords.get("additionalProperties");
        if others.is_some_and(|schema| !schema.is_boolean()) {
            let why = "cannot be combined with values that must be written exactly";
            return refused("additionalProperties", why, place);
        }
        // The text after a pair, and the text if no pair has come before.
        let (mut after, mut first) = (String::new(), String::new());
        let either = |one: &str, other: &str| match other {
            "" => format!("({one})?"),
            other => format!("({one} | {other})"),
        };
        for (pair, is_required) in pairs.into_iter().rev() {
            let rest = self.add(format!("{pair} {after}"));
            let next = format!("\",\" {rest}");
            // Rules take time, so a part that is used once is written in place.
            (first, after) = if is_required {
                (rest, next)
            } else {
                let [one, other] = [either(&rest, &first), either(&next, &after)];
                (self.add(one), self.add(other))
            };
        }
        Ok(self.add(format!(r#""{{" {first} "}}""#)))
    }

    fn array(&mut self, keywords: &Keywords, place: &str) -> Result<String> {
        only(keywords, &["type", "items", "minItems", "maxItems"], place)?;
        let count = |keyword: &str| keywords.get(keyword).and_then(whole);
        let element = self.rule(&keywords["items"], &within(place, "items"))?;
        let least = count("minItems").unwrap_or(0);
        let most = match count("maxItems") {
            Some(0) => return refused("maxItems", "allows no elements", place),
            Some(most) => (most - 1).to_string(),
            None => String::new(),
        };
        let optional = if least == 0 { "?" } else { "" };
        let again = least.saturating_sub(1);
        let all = format!("({element} (\",\" {element}){{{again},{most}}}){optional}");
        Ok(self.add(format!("\"[\" {all} \"]\"")))
    }
}

/// Refuses keywords that cannot be combined with spelled values.
fn only(keywords: &Keywords, known: &[&str], place: &str) -> Result {
    let mut others = keywords
        .keys()
        .filter(|keyword| !known.contains(&keyword.as_str()));
    let why = "cannot be combined with a number or text that must be written exactly";
    others
        .next()
        .map_or(Ok(()), |other| refused(other, why, place))
}
