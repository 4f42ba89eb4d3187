//! A response and its events.

use serde_json::{Map, Value, json};

use crate::http::named_events::{Event, Form};
use crate::http::parts::{Part, PartialAnswer};
use crate::payload::Finish;

/// Writes responses.
#[derive(Default)]
pub(super) struct Answer {
    /// Events so far.
    sequence_number: u64,
}

impl Form for Answer {
    fn begin(&mut self, answer: PartialAnswer<'_>) -> Vec<Event> {
        let response = response(answer, Stage::Running);
        let of = |response: &Value| json!({ "response": response });
        vec![
            self.event("response.created", of(&response)),
            self.event("response.in_progress", of(&response)),
        ]
    }

    fn part_begins(&mut self, answer: PartialAnswer<'_>, index: usize, part: &Part) -> Vec<Event> {
        let mut empty = item(answer, index, part, "in_progress");
        match part {
            Part::Reasoning(_) | Part::Text(_) => empty["content"] = json!([]),
            Part::Call { .. } => empty["arguments"] = json!(""),
        }
        let added = json!({ "output_index": index, "item": empty });
        let mut events = vec![self.event("response.output_item.added", added)];
        if let Some(content) = content(part, "") {
            let fields = content_event(answer, index, json!({ "part": content }));
            events.push(self.event("response.content_part.added", fields));
        }
        events
    }

    fn part_grows(&mut self, answer: PartialAnswer<'_>, index: usize, text: &str) -> Vec<Event> {
        let delta = json!({ "delta": text });
        let event = match &answer.parts[index] {
            Part::Reasoning(_) => {
                let fields = content_event(answer, index, delta);
                self.event("response.reasoning_text.delta", fields)
            }
            Part::Text(_) => {
                let mut fields = content_event(answer, index, delta);
                fields["logprobs"] = json!([]);
                self.event("response.output_text.delta", fields)
            }
            Part::Call { .. } => {
                let fields = item_event(answer, index, delta);
                self.event("response.function_call_arguments.delta", fields)
            }
        };
        vec![event]
    }

    fn part_ends(&mut self, answer: PartialAnswer<'_>, index: usize) -> Vec<Event> {
        let part = &answer.parts[index];
        let mut events = Vec::new();
        match part {
            Part::Reasoning(text) => {
                let fields = content_event(answer, index, json!({ "text": text }));
                events.push(self.event("response.reasoning_text.done", fields));
            }
            Part::Text(text) => {
                let done = json!({ "text": text, "logprobs": [] });
                let fields = content_event(answer, index, done);
                events.push(self.event("response.output_text.done", fields));
            }
            Part::Call {
                name, arguments, ..
            } => {
                let done = json!({ "name": name, "arguments": arguments });
                let fields = item_event(answer, index, done);
                events.push(self.event("response.function_call_arguments.done", fields));
            }
        }
        if let Some(content) = content(part, part.text()) {
            let fields = content_event(answer, index, json!({ "part": content }));
            events.push(self.event("response.content_part.done", fields));
        }
        let item = item(answer, index, part, status_of(answer, index));
        let done = json!({ "output_index": index, "item": item });
        events.push(self.event("response.output_item.done", done));
        events
    }

    fn end(&mut self, answer: PartialAnswer<'_>) -> Vec<Event> {
        let name = match answer.finish {
            Some(Finish::Length) => "response.incomplete",
            _ => "response.completed",
        };
        let response = response(answer, Stage::Ended);
        vec![self.event(name, json!({ "response": response }))]
    }

    fn whole(&self, answer: PartialAnswer<'_>) -> Value {
        response(answer, Stage::Ended)
    }
}

impl Answer {
    /// Adds what every event has.
    fn event(&mut self, name: &'static str, mut fields: Value) -> Event {
        fields["type"] = json!(name);
        fields["sequence_number"] = json!(self.sequence_number);
        self.sequence_number += 1;
        (name, fields)
    }
}

/// An event about the content of an item, which has one part.
fn content_event(answer: PartialAnswer<'_>, index: usize, fields: Value) -> Value {
    let mut fields = item_event(answer, index, fields);
    fields["content_index"] = json!(0);
    fields
}

/// An event about an item.
fn item_event(answer: PartialAnswer<'_>, index: usize, mut fields: Value) -> Value {
    fields["item_id"] = json!(item_id(answer, index, &answer.parts[index]));
    fields["output_index"] = json!(index);
    fields
}

fn item_id(answer: PartialAnswer<'_>, index: usize, part: &Part) -> String {
    let prefix = match part {
        Part::Reasoning(_) => "rs",
        Part::Text(_) => "msg",
        Part::Call { .. } => "fc",
    };
    format!("{prefix}_{}_{index}", answer.number())
}

/// The content part of an item that has one, with this text.
fn content(part: &Part, text: &str) -> Option<Value> {
    match part {
        Part::Reasoning(_) => Some(json!({ "type": "reasoning_text", "text": text })),
        Part::Text(_) => {
            Some(json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] }))
        }
        Part::Call { .. } => None,
    }
}

fn item(answer: PartialAnswer<'_>, index: usize, part: &Part, status: &str) -> Value {
    let id = item_id(answer, index, part);
    let content: Vec<Value> = content(part, part.text()).into_iter().collect();
    match part {
        Part::Reasoning(_) => json!({
            "id": id, "type": "reasoning", "summary": [], "content": content, "status": status,
        }),
        Part::Text(_) => json!({
            "id": id, "type": "message", "role": "assistant", "content": content, "status": status,
        }),
        Part::Call {
            id: call_id,
            name,
            arguments,
        } => json!({
            "id": id, "type": "function_call", "call_id": call_id, "name": name,
            "arguments": arguments, "status": status,
        }),
    }
}

/// Only the last item can be cut off.
fn status_of(answer: PartialAnswer<'_>, index: usize) -> &'static str {
    let is_last = index + 1 == answer.parts.len();
    match answer.finish {
        Some(Finish::Length) if is_last => "incomplete",
        _ => "completed",
    }
}

/// How far a response is.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Stage {
    Running,
    Ended,
}

fn response(answer: PartialAnswer<'_>, stage: Stage) -> Value {
    let request = answer.request;
    let is_cut = answer.finish == Some(Finish::Length);
    let mut response = Map::new();
    let mut set = |name: &str, value: Value| response.insert(name.to_owned(), value);
    set("id", json!(&*request.id));
    set("object", json!("response"));
    set("created_at", json!(request.created));
    set("model", json!(&*request.model));
    set("error", Value::Null);
    let status = match stage {
        Stage::Running => "in_progress",
        Stage::Ended if is_cut => "incomplete",
        Stage::Ended => "completed",
    };
    set("status", json!(status));
    set(
        "incomplete_details",
        match stage {
            Stage::Ended if is_cut => json!({ "reason": "max_output_tokens" }),
            _ => Value::Null,
        },
    );
    let (output, usage) = match stage {
        Stage::Running => (json!([]), Value::Null),
        Stage::Ended => (output(answer), usage(answer)),
    };
    set("output", output);
    set("usage", usage);
    for (name, value) in &*request.echo {
        set(name, value.clone());
    }
    response.into()
}

fn output(answer: PartialAnswer<'_>) -> Value {
    let parts = answer.parts.iter().enumerate();
    parts
        .map(|(index, part)| item(answer, index, part, status_of(answer, index)))
        .collect()
}

fn usage(answer: PartialAnswer<'_>) -> Value {
    let counts = answer.usage;
    json!({
        "input_tokens": counts.prompt_tokens,
        "input_tokens_details": { "cached_tokens": counts.cached_tokens, "cache_write_tokens": 0 },
        "output_tokens": counts.generated_tokens,
        "output_tokens_details": { "reasoning_tokens": answer.reasoning_tokens },
        "total_tokens": counts.prompt_tokens + counts.generated_tokens,
    })
}
