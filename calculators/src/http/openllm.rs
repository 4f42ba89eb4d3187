//! OpenLLM's `generate` and `generate_stream`, with which the only model continues a prompt.

use graphmill_dialects::{
    Fields,
    bodies::{OPENLLM, OPENLLM_STREAM, openllm as bodies},
};
use graphmill_engine::Result;
use graphmill_llm::Token;
use serde_json::{Value, json};

use super::{
    OwnParams, completions,
    dialect::{AnswerPackets, AnswerWriter, Dialect, Family, Place, Purpose, Route, TextDialect},
    fields::{invalid, missing},
};
use crate::payload::{
    Finish, HttpResponse, JsonBody, Prompt, RequestInput, TextChunk, TextRequest,
};

/// Fields of the body that are not parameters.
const BESIDE: &[&str] = &["prompt", "llm_config", "request_id", "model", "timeout"];

/// A dialect of OpenLLM's, for one path.
#[derive(Debug)]
pub(super) struct OpenLlm {
    endpoint: &'static str,
    routes: &'static [Route],
    streams: bool,
}

impl OpenLlm {
    /// The dialect of `generate`, whose answers are one object.
    pub(super) const WHOLE: Self = Self {
        endpoint: OPENLLM,
        routes: &[route(
            "generate",
            "Continues a text, as OpenLLM's `generate` does",
        )],
        streams: false,
    };
    /// The dialect of `generate_stream`, whose answers are streams.
    pub(super) const STREAM: Self = Self {
        endpoint: OPENLLM_STREAM,
        routes: &[route(
            "generate_stream",
            "Continues a text as a stream, as OpenLLM's `generate_stream` does",
        )],
        streams: true,
    };
}

const fn route(path: &'static str, summary: &'static str) -> Route {
    Route {
        path,
        purpose: Purpose::Answer,
        summary,
        required: &["prompt"],
        answer: &["prompt", "finished", "outputs", "request_id"],
    }
}

impl Dialect for OpenLlm {
    fn routes(&self) -> &'static [Route] {
        self.routes
    }

    fn endpoint(&self) -> &'static str {
        self.endpoint
    }

    fn place(&self) -> Place {
        Place::Behind(&["/v1"])
    }

    fn needs_no_model(&self) -> bool {
        true
    }

    fn family(&'static self) -> Family {
        Family::Text(self)
    }
}

impl TextDialect for OpenLlm {
    fn id_prefix(&self) -> &'static str {
        "openllm-"
    }

    fn continues_prompts(&self) -> bool {
        true
    }

    fn input(&self, _: &JsonBody, fields: &mut Fields) -> Result<(RequestInput, OwnParams)> {
        let own: bodies::OpenLlm = fields.take()?;
        let prompt = own.prompt.ok_or_else(|| missing("prompt"))?;
        // Clients send their defaults first, and other names of the same field after them.
        for (name, value) in own.llm_config.iter().rev().filter(|(_, it)| !it.is_null()) {
            if BESIDE.contains(&name.as_str()) {
                let why = "is not a parameter, but a field of the body";
                return Err(invalid(format!("llm_config.{name}"), why));
            }
            let is_known = fields.knows(name);
            if !fields.has(name) && (is_known || !graphmill_dialects::asks_for_nothing(value)) {
                fields.insert(name, value)?;
            }
        }
        let completion: graphmill_dialects::bodies::completions::Completions = fields.take()?;
        let repeated = own
            .request_id
            .map(|id| ("request_id".to_owned(), id.into()));
        let params = OwnParams {
            max_tokens: completion.max_tokens,
            // Answers have the tokens and their log probability.
            logprobs: Some(0),
            stream: self.streams,
            repeated: repeated.into_iter().collect(),
            ..OwnParams::default()
        };
        let input = completions::input(vec![Prompt::Text(prompt)], &completion)?;
        Ok((input, params))
    }

    fn writer(&self, _: &TextRequest) -> Box<dyn AnswerWriter> {
        Box::new(Output::default())
    }
}

/// A writer of answers in OpenLLM's form.
#[derive(Default)]
struct Output {
    /// Text and tokens that were not sent yet.
    text: String,
    tokens: Vec<Token>,
    /// Log probability of all tokens together.
    logprob: f64,
}

impl Output {
    /// Returns the object of the text and tokens that were not sent yet.
    fn tell(&mut self, request: &TextRequest, finish: Option<Finish>) -> Value {
        let id = request.echo.get("request_id").cloned();
        json!({
            "prompt": request.prompt_text(),
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
