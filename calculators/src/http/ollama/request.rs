//! Conversion of requests in Ollama's form to conversations, or to prompts.

use graphmill_dialects::{
    Fields,
    bodies::{
        chat, completions as of_completions,
        ollama::{
            Common, KEEP_ALIVE, Limit, OPTIONS, OllamaChat, OllamaGenerate, OllamaMessage, Think,
        },
        tools::Tools,
    },
    json::Allowance,
};
use graphmill_engine::Result;
use serde_json::{Map, Value};

use crate::http::{
    OwnParams,
    chat::conversation,
    completions,
    fields::{conflicting, invalid, missing, written},
    structured,
    turns::{Content, Turns},
};
use crate::payload::{Constraint, MediaKind, Prompt, RequestInput};

/// Characters of durations such as `1h30m`, `0` and `-1`.
const OF_TIMES: &str = "+-.0123456789hmnsuµ";

/// The id of a call without a result so far, and the name of its tool.
type OpenCall = (String, String);

/// Reads the conversation and own parameters of `api/chat`.
pub(super) fn chat(
    fields: &mut Fields,
    allowance: &Allowance,
) -> Result<(RequestInput, OwnParams)> {
    let own: OllamaChat = fields.take()?;
    if own.messages.is_empty() {
        return Err(missing("messages"));
    }
    let mut turns = Turns::default();
    let mut open = Vec::new();
    for (index, message) in own.messages.into_iter().enumerate() {
        add(message, index, &mut turns, &mut open);
    }
    let common = common(fields)?;
    answered(common, turns, fields, allowance)
}

/// Reads the prompt of `api/generate`: the question of a user, or with `raw` a plain prompt.
pub(super) fn generate(
    fields: &mut Fields,
    allowance: &Allowance,
) -> Result<(RequestInput, OwnParams)> {
    let own: OllamaGenerate = fields.take()?;
    if own.prompt.is_empty() {
        return Err(missing("prompt"));
    }
    let common = common(fields)?;
    if !own.raw && own.suffix.is_empty() {
        let mut turns = Turns::default();
        if !own.system.is_empty() {
            turns.say("system", Content::from_text(&own.system));
        }
        let content = content(&own.prompt, &own.images, "images");
        turns.say("user", content);
        return answered(common, turns, fields, allowance);
    }
    let thinks = !matches!(common.think, None | Some(Think::Switch(false)));
    let bare = if own.raw { "raw" } else { "suffix" };
    for (field, is_there) in [
        ("system", !own.system.is_empty()),
        ("images", !own.images.is_empty()),
        ("think", thinks),
    ] {
        if is_there {
            return Err(conflicting(field, bare));
        }
    }
    let prompt = if own.suffix.is_empty() {
        Prompt::Spelled {
            text: own.prompt,
            add_special: true,
            parse_special: true,
        }
    } else {
        Prompt::Text(own.prompt)
    };
    let gap = of_completions::Completions {
        suffix: own.suffix,
        ..of_completions::Completions::default()
    };
    let input = completions::input(vec![prompt], &gap)?;
    // Their fields about tokens mean the same without a conversation.
    let (chat, said) = (fields.take()?, fields.take()?);
    let (_, params) = conversation(chat, said, Turns::default())?;
    Ok((input, complete(common, fields, params, allowance)?))
}

/// Returns true if a graph is not to be kept in memory.
///
/// # Errors
/// The value is not a duration.
pub(super) fn is_no_time(kept: &Value) -> Result<bool> {
    match kept {
        Value::Number(seconds) => Ok(seconds.as_f64() == Some(0.0)),
        Value::String(time)
            if time.contains(|c: char| c.is_ascii_digit())
                && time.chars().all(|c| OF_TIMES.contains(c)) =>
        {
            Ok(!time.contains(|c| matches!(c, '1'..='9')))
        }
        _ => {
            let value = written(kept);
            let why = format!("must be a number of seconds, or a time such as `5m`, not {value}");
            Err(invalid(KEEP_ALIVE, why))
        }
    }
}

/// Reads the fields of all requests. Options become fields like others.
fn common(fields: &mut Fields) -> Result<Common> {
    let mut common: Common = fields.take()?;
    let options: Map<String, Value> = std::mem::take(&mut common.options);
    for (name, value) in options.iter().filter(|(_, value)| !value.is_null()) {
        let path = format!("options.{name}");
        if OPTIONS.contains(&name.as_str()) {
            fields.insert_from(&path, name, value)?;
        } else {
            fields.ignore(path);
        }
    }
    Ok(common)
}

/// Returns the input of a conversation with these turns, and own parameters.
fn answered(
    common: Common,
    turns: Turns,
    fields: &mut Fields,
    allowance: &Allowance,
) -> Result<(RequestInput, OwnParams)> {
    let (mut chat, mut said): (chat::Chat, Tools) = (fields.take()?, fields.take()?);
    if turns.ends_with_assistant() {
        chat.continue_final_message = true;
        chat.add_generation_prompt = Some(false);
    }
    match &common.think {
        None => {}
        Some(Think::Switch(thinks)) => said.enable_thinking = Some(*thinks),
        Some(Think::Effort(effort)) => said.reasoning_effort = Some(effort.clone()),
    }
    let (chat, params) = conversation(chat, said, turns)?;
    let params = complete(common, fields, params, allowance)?;
    Ok((RequestInput::Chat(chat), params))
}

/// Adds the dialect's own fields to the parameters of generation.
fn complete(
    common: Common,
    fields: &mut Fields,
    mut params: OwnParams,
    allowance: &Allowance,
) -> Result<OwnParams> {
    let limit: Limit = fields.take()?;
    if let Some(tokens) = limit.num_predict {
        params.max_tokens = Some(if tokens > 0 { tokens } else { -1 });
    }
    params.stream = common.stream.unwrap_or(true);
    params.constraint = match common.format {
        None => None,
        Some(Value::String(name)) if name.is_empty() => None,
        Some(Value::String(_)) => Some(structured::asked_by("format", Constraint::JsonObject)),
        Some(schema) => Some(structured::schema("format", schema, allowance)?),
    };
    Ok(params)
}

/// Adds a message to the turns. Calls without a result are noted in `open`.
fn add(message: OllamaMessage, index: usize, turns: &mut Turns, open: &mut Vec<OpenCall>) {
    let path = format!("messages[{index}].images");
    let images = message.images.unwrap_or_default();
    let text = message.content.unwrap_or_default();
    let content = content(&text, &images, &path);
    if message.role == "tool" {
        let (id, tool) = (message.tool_call_id, message.tool_name);
        let answers = |call: &OpenCall| match (&id, &tool) {
            (Some(id), _) => call.0 == *id,
            (None, Some(tool)) => call.1 == *tool,
            (None, None) => true,
        };
        let called = open.iter().position(answers).map(|at| open.remove(at).0);
        turns.result(&called.or(id).unwrap_or_default(), content);
        if let (Some(result), Some(tool)) = (turns.messages.last_mut(), tool) {
            result["name"] = tool.into();
        }
        return;
    }
    if let Some(thinking) = message.thinking.filter(|thinking| !thinking.is_empty()) {
        turns.think(&thinking);
    }
    let calls = message.tool_calls.unwrap_or_default();
    if calls.is_empty() || !text.is_empty() || !images.is_empty() {
        turns.say(&message.role, content);
    }
    for (number, call) in calls.into_iter().enumerate() {
        let id = call.id.filter(|id| !id.is_empty());
        let id = id.unwrap_or_else(|| format!("call_{index}_{number}"));
        let (name, arguments) = (call.function.name, call.function.arguments);
        turns.call(&id, &name, arguments.unwrap_or_default());
        open.push((id, name));
    }
}

/// Joins images, whose list is at `path` in the request, and the text after them.
fn content(text: &str, images: &[String], path: &str) -> Content {
    let mut content = Content::default();
    for (index, image) in images.iter().enumerate() {
        let url = format!("data:image;base64,{image}");
        content.medium(MediaKind::Image, &url, &format!("{path}[{index}]"));
    }
    content.text(text);
    content
}
