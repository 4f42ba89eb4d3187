//! The text of a configuration: positions for diagnostics, and serde's messages in terms of JSON.

use graphmill_grammar::{
    diag::Diagnostic,
    span::{FileId, Span},
    suggest,
};
use serde::{Deserialize as _, de::IgnoredAny};

use super::{codes, schema};

/// The file's text, for finding the positions of messages.
pub(super) struct Text<'a> {
    pub(super) file: FileId,
    pub(super) text: &'a str,
}

impl Text<'_> {
    /// Returns the position of a line and column of `serde_json`. Both count from 1, columns in
    /// bytes.
    pub(super) fn at(&self, line: usize, column: usize) -> Span {
        let lines = self.text.split_inclusive('\n').take(line.saturating_sub(1));
        let start: usize = lines.map(str::len).sum();
        let end = (start + column).min(self.text.len());
        let begin = self.text.floor_char_boundary(end.saturating_sub(1));
        Span::new(self.file, begin..self.text.ceil_char_boundary(end))
    }

    /// Returns the position after the last character.
    fn end(&self) -> Span {
        Span::new(self.file, self.text.len()..self.text.len())
    }

    /// Returns the position of the last string `text` that ends at or before `place`, with its
    /// quotes. Without such a string, returns `place`.
    fn string_before(&self, text: &str, place: Span) -> Span {
        let quoted = serde_json::Value::from(text).to_string();
        match self.text[..place.range().end].rfind(&quoted) {
            Some(start) => Span::new(self.file, start..start + quoted.len()),
            None => place,
        }
    }

    /// Returns the position of the last string `text` in the file.
    pub(super) fn entry(&self, text: &str) -> Span {
        self.string_before(text, self.end())
    }

    /// Returns the position of the `occurrence`-th `"name": "<name>"` in the file, counted from 0.
    pub(super) fn name(&self, name: &str, occurrence: usize) -> Span {
        self.value("name", name, occurrence)
    }

    /// Returns the position of the `occurrence`-th value `text` of a key, counted from 0.
    pub(super) fn value(&self, key: &str, text: &str, occurrence: usize) -> Span {
        let [key, quoted] = [key, text].map(|text| serde_json::Value::from(text).to_string());
        let is_value = |&(start, _): &(usize, &str)| {
            let before = self.text[..start].trim_end().strip_suffix(':');
            before.is_some_and(|before| before.trim_end().ends_with(&key))
        };
        let mut values = self.text.match_indices(&quoted).filter(is_value);
        match values.nth(occurrence) {
            Some((start, _)) => Span::new(self.file, start..start + quoted.len()),
            None => Span::NONE,
        }
    }

    /// Rewrites an error of serde as a diagnostic at its position.
    pub(super) fn explain(
        &self,
        error: &serde_path_to_error::Error<serde_json::Error>,
    ) -> Diagnostic {
        let json = error.inner();
        if !json.is_data() {
            return self.not_json(json);
        }
        let place = self.at(json.line(), json.column());
        let said = without_place(json);
        let path = error.path().to_string();
        if let Some(rest) = said.strip_prefix("unknown field ") {
            let names: Vec<&str> = rest.split('`').skip(1).step_by(2).collect();
            let (key, known) = names.split_first().expect("serde quotes the unknown field");
            return self.unknown_key(key, known, &path, place);
        }
        // A text that ends too early may also look like a value of another type.
        let mut whole = serde_json::Deserializer::from_str(self.text);
        if let Err(error) = IgnoredAny::deserialize(&mut whole) {
            return self.not_json(&error);
        }
        // A message of serde has its own position. A message of this crate gets the position of its
        // key.
        let is_ours = !OF_SERDE.iter().any(|words| said.starts_with(words));
        let key = path.rsplit('.').next().filter(|_| is_ours);
        // The position is the end of the value.
        let value = said.split_once(": string ").and_then(|(_, rest)| {
            let mut strings = serde_json::Deserializer::from_str(rest).into_iter::<String>();
            strings.next()?.ok()
        });
        let shown = key.map(str::to_owned).or(value);
        let place = shown.map_or(place, |shown| self.string_before(&shown, place));
        let why = in_words_of_json(&lower_first(&said));
        let message = match path.as_str() {
            "." => format!("the configuration: {why}"),
            path => format!("`{path}`: {why}"),
        };
        Diagnostic::error(&codes::WRONG_VALUE, place, message)
    }

    fn not_json(&self, error: &serde_json::Error) -> Diagnostic {
        let place = self.at(error.line(), error.column());
        let why = lower_first(&without_place(error));
        let message = format!("the configuration is not JSON: {why}");
        Diagnostic::error(&codes::NOT_JSON, place, message)
    }

    fn unknown_key(&self, key: &str, known: &[&str], path: &str, place: Span) -> Diagnostic {
        let span = self.string_before(key, place);
        let diagnostic =
            Diagnostic::error(&codes::UNKNOWN_KEY, span, format!("unknown key `{path}`"));
        match suggest::nearest(key, known.iter().copied()) {
            Some(near) => {
                let hint = format!("did you mean `{near}`?");
                diagnostic.fix(hint, span, format!("\"{near}\""))
            }
            None => diagnostic.hint(format!("known here: {}", known.join(", "))),
        }
    }

    pub(super) fn refuse_unsupported(
        &self,
        config: &schema::File,
        diagnostics: &mut Vec<Diagnostic>,
    ) {
        let (loaders, nodes) = (
            &config.custom_loader_config_list,
            &config.custom_node_library_config_list,
        );
        for (key, list) in [
            ("pipeline_config_list", &config.pipeline_config_list),
            ("custom_node_library_config_list", nodes),
            ("custom_loader_config_list", loaders),
        ] {
            if !list.is_empty() {
                let message =
                    format!("`{key}` is for classic OpenVINO models, which are not served");
                let place = self.entry(key);
                diagnostics.push(Diagnostic::error(&codes::CLASSIC_MODEL, place, message));
            }
        }
        let monitoring = config.monitoring.as_ref();
        if monitoring.is_some_and(|it| it.0.metrics.0.enable) {
            let message = "`/metrics` has all of its metrics, and `--enable_metrics_api false` leaves it out: `monitoring` has no effect";
            let place = self.entry("monitoring");
            diagnostics.push(Diagnostic::warning(&codes::NO_EFFECT, place, message));
        }
    }
}

/// Beginnings of messages of serde.
const OF_SERDE: [&str; 4] = ["invalid ", "missing ", "unknown ", "duplicate "];

/// Returns the message of an error without its position.
pub(crate) fn without_place(error: &serde_json::Error) -> String {
    let said = error.to_string();
    match said.rsplit_once(" at line ") {
        Some((message, _)) => message.to_owned(),
        None => said,
    }
}

/// Returns the message with its first letter in lower case, as in all messages.
fn lower_first(message: &str) -> String {
    let mut chars = message.chars();
    match chars.next() {
        Some(first) if !message.starts_with("EOF") => first.to_lowercase().chain(chars).collect(),
        _ => message.to_owned(),
    }
}

/// Replaces the names of Rust types in serde's messages with those of JSON.
fn in_words_of_json(message: &str) -> String {
    message
        .replace("invalid type: map,", "invalid type: object,")
        .replace("invalid type: sequence,", "invalid type: array,")
        .replace("invalid type: floating point ", "invalid type: number ")
        .replace("expected a sequence", "expected an array")
        .replace("expected u32", "expected a whole number from 0")
        .replace("expected a nonzero u64", "expected a whole number above 0")
}
