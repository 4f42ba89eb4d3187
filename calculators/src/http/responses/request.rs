//! The request as a conversation.

use graphmill_dialects::{
    Fields,
    bodies::{
        Said, Text,
        responses::{Format, Item, Part, Responses},
        tools::Tools,
    },
    json::JsonBody,
};
use graphmill_engine::Result;
use serde_json::{Map, Value, json};

use crate::http::{
    OwnParams,
    chat::{self, conversation, tools_of},
    fields::missing,
    structured,
    turns::{Content, Turns},
    wire::number,
};
use crate::payload::{Constraint, GenerationParams, MediaKind, RequestInput, json::Allowance};

/// Reads a request.
pub(super) fn read(body: &JsonBody, fields: &mut Fields) -> Result<(RequestInput, OwnParams)> {
    let own: Responses = fields.take()?;
    let allowance = &body.allowance();
    let mut turns = Turns::default();
    if let Some(instructions) = own.instructions {
        turns.say("system", Content::of(&instructions));
    }
    match own.input.ok_or_else(|| missing("input"))? {
        Text::Whole(text) => turns.say("user", Content::of(&text)),
        Text::Parts(items) => {
            for (index, item) in items.into_iter().enumerate() {
                add(item, &format!("input[{index}]"), &mut turns, allowance)?;
            }
        }
    }
    let chat = fields.take()?;
    let mut said: Tools = fields.take()?;
    said.tools = own.tools.map(|tools| tools_of(tools, "parameters"));
    said.tool_choice = own.tool_choice;
    said.reasoning_effort = own.reasoning.effort.or(said.reasoning_effort);
    let (chat, mut params) = conversation(chat, said, turns)?;
    params.constraint = match own.text.format {
        None | Some(Format::Text) => None,
        Some(Format::JsonObject) => Some(structured::of("text.format", Constraint::JsonObject)),
        Some(Format::JsonSchema { schema, .. }) => {
            Some(structured::schema("text.format.schema", schema, allowance)?)
        }
    };
    params.repeated = repeated(body)?;
    Ok((RequestInput::Chat(chat), params))
}

/// Adds an item to the conversation.
fn add(item: Item, path: &str, turns: &mut Turns, allowance: &Allowance) -> Result<()> {
    match item {
        Item::Message { role, content } => {
            let role = match &*role {
                "developer" => "system",
                role => role,
            };
            turns.say(role, self::content(content, &format!("{path}.content")));
        }
        Item::FunctionCall {
            call_id,
            name,
            arguments,
        } => {
            let arguments = match arguments.trim() {
                "" => Map::new(),
                text => chat::arguments(text, &format!("{path}.arguments"), allowance)?,
            };
            turns.call(&call_id, &name, arguments);
        }
        Item::FunctionCallOutput { call_id, output } => {
            turns.result(&call_id, content(output, &format!("{path}.output")));
        }
        Item::Reasoning { content, summary } => {
            let told = content.filter(|content| !content.is_empty()).or(summary);
            let texts = told.into_iter().flatten().map(|thought| thought.text);
            let thought = texts.collect::<Vec<_>>().join("\n");
            if !thought.is_empty() {
                turns.think(&thought);
            }
        }
    }
    Ok(())
}

fn content(content: Text<Part>, path: &str) -> Content {
    let parts = match content {
        Text::Whole(text) => return Content::of(&text),
        Text::Parts(parts) => parts,
    };
    let mut content = Content::default();
    for (index, part) in parts.into_iter().enumerate() {
        let path = format!("{path}[{index}]");
        match part {
            Part::InputText(Said { text })
            | Part::OutputText(Said { text })
            | Part::Text(Said { text })
            | Part::Refusal { refusal: text } => content.text(&text),
            Part::InputImage { image_url, .. } => {
                content.medium(MediaKind::Image, &image_url, &path);
            }
            Part::InputAudio { input_audio } => {
                content.medium(MediaKind::Sound, &input_audio.data, &path);
            }
        }
    }
    content
}

/// Adds to what a response repeats the values that it was generated with.
pub(super) fn complete(repeated: &mut Map<String, Value>, params: &GenerationParams) {
    let sampling = &params.sampling;
    repeated.insert("temperature".to_owned(), number(sampling.temperature));
    repeated.insert("top_p".to_owned(), number(sampling.top_p));
}

/// Fields that a response repeats of its request.
fn repeated(body: &JsonBody) -> Result<Map<String, Value>> {
    let or = |name: &str, usual: Value| Ok(body.get(name)?.cloned().unwrap_or(usual));
    let mut text = or("text", json!({}))?;
    if text["format"].is_null() {
        text["format"] = json!({ "type": "text" });
    }
    let fields = json!({
        "instructions": or("instructions", Value::Null)?,
        "max_output_tokens": or("max_output_tokens", Value::Null)?,
        "parallel_tool_calls": or("parallel_tool_calls", json!(true))?,
        "previous_response_id": null,
        "reasoning": or("reasoning", json!({ "effort": null, "summary": null }))?,
        "background": false,
        "store": false,
        "text": text,
        "tool_choice": or("tool_choice", json!("auto"))?,
        "tools": or("tools", json!([]))?,
        "top_logprobs": 0,
        "truncation": "disabled",
        "user": or("user", Value::Null)?,
        "metadata": or("metadata", json!({}))?,
        "service_tier": "default",
    });
    match fields {
        Value::Object(fields) => Ok(fields),
        _ => Ok(Map::new()),
    }
}
