//! Constraints for arguments that are not written as JSON, from the schema of a tool.

use graphmill_llm::{Constraint, regex_to_lark, resolved_schema};
use serde_json::{Value, json};

use super::formats;
use super::grammar::{sequence, text};
use super::schema::{self, Keywords, Kinds};
use super::spelling::Parameter;

/// Keywords of objects that are not supported.
const REFUSED: [&str; 10] = [
    "not",
    "if",
    "then",
    "else",
    "dependentSchemas",
    "dependentRequired",
    "dependencies",
    "propertyNames",
    "unevaluatedProperties",
    "patternProperties",
];
/// Keywords of texts that are not supported.
const REFUSED_OF_TEXTS: [&str; 2] = ["not", "if"];

/// Classes that match only ASCII in the expressions of JSON Schema: `\d` and `\w`.
const ASCII_CLASSES: &str = "dw";

/// The members of an object of arguments, or of an object within them.
pub(super) struct Object {
    pub(super) members: Vec<Member>,
    /// Schema of members with any other name.
    others: Option<Value>,
}

/// The name of a member, its schema, and true if it is required.
pub(super) struct Member(String, Value, bool);

/// The constraints of members, each with true if it is required, and the one for other names.
type Forms = (Vec<(Constraint, bool)>, Option<Constraint>);

/// Returns a constraint that matches one of the objects that a schema describes. `each` writes one
/// of them, with the schema for its definitions.
pub(super) fn any_of(
    schema: &Value,
    each: impl Fn(&Object, &Value) -> Option<Constraint>,
) -> Constraint {
    let schema = match resolved_schema(schema) {
        Ok(schema) => schema,
        Err(error) => return Constraint::Refused(error.to_string()),
    };
    let objects = schema::alternatives(&schema, &schema);
    let held = |keywords: &Keywords| object(keywords, |it| each(it, &schema));
    Constraint::any_of(objects.iter().filter_map(held))
}

/// Returns a constraint for one alternative of an object, unless it has unsupported keywords.
pub(super) fn object(
    keywords: &Keywords,
    each: impl Fn(&Object) -> Option<Constraint>,
) -> Option<Constraint> {
    let keywords = schema::with_names_listed(keywords);
    refused(&keywords, &REFUSED).or_else(|| each(&Object::new(&keywords)))
}

/// Returns a refusal for the first of these keywords that a schema has.
fn refused(keywords: &Keywords, of: &[&str]) -> Option<Constraint> {
    let keyword = of.iter().find(|keyword| keywords.contains_key(**keyword))?;
    let why = format!("`{keyword}` cannot be enforced, because the model's calls are not JSON");
    Some(Constraint::Refused(why))
}

pub(super) fn count(keywords: &Keywords, keyword: &str) -> Option<u64> {
    keywords.get(keyword).and_then(Value::as_u64)
}

pub(super) fn optional(constraint: Constraint) -> Constraint {
    Constraint::Optional(Box::new(constraint))
}

/// Returns a constraint for one or more repetitions, with a separator between them.
pub(super) fn repeated(each: Constraint, separator: &str) -> Constraint {
    Constraint::Repeated {
        each: Box::new(each),
        separator: Box::new(text(separator)),
    }
}

impl Object {
    pub(super) fn new(keywords: &Keywords) -> Self {
        let required = keywords.get("required").and_then(Value::as_array);
        let required = required.into_iter().flatten().filter_map(Value::as_str);
        let properties = keywords.get("properties").and_then(Value::as_object);
        let others = match keywords.get("additionalProperties") {
            Some(Value::Bool(false)) => None,
            Some(schema @ Value::Object(_)) => Some(schema.clone()),
            None if properties.is_some() => None,
            _ => Some(json!({})),
        };
        let named = properties.into_iter().flatten();
        let named = named.map(|(name, schema)| Member(name.clone(), schema.clone(), false));
        let mut members: Vec<Member> = named.collect();
        for name in required {
            let unnamed = others.as_ref().unwrap_or(&Value::Bool(false)).clone();
            match members.iter_mut().find(|member| member.0 == name) {
                Some(member) => member.2 = true,
                None => members.push(Member(name.to_owned(), unnamed, true)),
            }
        }
        // At least as many as required, and at most as many as allowed.
        let least = count(keywords, "minProperties").unwrap_or(0) as usize;
        let demanded = members.iter().filter(|member| member.2).count();
        let free = members.iter_mut().filter(|member| !member.2);
        free.take(least.saturating_sub(demanded))
            .for_each(|member| member.2 = true);
        let most = count(keywords, "maxProperties").map(|most| most as usize);
        while most.is_some_and(|most| members.len() > most)
            && let Some(last) = members.iter().rposition(|member| !member.2)
        {
            members.remove(last);
        }
        let others = others.filter(|_| most.is_none());
        Self { members, others }
    }

    /// Writes the members with `one`, in the order of the schema. Optional members that cannot be
    /// written are left out; a required one makes the result `None`.
    fn written(&self, one: impl Fn(Constraint, &Value) -> Option<Constraint>) -> Option<Forms> {
        let mut all = Vec::new();
        for Member(name, schema, required) in &self.members {
            match one(Constraint::Text(name.clone()), schema) {
                Some(written) => all.push((written, *required)),
                None if *required => return None,
                None => {}
            }
        }
        let other = self.others.as_ref();
        Some((all, other.and_then(|schema| one(self.other_name(), schema))))
    }

    /// Writes each member by the pattern of a parameter.
    pub(super) fn as_xml(&self, root: &Value, parameter: &Parameter) -> Option<Constraint> {
        let (all, other) = self.written(|name, schema| xml(name, schema, root, parameter))?;
        let all = all.into_iter();
        let all = all.map(|(one, required)| if required { one } else { optional(one) });
        let other = other.map(|other| optional(repeated(other, "")));
        Some(sequence(all.chain(other)))
    }

    /// Writes the members as keywords of Python, with JSON values.
    pub(super) fn as_keywords(&self, root: &Value) -> Option<Constraint> {
        self.separated(", ", |name, schema| {
            if schema::is_never(schema, root) {
                return None;
            }
            let schema = with_definitions(schema.clone(), root);
            Some(sequence([name, text("="), Constraint::JsonSchema(schema)]))
        })
    }

    /// Writes the members with a separator between them. Required ones come first, so that the
    /// places of the separators are known.
    pub(super) fn separated(
        &self,
        separator: &str,
        one: impl Fn(Constraint, &Value) -> Option<Constraint>,
    ) -> Option<Constraint> {
        let (all, other) = self.written(one)?;
        let other = other.map(|other| (repeated(other, separator), false));
        let (required, rest): (Vec<_>, Vec<_>) = all.into_iter().chain(other).partition(|it| it.1);
        let next = |(one, required): &(Constraint, bool)| {
            let next = sequence([text(separator), one.clone()]);
            if *required { next } else { optional(next) }
        };
        let from = |first: &Constraint, rest: &[&[(Constraint, bool)]]| {
            let rest = rest.iter().copied().flatten().map(next);
            sequence([first.clone()].into_iter().chain(rest))
        };
        if let Some((first, others)) = required.split_first() {
            return Some(from(&first.0, &[others, &rest]));
        }
        let firsts = rest.iter().enumerate();
        let firsts = firsts.map(|(index, first)| from(&first.0, &[&rest[index + 1..]]));
        let any = Constraint::any_of(firsts);
        Some(if rest.is_empty() {
            text("")
        } else {
            optional(any)
        })
    }

    /// Returns a constraint for a name that no listed member has.
    fn other_name(&self) -> Constraint {
        let names = self
            .members
            .iter()
            .map(|it| Value::from(&*it.0).to_string());
        let names = names.chain(["\" \"".to_owned()]);
        let names = names.collect::<Vec<_>>().join(" | ");
        let name = "/[A-Za-z0-9_-]{1,64}/";
        Constraint::Lark(format!("start: NAME\nNAME: {name} & ~({names})"))
    }
}

/// Returns a schema with the definitions of the whole schema, to which it may refer.
pub(super) fn with_definitions(mut schema: Value, root: &Value) -> Value {
    if let (Some(definitions), Value::Object(schema)) = (root.get("$defs"), &mut schema) {
        schema.insert("$defs".to_owned(), definitions.clone());
    }
    schema
}

/// Returns the constraints of the texts that a schema allows, with their ends: listed texts, texts
/// of an expression, or any text up to the mark, which no text contains.
pub(super) fn texts(schema: &Value, root: &Value, end: &str, mark: &str) -> Vec<Constraint> {
    let mut texts = Vec::new();
    for keywords in schema::alternatives(schema, root) {
        if !Kinds::new(&keywords).has_text() {
            continue;
        }
        if let Some(refused) = refused(&keywords, &REFUSED_OF_TEXTS) {
            texts.push(refused);
        } else if let Some(values) = schema::listed_values(&keywords) {
            // A text that contains the end cannot be written.
            let values = values.iter().filter_map(Value::as_str);
            let values = values.filter(|value| !value.contains(end.trim()));
            let value = |value: &str| sequence([Constraint::Text(value.to_owned()), text(end)]);
            texts.extend(values.map(value));
        } else {
            let text = expressions(&keywords);
            let end = if text.is_empty() { mark } else { end };
            let end = end.to_owned();
            texts.push(Constraint::TextUpTo { text, end });
        }
    }
    texts
}

/// Returns an argument with its marks; `None` if it can have no value.
fn xml(
    name: Constraint,
    schema: &Value,
    root: &Value,
    parameter: &Parameter,
) -> Option<Constraint> {
    let kinds = Kinds::from_schema(schema, root);
    let end = format!("{}{}", parameter.gaps.1, parameter.end);
    let texts = texts(schema, root, &end, &parameter.end);
    // A JSON value is also a text.
    let any = Constraint::text_up_to(&parameter.end);
    let is_free = texts.contains(&any);
    let others = kinds.others();
    let schema = if kinds.has_text() {
        json!({"allOf": [schema, {"type": others}]})
    } else {
        schema.clone()
    };
    let json = Constraint::JsonSchema(with_definitions(schema, root));
    let json = sequence([json, text(&end)]);
    let has_json = !others.is_empty() && (parameter.typed.is_some() || !is_free);
    let kind = |kind: &str| match &parameter.typed {
        Some(after) => text(&format!("{kind}{after}")),
        None => text(&parameter.gaps.0),
    };
    let texts = texts.into_iter().map(|one| sequence([kind("true"), one]));
    let json = has_json.then(|| sequence([kind("false"), json]));
    let values: Vec<_> = texts.chain(json).collect();
    (!values.is_empty()).then(|| {
        let value = Constraint::any_of(values);
        let [before, between, after] =
            [&parameter.before, &parameter.between, &parameter.after].map(|part| text(part));
        sequence([before, name, between, value, after])
    })
}

/// Returns expressions of Lark for the pattern, the format and the length that a schema sets for
/// texts.
fn expressions(keywords: &Keywords) -> Vec<String> {
    let all = |keyword: &str| {
        keywords
            .get(keyword)
            .map(schema::listed)
            .unwrap_or_default()
    };
    let (patterns, formats) = (all("pattern"), all("format"));
    let patterns = patterns.iter().filter_map(Value::as_str).map(searched);
    let formats = formats.iter().filter_map(Value::as_str);
    let formats = formats.filter_map(formats::expression);
    let mut all: Vec<_> = patterns.chain(formats).collect();
    let (least, most) = (count(keywords, "minLength"), count(keywords, "maxLength"));
    if least.or(most).is_some() {
        let most = most.map_or_else(String::new, |most| most.to_string());
        all.push(format!("/(?s:.{{{},{most}}})/", least.unwrap_or(0)));
    }
    all
}

/// Returns a regular expression of Lark for texts that contain a pattern.
fn searched(pattern: &str) -> String {
    let (rest, before) = match pattern.strip_prefix('^') {
        Some(rest) => (rest, ""),
        None => (pattern, "(?s:.*)"),
    };
    let (rest, after) = match rest.strip_suffix('$') {
        Some(rest) if !rest.ends_with('\\') => (rest, ""),
        _ => (rest, "(?s:.*)"),
    };
    let rest = regex_to_lark(rest, ASCII_CLASSES);
    format!("/{before}(?:{rest}){after}/")
}
