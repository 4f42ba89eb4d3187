//! One streamed request to an OpenAI-compatible server, and when its parts arrived.

use std::time::Instant;

use reqwest::Client;
use serde_json::{Map, Value, json};

/// The server that requests go to, and the parts that all requests share.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// The address up to and without `/chat/completions`.
    pub(crate) base_url: String,
    /// The model to ask for.
    pub(crate) model: String,
    /// Members that are added to each body.
    pub(crate) extra: Map<String, Value>,
}

/// An answer, or its failure. Times are in seconds from the beginning of the load.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Reply {
    /// Time at which the request was sent.
    pub(crate) sent: f64,
    /// Times at which the pieces of text arrived.
    pub(crate) pieces: Vec<f64>,
    /// The whole text of the answer.
    pub(crate) text: String,
    /// Number of tokens in the prompt.
    pub(crate) prompt_tokens: u64,
    /// Number of tokens in the prompt that were cached; `None` if the server does not say.
    pub(crate) cached_tokens: Option<u64>,
    /// Number of tokens that were generated.
    pub(crate) tokens: u64,
    /// Time at which the answer was complete or failed.
    pub(crate) ended: f64,
    /// The kind of failure: `HTTP 503`, `connection`, `error event`, `cut off`, `no usage`.
    pub(crate) error: Option<String>,
}

/// Makes a message of a chat.
pub(crate) fn message(role: &str, content: &str) -> Value {
    json!({"role": role, "content": content})
}

/// Asks for a completion of at most `max_tokens` tokens, greedily and past the end of the text, and
/// calls `on_piece` for each piece of text. The load began at `begun`.
pub(crate) async fn complete(
    client: &Client,
    target: &Target,
    messages: &[Value],
    max_tokens: u32,
    begun: Instant,
    on_piece: impl FnMut(),
) -> Reply {
    let mut reply = Reply {
        sent: begun.elapsed().as_secs_f64(),
        ..Reply::default()
    };
    let body = body(target, messages, max_tokens);
    let outcome = receive(client, target, &body, &mut reply, begun, on_piece).await;
    reply.ended = begun.elapsed().as_secs_f64();
    reply.error = match outcome {
        Err(error) => Some(error),
        Ok(()) if reply.tokens == 0 => Some("no usage".to_owned()),
        Ok(()) => None,
    };
    reply
}

async fn receive(
    client: &Client,
    target: &Target,
    body: &Value,
    reply: &mut Reply,
    begun: Instant,
    mut on_piece: impl FnMut(),
) -> Result<(), String> {
    let request = client.post(format!("{}/chat/completions", target.base_url));
    let answer = request.json(body).send().await;
    let mut response = answer.map_err(|_| "connection".to_owned())?;
    if !response.status().is_success() {
        return Err(format!("HTTP {}", response.status().as_u16()));
    }
    let mut events = SseLines::default();
    while let Ok(Some(bytes)) = response.chunk().await {
        let now = begun.elapsed().as_secs_f64();
        events.push(&bytes);
        while let Some(event) = events.next() {
            if event == b"[DONE]" {
                return Ok(());
            }
            if reply.take(event, now)? {
                on_piece();
            }
        }
    }
    Err("cut off".to_owned())
}

fn body(target: &Target, messages: &[Value], max_tokens: u32) -> Value {
    let mut body = json!({
        "model": target.model,
        "stream": true,
        "stream_options": {"include_usage": true},
        "max_tokens": max_tokens,
        "temperature": 0,
        "ignore_eos": true,
        "messages": messages,
    });
    for (name, value) in &target.extra {
        body[name] = value.clone();
    }
    body
}

impl Reply {
    /// Takes an event in; true if it brought text.
    fn take(&mut self, event: &[u8], now: f64) -> Result<bool, String> {
        let event: Value =
            serde_json::from_slice(event).map_err(|_| "unreadable event".to_owned())?;
        if !event["error"].is_null() {
            return Err("error event".to_owned());
        }
        let usage = &event["usage"];
        if usage.is_object() {
            self.prompt_tokens = usage["prompt_tokens"].as_u64().unwrap_or_default();
            self.tokens = usage["completion_tokens"].as_u64().unwrap_or_default();
            self.cached_tokens = usage["prompt_tokens_details"]["cached_tokens"].as_u64();
        }
        let before = self.text.len();
        for choice in event["choices"].as_array().into_iter().flatten() {
            let delta = &choice["delta"];
            for text in [&delta["content"], &delta["reasoning_content"]] {
                self.text.push_str(text.as_str().unwrap_or_default());
            }
        }
        let brought = self.text.len() > before;
        self.pieces.extend(brought.then_some(now));
        Ok(brought)
    }
}

/// Finds the data of server-sent events in a stream of bytes. Each event here has one line of data.
#[derive(Default)]
struct SseLines {
    bytes: Vec<u8>,
    /// Start of the next line in `bytes`.
    at: usize,
}

impl SseLines {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.at);
        self.at = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The data of the next event that is complete.
    fn next(&mut self) -> Option<&[u8]> {
        loop {
            let rest = &self.bytes[self.at..];
            let end = rest.iter().position(|byte| *byte == b'\n')?;
            let (begin, end) = (self.at, self.at + end);
            self.at = end + 1;
            let line = &self.bytes[begin..end];
            if line.starts_with(b"data:") {
                return Some(self.bytes[begin + 5..end].trim_ascii());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_found_however_the_bytes_are_cut() {
        let stream = b": comment\n\ndata: one\r\n\r\nevent: x\ndata:two\n\ndata: [DONE]\n\n";
        for cut in 0..stream.len() {
            let mut events = SseLines::default();
            let mut found: Vec<Vec<u8>> = Vec::new();
            for part in [&stream[..cut], &stream[cut..]] {
                events.push(part);
                while let Some(data) = events.next() {
                    found.push(data.to_vec());
                }
            }
            assert_eq!(
                found,
                [b"one".to_vec(), b"two".to_vec(), b"[DONE]".to_vec()],
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn only_text_counts_as_a_piece() {
        let mut reply = Reply::default();
        let mut take = |event: &str| reply.take(event.as_bytes(), 1.5);
        for (event, brought) in [
            (
                r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#,
                false,
            ),
            (
                r#"{"choices":[{"delta":{"role":"assistant","content":null}}],"usage":null}"#,
                false,
            ),
            (r#"{"choices":[{"delta":{"content":"a \"b\""}}]}"#, true),
            (r#"{"choices":[{"delta":{"reasoning_content":"c"}}]}"#, true),
            (
                r#"{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":5}}}"#,
                false,
            ),
        ] {
            assert_eq!(take(event), Ok(brought), "{event}");
        }
        let expected = Reply {
            pieces: vec![1.5; 2],
            text: "a \"b\"c".to_owned(),
            prompt_tokens: 7,
            cached_tokens: Some(5),
            tokens: 3,
            ..Reply::default()
        };
        assert_eq!(reply, expected);
    }

    #[test]
    fn an_error_event_ends_the_answer() {
        let take = |event: &[u8]| Reply::default().take(event, 0.0);
        let taken = take(br#"{"error":{"message":"no"}}"#);
        assert_eq!(taken, Err("error event".to_owned()));
        assert_eq!(take(b"{"), Err("unreadable event".to_owned()));
    }

    #[test]
    fn extra_members_replace_the_usual_ones() {
        let extra = json!({"temperature": 0.8, "num_assistant_tokens": 5});
        let target = Target {
            base_url: String::new(),
            model: "m".to_owned(),
            extra: extra.as_object().cloned().expect("an object"),
        };
        let chat = body(&target, &[message("user", "hello")], 9);
        assert_eq!(chat["temperature"], json!(0.8));
        assert_eq!(chat["num_assistant_tokens"], json!(5));
        assert_eq!(chat["max_tokens"], json!(9));
        assert_eq!(
            chat["messages"],
            json!([{"role": "user", "content": "hello"}])
        );
    }
}
