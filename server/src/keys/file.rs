//! The key file: one key as a line of text, as in OpenVINO Model Server, or JSON with many keys,
//! and with plans for tokens.
//!
//! Messages name the field and the place. They repeat no value, as it may be a key.

use std::{collections::HashMap, fs, path::Path, sync::Arc};

use graphmill_engine::read_regular;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    KeyError,
    entry::{KeyFields, entry},
    key::{Digest, KeyEntry},
};
use crate::config::without_place;

/// Maximum size in bytes, enough for many thousand keys.
const MAX_BYTES: u64 = 16 << 20;

/// The keys of a file, and its plans.
pub(super) type Entries = (Vec<KeyEntry>, Vec<KeyEntry>);

/// Reads a key file from a path.
pub(super) fn read(path: &Path) -> Result<Entries, KeyError> {
    let shown = path.display();
    let unreadable = |why: &dyn std::fmt::Display| {
        KeyError(format!("cannot read the key file `{shown}`: {why}"))
    };
    let size = fs::metadata(path).map_err(|error| unreadable(&error))?;
    if size.len() > MAX_BYTES {
        return Err(unreadable(&"it is larger than 16 MiB"));
    }
    let bytes = read_regular(path).map_err(|error| unreadable(&error))?;
    let text = String::from_utf8(bytes).map_err(|_| unreadable(&"it is not UTF-8 text"))?;
    parse(&shown.to_string(), &text)
}

/// Parses the text of the key file `name`.
fn parse(name: &str, text: &str) -> Result<Entries, KeyError> {
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
    if text.trim_start().starts_with(['{', '[']) {
        return Json { name, text }.parse();
    }
    let mut lines = text.lines();
    let key = lines.next().unwrap_or_default().trim_end();
    if key.is_empty() {
        let message = "the first line is empty: expected the key, or JSON";
        return Err(KeyError(format!("{name}:1:1: {message}")));
    }
    if lines.any(|line| !line.trim().is_empty()) {
        tracing::warn!("`{name}`: only the first line is a key: use JSON for several keys");
    }
    let entry = KeyEntry::with_all_permissions(Digest::new(key.as_bytes()));
    Ok((vec![entry], Vec::new()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyFile<'a> {
    #[serde(borrow, default)]
    keys: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    plans: Vec<&'a RawValue>,
}

struct Json<'a> {
    name: &'a str,
    text: &'a str,
}

impl Json<'_> {
    fn parse(&self) -> Result<Entries, KeyError> {
        let file: KeyFile<'_> =
            serde_json::from_str(self.text).map_err(|error| KeyError(self.said(0, "", &error)))?;
        let mut complaints = Vec::new();
        let keys = self.part(false, &file.keys, &mut complaints);
        let plans = self.part(true, &file.plans, &mut complaints);
        if file.keys.is_empty() && file.plans.is_empty() {
            complaints.push(self.line(0, "`keys` is empty: expected at least one key or plan"));
        }
        if complaints.is_empty() {
            Ok((keys, plans))
        } else {
            Err(KeyError(complaints.join("\n")))
        }
    }

    /// Reads the keys or the plans, without wrong ones.
    fn part(
        &self,
        is_plan: bool,
        all: &[&RawValue],
        complaints: &mut Vec<String>,
    ) -> Vec<KeyEntry> {
        let field = if is_plan { "plans" } else { "keys" };
        let mut entries: Vec<KeyEntry> = Vec::new();
        let mut names: HashMap<Arc<str>, usize> = HashMap::new();
        let mut digests: HashMap<Digest, usize> = HashMap::new();
        for (index, raw) in all.iter().enumerate() {
            let at = raw.get().as_ptr() as usize - self.text.as_ptr() as usize;
            let place = format!("{field}[{index}]");
            let complain = |message: String| self.line(at, &format!("`{place}`: {message}"));
            let written = match self.entry(at, &place, raw.get()) {
                Ok(written) => written,
                Err(message) => {
                    complaints.push(message);
                    continue;
                }
            };
            let (entry, wrong) = entry(is_plan, written);
            complaints.extend(wrong.into_iter().map(complain));
            let Some(entry) = entry else { continue };
            if let Some(other) = names.insert(Arc::clone(&entry.name), index) {
                let message = format!("`name` is also that of `{field}[{other}]`");
                complaints.push(complain(message));
            }
            let twin = entry.digest.and_then(|it| digests.insert(it, index));
            if let Some(other) = twin {
                let message = format!("the key is also that of `{field}[{other}]`");
                complaints.push(complain(message));
            }
            entries.push(entry);
        }
        entries
    }

    /// Parses the element at `place`, whose text begins at byte `at`.
    fn entry(&self, at: usize, place: &str, text: &str) -> Result<KeyFields, String> {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
            let path = error.path().to_string();
            // An unknown field has its name in the path, which may be a key.
            let is_unknown = error.inner().to_string().starts_with("unknown field");
            let field = match path.as_str() {
                _ if is_unknown => format!("`{place}`: "),
                "." => format!("`{place}`: "),
                path => format!("`{place}.{path}`: "),
            };
            self.said(at, &field, error.inner())
        })
    }

    /// Formats serde's message about the text that begins at byte `at`, without values.
    fn said(&self, at: usize, field: &str, error: &serde_json::Error) -> String {
        let rest = &self.text[at..];
        let lines = rest.split_inclusive('\n').take(error.line().max(1) - 1);
        let line: usize = lines.map(str::len).sum();
        let place = at + line + error.column().saturating_sub(1);
        let said = without_values(&without_place(error));
        self.line(place, &format!("{field}{said}"))
    }

    /// Formats a message with the position of a byte.
    fn line(&self, at: usize, message: &str) -> String {
        let before = &self.text.as_bytes()[..at.min(self.text.len())];
        let before = String::from_utf8_lossy(before);
        let line = before.matches('\n').count() + 1;
        let start = before.rfind('\n');
        let column = before.len() - start.map_or(0, |start| start + 1) + 1;
        format!("{}:{line}:{column}: {message}", self.name)
    }
}

/// Removes quoted text, which is a value, and names other than those of fields from a message of
/// serde.
fn without_values(said: &str) -> String {
    if let (Some(start), Some(end)) = (said.find('"'), said.rfind('"')) {
        let (before, after) = (&said[..start], &said[end + 1..]);
        return format!("{}{after}", before.trim_end());
    }
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte == b'_' || byte == b'2';
    let is_name = |name: &str| name.len() <= 32 && name.bytes().all(is_letter);
    match said.split('`').nth(1) {
        Some(name) if !is_name(name) => said.replacen(name, "…", 1),
        _ => said.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "gm-very-secret-value";

    #[track_caller]
    fn wrong(text: &str) -> String {
        let error = parse("keys.json", text).expect_err("it is wrong");
        let message = error.to_string();
        assert!(!message.contains("secret"), "{message}");
        message
    }

    #[test]
    fn a_line_of_text_is_a_key_for_everything() {
        let (entries, _) = parse("key", &format!("{SECRET} \r\n")).expect("a key");
        let [entry] = &entries[..] else {
            panic!("one key")
        };
        assert!(
            entry
                .digest
                .is_some_and(|own| own.is(&Digest::new(SECRET.as_bytes())))
        );
        assert!(entry.infers() && entry.watches() && entry.administers());
        assert!(wrong("\nsecret\n").starts_with("keys.json:1:1: "));
        assert!(wrong("").contains("empty"));
    }

    #[test]
    fn every_mistake_has_its_place_and_no_value() {
        let mut others = Vec::new();
        for (text, expected) in [
            (r#"{"keys": []}"#, "keys.json:1:1: `keys` is empty"),
            (r#"{"keys": {}}"#, "keys.json:1:9: invalid type: map"),
            (r#"{"keys": ["secret"]}"#, "keys.json:1:"),
            (r#"["secret"]"#, "keys.json:1:"),
            (r#"{"keys": [{"name": "a", "key": "x"}"#, "keys.json:1:"),
            (
                r#"{"keys": [{"name": "a", "key": "secret", "rpm": 5}]}"#,
                "unknown field `rpm`",
            ),
            (
                r#"{"keys": [{"name": "a", "gm-secret": 5}]}"#,
                "unknown field `…`",
            ),
            (r#"{"keys": [{"key": "secret"}]}"#, "missing field `name`"),
            (
                r#"{"keys": [{"name": "a"}]}"#,
                "`sha256` or `key` is missing",
            ),
            (
                r#"{"keys": [{"name": "a", "sha256": "secret"}]}"#,
                "64 hexadecimal digits",
            ),
            (
                r#"{"keys": [{"name": "a", "key": "x", "sha256": "secret"}]}"#,
                "exclude each other",
            ),
            (
                r#"{"keys": [{"name": "secret name", "key": "x"}]}"#,
                "`name` must be",
            ),
            (
                r#"{"keys": [{"name": "a", "key": "x", "scopes": ["secret"]}]}"#,
                "`scopes[0]` must be",
            ),
            (
                r#"{"keys": [{"name": "a", "key": "x", "scopes": []}]}"#,
                "`scopes` is empty",
            ),
            (
                r#"{"keys": [{"name": "a", "key": "x", "models": [""]}]}"#,
                "`models` must list",
            ),
            (
                r#"{"keys": [{"name": "a", "key": "x", "cache_salt": ""}]}"#,
                "`cache_salt` must not",
            ),
            (
                r#"{"keys": [{"name": "a", "key": "x", "weight": 1001}]}"#,
                "`weight` must be",
            ),
            (
                "{\"keys\": [\n  {\"name\": \"a\", \"key\": \"x\",\n   \"tokens_per_minute\": 0}]}",
                "keys.json:3:",
            ),
            (
                "{\"keys\": [\n  {\"name\": \"a\", \"key\": \"x\"},\n  {\"name\": \"a\", \"key\": \"y\"}]}",
                "keys.json:3:3: `keys[1]`: `name` is also that of `keys[0]`",
            ),
            (
                r#"{"keys": [], "plans": [{"name": "a", "key": "secret"}]}"#,
                "keys.json:1:24: `plans[0]`: a plan must not have `sha256`",
            ),
            (
                r#"{"plans": [{"name": "a"}, {"name": "a", "weight": 0}]}"#,
                "`plans[1].weight`: ",
            ),
            (
                r#"{"keys": [{"name": "a", "key": "x"}, {"name": "b", "key": "x"}]}"#,
                "the key is also that of `keys[0]`",
            ),
        ] {
            let message = wrong(text);
            if !message.contains(expected) {
                others.push((text, message));
            }
        }
        assert!(others.is_empty(), "{others:#?}");
    }

    #[test]
    fn all_entries_are_read_before_one_is_refused() {
        let message = wrong(
            r#"{"keys": [{"name": "", "key": "x"}, {"name": "b"}, {"name": "c", "key": 5}]}"#,
        );
        assert_eq!(message.lines().count(), 3, "{message}");
        assert!(message.contains("`keys[2].key`"), "{message}");
    }
}
