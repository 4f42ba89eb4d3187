//! OpenAI's response objects in answers, and the events of their streams.

use graphmill_llm::Usage;
use serde_json::{Value, json};

use super::tools::text_of;
use crate::http::named_events::{Event, Form};
use crate::http::parts::{PartialAnswer, Segment};
use crate::payload::{Finish, RequestInput, ToolOrigin};

/// The form of OpenAI's responses.
#[derive(Default)]
pub(super) struct ResponseForm {
    /// Number of events so far.
    sequence_number: u64,
}

impl Form for ResponseForm {
    fn begin(&mut self, answer: PartialAnswer<'_>) -> Vec<Event> {
        let response = response(answer, false);
        let of = |response: &Value| json!({ "response": response });
        vec![
            self.event("response.created", of(&response)),
            self.event("response.in_progress", of(&response)),
        ]
    }

    fn part_begins(&mut self, answer: PartialAnswer<'_>, index: usize) -> Vec<Event> {
        let part = &answer.parts[index];
        let mut empty = item(answer, index, part, "in_progress");
        match part {
            Segment::Reasoning(_) | Segment::Text(_) => empty["content"] = json!([]),
            Segment::Call { name, .. } if takes_text(answer, name) => empty["input"] = json!(""),
            Segment::Call { .. } => empty["arguments"] = json!(""),
        }
        let added = json!({ "output_index": index, "item": empty });
        let mut events = vec![self.event("response.output_item.added", added)];
        if let Some(content) = content(part, "") {
            let fields = part_event(answer, index, json!({ "part": content }));
            events.push(self.event("response.content_part.added", fields));
        }
        events
    }

    fn part_grows(&mut self, answer: PartialAnswer<'_>, index: usize, text: &str) -> Vec<Event> {
        let part = &answer.parts[index];
        let name = match part {
            Segment::Reasoning(_) => "response.reasoning_text.delta",
            Segment::Text(_) => "response.output_text.delta",
            // The text is sent whole at the end of the part, when it can be taken out of the
            // arguments.
            Segment::Call { name, .. } if takes_text(answer, name) => return Vec::new(),
            Segment::Call { .. } => "response.function_call_arguments.delta",
        };
        let mut fields = part_event(answer, index, json!({ "delta": text }));
        if matches!(part, Segment::Text(_)) {
            fields["logprobs"] = json!([]);
        }
        vec![self.event(name, fields)]
    }

    fn part_ends(&mut self, answer: PartialAnswer<'_>, index: usize) -> Vec<Event> {
        let part = &answer.parts[index];
        let mut events = Vec::new();
        let mut add = |name, fields| {
            let event = self.event(name, part_event(answer, index, fields));
            events.push(event);
        };
        match part {
            Segment::Reasoning(text) => {
                add("response.reasoning_text.done", json!({ "text": text }));
            }
            Segment::Text(text) => {
                let done = json!({ "text": text, "logprobs": [] });
                add("response.output_text.done", done);
            }
            Segment::Call {
                name, arguments, ..
            } if takes_text(answer, name) => {
                let input = text_of(arguments);
                let delta = json!({ "delta": input });
                add("response.custom_tool_call_input.delta", delta);
                let done = json!({ "input": input });
                add("response.custom_tool_call_input.done", done);
            }
            Segment::Call {
                name, arguments, ..
            } => {
                let name = origin(answer, name).map_or(name, |origin| &origin.name);
                let done = json!({ "name": name, "arguments": arguments });
                add("response.function_call_arguments.done", done);
            }
        }
        if let Some(content) = content(part, part.text()) {
            add("response.content_part.done", json!({ "part": content }));
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
        let response = response(answer, true);
        vec![self.event(name, json!({ "response": response }))]
    }

    fn whole(&self, answer: PartialAnswer<'_>) -> Value {
        response(answer, true)
    }
}

impl ResponseForm {
    /// Creates an event, and adds the fields that every event has.
    fn event(&mut self, name: &'static str, mut fields: Value) -> Event {
        fields["type"] = json!(name);
        fields["sequence_number"] = json!(self.sequence_number);
        self.sequence_number += 1;
        (name, fields)
    }
}

/// Adds to `fields` those that say which item an event is about. The content of an item has at most
/// one part, so its index is 0.
fn part_event(answer: PartialAnswer<'_>, index: usize, mut fields: Value) -> Value {
    let part = &answer.parts[index];
    fields["item_id"] = json!(item_id(answer, index, part));
    fields["output_index"] = json!(index);
    if !matches!(part, Segment::Call { .. }) {
        fields["content_index"] = json!(0);
    }
    fields
}

fn item_id(answer: PartialAnswer<'_>, index: usize, part: &Segment) -> String {
    let prefix = match part {
        Segment::Reasoning(_) => "rs",
        Segment::Text(_) => "msg",
        Segment::Call { name, .. } if takes_text(answer, name) => "ctc",
        Segment::Call { .. } => "fc",
    };
    format!("{prefix}_{}_{index}", answer.number())
}

/// Returns the content part of an item with this text, if the item has one.
fn content(part: &Segment, text: &str) -> Option<Value> {
    match part {
        Segment::Reasoning(_) => Some(json!({ "type": "reasoning_text", "text": text })),
        Segment::Text(_) => {
            Some(json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] }))
        }
        Segment::Call { .. } => None,
    }
}

fn item(answer: PartialAnswer<'_>, index: usize, part: &Segment, status: &str) -> Value {
    let id = item_id(answer, index, part);
    let content: Vec<Value> = content(part, part.text()).into_iter().collect();
    match part {
        Segment::Reasoning(_) => json!({
            "id": id, "type": "reasoning", "summary": [], "content": content, "status": status,
        }),
        Segment::Text(_) => json!({
            "id": id, "type": "message", "role": "assistant", "content": content, "status": status,
        }),
        Segment::Call {
            id: call_id,
            name,
            arguments,
        } => {
            let origin = origin(answer, name);
            let told = origin.map_or(name, |origin| &origin.name);
            let mut item = if takes_text(answer, name) {
                json!({
                    "id": id, "type": "custom_tool_call", "call_id": call_id, "name": told,
                    "input": text_of(arguments), "status": status,
                })
            } else {
                json!({
                    "id": id, "type": "function_call", "call_id": call_id, "name": told,
                    "arguments": arguments, "status": status,
                })
            };
            if let Some(namespace) = origin.and_then(|origin| origin.namespace.as_deref()) {
                item["namespace"] = json!(namespace);
            }
            item
        }
    }
}

/// Finds the tool of the request that the model calls by this name.
fn origin<'a>(answer: PartialAnswer<'a>, name: &str) -> Option<&'a ToolOrigin> {
    match &answer.request.input {
        RequestInput::Chat(chat) => chat.tool_origins.get(name),
        RequestInput::Prompts(_) => None,
    }
}

/// Returns true if a tool takes a text instead of arguments.
fn takes_text(answer: PartialAnswer<'_>, name: &str) -> bool {
    origin(answer, name).is_some_and(|origin| origin.takes_text)
}

/// Returns the status of an item. Only the last item can be cut off.
fn status_of(answer: PartialAnswer<'_>, index: usize) -> &'static str {
    let is_last = index + 1 == answer.parts.len();
    match answer.finish {
        Some(Finish::Length) if is_last => "incomplete",
        _ => "completed",
    }
}

/// Returns the response object: the final one if `ends`, otherwise one in progress, without output.
fn response(answer: PartialAnswer<'_>, ends: bool) -> Value {
    let request = answer.request;
    let is_cut = ends && answer.finish == Some(Finish::Length);
    let status = match (ends, is_cut) {
        (false, _) => "in_progress",
        (true, true) => "incomplete",
        (true, false) => "completed",
    };
    let mut response = json!({
        "id": &*request.id,
        "object": "response",
        "created_at": request.created,
        "model": &*request.model,
        "error": null,
        "status": status,
        "incomplete_details": is_cut.then(|| json!({ "reason": "max_output_tokens" })),
        "output": if ends { output(answer) } else { json!([]) },
        "usage": ends.then(|| usage(&answer.usage, answer.reasoning_tokens)),
    });
    for (name, value) in &*request.echo {
        response[name] = value.clone();
    }
    response
}

fn output(answer: PartialAnswer<'_>) -> Value {
    let parts = answer.parts.iter().enumerate();
    parts
        .map(|(index, part)| item(answer, index, part, status_of(answer, index)))
        .collect()
}

/// Returns the token counts in OpenAI's form.
pub(super) fn usage(counts: &Usage, reasoning_tokens: u32) -> Value {
    json!({
        "input_tokens": counts.prompt_tokens,
        "input_tokens_details": { "cached_tokens": counts.cached_tokens, "cache_write_tokens": 0 },
        "output_tokens": counts.generated_tokens,
        "output_tokens_details": { "reasoning_tokens": reasoning_tokens },
        "total_tokens": counts.prompt_tokens + counts.generated_tokens,
    })
}
