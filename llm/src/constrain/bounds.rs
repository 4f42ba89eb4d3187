//! Limits on the cost of compiling a constraint, checked in advance, because llguidance cannot be
//! interrupted. A combination of several expressions has as many cases as the product of their
//! cases, and llguidance visits all of them in one step.
//!
//! The cases of an expression are estimated by its alternatives and repetitions. Measured with a
//! vocabulary of bytes: of expressions of 5 cases each that all apply to one text, 8 took 10 ms of
//! a core and 1 MiB, and 12 took 0.7 s and 80 MiB. 16 had taken 7 s and 400 MiB when they were
//! stopped. 128 patterns of names took 0.2 s, 128 tools of 30 properties each 0.4 s and 50 MiB.

use std::collections::HashMap;
use std::rc::Rc;

use serde_json::{Map, Value};

use super::compiler::ConstraintError;
use super::schema::list;

/// Maximum number of cases of the expressions that apply to one text.
const MOST_CASES: u64 = 400_000;
/// Maximum number of cases of names: the square of the cases of an object's patterns. They are
/// compared in pairs, again for each part of the object.
const MOST_NAME_CASES: u64 = 1 << 18;
/// Maximum size of a pattern, a name or a literal text, in bytes.
const LONGEST_TEXT: usize = 16 << 10;
/// Number of cases of a format; the next constant is that of a length.
const FORMAT_CASES: u64 = 8;
const LENGTH_CASES: u64 = 2;
/// Maximum number of property names that are distinguished; with more, all are treated as one.
const MOST_NAMES: usize = 256;
/// Keywords of contained values that apply to every name.
const CONTAINED: [&str; 3] = ["items", "prefixItems", "additionalProperties"];

/// Estimates the cases of an expression.
fn cases(expression: &str) -> u64 {
    let is_branch = |byte: &u8| b"|*+?{".contains(byte);
    1 + expression.bytes().filter(is_branch).count() as u64
}

/// Refuses a text that is longer than the limit for a part of a constraint.
pub(super) fn check_length(text: &str, what: &str) -> Result<(), ConstraintError> {
    check_size(text, LONGEST_TEXT, what)
}

/// Refuses a text of more than `most` bytes.
pub(super) fn check_size(text: &str, most: usize, what: &str) -> Result<(), ConstraintError> {
    let bytes = text.len();
    if bytes <= most {
        return Ok(());
    }
    let message = format!("{what} has {bytes} bytes, expected at most {most}");
    Err(ConstraintError(message))
}

/// Checks a schema after its references are resolved and its keywords rewritten.
pub(super) fn check_schema(schema: &Value) -> Result<(), ConstraintError> {
    let mut walk = Walk {
        root: schema,
        targets: HashMap::new(),
        names: 0,
        names_of_objects: 0,
        parts: 0,
    };
    walk.schema(schema)?;
    let in_all = walk.names.saturating_pow(2).saturating_mul(walk.parts);
    if walk.names_of_objects.max(in_all) > MOST_NAME_CASES {
        return Err(ConstraintError(
            "too many `patternProperties` to compare each with all others: use fewer, or simpler ones".to_owned(),
        ));
    }
    Ok(())
}

/// Checks Lark expressions that all apply to one text.
pub(super) fn check_all(expressions: &[String]) -> Result<(), ConstraintError> {
    let mut all = 1_u64;
    for expression in expressions {
        check_length(expression, "an expression")?;
        check_lark(expression)?;
        all = all.saturating_mul(cases(expression));
    }
    if all > MOST_CASES {
        return Err(ConstraintError(
            "too many patterns, formats and lengths apply to one text: combine them in one `pattern`".to_owned(),
        ));
    }
    Ok(())
}

/// Checks a Lark grammar, in which `&` combines expressions.
pub(super) fn check_lark(text: &str) -> Result<(), ConstraintError> {
    let mut combined = 0_u32;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let end = match c {
            '&' => {
                combined += 1;
                continue;
            }
            '#' => '\n',
            '/' if text[at + 1..].starts_with('/') => '\n',
            '"' | '/' => c,
            _ => continue,
        };
        while let Some((_, c)) = chars.next() {
            if c == '\\' && end != '\n' {
                chars.next();
            } else if c == end || c == '\n' {
                break;
            }
        }
    }
    if combined > 0 && cases(text).saturating_pow(combined + 1) > MOST_CASES {
        return Err(ConstraintError(format!(
            "too many alternatives and repetitions for an expression with {combined} `&`: use fewer"
        )));
    }
    Ok(())
}

/// Estimated cases of a value and of its contained values.
#[derive(Clone)]
struct Cases<'a> {
    own: u64,
    /// Cases of properties by name; the next field has the cases of everything contained under any
    /// name.
    names: HashMap<&'a str, u64>,
    any: u64,
}

impl Cases<'_> {
    fn one() -> Self {
        Self {
            own: 1,
            names: HashMap::new(),
            any: 1,
        }
    }

    fn add(&mut self, other: &Self, combine: fn(u64, u64) -> u64) {
        self.own = combine(self.own, other.own);
        self.any = combine(self.any, other.any);
        for (name, cases) in &other.names {
            let own = self.names.entry(name).or_insert(1);
            *own = combine(*own, *cases);
        }
        if self.names.len() > MOST_NAMES {
            self.any = self.contained();
            self.names.clear();
        }
    }

    fn contained(&self) -> u64 {
        let most = self.names.values().copied().max();
        self.any.saturating_mul(most.unwrap_or(1))
    }

    fn most(&self) -> u64 {
        self.own.max(self.contained())
    }
}

struct Walk<'a> {
    root: &'a Value,
    /// Cases of referenced schemas; `None` while one is being counted.
    targets: HashMap<&'a str, Option<Rc<Cases<'a>>>>,
    names: u64,
    names_of_objects: u64,
    parts: u64,
}

impl<'a> Walk<'a> {
    fn schema(&mut self, schema: &'a Value) -> Result<Cases<'a>, ConstraintError> {
        let Value::Object(keywords) = schema else {
            return Ok(Cases::one());
        };
        let mut cases = Cases::one();
        Self::texts(keywords, &mut cases)?;
        self.contained(keywords, &mut cases)?;
        for part in list(keywords, "allOf") {
            self.parts += 1;
            cases.add(&self.schema(part)?, u64::saturating_mul);
        }
        let mut any = Cases::one();
        for option in list(keywords, "anyOf") {
            self.parts += 1;
            any.add(&self.schema(option)?, u64::max);
        }
        cases.add(&any, u64::saturating_mul);
        if let Some(Value::String(target)) = keywords.get("$ref") {
            self.parts += 1;
            if let Some(target) = self.target(target)? {
                cases.add(&target, u64::saturating_mul);
            }
        }
        if let Some(Value::Object(schemas)) = keywords.get("$defs") {
            for schema in schemas.values() {
                self.schema(schema)?;
            }
        }
        if cases.most() > MOST_CASES {
            return Err(ConstraintError(
                "too many patterns, formats and lengths apply to one value: combine them in one `pattern`".to_owned(),
            ));
        }
        Ok(cases)
    }

    /// Counts the cases of keywords for strings.
    fn texts(keywords: &Map<String, Value>, own: &mut Cases<'a>) -> Result<(), ConstraintError> {
        if let Some(Value::String(pattern)) = keywords.get("pattern") {
            check_length(pattern, "a `pattern`")?;
            own.own = cases(pattern);
        }
        if keywords.contains_key("format") {
            own.own = own.own.saturating_mul(FORMAT_CASES);
        }
        if keywords.contains_key("minLength") || keywords.contains_key("maxLength") {
            own.own = own.own.saturating_mul(LENGTH_CASES);
        }
        for keyword in ["const", "enum"] {
            if let Some(value) = keywords.get(keyword) {
                check_texts(value, keyword)?;
            }
        }
        Ok(())
    }

    fn contained(
        &mut self,
        keywords: &'a Map<String, Value>,
        own: &mut Cases<'a>,
    ) -> Result<(), ConstraintError> {
        if let Some(Value::Object(properties)) = keywords.get("properties") {
            let mut listed = Cases::one();
            for (name, schema) in properties {
                check_length(name, "the name of a property")?;
                listed.names.insert(name, self.schema(schema)?.most());
            }
            own.add(&listed, u64::saturating_mul);
        }
        if let Some(Value::Object(patterns)) = keywords.get("patternProperties") {
            let mut names = 0_u64;
            for (pattern, schema) in patterns {
                check_length(pattern, "a name of `patternProperties`")?;
                names = names.saturating_add(cases(pattern));
                own.any = own.any.max(self.schema(schema)?.most());
            }
            self.names = self.names.saturating_add(names);
            let pairs = names.saturating_pow(2);
            self.names_of_objects = self.names_of_objects.saturating_add(pairs);
        }
        for schema in CONTAINED.iter().flat_map(|it| list(keywords, it)) {
            own.any = own.any.max(self.schema(schema)?.most());
        }
        Ok(())
    }

    /// Returns the cases of a reference's target within the schema. `None` for other references,
    /// which the compiler refuses, and for one that refers to itself.
    fn target(&mut self, reference: &'a str) -> Result<Option<Rc<Cases<'a>>>, ConstraintError> {
        if let Some(known) = self.targets.get(reference) {
            return Ok(known.clone());
        }
        let pointer = reference.strip_prefix('#').unwrap_or("/");
        let Some(target) = self.root.pointer(pointer) else {
            return Ok(None);
        };
        self.targets.insert(reference, None);
        let cases = Rc::new(self.schema(target)?);
        self.targets.insert(reference, Some(Rc::clone(&cases)));
        Ok(Some(cases))
    }
}

fn check_texts(value: &Value, keyword: &str) -> Result<(), ConstraintError> {
    match value {
        Value::String(text) => check_length(text, &format!("a text of `{keyword}`")),
        Value::Array(values) => values
            .iter()
            .try_for_each(|value| check_texts(value, keyword)),
        Value::Object(values) => values.iter().try_for_each(|(name, value)| {
            check_length(name, &format!("a name of `{keyword}`"))?;
            check_texts(value, keyword)
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}
