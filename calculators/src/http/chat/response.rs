//! Chat messages in answers: whole messages, and the deltas of chunks. The fields are in OpenAI's
//! order.

use graphmill_engine::Result;
use serde::Serialize;
use serde_json::{Value, json};

use crate::http::{
    choices::{Choice, Events, Form, JoinedCall},
    logprobs::ChatLogprobs,
};
use crate::payload::{
    Finish, RequestInput, TextChunk, TextRequest, Token, ToolCallDelta, ToolChoice,
};

/// The form of the choices of a chat.
pub(super) struct ChatForm;

impl Form for ChatForm {
    const WHOLE: &'static str = "chat.completion";
    const CHUNK: &'static str = "chat.completion.chunk";
    const PROMPT_BESIDE: bool = true;

    /// Writes an event with the role for each choice.
    fn begin(events: &mut Events<'_, '_>) -> Result<()> {
        for index in 0..events.request().choices() as u32 {
            let delta = Delta {
                role: Some("assistant"),
                content: Some(""),
                ..Delta::default()
            };
            event(events, index, delta, (None, None), None)?;
        }
        Ok(())
    }

    fn extend(events: &mut Events<'_, '_>, chunk: &TextChunk, _: usize) -> Result<()> {
        let (index, finish) = (chunk.index, chunk.finish);
        let by_id = events.request().told.by_id;
        let ids = Some(&*chunk.ids).filter(|ids| !ids.is_empty());
        let mut tokens = (ChatLogprobs::from_chunk(&chunk.logprobs, by_id), ids);
        for delta in deltas(chunk, events.request().function_call) {
            event(events, index, delta, std::mem::take(&mut tokens), None)?;
        }
        // A chunk without text still has tokens if a parser holds their text back.
        if finish.is_some() || tokens.0.is_some() || tokens.1.is_some() {
            event(events, index, Delta::default(), tokens, finish)?;
        }
        Ok(())
    }

    fn choice<'a>(request: &TextRequest, index: u32, choice: &'a Choice) -> impl Serialize + 'a {
        let finish = choice.finish;
        ChatChoice {
            index,
            message: Some(message(choice, request.function_call)),
            delta: None,
            logprobs: request
                .logprobs
                .then(|| ChatLogprobs::new(&choice.logprobs, request.told.by_id)),
            finish_reason: Some(finish.map_or("stop", |finish| finish_reason(request, finish))),
            token_ids: request.told.ids.then_some(&choice.ids),
        }
    }
}

fn event(
    events: &mut Events<'_, '_>,
    index: u32,
    delta: Delta<'_>,
    (logprobs, token_ids): (Option<ChatLogprobs<'_>>, Option<&[Token]>),
    finish: Option<Finish>,
) -> Result<()> {
    let request = events.request();
    events.event(ChatChoice {
        index,
        message: None,
        delta: Some(delta),
        logprobs,
        finish_reason: finish.map(|finish| finish_reason(request, finish)),
        token_ids,
    })
}

/// Returns the finish reason of a choice. It depends on how the request offers and chooses tools.
fn finish_reason(request: &TextRequest, finish: Finish) -> &'static str {
    match finish {
        Finish::ToolCalls if request.function_call => "function_call",
        Finish::ToolCalls if names_call(request) => "stop",
        finish => finish.as_str(),
    }
}

/// Returns true if the request demands a call of one tool by name.
fn names_call(request: &TextRequest) -> bool {
    match &request.input {
        RequestInput::Chat(chat) => matches!(chat.tool_choice, ToolChoice::Named(_)),
        RequestInput::Prompts(_) => false,
    }
}

/// Divides a chunk into deltas: reasoning, text and pieces of tool calls, each by itself.
fn deltas(chunk: &TextChunk, function_call: bool) -> impl Iterator<Item = Delta<'_>> {
    let given = |text| Some(text).filter(|text: &&str| !text.is_empty());
    let reasoning = given(&chunk.reasoning).map(|text| Delta {
        reasoning_content: Some(text),
        ..Delta::default()
    });
    let content = given(&chunk.text).map(|text| Delta {
        content: Some(text),
        ..Delta::default()
    });
    let calls = chunk.tool_calls.iter().map(move |call| {
        let mut delta = Delta::default();
        if function_call {
            delta.function_call = Some(function(call));
        } else {
            delta.tool_calls = vec![piece(call)];
        }
        delta
    });
    reasoning.into_iter().chain(content).chain(calls)
}

/// Returns the message of a whole answer. Its content is null if it has only tool calls.
fn message(choice: &Choice, function_call: bool) -> Value {
    let only_calls = choice.text.is_empty() && !choice.tool_calls.is_empty();
    let content = (!only_calls).then_some(&choice.text);
    let mut message = json!({ "role": "assistant", "content": content });
    if !choice.reasoning.is_empty() {
        message["reasoning_content"] = choice.reasoning.as_str().into();
    }
    message["refusal"] = Value::Null;
    let called =
        |call: &JoinedCall| json!({ "name": call.start.name, "arguments": call.arguments });
    match choice.tool_calls.as_slice() {
        [] => {}
        [first, ..] if function_call => message["function_call"] = called(first),
        calls => {
            let calls = calls.iter().map(|call| {
                let id = &*call.start.id;
                json!({ "id": id, "type": "function", "function": called(call) })
            });
            message["tool_calls"] = calls.collect();
        }
    }
    message
}

/// A choice of a chat: a whole message, or a delta of one.
#[derive(Serialize)]
struct ChatChoice<'a> {
    index: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delta: Option<Delta<'a>>,
    logprobs: Option<ChatLogprobs<'a>>,
    finish_reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_ids: Option<&'a [Token]>,
}

/// Addition to a message by a chunk. The role comes only once, because clients concatenate every
/// string they see.
#[derive(Default, Serialize)]
struct Delta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ToolCallPiece<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_call: Option<Function<'a>>,
}

/// A piece of a tool call. Only the first one has id, type and name.
#[derive(Serialize)]
struct ToolCallPiece<'a> {
    index: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    r#type: Option<&'static str>,
    function: Function<'a>,
}

/// Name and arguments in a piece of a tool call.
#[derive(Serialize)]
struct Function<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    arguments: &'a str,
}

fn function(delta: &ToolCallDelta) -> Function<'_> {
    Function {
        name: delta.start.as_ref().map(|start| start.name.as_str()),
        arguments: &delta.arguments,
    }
}

fn piece(delta: &ToolCallDelta) -> ToolCallPiece<'_> {
    let start = delta.start.as_ref();
    ToolCallPiece {
        index: delta.index,
        id: start.map(|start| &*start.id),
        r#type: start.map(|_| "function"),
        function: function(delta),
    }
}
