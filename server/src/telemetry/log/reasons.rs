//! Reasons of refusals for the log. Names stay, and other data of the request is removed.

use super::shown;

/// Maximum length of a name in bytes.
const MAX_NAME: usize = 120;

/// Removes values of the request from the message of a refusal. Messages have names in backticks,
/// and values in double quotes or after `not`. A chat template can contain anything.
pub(crate) fn without_values(message: &str) -> String {
    let first_line = message.lines().next().unwrap_or_default();
    let mut rest = match first_line.find("chat template") {
        Some(at) => first_line[at..]
            .find(": ")
            .map_or(first_line, |end| &first_line[..at + end]),
        None => first_line,
    };
    let mut reason = String::new();
    while let Some(at) = rest.find(['`', '"']) {
        let (before, quoted) = rest.split_at(at);
        reason.push_str(before);
        let quote = if quoted.starts_with('`') { '`' } else { '"' };
        let end = closing(&quoted[1..], quote);
        let text = &quoted[1..][..end.unwrap_or(quoted.len() - 1)];
        let stays = quote == '`' && end.is_some() && !before.ends_with("not ") && is_name(text);
        reason.push(quote);
        reason.push_str(if stays { text } else { "…" });
        reason.push(quote);
        rest = end.map_or("", |end| &quoted[end + 2..]);
    }
    reason.push_str(rest);
    shown(&reason)
}

/// Returns the end of a quoted text. Double quotes are escaped as in JSON.
fn closing(text: &str, quote: char) -> Option<usize> {
    let mut is_escaped = false;
    text.char_indices().find_map(|(at, character)| {
        let ends = character == quote && !is_escaped;
        is_escaped = quote == '"' && character == '\\' && !is_escaped;
        ends.then_some(at)
    })
}

/// Returns true for the name of a field, a model, a stream or a path, optionally with a method
/// before it.
fn is_name(text: &str) -> bool {
    let name = match text.split_once(' ') {
        Some((method, path)) if path.starts_with('/') => {
            if !method.chars().all(|it| it.is_ascii_uppercase()) {
                return false;
            }
            path
        }
        _ => text,
    };
    let is_part = |it: char| it.is_alphanumeric() || "_-./[]{}*:@%$".contains(it);
    text.len() <= MAX_NAME && name.chars().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_and_values_go() {
        for (message, reason) in [
            ("`messages` is missing", "`messages` is missing"),
            (
                "`tool_choice` must be `auto`, not `a secret`",
                "`tool_choice` must be `auto`, not `…`",
            ),
            ("`model` is `x`, not `secret`", "`model` is `x`, not `…`"),
            (
                r#"`stop` is not supported with the value ["a \" secret", 1]"#,
                r#"`stop` is not supported with the value ["…", 1]"#,
            ),
            (
                r#"`a` must be 1, not "a long sec…"#,
                r#"`a` must be 1, not "…""#,
            ),
            (
                "the model `org/x@1` does not exist; did you mean `org/y`?",
                "the model `org/x@1` does not exist; did you mean `org/y`?",
            ),
            (
                "unknown URL `GET /v1/x`; did you mean `/v1/config`?",
                "unknown URL `GET /v1/x`; did you mean `/v1/config`?",
            ),
            (
                "a key is needed: in the header `Authorization` after `Bearer`, or in `x-api-key`",
                "a key is needed: in the header `Authorization` after `Bearer`, or in `x-api-key`",
            ),
            ("the model `a\nb` does not exist", "the model `…`"),
            ("`What is a secret", "`…`"),
            (
                "the model's chat template refuses the conversation: a secret",
                "the model's chat template refuses the conversation",
            ),
        ] {
            assert_eq!(without_values(message), reason, "{message}");
        }
    }
}
