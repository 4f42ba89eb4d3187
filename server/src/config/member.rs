//! Removes a member from a JSON text, so that errors after an unknown key are found, too.

use std::ops::Range;

use serde::de::IgnoredAny;

/// Replaces the member whose quoted key is at `key` with spaces, so that positions of the rest do
/// not change. `None` if the key has no complete value.
pub(super) fn without(text: &str, key: Range<usize>) -> Option<String> {
    let behind = &text[key.end..];
    let value = key.end + behind.find(':')? + 1;
    let mut values = serde_json::Deserializer::from_str(&text[value..]).into_iter::<IgnoredAny>();
    values.next()?.ok()?;
    let mut end = value + values.byte_offset();
    let mut start = key.start;
    let next = text[end..].trim_start();
    if next.starts_with(',') {
        end = text.len() - next.len() + 1;
    } else if let Some(before) = text[..start].trim_end().strip_suffix(',') {
        start = before.len();
    }
    let blank = text[start..end].chars().map(|letter| match letter {
        '\n' => "\n",
        _ => &"    "[..letter.len_utf8()],
    });
    let blank: String = blank.collect();
    Some([&text[..start], &blank, &text[end..]].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_leaves_with_its_comma_and_nothing_moves() {
        for (text, expected) in [
            (r#"{"x": 1}"#, Some("{}")),
            (r#"{"x": {"é": [1, 2]} , "b": 2}"#, Some(r#"{"b":2}"#)),
            (r#"{"a": 1, "x": "}"}"#, Some(r#"{"a":1}"#)),
            ("{\"x\":\n1}", Some("{}")),
            (r#"{"x": [1}"#, None),
            (r#"{"x"}"#, None),
        ] {
            let start = text.find("\"x\"").expect("it is there");
            let left = without(text, start..start + 3);
            let compact = left
                .as_ref()
                .map(|left| left.split_whitespace().collect::<String>());
            assert_eq!(compact.as_deref(), expected, "{text}");
            let places = |text: &str| (text.len(), text.find('\n'), text.rfind('}'));
            assert!(
                left.is_none_or(|left| places(&left) == places(text)),
                "{text}"
            );
        }
    }
}
