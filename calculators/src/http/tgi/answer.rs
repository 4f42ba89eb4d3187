//! Answers in TGI's form: one object with the whole text, or an event for each token.

use graphmill_engine::Result;
use graphmill_llm::Usage;
use serde_json::{Value, json};

use super::{
    pieces::{self, Pieces, TokenText},
    request::{has_details, seed, text_before},
};
use crate::http::{
    dialect::{AnswerPackets, AnswerWriter},
    generate::reason,
};
use crate::payload::{Finish, HttpResponse, TextChunk, TextRequest};

/// A writer of answers in TGI's form.
#[derive(Default)]
pub(super) struct Texts {
    /// True if a whole answer is the only entry of a list.
    is_listed: bool,
    pieces: Pieces,
    /// Text so far, for both kinds of answers.
    text: String,
    /// Tokens of the text, likely tokens in their places, and tokens of the prompt. Kept for an
    /// answer in one object.
    tokens: Vec<Value>,
    top: Vec<Value>,
    prefill: Vec<Value>,
    /// Objects of the texts that were less likely than this one.
    others: Vec<Value>,
    /// Token of the last event of the stream so far.
    last: Value,
    /// Number of events of the stream so far.
    count: u32,
}

impl Texts {
    pub(super) fn new(is_listed: bool) -> Self {
        Self {
            is_listed,
            ..Self::default()
        }
    }

    /// Creates a writer of the likeliest of several texts, with the `others`.
    pub(super) fn best_of(others: Vec<Value>, is_listed: bool) -> Self {
        Self {
            others,
            ..Self::new(is_listed)
        }
    }

    fn generated_text(&self, request: &TextRequest) -> String {
        format!("{}{}", text_before(request), self.text)
    }

    /// Returns the whole answer: an object, or a list of this one.
    fn answer(&mut self, request: &TextRequest, finish: Finish, usage: &Usage) -> Value {
        let mut answer = json!({ "generated_text": self.generated_text(request) });
        if has_details(request) {
            let mut details = details(request, finish, usage);
            details["prefill"] = std::mem::take(&mut self.prefill).into();
            details["tokens"] = std::mem::take(&mut self.tokens).into();
            if self.top.iter().any(|top| *top != json!([])) {
                details["top_tokens"] = std::mem::take(&mut self.top).into();
            }
            if !self.others.is_empty() {
                details["best_of_sequences"] = std::mem::take(&mut self.others).into();
            }
            answer["details"] = details;
        }
        if self.is_listed {
            answer = json!([answer]);
        }
        answer
    }

    /// Adds the event of a token. The last one of a text has the finish reason.
    fn event(
        &mut self,
        piece: TokenText,
        finish: Option<Finish>,
        out: &mut AnswerPackets<'_>,
    ) -> Result<()> {
        let (request, usage) = (out.request, &out.usage);
        self.count += 1;
        let text = finish.map(|_| self.generated_text(request));
        let told = finish.filter(|_| has_details(request));
        let details = told.map(|finish| {
            let mut details = details(request, finish, usage);
            details["input_length"] = usage.prompt_tokens.into();
            details
        });
        let mut event = json!({
            "index": self.count, "token": piece.token, "generated_text": text, "details": details,
        });
        if piece.top != json!([]) {
            event["top_tokens"] = piece.top;
        }
        out.event(&event)
    }
}

fn details(request: &TextRequest, finish: Finish, usage: &Usage) -> Value {
    json!({
        "finish_reason": reason(finish),
        "generated_tokens": usage.generated_tokens,
        "seed": seed(request),
    })
}

impl AnswerWriter for Texts {
    fn take(&mut self, chunk: &TextChunk, out: &mut AnswerPackets<'_>) -> Result<bool> {
        let (stream, finish) = (out.request.stream, chunk.finish);
        self.text.push_str(&chunk.text);
        let mut pieces = self.pieces.divide(chunk);
        if let Some(echo) = &chunk.echo {
            self.prefill = echo.logprobs.iter().map(pieces::input).collect();
        }
        if stream {
            // If a text ends after its last token, a final event without text ends it.
            let last = finish.map(|_| {
                pieces.pop().unwrap_or_else(|| {
                    let mut token = std::mem::take(&mut self.last);
                    token["text"] = "".into();
                    let top = json!([]);
                    TokenText { token, top }
                })
            });
            for piece in pieces {
                self.last.clone_from(&piece.token);
                self.event(piece, None, out)?;
            }
            if let Some(last) = last {
                self.event(last, finish, out)?;
                out.packets.push(HttpResponse::End);
            }
            return Ok(finish.is_some());
        }
        for piece in pieces {
            self.tokens.push(piece.token);
            self.top.push(piece.top);
        }
        if let Some(finish) = finish {
            let counts = [
                ("x-prompt-tokens", out.usage.prompt_tokens),
                ("x-generated-tokens", out.usage.generated_tokens),
            ];
            let headers = counts.map(|(name, count)| HttpResponse::Header {
                name,
                value: count.to_string(),
            });
            out.packets.extend(headers);
            let answer = self.answer(out.request, finish, &out.usage);
            out.whole(&answer)?;
        }
        Ok(finish.is_some())
    }
}
