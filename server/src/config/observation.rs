//! What operators may see of the packets of requests.

use regex::{Regex, RegexSet};
use serde::{Deserialize, Deserializer, de::Error as _};

/// What takes the place of a text that is not to be seen.
const REDACTED: &str = "[redacted]";

/// Whether packets are shown, and what of their texts is not.
#[derive(Clone, Debug)]
pub struct Observation {
    /// Whether taps and recordings show what packets carry.
    pub payloads: bool,
    /// What is replaced in their texts.
    pub redact: Redaction,
}

impl Default for Observation {
    fn default() -> Self {
        Self {
            payloads: true,
            redact: Redaction::default(),
        }
    }
}

/// Regular expressions of texts that are not to be seen.
#[derive(Clone, Debug, Default)]
pub struct Redaction {
    /// Tells in one pass whether any matches.
    any: RegexSet,
    each: Vec<Regex>,
}

impl Redaction {
    /// Of these regular expressions; the error says which of them is wrong.
    pub fn new(patterns: &[String]) -> Result<Self, String> {
        let each = patterns.iter().map(|pattern| {
            Regex::new(pattern)
                .map_err(|error| format!("`{pattern}` is no regular expression: {error}"))
        });
        let each = each.collect::<Result<Vec<Regex>, String>>()?;
        let any = RegexSet::new(patterns).map_err(|error| error.to_string())?;
        Ok(Self { any, each })
    }

    /// A text without what is not to be seen.
    pub(crate) fn text(&self, text: &mut String) {
        for place in &self.any.matches(text) {
            *text = self.each[place].replace_all(text, REDACTED).into_owned();
        }
    }

    /// The same for all texts of a value, names of fields included.
    pub(crate) fn value(&self, value: &mut serde_json::Value) {
        use serde_json::Value;
        if self.each.is_empty() {
            return;
        }
        match value {
            Value::String(text) => self.text(text),
            Value::Array(values) => values.iter_mut().for_each(|value| self.value(value)),
            Value::Object(fields) => {
                for (mut name, mut value) in std::mem::take(fields) {
                    self.text(&mut name);
                    self.value(&mut value);
                    fields.insert(name, value);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// The regular expressions.
    pub(crate) fn patterns(&self) -> &[String] {
        self.any.patterns()
    }
}

impl PartialEq for Observation {
    fn eq(&self, other: &Self) -> bool {
        (self.payloads, self.redact.patterns()) == (other.payloads, other.redact.patterns())
    }
}

impl<'de> Deserialize<'de> for Redaction {
    fn deserialize<D: Deserializer<'de>>(patterns: D) -> Result<Self, D::Error> {
        let patterns = Vec::<String>::deserialize(patterns)?;
        Self::new(&patterns).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_matches_is_replaced_in_all_texts_of_a_value() {
        let patterns = ["[0-9]{4}-[0-9]{4}", "(?i)secret"].map(str::to_owned);
        let redaction = Redaction::new(&patterns).expect("good patterns");
        let mut value = json!({ "a": ["card 1234-5678, Secret"], "secret": { "b": 1, "c": null } });
        redaction.value(&mut value);
        let expected = json!({
            "a": ["card [redacted], [redacted]"], "[redacted]": { "b": 1, "c": null },
        });
        assert_eq!(value, expected);
    }

    #[test]
    fn a_wrong_pattern_is_named() {
        let error = Redaction::new(&["(".to_owned()]).expect_err("no expression");
        assert!(error.starts_with("`(` is no regular expression"), "{error}");
    }
}
