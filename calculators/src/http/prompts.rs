//! Prompts as requests bring them: a text, texts, token ids, or lists of these. They are read from
//! the text of the request without making values of them, because a prompt can have a million
//! tokens.

use std::{
    cell::{Cell, RefCell},
    fmt,
};

use graphmill_engine::{Error, Result};
use graphmill_llm::Token;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::{
    fields::{invalid, missing, whole, written, wrong_kind},
    limits::MAX_TOKENS,
};
use crate::payload::{JsonBody, Prompt, json::Given};

/// What a field of prompts takes.
#[derive(Copy, Clone)]
pub(super) struct Form {
    /// The field.
    pub(super) field: &'static str,
    /// Most prompts.
    pub(super) most: usize,
    /// Whether a text may be empty.
    pub(super) empty_text: bool,
    /// Whether it can only be one list of tokens, which may be empty.
    pub(super) only_tokens: bool,
}

/// Reads a field of prompts, which has to be there. An error inside of it has the path of the
/// place.
pub(super) fn read(body: &JsonBody, form: Form) -> Result<Vec<Prompt>> {
    let given = body.given(form.field).filter(|_| body.has(form.field));
    let given = given.ok_or_else(|| missing(form.field))?;
    let reader = Reader {
        form,
        failure: RefCell::new(None),
        tokens: Cell::new(0),
    };
    let whole = Place {
        reader: &reader,
        at: At::Whole,
    };
    let read = match given {
        Given::Text(text) => whole.deserialize(&mut serde_json::Deserializer::from_slice(text)),
        Given::Value(value) => whole.deserialize(value),
    };
    let found = read.map_err(|error| {
        let failure = reader.failure.into_inner();
        failure.unwrap_or_else(|| body.unreadable(form.field, &error))
    })?;
    Ok(match found {
        Found::Prompt(prompt) => vec![prompt],
        Found::Prompts(prompts) => prompts,
        Found::Id(_) => Vec::new(),
    })
}

/// What is common to all places of a field.
struct Reader {
    form: Form,
    /// Why the reader stopped, where it was not for the JSON.
    failure: RefCell<Option<Error>>,
    /// Tokens so far.
    tokens: Cell<usize>,
}

/// A place in the field.
#[derive(Copy, Clone)]
enum At {
    /// The field.
    Whole,
    /// The first entry of its list, which decides what the others are.
    First,
    /// A prompt of a list of prompts.
    Prompt(usize),
    /// A token of a prompt, which may be in a list.
    Token(Option<usize>, usize),
}

/// What is at a place.
enum Found {
    Id(Token),
    Prompt(Prompt),
    Prompts(Vec<Prompt>),
}

/// Reads what is at a place.
#[derive(Copy, Clone)]
struct Place<'a> {
    reader: &'a Reader,
    at: At,
}

impl Place<'_> {
    fn at(self, at: At) -> Self {
        Self { at, ..self }
    }

    fn path(self) -> String {
        let field = self.reader.form.field;
        match self.at {
            At::Whole => field.to_owned(),
            At::First => format!("{field}[0]"),
            At::Prompt(index) | At::Token(None, index) => format!("{field}[{index}]"),
            At::Token(Some(prompt), index) => format!("{field}[{prompt}][{index}]"),
        }
    }

    fn expected(self) -> &'static str {
        match self.at {
            At::Whole if self.reader.form.only_tokens => "an array",
            At::Whole => "a string or an array",
            At::First | At::Prompt(_) => "a string or an array of token ids",
            At::Token(..) => "a token id",
        }
    }

    fn refuse<T, E: serde::de::Error>(self, error: Error) -> Result<T, E> {
        self.reader.failure.replace(Some(error));
        Err(E::custom("refused"))
    }

    fn wrong<T, E: serde::de::Error>(self, found: &str) -> Result<T, E> {
        self.refuse(wrong_kind(self.path(), self.expected(), found))
    }

    fn id<E: serde::de::Error>(
        self,
        number: impl TryInto<Token> + Into<Value> + Copy,
    ) -> Result<Found, E> {
        if let At::Whole | At::Prompt(_) = self.at {
            return self.wrong("an integer");
        }
        match number.try_into() {
            Ok(token) if token >= 0 => {
                let tokens = self.reader.tokens.get() + 1;
                self.reader.tokens.set(tokens);
                if tokens > MAX_TOKENS {
                    let message = format!("must have at most {MAX_TOKENS} tokens");
                    return self.refuse(invalid(self.reader.form.field, message));
                }
                Ok(Found::Id(token))
            }
            _ => self.no_id(number),
        }
    }

    fn no_id<E: serde::de::Error>(self, number: impl Into<Value>) -> Result<Found, E> {
        let number = written(&number.into());
        let message = format!("must be a token id, not {number}");
        self.refuse(invalid(self.path(), message))
    }

    /// The other tokens of a prompt, behind those that have been read.
    fn tokens<'de, A: SeqAccess<'de>>(
        self,
        prompt: Option<usize>,
        mut tokens: Vec<Token>,
        mut seq: A,
    ) -> Result<Prompt, A::Error> {
        while let Some(found) = seq.next_element_seed(self.at(At::Token(prompt, tokens.len())))? {
            if let Found::Id(token) = found {
                tokens.push(token);
            }
        }
        if tokens.is_empty() && !self.reader.form.only_tokens {
            return self.refuse(invalid(self.path(), "must have at least one token"));
        }
        Ok(Prompt::Tokens(tokens))
    }
}

impl<'de> DeserializeSeed<'de> for Place<'_> {
    type Value = Found;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Found, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Place<'_> {
    type Value = Found;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected())
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Found, E> {
        self.wrong("null")
    }

    fn visit_bool<E: serde::de::Error>(self, _: bool) -> Result<Found, E> {
        self.wrong("a boolean")
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Found, E> {
        match self.at {
            At::First | At::Token(..) if number.fract() == 0.0 => match whole(&number.into()) {
                Some(number) => self.id(number),
                None => self.no_id(number),
            },
            At::First => self
                .at(At::Token(None, 0))
                .wrong("a number with a fraction"),
            _ => self.wrong("a number with a fraction"),
        }
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Found, E> {
        self.id(number)
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Found, E> {
        self.id(number)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Found, E> {
        match self.at {
            At::Token(..) => self.wrong("a string"),
            At::Whole if self.reader.form.only_tokens => self.wrong("a string"),
            _ if text.is_empty() && !self.reader.form.empty_text => {
                self.refuse(invalid(self.path(), "must not be empty"))
            }
            _ => Ok(Found::Prompt(Prompt::Text(text.to_owned()))),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Found, A::Error> {
        let Form {
            field,
            most,
            only_tokens,
            ..
        } = self.reader.form;
        match self.at {
            At::Token(..) => self.wrong("an array"),
            At::First => Ok(Found::Prompt(self.tokens(Some(0), Vec::new(), seq)?)),
            At::Prompt(index) => Ok(Found::Prompt(self.tokens(Some(index), Vec::new(), seq)?)),
            At::Whole if only_tokens => Ok(Found::Prompt(self.tokens(None, Vec::new(), seq)?)),
            At::Whole => {
                let mut prompts = Vec::new();
                let mut place = self.at(At::First);
                while let Some(found) = seq.next_element_seed(place)? {
                    match found {
                        Found::Id(first) => {
                            return Ok(Found::Prompt(self.tokens(None, vec![first], seq)?));
                        }
                        Found::Prompt(_) if prompts.len() == most => {
                            let message = format!("must have at most {most} entries");
                            return self.refuse(invalid(field, message));
                        }
                        Found::Prompt(prompt) => prompts.push(prompt),
                        Found::Prompts(_) => return Err(A::Error::custom("a list in a list")),
                    }
                    place = self.at(At::Prompt(prompts.len()));
                }
                if prompts.is_empty() {
                    return self.refuse(invalid(field, "must not be an empty array"));
                }
                Ok(Found::Prompts(prompts))
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<Found, A::Error> {
        self.wrong("an object")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const FORM: Form = Form {
        field: "prompt",
        most: 3,
        empty_text: false,
        only_tokens: false,
    };

    fn prompts(prompt: &Value, form: Form) -> Result<Vec<Prompt>> {
        let body = JsonBody::of_value(&json!({ "prompt": prompt })).expect("an object");
        let mut put_in = body.as_sent();
        put_in.insert("prompt", prompt.clone());
        let read = super::read(&body, form);
        let of_value = super::read(&put_in, form);
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
            assert_eq!(prompts(&value, FORM).expect("prompts"), expected);
        }
        let form = Form {
            only_tokens: true,
            ..FORM
        };
        assert_eq!(prompts(&json!([]), form).expect("tokens"), [tokens(&[])]);
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
            let error = prompts(&value, FORM).expect_err("it is refused");
            assert_eq!(error.message, why);
        }
    }

    #[test]
    fn tokens_of_all_prompts_are_counted_together() {
        let half = "0,".repeat(MAX_TOKENS / 2) + "0";
        let text = format!("{{\"prompt\":[[{half}],[{half}]]}}");
        let body = JsonBody::scan(text.into()).expect("an object");
        let error = super::read(&body, FORM).expect_err("too many");
        assert_eq!(error.message, "`prompt` must have at most 4194304 tokens");
    }
}
