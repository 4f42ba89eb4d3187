//! Messages in answers, and their events.

use serde_json::{Value, json};

use crate::http::arguments::{self, Readable};
use crate::http::named_events::{Event, Form};
use crate::http::parts::{PartialAnswer, Segment};
use crate::payload::Finish;

/// The form of Anthropic's messages.
#[derive(Default)]
pub(super) struct MessageForm {
    /// Arguments of the current call.
    arguments: Readable,
}

impl Form for MessageForm {
    fn begin(&mut self, answer: PartialAnswer<'_>) -> Vec<Event> {
        let mut message = head(answer);
        message["content"] = json!([]);
        message["usage"]["output_tokens"] = json!(0);
        let start = json!({ "type": "message_start", "message": message });
        vec![
            ("message_start", start),
            ("ping", json!({ "type": "ping" })),
        ]
    }

    fn part_begins(&mut self, answer: PartialAnswer<'_>, index: usize) -> Vec<Event> {
        let block = match &answer.parts[index] {
            Segment::Reasoning(_) => {
                json!({ "type": "thinking", "thinking": "", "signature": "" })
            }
            Segment::Text(_) => json!({ "type": "text", "text": "" }),
            Segment::Call { id, name, .. } => {
                json!({ "type": "tool_use", "id": id, "name": name, "input": {} })
            }
        };
        let start =
            json!({ "type": "content_block_start", "content_block": block, "index": index });
        vec![("content_block_start", start)]
    }

    fn part_grows(&mut self, answer: PartialAnswer<'_>, index: usize, text: &str) -> Vec<Event> {
        let delta = match &answer.parts[index] {
            Segment::Reasoning(_) => json!({ "type": "thinking_delta", "thinking": text }),
            Segment::Text(_) => json!({ "type": "text_delta", "text": text }),
            Segment::Call { .. } => match &*self.arguments.push(text) {
                "" => return Vec::new(),
                whole => input_delta(whole),
            },
        };
        vec![block_delta(index, &delta)]
    }

    fn part_ends(&mut self, answer: PartialAnswer<'_>, index: usize) -> Vec<Event> {
        let mut events = Vec::new();
        let left = self.arguments.end();
        if !left.is_empty() {
            events.push(block_delta(index, &input_delta(&left)));
        }
        if matches!(answer.parts[index], Segment::Reasoning(_)) {
            // Clients expect a signature. Reasoning here is not signed.
            let signature = json!({ "type": "signature_delta", "signature": "" });
            events.push(block_delta(index, &signature));
        }
        let stop = json!({ "type": "content_block_stop", "index": index });
        events.push(("content_block_stop", stop));
        events
    }

    fn end(&mut self, answer: PartialAnswer<'_>) -> Vec<Event> {
        let (reason, sequence) = stop_reason(answer);
        let delta = json!({
            "type": "message_delta",
            "delta": { "stop_reason": reason, "stop_sequence": sequence },
            "usage": usage(answer),
        });
        vec![
            ("message_delta", delta),
            ("message_stop", json!({ "type": "message_stop" })),
        ]
    }

    fn whole(&self, answer: PartialAnswer<'_>) -> Value {
        let mut message = head(answer);
        let (reason, sequence) = stop_reason(answer);
        message["content"] = answer.parts.iter().map(block).collect();
        message["stop_reason"] = json!(reason);
        message["stop_sequence"] = json!(sequence);
        message
    }
}

/// Returns the delta for more of a call's input, which clients send back as JSON.
fn input_delta(text: &str) -> Value {
    json!({ "type": "input_json_delta", "partial_json": text })
}

fn block_delta(index: usize, delta: &Value) -> Event {
    let event = json!({ "type": "content_block_delta", "delta": delta, "index": index });
    ("content_block_delta", event)
}

/// Returns the fields that a message has from its beginning.
fn head(answer: PartialAnswer<'_>) -> Value {
    json!({
        "id": &*answer.request.id,
        "type": "message",
        "role": "assistant",
        "model": &*answer.request.model,
        "content": null,
        "stop_reason": null,
        "stop_sequence": null,
        "usage": usage(answer),
    })
}

/// Returns token counts. Cached tokens are counted apart from computed ones.
fn usage(answer: PartialAnswer<'_>) -> Value {
    let counts = answer.usage;
    json!({
        "input_tokens": counts.prompt_tokens - counts.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": counts.cached_tokens,
        "output_tokens": counts.generated_tokens,
    })
}

fn stop_reason(answer: PartialAnswer<'_>) -> (&'static str, Option<&str>) {
    match answer.finish {
        None | Some(Finish::Stop) => ("end_turn", None),
        Some(Finish::StopString(which)) => {
            let sequence = answer.request.echo.get("stop_sequences");
            let sequence = sequence.and_then(|stops| stops.get(usize::from(which))?.as_str());
            ("stop_sequence", sequence)
        }
        Some(Finish::Length) => ("max_tokens", None),
        Some(Finish::ToolCalls) => ("tool_use", None),
    }
}

/// Returns a part of a whole answer. Arguments that were cut off are not JSON, and are left out;
/// the stop reason shows that.
fn block(part: &Segment) -> Value {
    match part {
        Segment::Reasoning(text) => {
            json!({ "type": "thinking", "thinking": text, "signature": "" })
        }
        Segment::Text(text) => json!({ "type": "text", "text": text }),
        Segment::Call {
            id,
            name,
            arguments,
        } => {
            let input = arguments::object(arguments);
            json!({ "type": "tool_use", "id": id, "name": name, "input": input })
        }
    }
}
