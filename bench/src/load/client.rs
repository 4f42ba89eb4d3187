//! One streamed request to an OpenAI-compatible server, and when its parts arrived.

use std::time::Instant;

use reqwest::Client;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Where requests go and what all of them say.
#[derive(Clone, Debug)]
pub struct Target {
    /// The address up to and without `/chat/completions`.
    pub base_url: String,
    /// The model to ask for.
    pub model: String,
    /// Asks `completions` instead of `chat/completions`.
    pub completions: bool,
    /// Members that are added to each body.
    pub extra: Map<String, Value>,
}

/// One message of a chat.
#[derive(Clone, Debug)]
pub struct Message {
    /// `system`, `user` or `assistant`.
    pub role: &'static str,
    /// What it says.
    pub content: String,
}

/// Token counts, as the server says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Usage {
    /// Tokens of the prompt.
    #[serde(default)]
    pub prompt_tokens: u32,
    /// Tokens generated.
    #[serde(default)]
    pub completion_tokens: u32,
    /// More about the prompt.
    pub prompt_tokens_details: Option<PromptDetails>,
}

/// More about a prompt's tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct PromptDetails {
    /// Tokens that the server did not have to compute.
    pub cached_tokens: Option<u32>,
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Reply {
    /// When the request was sent.
    pub sent: Instant,
    /// When each piece of text arrived.
    pub pieces: Vec<Instant>,
    /// The text.
    pub text: String,
    /// The token counts; zeros if the server did not send them.
    pub usage: Usage,
    /// When the answer was complete.
    pub ended: Instant,
    /// What went wrong: `HTTP 503`, `connection`, `error event`, `cut off`, `no usage`.
    pub error: Option<String>,
}

/// Asks for a completion of at most `max_tokens` tokens, greedily and past the end of the text, and
/// calls `on_piece` for each piece of text.
pub async fn complete(
    client: &Client,
    target: &Target,
    messages: &[Message],
    max_tokens: u32,
    mut on_piece: impl FnMut(),
) -> Reply {
    let path = if target.completions {
        "completions"
    } else {
        "chat/completions"
    };
    let url = format!("{}/{path}", target.base_url);
    let body = body(target, messages, max_tokens);
    let sent = Instant::now();
    let mut reply = Reply {
        sent,
        pieces: Vec::with_capacity(max_tokens as usize),
        text: String::new(),
        usage: Usage::default(),
        ended: sent,
        error: None,
    };
    let outcome = async {
        let connection = |_: reqwest::Error| "connection".to_owned();
        let mut response = client
            .post(url)
            .json(&body)
            .send()
            .await
            .map_err(connection)?;
        if !response.status().is_success() {
            return Err(format!("HTTP {}", response.status().as_u16()));
        }
        let mut events = Events::default();
        while let Some(bytes) = response.chunk().await.map_err(|_| "cut off".to_owned())? {
            let now = Instant::now();
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
    .await;
    reply.ended = Instant::now();
    reply.error = match outcome {
        Err(error) => Some(error),
        Ok(()) if reply.usage.completion_tokens == 0 => Some("no usage".to_owned()),
        Ok(()) => None,
    };
    reply
}

fn body(target: &Target, messages: &[Message], max_tokens: u32) -> Value {
    let mut body = target.extra.clone();
    let mut put = |name: &str, value: Value| {
        body.entry(name).or_insert(value);
    };
    put("model", json!(target.model));
    put("stream", json!(true));
    put("stream_options", json!({"include_usage": true}));
    put("max_tokens", json!(max_tokens));
    put("temperature", json!(0));
    put("ignore_eos", json!(true));
    if target.completions {
        let texts: Vec<&str> = messages
            .iter()
            .map(|message| message.content.as_str())
            .collect();
        put("prompt", json!(texts.join("\n")));
    } else {
        let messages = messages
            .iter()
            .map(|message| json!({"role": message.role, "content": message.content}));
        put("messages", messages.collect());
    }
    Value::Object(body)
}

impl Reply {
    /// Takes an event in; true if it brought text.
    fn take(&mut self, event: &[u8], now: Instant) -> Result<bool, String> {
        let unreadable = |_: serde_json::Error| "unreadable event".to_owned();
        let event: Event = serde_json::from_slice(event).map_err(unreadable)?;
        if event.error.is_some() {
            return Err("error event".to_owned());
        }
        if let Some(usage) = event.usage {
            self.usage = usage;
        }
        let before = self.text.len();
        for choice in event.choices {
            let delta = choice.delta.unwrap_or_default();
            for text in [choice.text, delta.content, delta.reasoning_content] {
                self.text.push_str(text.as_deref().unwrap_or_default());
            }
        }
        let brought = self.text.len() > before;
        if brought {
            self.pieces.push(now);
        }
        Ok(brought)
    }
}

/// The members of a chunk that matter here.
#[derive(Deserialize)]
struct Event {
    #[serde(default)]
    choices: Vec<Choice>,
    usage: Option<Usage>,
    error: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct Choice {
    text: Option<String>,
    delta: Option<Delta>,
}

#[derive(Default, Deserialize)]
struct Delta {
    content: Option<String>,
    reasoning_content: Option<String>,
}

/// Finds the data of server-sent events in a stream of bytes. Each event here has one line of data.
#[derive(Default)]
struct Events {
    bytes: Vec<u8>,
    /// Where the next line begins.
    at: usize,
}

impl Events {
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
            let mut events = Events::default();
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

    fn reply() -> Reply {
        let now = Instant::now();
        Reply {
            sent: now,
            pieces: Vec::new(),
            text: String::new(),
            usage: Usage::default(),
            ended: now,
            error: None,
        }
    }

    #[test]
    fn only_text_counts_as_a_piece() {
        let mut reply = reply();
        let mut take = |event: &str| reply.take(event.as_bytes(), Instant::now());
        assert_eq!(
            take(r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#),
            Ok(false)
        );
        assert_eq!(
            take(r#"{"choices":[{"delta":{"role":"assistant","content":null}}],"usage":null}"#),
            Ok(false)
        );
        assert_eq!(
            take(r#"{"choices":[{"delta":{"content":"a \"b\""}}]}"#),
            Ok(true)
        );
        assert_eq!(
            take(r#"{"choices":[{"delta":{"reasoning_content":"c"}}]}"#),
            Ok(true)
        );
        assert_eq!(take(r#"{"choices":[{"text":"d"}]}"#), Ok(true));
        let usage = r#"{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":5}}}"#;
        assert_eq!(take(usage), Ok(false));
        assert_eq!((reply.text.as_str(), reply.pieces.len()), ("a \"b\"cd", 3));
        let details = Some(PromptDetails {
            cached_tokens: Some(5),
        });
        assert_eq!(
            reply.usage,
            Usage {
                prompt_tokens: 7,
                completion_tokens: 3,
                prompt_tokens_details: details
            }
        );
    }

    #[test]
    fn an_error_event_ends_the_answer() {
        let taken = reply().take(br#"{"error":{"message":"no"}}"#, Instant::now());
        assert_eq!(taken, Err("error event".to_owned()));
        assert_eq!(
            reply().take(b"{", Instant::now()),
            Err("unreadable event".to_owned())
        );
    }

    #[test]
    fn extra_members_replace_the_usual_ones() {
        let extra = json!({"temperature": 0.8, "num_assistant_tokens": 5});
        let Value::Object(extra) = extra else {
            panic!("an object")
        };
        let mut target = Target {
            base_url: String::new(),
            model: "m".to_owned(),
            completions: false,
            extra,
        };
        let message = Message {
            role: "user",
            content: "hello".to_owned(),
        };
        let chat = body(&target, std::slice::from_ref(&message), 9);
        assert_eq!(chat["temperature"], json!(0.8));
        assert_eq!(chat["num_assistant_tokens"], json!(5));
        assert_eq!(chat["max_tokens"], json!(9));
        assert_eq!(
            chat["messages"],
            json!([{"role": "user", "content": "hello"}])
        );
        target.completions = true;
        let system = Message {
            role: "system",
            content: "be short".to_owned(),
        };
        assert_eq!(
            body(&target, &[system, message], 9)["prompt"],
            json!("be short\nhello")
        );
    }
}
