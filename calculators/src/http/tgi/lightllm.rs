//! Answers in LightLLM's form: one object with the text in a list, or an event for each token.

use graphmill_engine::Result;
use graphmill_llm::Usage;
use serde_json::{Value, json};

use super::{
    pieces::{Pieces, TokenText},
    request::{has_details, text_before},
};
use crate::http::dialect::{AnswerPackets, AnswerWriter};
use crate::payload::{Finish, HttpResponse, TextChunk, TextRequest};

/// A writer of answers in LightLLM's form.
#[derive(Default)]
pub(super) struct Texts {
    pieces: Pieces,
    /// Text and tokens so far, for an answer in one object.
    text: String,
    tokens: Vec<Value>,
    /// Number of tokens of the stream so far.
    count: u32,
}

impl Texts {
    /// Returns the event of a token, which has the token counts so far.
    fn event(&mut self, mut token: Value, usage: &Usage, finish: Option<Finish>) -> Value {
        self.count += 1;
        token["count_output_tokens"] = self.count.into();
        token["prompt_tokens"] = usage.prompt_tokens.into();
        json!({
            "token": token, "generated_text": null, "finished": finish.is_some(),
            "finish_reason": finish.map(Finish::as_str), "details": null,
        })
    }

    fn answer(&mut self, request: &TextRequest, finish: Finish, usage: &Usage) -> Value {
        let mut answer = json!({
            "generated_text": [format!("{}{}", text_before(request), self.text)],
            "count_output_tokens": usage.generated_tokens,
            "finish_reason": finish.as_str(),
            "prompt_tokens": usage.prompt_tokens,
        });
        if has_details(request) {
            answer["tokens"] = std::mem::take(&mut self.tokens).into();
        }
        answer
    }
}

impl AnswerWriter for Texts {
    fn take(&mut self, chunk: &TextChunk, out: &mut AnswerPackets<'_>) -> Result<bool> {
        let pieces = self.pieces.divide(chunk).into_iter();
        let tokens: Vec<Value> = pieces.map(|TokenText { token, .. }| token).collect();
        if out.request.stream {
            let last = tokens.len().saturating_sub(1);
            let has_none = tokens.is_empty() && chunk.finish.is_some();
            // If a text ends after its last token, a final event without a token ends it.
            let tokens = tokens
                .into_iter()
                .chain(has_none.then(|| json!({ "text": "" })));
            for (index, token) in tokens.enumerate() {
                let finish = chunk.finish.filter(|_| index == last);
                let event = self.event(token, &out.usage, finish);
                out.event(&event)?;
            }
            out.packets.extend(chunk.finish.map(|_| HttpResponse::End));
        } else {
            self.text.push_str(&chunk.text);
            self.tokens.extend(tokens);
            if let Some(finish) = chunk.finish {
                let answer = self.answer(out.request, finish, &out.usage);
                out.whole(&answer)?;
            }
        }
        Ok(chunk.finish.is_some())
    }
}
