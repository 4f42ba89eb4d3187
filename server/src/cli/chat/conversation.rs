//! A conversation with a model, and the requests that it consists of.

use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::client::{Client, Events};

/// The messages so far, and the settings of the conversation.
pub(super) struct Conversation {
    pub(super) model: String,
    pub(super) temperature: Option<f64>,
    pub(super) max_tokens: Option<u32>,
    system: Option<String>,
    messages: Vec<Value>,
    /// Images for the next question, as parts of its message.
    pictures: Vec<Value>,
}

/// A piece of the model's output.
#[derive(Clone, Copy)]
pub(super) enum Said<'a> {
    /// Text that the model thinks before its answer.
    Reasoning(&'a str),
    /// Text of the answer itself.
    Answer(&'a str),
}

/// The end of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerEnd {
    /// The model has finished its answer.
    All,
    /// Ctrl-C has stopped the answer.
    Stopped,
    /// The reader of the output is gone.
    Unread,
}

impl Conversation {
    pub(super) fn new(model: String, system: Option<String>) -> Self {
        Self {
            model,
            temperature: None,
            max_tokens: None,
            system: system.filter(|text| !text.is_empty()),
            messages: Vec::new(),
            pictures: Vec::new(),
        }
    }

    /// Sets the system message; an empty text removes it.
    pub(super) fn instruct(&mut self, text: &str) {
        self.system = (!text.is_empty()).then(|| text.to_owned());
    }

    /// Removes all messages and images.
    pub(super) fn reset(&mut self) {
        self.messages.clear();
        self.pictures.clear();
    }

    /// Attaches an image to the next question.
    pub(super) fn show(&mut self, picture: Value) {
        self.pictures.push(picture);
    }

    /// Asks a question and passes the answer on as it arrives, until `print` reports that nobody
    /// reads it. The text before Ctrl-C stays part of the conversation. A question that fails does
    /// not, and neither do its images.
    pub(super) async fn ask(
        &mut self,
        client: &Client,
        question: &str,
        print: impl FnMut(Said<'_>) -> bool,
    ) -> Result<AnswerEnd, String> {
        let mut content = std::mem::take(&mut self.pictures);
        let content = if content.is_empty() {
            Value::from(question)
        } else {
            content.push(json!({ "type": "text", "text": question }));
            Value::from(content)
        };
        self.messages
            .push(json!({ "role": "user", "content": content }));
        let mut answer = String::new();
        let end = self.receive(client, &mut answer, print).await;
        match end {
            Ok(_) if !answer.is_empty() => {
                self.messages
                    .push(json!({ "role": "assistant", "content": answer }));
            }
            _ => drop(self.messages.pop()),
        }
        end
    }

    async fn receive(
        &self,
        client: &Client,
        answer: &mut String,
        mut print: impl FnMut(Said<'_>) -> bool,
    ) -> Result<AnswerEnd, String> {
        let interrupts = signal(SignalKind::interrupt());
        let mut interrupts =
            interrupts.map_err(|error| format!("cannot listen for signals: {error}"))?;
        let body = self.request();
        let asked = client.stream("/v3/chat/completions", &body);
        let mut events: Events = tokio::select! {
            _ = interrupts.recv() => return Ok(AnswerEnd::Stopped),
            asked = asked => asked?,
        };
        loop {
            let event = tokio::select! {
                _ = interrupts.recv() => return Ok(AnswerEnd::Stopped),
                event = events.next() => event?,
            };
            let Some(event) = event else {
                return Ok(AnswerEnd::All);
            };
            let delta = &event["choices"][0]["delta"];
            if let Some(text) = delta["reasoning_content"].as_str()
                && !print(Said::Reasoning(text))
            {
                return Ok(AnswerEnd::Unread);
            }
            if let Some(text) = delta["content"].as_str() {
                answer.push_str(text);
                if !print(Said::Answer(text)) {
                    return Ok(AnswerEnd::Unread);
                }
            }
        }
    }

    fn request(&self) -> Value {
        let system = self.system.iter();
        let system = system.map(|text| json!({ "role": "system", "content": text }));
        let messages: Vec<Value> = system.chain(self.messages.iter().cloned()).collect();
        let mut body = json!({ "model": self.model, "stream": true, "messages": messages });
        if let Some(temperature) = self.temperature {
            body["temperature"] = temperature.into();
        }
        if let Some(max_tokens) = self.max_tokens {
            body["max_tokens"] = max_tokens.into();
        }
        body
    }
}
