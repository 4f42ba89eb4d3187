//! Prompts of requests: a text, texts, token ids, or lists of these. They are read directly from
//! the text of the request, because a prompt can have a million tokens.

use std::fmt::Display;

use graphmill_dialects::{error::wrong_type, json::outline};
use graphmill_engine::{Error, Result};
use graphmill_llm::Token;
use serde_json::value::RawValue;

use super::{
    fields::{invalid, missing, whole, written},
    limits::MAX_TOKENS,
};
use crate::payload::{JsonBody, Prompt};

/// Reads a required field of prompts: at most `most`, with texts of at least `shortest` bytes.
/// Errors have the path of the prompt.
pub(super) fn read(
    body: &JsonBody,
    field: &'static str,
    most: usize,
    shortest: usize,
) -> Result<Vec<Prompt>> {
    let text = body.text(field).ok_or_else(|| missing(field))?;
    let mut reader = PromptReader::new(body, field, shortest);
    let first = match text {
        [b'[', ..] => items(text).next(),
        [b'"', ..] => return Ok(vec![reader.prompt(text, &field)?]),
        _ => return Err(reader.wrong(text, &field, "a string or an array")),
    };
    // The first entry determines the type of the others.
    if matches!(first, Some([b'-' | b'0'..=b'9', ..])) {
        return Ok(vec![Prompt::Tokens(reader.tokens(text, &field)?)]);
    }
    let mut prompts = Vec::new();
    for (index, item) in items(text).enumerate() {
        if index == most {
            return Err(invalid(field, format!("must have at most {most} entries")));
        }
        prompts.push(reader.prompt(item, &format_args!("{field}[{index}]"))?);
    }
    if prompts.is_empty() {
        return Err(invalid(field, "must not be an empty array"));
    }
    Ok(prompts)
}

/// Reads a required field of tokens.
pub(super) fn read_tokens(body: &JsonBody, field: &'static str) -> Result<Vec<Token>> {
    let text = body.text(field).ok_or_else(|| missing(field))?;
    let mut reader = PromptReader::new(body, field, 0);
    match text {
        [b'[', ..] => reader.tokens(text, &field),
        _ => Err(reader.wrong(text, &field, "an array")),
    }
}

/// Iterates over the texts of the items of a list in JSON.
pub(super) fn items(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = list.get(1..).unwrap_or_default();
    std::iter::from_fn(move || {
        let mut values = serde_json::Deserializer::from_slice(rest).into_iter::<&RawValue>();
        let item = values.next()?.ok()?;
        let behind = rest[values.byte_offset()..].trim_ascii_start();
        rest = behind.strip_prefix(b",").unwrap_or_default();
        Some(item.get().as_bytes())
    })
}

struct PromptReader<'a> {
    body: &'a JsonBody,
    field: &'static str,
    /// Minimum number of bytes of a text.
    shortest: usize,
    /// Number of tokens so far, in all prompts.
    count: usize,
}

impl<'a> PromptReader<'a> {
    fn new(body: &'a JsonBody, field: &'static str, shortest: usize) -> Self {
        Self {
            body,
            field,
            shortest,
            count: 0,
        }
    }

    fn prompt(&mut self, text: &[u8], path: &dyn Display) -> Result<Prompt> {
        match text {
            [b'"', ..] => {
                let read = serde_json::from_slice::<String>(text);
                let read = read.map_err(|error| self.unreadable(text, &error))?;
                if read.len() < self.shortest {
                    return Err(invalid(path, "must not be empty"));
                }
                Ok(Prompt::Text(read))
            }
            [b'[', ..] => match self.tokens(text, path)? {
                tokens if tokens.is_empty() => Err(invalid(path, "must have at least one token")),
                tokens => Ok(Prompt::Tokens(tokens)),
            },
            _ => Err(self.wrong(text, path, "a string or an array of token ids")),
        }
    }

    fn tokens(&mut self, list: &[u8], path: &dyn Display) -> Result<Vec<Token>> {
        let mut tokens = Vec::new();
        for (index, item) in items(list).enumerate() {
            self.count += 1;
            if self.count > MAX_TOKENS {
                let message = format!("must have at most {MAX_TOKENS} tokens");
                return Err(invalid(self.field, message));
            }
            tokens.push(self.token(item, &format_args!("{path}[{index}]"))?);
        }
        Ok(tokens)
    }

    fn token(&self, text: &[u8], path: &dyn Display) -> Result<Token> {
        let value = outline(text).map_err(|error| self.unreadable(text, &error))?;
        let token = whole(&value).and_then(|number| Token::try_from(number).ok());
        match (token, value.as_f64()) {
            (Some(token @ 0..), _) => Ok(token),
            (_, Some(number)) if number.fract() == 0.0 => {
                let number = written(&value);
                Err(invalid(path, format!("must be a token id, not {number}")))
            }
            _ => Err(wrong_type(path, "a token id", &value)),
        }
    }

    /// Returns the error for a value of another type than expected.
    fn wrong(&self, text: &[u8], path: &dyn Display, expected: &str) -> Error {
        match outline(text) {
            Ok(value) => wrong_type(path, expected, &value),
            Err(error) => self.unreadable(text, &error),
        }
    }

    fn unreadable(&self, text: &[u8], error: &serde_json::Error) -> Error {
        self.body.unreadable(self.field, text, error)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn prompts(prompt: &Value) -> Result<Vec<Prompt>> {
        let body = JsonBody::from_value(&json!({ "prompt": prompt })).expect("an object");
        let mut put_in = body.as_sent();
        put_in.insert("prompt", prompt.clone());
        let read = super::read(&body, "prompt", 3, 1);
        let of_value = super::read(&put_in, "prompt", 3, 1);
        match (&read, &of_value) {
            (Ok(one), Ok(other)) => assert_eq!(one, other),
            (Err(one), Err(other)) => assert_eq!(one.message, other.message),
            _ => panic!("{read:?} but {of_value:?}"),
        }
        read
    }

    #[test]
    fn texts_tokens_and_lists_of_both_are_prompts() {
        let text = |text: &str| Prompt::Text(text.to_owned());
        let tokens = |tokens: &[Token]| Prompt::Tokens(tokens.to_vec());
        for (value, expected) in [
            (json!("a"), vec![text("a")]),
            (json!(["a", "b"]), vec![text("a"), text("b")]),
            (json!([1, 2]), vec![tokens(&[1, 2])]),
            (json!([1.0, 2e0]), vec![tokens(&[1, 2])]),
            (json!([[1], [2, 3]]), vec![tokens(&[1]), tokens(&[2, 3])]),
            (json!(["a", [2]]), vec![text("a"), tokens(&[2])]),
        ] {
            assert_eq!(prompts(&value).expect("prompts"), expected);
        }
        let body = JsonBody::from_value(&json!({ "tokens": [] })).expect("an object");
        let none = read_tokens(&body, "tokens").expect("tokens");
        assert!(none.is_empty());
    }

    #[test]
    fn white_space_and_what_looks_like_the_end_of_an_item_make_no_difference() {
        let text = "{\"prompt\": [ \"a, \\\"]\" ,\n\t[ 1 ,2 ] ,\"\" ]\r\n}";
        let body = JsonBody::scan(text.into()).expect("an object");
        let read = super::read(&body, "prompt", 3, 0).expect("prompts");
        let texts = ["a, \"]", ""].map(|text| Prompt::Text(text.to_owned()));
        let [first, last] = texts;
        assert_eq!(read, [first, Prompt::Tokens(vec![1, 2]), last]);
    }

    #[test]
    fn what_is_none_is_refused_with_its_place() {
        for (value, why) in [
            (json!(null), "`prompt` is missing"),
            (
                json!(5),
                "`prompt` must be a string or an array, not an integer",
            ),
            (
                json!({}),
                "`prompt` must be a string or an array, not an object",
            ),
            (json!([]), "`prompt` must not be an empty array"),
            (
                json!([{}]),
                "`prompt[0]` must be a string or an array of token ids, not an object",
            ),
            (
                json!(["a", 1]),
                "`prompt[1]` must be a string or an array of token ids, not an integer",
            ),
            (
                json!([1, "a"]),
                "`prompt[1]` must be a token id, not a string",
            ),
            (
                json!([1.5]),
                "`prompt[0]` must be a token id, not a number with a fraction",
            ),
            (
                json!([[1], [2, [3]]]),
                "`prompt[1][1]` must be a token id, not an array",
            ),
            (
                json!([[1], [-2]]),
                "`prompt[1][0]` must be a token id, not -2",
            ),
            (
                json!([[1], [9_000_000_000_u64]]),
                "`prompt[1][0]` must be a token id, not 9000000000",
            ),
            (json!([1e20]), "`prompt[0]` must be a token id, not 1e+20"),
            (json!(["a", ""]), "`prompt[1]` must not be empty"),
            (json!([[], [1]]), "`prompt[0]` must have at least one token"),
            (
                json!(["a", "b", "c", "d"]),
                "`prompt` must have at most 3 entries",
            ),
        ] {
            let error = prompts(&value).expect_err("it is refused");
            assert_eq!(error.message, why);
        }
    }

    #[test]
    fn tokens_of_all_prompts_are_counted_together() {
        let half = "0,".repeat(MAX_TOKENS / 2) + "0";
        let text = format!("{{\"prompt\":[[{half}],[{half}]]}}");
        let body = JsonBody::scan(text.into()).expect("an object");
        let error = super::read(&body, "prompt", 3, 1).expect_err("too many");
        assert_eq!(error.message, "`prompt` must have at most 4194304 tokens");
    }
}
