//! Conversion of a request for a response to a conversation.

use std::sync::Arc;

use graphmill_dialects::{
    Fields,
    bodies::{
        Said, Text,
        responses::{Item, Part, Responses, ResponsesFormat},
        tools::Tools,
    },
    json::{Allowance, JsonBody},
};
use graphmill_engine::Result;
use serde_json::{Map, Value, json};

use super::{
    compact::summary,
    tools::{self, Toolbox},
};
use crate::http::{
    OwnParams, arguments,
    chat::conversation,
    fields::{conflicting, missing},
    structured,
    turns::{Content, Turns},
    wire::number,
};
use crate::payload::{ChatInput, Constraint, GenerationParams, MediaKind};

/// Reads the conversation and own parameters of a request.
pub(super) fn read(body: &JsonBody, fields: &mut Fields) -> Result<(ChatInput, OwnParams)> {
    let own: Responses = fields.take()?;
    if body.has("max_output_tokens") && body.has("max_tokens") {
        return Err(conflicting("max_tokens", "max_output_tokens"));
    }
    let mut toolbox = Toolbox {
        are_calls_held: own.tool_choice.as_ref().is_some_and(tools::demands_call),
        ..Toolbox::default()
    };
    toolbox.add(own.tools.unwrap_or_default(), "tools", fields)?;
    let allowance = &body.allowance();
    let mut turns = Turns::default();
    if let Some(instructions) = own.instructions {
        turns.say("system", Content::from_text(&instructions));
    }
    match own.input.ok_or_else(|| missing("input"))? {
        Text::Whole(text) => turns.say("user", Content::from_text(&text)),
        Text::Parts(items) => {
            for (index, item) in items.into_iter().enumerate() {
                let path = format!("input[{index}]");
                let item = match item {
                    Item::AdditionalTools { tools } | Item::ToolSearchOutput { tools } => {
                        toolbox.add(tools, &format!("{path}.tools"), fields)?;
                        continue;
                    }
                    item => item,
                };
                if !add(item, &path, &mut turns, allowance) {
                    let kind = body
                        .get("input")?
                        .and_then(|items| items[index]["type"].as_str());
                    fields.ignore(format!("{path}:{}", kind.unwrap_or_default()));
                }
            }
        }
    }
    let chat = fields.take()?;
    let mut said: Tools = fields.take()?;
    let functions: Vec<Value> = toolbox.functions.into_iter().map(|it| it.1).collect();
    said.tools = Some(functions).filter(|functions| !functions.is_empty());
    said.tool_choice = own.tool_choice.map(tools::choice);
    said.reasoning_effort = own.reasoning.effort.or(said.reasoning_effort);
    let (mut chat, mut params) = conversation(chat, said, turns)?;
    chat.tool_origins = Arc::new(toolbox.origins);
    params.constraint = match own.text.format {
        None | Some(ResponsesFormat::Text) => None,
        Some(ResponsesFormat::JsonObject) => {
            Some(structured::asked_by("text.format", Constraint::JsonObject))
        }
        Some(ResponsesFormat::JsonSchema { schema, .. }) => {
            Some(structured::schema("text.format.schema", schema, allowance)?)
        }
    };
    params.repeated = repeated(body)?;
    Ok((chat, params))
}

/// Adds an item to the conversation. Returns false if the model does not see such items.
fn add(item: Item, path: &str, turns: &mut Turns, allowance: &Allowance) -> bool {
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
            namespace,
            name,
            arguments,
        } => {
            let path = format!("{path}.arguments");
            let arguments = arguments::parse(arguments, &path, allowance);
            let name = tools::name_within(namespace.as_deref(), &name);
            turns.call(&call_id, &name, arguments);
        }
        Item::CustomToolCall {
            call_id,
            namespace,
            name,
            input,
        } => {
            let name = tools::name_within(namespace.as_deref(), &name);
            turns.call(&call_id, &name, tools::arguments_of(input));
        }
        Item::FunctionCallOutput { call_id, output }
        | Item::CustomToolCallOutput { call_id, output } => {
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
        Item::Compaction { encrypted_content } => match summary(&encrypted_content) {
            Some(summary) => turns.say("user", Content::from_text(summary)),
            None => return false,
        },
        Item::AdditionalTools { .. } | Item::ToolSearchOutput { .. } | Item::OfProvider => {
            return false;
        }
    }
    true
}

fn content(content: Text<Part>, path: &str) -> Content {
    let parts = match content {
        Text::Whole(text) => return Content::from_text(&text),
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

/// Adds the effective parameters to the fields that a response repeats.
pub(super) fn complete(repeated: &mut Map<String, Value>, params: &GenerationParams) {
    let sampling = &params.sampling;
    repeated.insert("temperature".to_owned(), number(sampling.temperature));
    repeated.insert("top_p".to_owned(), number(sampling.top_p));
}

/// Returns the fields of a request that its response repeats.
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
