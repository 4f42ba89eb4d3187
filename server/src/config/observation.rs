//! Limits on the packets that operators see.

use regex::{Regex, RegexSet};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de::Error as _};

/// Replacement of a hidden text.
const REDACTED: &str = "[redacted]";

/// Limits on the packets that operators see.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Observed")]
pub struct Observation {
    /// True to show payloads of packets in taps and recordings. Default: true.
    #[serde(default = "yes")]
    pub payloads: bool,
    /// Regular expressions. Matches in texts of packets are shown as `[redacted]`.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub redact: Redaction,
}

fn yes() -> bool {
    true
}

impl Default for Observation {
    fn default() -> Self {
        Self {
            payloads: true,
            redact: Redaction::default(),
        }
    }
}

/// Regular expressions of texts to hide.
#[derive(Clone, Debug, Default)]
pub struct Redaction {
    /// Set of all expressions, to test for a match in one pass.
    any: RegexSet,
    each: Vec<Regex>,
}

impl Redaction {
    /// Compiles regular expressions.
    ///
    /// # Errors
    /// If one of them is invalid.
    pub fn new(patterns: &[String]) -> Result<Self, String> {
        let each = patterns.iter().map(|pattern| {
            Regex::new(pattern)
                .map_err(|error| format!("`{pattern}` is not a regular expression: {error}"))
        });
        let each = each.collect::<Result<Vec<Regex>, String>>()?;
        let any = RegexSet::new(patterns).map_err(|error| error.to_string())?;
        Ok(Self { any, each })
    }

    /// Replaces each match in a text.
    pub(crate) fn text(&self, text: &mut String) {
        for place in &self.any.matches(text) {
            *text = self.each[place].replace_all(text, REDACTED).into_owned();
        }
    }

    /// Replaces each match in all strings of a value, including names of fields.
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

    /// Returns the regular expressions as written.
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
        assert!(
            error.starts_with("`(` is not a regular expression"),
            "{error}"
        );
    }
}
