//! Answers with a transcript: an object, a plain text, or an event for each piece of it.

use graphmill_engine::Result;
use graphmill_llm::Usage;
use serde_json::{Value, json};

use crate::http::dialect::{AnswerPackets, AnswerWriter};
use crate::payload::{HttpResponse, TextChunk, TextRequest};

/// A writer of transcripts in OpenAI's form.
pub(super) struct Transcript {
    text: String,
    is_plain: bool,
}

impl Transcript {
    pub(super) fn new(request: &TextRequest) -> Self {
        Self {
            text: String::new(),
            is_plain: request.echo.get("response_format") == Some(&json!("text")),
        }
    }
}

impl AnswerWriter for Transcript {
    fn take(&mut self, chunk: &TextChunk, out: &mut AnswerPackets<'_>) -> Result<bool> {
        self.text.push_str(&chunk.text);
        let ends = chunk.finish.is_some();
        if out.request.stream {
            if !chunk.text.is_empty() {
                let delta = json!({ "type": "transcript.text.delta", "delta": chunk.text });
                out.event(&delta)?;
            }
            if ends {
                let mut done = json!({ "type": "transcript.text.done", "text": self.text });
                done["usage"] = usage(&out.usage);
                out.last(&done)?;
            }
        } else if ends && self.is_plain {
            out.packets.push(HttpResponse::Body {
                content_type: "text/plain; charset=utf-8",
                bytes: std::mem::take(&mut self.text).into(),
            });
        } else if ends {
            out.whole(&json!({ "text": self.text, "usage": usage(&out.usage) }))?;
        }
        Ok(ends)
    }
}

fn usage(counts: &Usage) -> Value {
    json!({
        "type": "tokens",
        "input_tokens": counts.prompt_tokens,
        "input_token_details": {
            "text_tokens": counts.prompt_tokens - counts.sound_tokens,
            "audio_tokens": counts.sound_tokens,
        },
        "output_tokens": counts.generated_tokens,
        "total_tokens": counts.prompt_tokens + counts.generated_tokens,
    })
}
