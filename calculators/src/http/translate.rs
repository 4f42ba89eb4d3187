//! Translates requests of other dialects into chat requests, which are then checked like any other.
//!
//! A field that has the same meaning in both dialects, and one that the dialect does not know,
//! stays as it is.

use graphmill_engine::{Error, Result};
use serde_json::{Map, Value, json};

use super::fields::{Fields, code, invalid, missing, wrong_type};
use crate::payload::JsonBody;

/// A request in the terms of another dialect.
#[derive(Debug)]
pub struct Translated {
    /// Its body.
    pub(super) body: JsonBody,
    /// What its answer repeats or follows.
    pub(super) echo: Map<String, Value>,
    /// What its own dialect calls the fields.
    pub(super) names: &'static Names,
    /// Where its images and sounds are in the request, in order, if that is not where the body has
    /// them.
    pub(super) media: Vec<String>,
}

impl Translated {
    /// A translation whose fields are called alike in both dialects.
    pub fn new(body: JsonBody) -> Self {
        Self {
            body,
            echo: Map::new(),
            names: &Names {
                fields: &[],
                parameters: "parameters",
            },
            media: Vec::new(),
        }
    }
}

/// What a dialect calls the fields of chat.
#[derive(Debug)]
pub(super) struct Names {
    /// Names in chat, each with the dialect's own. Fields inside have their names too.
    pub(super) fields: &'static [(&'static str, &'static str)],
    /// The schema of a tool's arguments.
    pub(super) parameters: &'static str,
}

impl Names {
    /// The dialect's name of a field.
    fn own(&self, field: &str) -> Option<String> {
        if let Some((tool, rest)) = field.split_once(".function")
            && tool.starts_with("tools[")
        {
            let rest = match rest.strip_prefix(".parameters") {
                Some(inside) => format!(".{}{inside}", self.parameters),
                None => rest.to_owned(),
            };
            let tool = self.renamed(tool).unwrap_or_else(|| tool.to_owned());
            return Some(format!("{tool}{rest}"));
        }
        self.renamed(field)
    }

    fn renamed(&self, field: &str) -> Option<String> {
        self.fields.iter().find_map(|(chat, own)| {
            let rest = field.strip_prefix(chat)?;
            (rest.is_empty() || rest.starts_with(['.', '['])).then(|| format!("{own}{rest}"))
        })
    }
}

/// An error about a field of the translated body, in the words of the dialect.
pub(super) fn in_dialect(mut error: Error, names: &Names) -> Error {
    let Some(field) = error.field.as_deref() else {
        return error;
    };
    if let Some(own) = names.own(field) {
        let quoted = format!("`{field}`");
        error.message = error.message.replace(&quoted, &format!("`{own}`"));
        error.field = Some(own.into());
    }
    error
}

/// An object at `path`.
pub(super) fn object<'a>(value: &'a Value, path: &str) -> Result<Fields<'a>> {
    match value {
        Value::Object(fields) => Ok(fields.into()),
        other => Err(wrong_type(path, "an object", other)),
    }
}

/// A string that has to be there.
pub(super) fn required_str<'a>(fields: Fields<'a>, path: &str, name: &str) -> Result<&'a str> {
    optional_str(fields, path, name)?.ok_or_else(|| missing(format!("{path}.{name}")))
}

/// A string that may be left out.
pub(super) fn optional_str<'a>(
    fields: Fields<'a>,
    path: &str,
    name: &str,
) -> Result<Option<&'a str>> {
    match fields.get(name)? {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(wrong_type(format!("{path}.{name}"), "a string", other)),
    }
}

/// A value that this server cannot honor.
pub(super) fn unsupported(path: impl Into<String>, why: &str) -> Error {
    invalid(path, why).with_code(code::UNSUPPORTED)
}

/// A tool in the terms of chat.
pub(super) fn function(
    name: &str,
    description: Option<&str>,
    parameters: Option<&Value>,
    strict: Option<bool>,
) -> Value {
    let mut function = Map::new();
    function.insert("name".to_owned(), name.into());
    if let Some(description) = description {
        function.insert("description".to_owned(), description.into());
    }
    if let Some(parameters) = parameters {
        function.insert("parameters".to_owned(), parameters.clone());
    }
    if let Some(strict) = strict {
        function.insert("strict".to_owned(), strict.into());
    }
    json!({ "type": "function", "function": function })
}

/// The content of a message: texts, images and sounds, in order.
#[derive(Debug, Default)]
pub(super) struct Content {
    parts: Vec<Value>,
    /// Where its images and sounds are in the request.
    media: Vec<String>,
}

impl Content {
    /// A text.
    pub(super) fn of(text: &str) -> Self {
        let mut content = Self::default();
        content.text(text);
        content
    }

    /// Adds a text.
    pub(super) fn text(&mut self, text: &str) {
        self.parts.push(json!({ "type": "text", "text": text }));
    }

    /// Adds an image, which is at `path` in the request.
    pub(super) fn image(&mut self, url: &str, path: String) {
        self.parts
            .push(json!({ "type": "image_url", "image_url": { "url": url } }));
        self.media.push(path);
    }

    /// Adds a sound, which is at `path` in the request: a file as Base64.
    pub(super) fn sound(&mut self, data: &str, path: String) {
        self.parts
            .push(json!({ "type": "input_audio", "input_audio": { "data": data } }));
        self.media.push(path);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
}

/// The turns of a conversation, in the terms of chat.
#[derive(Debug, Default)]
pub(super) struct Turns {
    messages: Vec<Value>,
    /// Where their images and sounds are in the request.
    media: Vec<String>,
}

impl Turns {
    /// Adds a message of texts, images and sounds. Texts alone are a line each.
    pub(super) fn say_content(&mut self, role: &str, content: Content) {
        let content = self.take(content);
        self.say(role, content);
    }

    /// What a message says of texts, images and sounds.
    fn take(&mut self, mut content: Content) -> Value {
        if content.media.is_empty() {
            let texts = content
                .parts
                .iter()
                .filter_map(|part| part["text"].as_str());
            return texts.collect::<Vec<_>>().join("\n").into();
        }
        self.media.append(&mut content.media);
        content.parts.into()
    }

    /// Where the images and sounds of all messages are in the request. To be asked for once.
    pub(super) fn take_media(&mut self) -> Vec<String> {
        std::mem::take(&mut self.media)
    }

    /// Adds a message.
    pub(super) fn say(&mut self, role: &str, content: impl Into<Value>) {
        let content: Value = content.into();
        match self.own() {
            // Text that goes on after calls of the same turn begins a message of its own.
            Some(turn) if role == "assistant" && is_empty(turn) => turn["content"] = content,
            _ => self
                .messages
                .push(json!({ "role": role, "content": content })),
        }
    }

    /// Adds what the assistant thought before what it says or calls next.
    pub(super) fn think(&mut self, text: &str) {
        self.messages.push(json!({
            "role": "assistant", "content": "", "reasoning_content": text,
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
        let content = self.take(content);
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

    /// The assistant's turn, if the conversation is at one.
    fn own(&mut self) -> Option<&mut Value> {
        self.messages
            .last_mut()
            .filter(|message| message["role"] == "assistant")
    }

    /// Whether the last message is the assistant's, and not empty: then the model continues it.
    pub(super) fn ends_with_assistant(&self) -> bool {
        self.messages
            .last()
            .is_some_and(|message| message["role"] == "assistant" && message["content"] != "")
    }

    /// The messages.
    pub(super) fn into_messages(self) -> Vec<Value> {
        self.messages
    }
}

/// Whether an assistant's turn has only what was thought so far.
fn is_empty(turn: &Value) -> bool {
    turn["content"] == "" && turn["tool_calls"].is_null()
}
