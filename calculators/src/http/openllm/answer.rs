//! Answers in OpenLLM's form: one object with the whole text, or an event for each piece of it.

use graphmill_engine::Result;
use graphmill_llm::Token;
use serde_json::{Value, json};

use crate::http::dialect::{AnswerPackets, AnswerWriter};
use crate::payload::{Finish, HttpResponse, Prompt, RequestInput, TextChunk, TextRequest};

/// A writer of answers in OpenLLM's form.
#[derive(Default)]
pub(super) struct Output {
    /// Text and tokens that were not sent yet.
    text: String,
    tokens: Vec<Token>,
    /// Log probability of all tokens together.
    logprob: f64,
}

impl Output {
    /// Writes the text and tokens that were not sent yet.
    fn tell(&mut self, request: &TextRequest, finish: Option<Finish>) -> Value {
        let prompt = match &request.input {
            RequestInput::Prompts(prompts) => prompts.first(),
            RequestInput::Chat(_) => None,
        };
        let prompt = match prompt {
            Some(Prompt::Text(text)) => text.as_str(),
            _ => "",
        };
        let id = request.echo.get("request_id").cloned();
        json!({
            "prompt": prompt,
            "finished": finish.is_some(),
            "outputs": [{
                "index": 0,
                "text": std::mem::take(&mut self.text),
                "token_ids": std::mem::take(&mut self.tokens),
                "cumulative_logprob": self.logprob,
                "logprobs": null,
                "finish_reason": finish.map(Finish::without_calls),
            }],
            "prompt_token_ids": null,
            "prompt_logprobs": null,
            "request_id": id.unwrap_or_else(|| Value::from(&*request.id)),
        })
    }
}

impl AnswerWriter for Output {
    fn take(&mut self, chunk: &TextChunk, out: &mut AnswerPackets<'_>) -> Result<bool> {
        let request = out.request;
        // Clients take only the first token of an event, so each event has one. Text without a
        // token goes with the token before it.
        if request.stream && !chunk.logprobs.is_empty() && !self.tokens.is_empty() {
            out.event(&self.tell(request, None))?;
        }
        self.text.push_str(&chunk.text);
        self.tokens.extend(chunk.logprobs.iter().map(|it| it.token));
        let logprobs = chunk.logprobs.iter().filter_map(|it| it.logprob);
        self.logprob += logprobs.map(f64::from).sum::<f64>();
        if chunk.finish.is_some() {
            let last = self.tell(request, chunk.finish);
            if request.stream {
                out.event(&last)?;
                out.packets.push(HttpResponse::Done);
            } else {
                out.whole(&last)?;
            }
        }
        Ok(chunk.finish.is_some())
    }
}
