//! Answers in Ollama's form: one object with the whole text, or a line for each piece of it and a
//! last one with counts and times.

use std::time::Instant;

use chrono::{SecondsFormat, Utc};
use graphmill_engine::{Result, RunCx};
use graphmill_llm::Usage;
use serde_json::{Value, json};

use super::{AnswerClock, Api};
use crate::http::{
    arguments,
    dialect::{AnswerPackets, AnswerWriter},
    logprobs::ChatLogprobs,
    parts::{Parts, Segment, Step},
};
use crate::payload::{Finish, TextChunk, TextRequest};

/// A writer of answers in Ollama's form.
pub(super) struct OllamaWriter {
    api: Api,
    parts: Parts,
    /// Log probabilities so far, for an answer in one object.
    logprobs: Vec<Value>,
    clock: Option<AnswerClock>,
}

/// The content of an object: a piece of the answer, or all of it.
#[derive(Default)]
pub(super) struct OllamaContent<'a> {
    thinking: &'a str,
    text: &'a str,
    calls: Vec<Value>,
}

impl OllamaWriter {
    pub(super) fn new(api: Api) -> Self {
        Self {
            api,
            parts: Parts::default(),
            logprobs: Vec::new(),
            clock: None,
        }
    }

    /// Returns the lines for the additions of a chunk. Calls are sent when they are complete.
    fn lines(&self, request: &TextRequest, steps: &[Step], logprobs: Vec<Value>) -> Vec<Value> {
        let parts = self.parts.answer(request).parts;
        let said = steps.iter().filter_map(|step| {
            let mut said = OllamaContent::default();
            match (step, parts.get(step.part())?) {
                (Step::Grow(_, text), Segment::Reasoning(_)) => said.thinking = text,
                (Step::Grow(_, text), Segment::Text(_)) => said.text = text,
                (Step::End(at), part) => said.calls.push(call(part, place(parts, *at))?),
                _ => return None,
            }
            Some(line(self.api, &request.model, &said))
        });
        let mut lines: Vec<Value> = said.collect();
        if !logprobs.is_empty() {
            if lines.is_empty() {
                lines.push(line(self.api, &request.model, &OllamaContent::default()));
            }
            lines[0]["logprobs"] = logprobs.into();
        }
        lines
    }

    /// Returns the whole answer as one object.
    fn all(&mut self, request: &TextRequest) -> Value {
        let parts = self.parts.answer(request).parts;
        let (mut thinking, mut text, mut calls) = (String::new(), String::new(), Vec::new());
        for part in parts {
            match part {
                Segment::Reasoning(more) => thinking += more,
                Segment::Text(more) => text += more,
                Segment::Call { .. } => calls.extend(call(part, calls.len())),
            }
        }
        let said = OllamaContent {
            thinking: &thinking,
            text: &text,
            calls,
        };
        let mut answer = line(self.api, &request.model, &said);
        if request.logprobs {
            answer["logprobs"] = std::mem::take(&mut self.logprobs).into();
        }
        answer
    }

    /// Adds the finish reason, counts and times to the last object.
    fn end(&self, answer: &mut Value, finish: Finish, usage: &Usage) {
        answer["done"] = true.into();
        answer["done_reason"] = finish.without_calls().into();
        if let Some(clock) = &self.clock {
            clock.tell(answer);
        }
        answer["prompt_eval_count"] = usage.prompt_tokens.into();
        answer["eval_count"] = usage.generated_tokens.into();
        if let Some(clock) = &self.clock {
            clock.tell_of_tokens(answer);
        }
    }
}

impl AnswerWriter for OllamaWriter {
    fn begin(&mut self, run: &RunCx) {
        self.clock = Some(AnswerClock::new(run, Instant::now()));
    }

    fn take(&mut self, chunk: &TextChunk, out: &mut AnswerPackets<'_>) -> Result<bool> {
        let request = out.request;
        let steps = self.parts.take(chunk, &out.usage);
        let finish = self.parts.answer(request).finish;
        let logprobs = ChatLogprobs::from_chunk(&chunk.logprobs, false);
        let logprobs = logprobs.map_or_else(Vec::new, |tokens| tokens.listed());
        if request.stream {
            for line in self.lines(request, &steps, logprobs) {
                out.event(&line)?;
            }
        } else {
            self.logprobs.extend(logprobs);
        }
        let Some(finish) = finish else {
            return Ok(false);
        };
        let mut last = if request.stream {
            line(self.api, &request.model, &OllamaContent::default())
        } else {
            self.all(request)
        };
        self.end(&mut last, finish, &out.usage);
        out.last(&last)?;
        Ok(true)
    }
}

/// Returns an object of an unfinished answer.
pub(super) fn line(api: Api, model: &str, said: &OllamaContent<'_>) -> Value {
    let now = Utc::now().to_rfc3339_opts(SecondsFormat::Nanos, true);
    let mut line = json!({ "model": model, "created_at": now });
    let content = if api == Api::Chat {
        line["message"] = json!({ "role": "assistant", "content": said.text });
        if !said.calls.is_empty() {
            line["message"]["tool_calls"] = json!(said.calls);
        }
        &mut line["message"]
    } else {
        line["response"] = said.text.into();
        &mut line
    };
    if !said.thinking.is_empty() {
        content["thinking"] = said.thinking.into();
    }
    line["done"] = false.into();
    line
}

/// Returns the number of a call among the calls of an answer.
fn place(parts: &[Segment], at: usize) -> usize {
    let is_call = |part: &&Segment| matches!(part, Segment::Call { .. });
    parts[..at].iter().filter(is_call).count()
}

/// Returns a part that is a call. Arguments that were cut off are not JSON, and are left out; the
/// finish reason shows that.
fn call(part: &Segment, index: usize) -> Option<Value> {
    let Segment::Call {
        id,
        name,
        arguments,
    } = part
    else {
        return None;
    };
    let arguments = arguments::object(arguments);
    let function = json!({ "index": index, "name": name, "arguments": arguments });
    Some(json!({ "id": id, "function": function }))
}
