//! Conversion of a request for a message to a conversation.

use graphmill_dialects::{
    Fields,
    bodies::{
        Said, Text,
        chat::Chat,
        messages::{
            Block, Document, DocumentSource, Format, Image, Messages, ResultBlock, SearchResult,
            Source, SystemBlock,
        },
        tools::Tools,
    },
    json::JsonBody,
};
use graphmill_engine::Result;
use serde_json::{Map, Value, json};

use crate::http::{
    OwnParams,
    chat::{Names, conversation, function_of},
    fields::{code, conflicting, invalid, missing},
    structured,
    turns::{Content, Turns},
};
use crate::payload::{MediaKind, RequestInput};

/// Reads the conversation and own parameters of a request.
pub(super) fn read(body: &JsonBody, fields: &mut Fields) -> Result<(RequestInput, OwnParams)> {
    let own: Messages = fields.take()?;
    for (edit, index) in own.context_management.edits.iter().zip(0_u32..) {
        fields.ignore(format!("context_management.edits[{index}]:{}", edit.kind));
    }
    for name in own.context_management.unknown.keys() {
        fields.ignore(format!("context_management.{name}"));
    }
    let (mut chat, mut said): (Chat, Tools) = (fields.take()?, fields.take()?);
    let mut turns = Turns::default();
    match own.system {
        None => {}
        Some(Text::Whole(text)) => turns.say("system", Content::from_text(&text)),
        Some(Text::Parts(blocks)) => {
            let mut content = Content::default();
            for SystemBlock::Text(Said { text }) in blocks {
                content.text(&text);
            }
            turns.say("system", content);
        }
    }
    let messages = own.messages.ok_or_else(|| missing("messages"))?;
    for (index, message) in messages.into_iter().enumerate() {
        match message.content {
            Text::Whole(text) => turns.say(&message.role, Content::from_text(&text)),
            Text::Parts(blocks) => {
                let path = format!("messages[{index}].content");
                let given = body.get("messages")?.map(|all| &all[index]["content"]);
                let kind = |at: usize| given.and_then(|blocks| blocks[at]["type"].as_str());
                add(&message.role, blocks, &path, &kind, &mut turns, fields)?;
            }
        }
    }
    if turns.ends_with_assistant() {
        chat.continue_final_message = true;
        chat.add_generation_prompt = Some(false);
    }
    said.tools = own.tools.map(|all| tools(all, fields)).transpose()?;
    if let Some(choice) = own.tool_choice {
        let name = choice.name.filter(|_| choice.kind == "tool");
        said.tool_choice = Some(match &*choice.kind {
            "tool" => {
                let name = name.ok_or_else(|| missing("tool_choice.name"))?;
                json!({ "type": "function", "name": name })
            }
            "any" => json!("required"),
            other => json!(other),
        });
        if choice.disable_parallel_tool_use == Some(true) {
            said.parallel_tool_calls = Some(false);
        }
    }
    said.reasoning_effort = own.output_config.effort.or(said.reasoning_effort);
    let (chat, mut params) = conversation(chat, said, turns)?;
    let format = match (own.output_config.format, own.output_format) {
        (Some(_), Some(_)) => return Err(conflicting("output_format", "output_config.format")),
        (Some(format), None) => Some(("output_config.format.schema", format)),
        (None, earlier) => earlier.map(|format| ("output_format.schema", format)),
    };
    if let Some((field, Format::JsonSchema { schema })) = format {
        params.constraint = Some(structured::schema(field, schema, &body.allowance())?);
    }
    if let Some(stops) = own.stop_sequences {
        if fields.has("stop") {
            return Err(conflicting("stop", "stop_sequences"));
        }
        let stops: Vec<String> = Text::Parts(stops).into();
        let repeated = ("stop_sequences".to_owned(), json!(stops));
        params.repeated.extend([repeated]);
        params.stop = Some(stops);
    }
    Ok((RequestInput::Chat(chat), params))
}

/// Converts the client's tools to the form that templates expect. The provider's are left out.
fn tools(all: Vec<Map<String, Value>>, fields: &mut Fields) -> Result<Vec<Value>> {
    let (mut tools, mut names) = (Vec::with_capacity(all.len()), Names::default());
    for (index, tool) in all.into_iter().enumerate() {
        match (tool.get("type").and_then(Value::as_str), tool.get("name")) {
            (Some("custom"), Some(Value::String(name))) => {
                names.add(name, || format!("tools[{index}].name"))?;
                tools.push(function_of(tool, "input_schema"));
            }
            (kind, _) => fields.ignore(format!("tools[{index}]:{}", kind.unwrap_or_default())),
        }
    }
    Ok(tools)
}

/// Adds the blocks of a message. Blocks that are left out are reported with their `kind`.
fn add<'a>(
    role: &str,
    blocks: Vec<Block>,
    path: &str,
    kind: &dyn Fn(usize) -> Option<&'a str>,
    turns: &mut Turns,
    fields: &mut Fields,
) -> Result<()> {
    if blocks.is_empty() {
        turns.say(role, Content::from_text(""));
    }
    let mut content = Content::default();
    for (index, block) in blocks.into_iter().enumerate() {
        let path = format!("{path}[{index}]");
        match (block, role) {
            (Block::Text(said), _) => content.text(&said.text),
            (Block::Image(image), "user") => look(&image, &path, &mut content),
            (Block::Document(document), "user") => content.text(&read_out(document)),
            (Block::SearchResult(found), "user") => content.text(&list(found)),
            (Block::Compaction { content: summary }, _) => {
                if let Some(summary) = summary {
                    content = Content::default();
                    turns.sum_up(&summary);
                }
            }
            (Block::OfProvider, _) => {
                fields.ignore(format!("{path}:{}", kind(index).unwrap_or_default()));
            }
            (Block::Thinking { thinking }, "assistant") => turns.think(&thinking),
            (Block::RedactedThinking, "assistant") => {}
            (Block::ToolUse { id, name, input }, "assistant") => {
                say(role, &mut content, turns);
                turns.call(&id, &name, input.unwrap_or_default());
            }
            (
                Block::ToolResult {
                    tool_use_id,
                    content: result,
                    ..
                },
                "user",
            ) => {
                say(role, &mut content, turns);
                turns.result(&tool_use_id, read_result(result, &path));
            }
            _ => {
                let why = format!("is not supported in a message of `{role}`");
                return Err(invalid(format!("{path}.type"), why).with_code(code::UNSUPPORTED));
            }
        }
    }
    say(role, &mut content, turns);
    Ok(())
}

/// Adds the texts and images since the last block of another kind.
fn say(role: &str, content: &mut Content, turns: &mut Turns) {
    if !content.is_empty() {
        turns.say(role, std::mem::take(content));
    }
}

fn read_result(result: Option<Text<ResultBlock>>, path: &str) -> Content {
    let blocks = match result {
        None => return Content::from_text(""),
        Some(Text::Whole(text)) => return Content::from_text(&text),
        Some(Text::Parts(blocks)) => blocks,
    };
    let mut content = Content::default();
    for (index, block) in blocks.into_iter().enumerate() {
        match block {
            ResultBlock::Text(said) => content.text(&said.text),
            ResultBlock::Image(image) => {
                look(&image, &format!("{path}.content[{index}]"), &mut content);
            }
            ResultBlock::Document(document) => content.text(&read_out(document)),
            ResultBlock::SearchResult(found) => content.text(&list(found)),
            ResultBlock::ToolReference { tool_name } => {
                content.text(&format!("The tool `{tool_name}` can be called."));
            }
        }
    }
    content
}

/// Converts a document to a text.
fn read_out(document: Document) -> String {
    let texts = match document.source {
        DocumentSource::Text { data } => vec![data],
        DocumentSource::Content { content } => match content {
            Text::Whole(text) => vec![text],
            Text::Parts(parts) => parts.into_iter().map(|part| part.text).collect(),
        },
    };
    let head = [document.title, document.context].into_iter().flatten();
    head.chain(texts).collect::<Vec<_>>().join("\n")
}

/// Converts a search result to a text.
fn list(found: SearchResult) -> String {
    let texts = found.content.into_iter().map(|part| part.text);
    let head = [found.title, found.source].into_iter();
    head.chain(texts).collect::<Vec<_>>().join("\n")
}

fn look(image: &Image, path: &str, content: &mut Content) {
    match &image.source {
        Source::Url { url } => content.medium(MediaKind::Image, url, path),
        Source::Base64 { media_type, data } => {
            let url = format!("data:{media_type};base64,{data}");
            content.medium(MediaKind::Image, &url, path);
        }
    }
}
