//! Turns of a conversation, as templates expect them.

use serde_json::{Value, json};

use crate::payload::{MediaKind, MediaSource, media_marker};

/// The content of a message: its texts, one per line, and a marker for each image or sound.
#[derive(Debug, Default)]
pub(super) struct Content {
    text: String,
    /// True if the content ends with a text.
    is_text: bool,
    media: Vec<MediaSource>,
}

impl Content {
    /// Creates a content with one text.
    pub(super) fn from_text(text: &str) -> Self {
        let mut content = Self::default();
        content.text(text);
        content
    }

    /// Adds a text, on a line of its own.
    pub(super) fn text(&mut self, text: &str) {
        if std::mem::replace(&mut self.is_text, true) {
            self.text.push('\n');
        }
        self.text.push_str(text);
    }

    /// Adds the image or sound at `path` in the request.
    pub(super) fn medium(&mut self, kind: MediaKind, data: &str, path: &str) {
        self.media.push(MediaSource {
            field: path.into(),
            kind,
            in_result: false,
            data: data.into(),
        });
        self.text.push_str(media_marker());
        self.is_text = false;
    }

    /// Marks the content as the result of a call.
    #[must_use]
    pub(super) fn into_result(mut self) -> Self {
        for medium in &mut self.media {
            medium.in_result = true;
        }
        self
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty() && !self.is_text
    }
}

/// The turns of a conversation so far.
#[derive(Debug, Default)]
pub(super) struct Turns {
    pub(super) messages: Vec<Value>,
    pub(super) media: Vec<MediaSource>,
}

impl Turns {
    /// Moves the images and sounds of a content to the conversation, and returns its text.
    pub(super) fn take(&mut self, mut content: Content) -> Value {
        self.media.append(&mut content.media);
        content.text.into()
    }

    /// Adds a message of a role.
    pub(super) fn say(&mut self, role: &str, content: Content) {
        let content = self.take(content);
        match self.own() {
            // Text after calls of the same turn begins a message of its own.
            Some(turn) if role == "assistant" && is_empty(turn) => turn["content"] = content,
            _ => self
                .messages
                .push(json!({ "role": role, "content": content })),
        }
    }

    /// Adds the assistant's reasoning before its next text or call.
    pub(super) fn think(&mut self, text: &str) {
        self.messages.push(json!({
            "role": "assistant", "content": "", "reasoning_content": text, "thinking": text,
        }));
    }

    /// Adds a call to the assistant's turn.
    pub(super) fn call(&mut self, id: &str, name: &str, arguments: impl Into<Value>) {
        let arguments: Value = arguments.into();
        if self.own().is_none() {
            self.messages
                .push(json!({ "role": "assistant", "content": "" }));
        }
        let call = json!({
            "id": id, "type": "function", "function": { "name": name, "arguments": arguments },
        });
        if let Some(turn) = self.own() {
            match turn["tool_calls"].as_array_mut() {
                Some(calls) => calls.push(call),
                None => turn["tool_calls"] = json!([call]),
            }
        }
    }

    /// Adds the result of a call.
    pub(super) fn result(&mut self, id: &str, content: Content) {
        let content = self.take(content.into_result());
        let called = self.messages.iter().rev().find_map(|message| {
            let calls = message["tool_calls"].as_array()?;
            let call = calls.iter().find(|call| call["id"] == id)?;
            Some(call["function"]["name"].clone())
        });
        let mut message = json!({ "role": "tool", "tool_call_id": id, "content": content });
        if let Some(name) = called {
            message["name"] = name;
        }
        self.messages.push(message);
    }

    /// Replaces the conversation after the system messages by a summary of it. Images and sounds
    /// are dropped.
    pub(super) fn sum_up(&mut self, summary: &str) {
        if self.media.is_empty() {
            self.messages.retain(|message| message["role"] == "system");
        }
        self.say("user", Content::from_text(summary));
    }

    /// Returns the assistant's turn, if it is the last one.
    fn own(&mut self) -> Option<&mut Value> {
        self.messages
            .last_mut()
            .filter(|message| message["role"] == "assistant")
    }

    /// Returns true if the last message is the assistant's, and not empty. The model then continues
    /// it.
    pub(super) fn ends_with_assistant(&self) -> bool {
        self.messages
            .last()
            .is_some_and(|message| message["role"] == "assistant" && message["content"] != "")
    }
}

/// Returns true if an assistant's turn has only reasoning so far.
fn is_empty(turn: &Value) -> bool {
    turn["content"] == "" && turn["tool_calls"].is_null()
}
