//! `ChatTemplateCalculator`: converts conversations to prompts.

use std::sync::Arc;

use graphmill_engine::{
    Calculator, CancelToken, Contract, Cx, Error, Flow, In, NoOptions, OpenCx, Out, Res, Result,
    Run, register,
};
use serde_json::{Map, Value};

use super::amendments::{self, Amendment};
use crate::llm::{LanguageModel, claim_room, wrong};
use crate::payload::{ChatInput, Prompt, Prompts, RequestInput, TemplatedPrompt, TextRequest};
use crate::text::chat_template::{ChatTemplate, TemplateError};
use crate::text::request_templates;

/// Renders a conversation's prompt with the model's chat template. Prompts of plain
/// completions pass unchanged.
///
/// The template is the file `chat_template_file` of the LLM node, or `chat_template.jinja` beside
/// the model, or the one inside the model (its `tool_use` template, if it has one, for
/// conversations with tools). If the server trusts templates of requests, a request's own template
/// takes precedence. A template sees `messages`, `tools`, `documents`, `add_generation_prompt`,
/// `bos_token`, `eos_token` and the request's `chat_template_kwargs`. A template that takes too
/// many steps, or makes much more text than it was given, is stopped.
///
/// If the template refuses a conversation or leaves a system message out, the conversation is
/// changed and tried again: system messages are joined into one, an assistant's text before a call
/// moves to its reasoning, and invalid arguments of calls are wrapped into objects. The node runs
/// on the executor `cpu`, because a conversation can be megabytes long.
///
/// ```pbtxt
/// input_stream: "REQUEST:request"
/// output_stream: "PROMPT:prompt"
/// node {
///   calculator: "ChatTemplateCalculator"
///   input_side_packet: "LLM_NODE_RESOURCES:llm"
///   input_stream: "REQUEST:request"
///   output_stream: "PROMPT:prompt"
/// }
/// ```
pub struct ApplyChatTemplate {
    model: Arc<LanguageModel>,
}

impl Calculator for ApplyChatTemplate {
    const NAME: &'static str = "ChatTemplateCalculator";
    const DOC: &'static str = "Renders a conversation's prompt with the model's chat template.";
    type Options = NoOptions;
    type Ports = (In<TextRequest>, Out<Prompts>, Res<LanguageModel>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        c.run(Run::Offload("cpu"));
        let request = c.input("REQUEST");
        let prompt = c.output("PROMPT");
        (request, prompt, c.resource("LLM_NODE_RESOURCES", None))
    }

    fn open(_: &NoOptions, (.., model): Self::Ports, cx: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self {
            model: cx.resource(model),
        })
    }

    fn process(&mut self, (request, prompt, _): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        let prompts = match cx.get(request).map(|request| &request.input) {
            None => return Ok(Flow::Continue),
            Some(RequestInput::Prompts(prompts)) => Arc::clone(prompts),
            Some(RequestInput::Chat(chat)) => {
                let templated = self.prompt(chat, &cx.run().cancel)?;
                Arc::new([Prompt::Templated(templated)])
            }
        };
        cx.emit(prompt, Prompts(prompts));
        Ok(Flow::Continue)
    }
}
register!(ApplyChatTemplate);

/// Bytes that a rendering takes for each byte of the conversation: its values, its text, and
/// intermediate results.
const BYTES_OF_EACH: usize = 6;
/// Variables that determine the end of a prompt. A request that replaces one of them may have its
/// prompt end anywhere.
const ENDINGS: [&str; 3] = ["messages", "bos_token", "eos_token"];

impl ApplyChatTemplate {
    fn prompt(&self, chat: &ChatInput, cancel: &CancelToken) -> Result<TemplatedPrompt> {
        let bytes: usize = chat.messages.iter().map(ChatTemplate::input_bytes).sum();
        let _claim = claim_room(bytes.saturating_mul(BYTES_OF_EACH))?;
        let kwargs = &*chat.template_kwargs;
        let generates = kwargs.get("add_generation_prompt");
        let is_own = ENDINGS.iter().any(|name| kwargs.contains_key(*name))
            || generates.is_some_and(|generates| *generates != true)
            || chat.template.is_some();
        let text = self.render(chat, cancel)?;
        Ok(TemplatedPrompt {
            last_turn: last_turn(&text, &chat.messages),
            text,
            partner: chat.partner.clone(),
            awaits_reply: !chat.continues && !is_own,
            media: Arc::clone(&chat.media),
        })
    }

    fn render(&self, chat: &ChatInput, cancel: &CancelToken) -> Result<String> {
        let vocab = self.model.vocab();
        let list = |values: &Vec<Value>| Value::Array(values.clone());
        let mut variables = Map::new();
        variables.insert("messages".to_owned(), list(&chat.messages));
        variables.insert(
            "tools".to_owned(),
            chat.tools.as_deref().map_or(Value::Null, list),
        );
        variables.insert("documents".to_owned(), Value::Null);
        let generates = Value::Bool(!chat.continues);
        variables.insert("add_generation_prompt".to_owned(), generates);
        variables.insert("bos_token".to_owned(), Value::String(vocab.bos_text()));
        variables.insert("eos_token".to_owned(), Value::String(vocab.eos_text()));
        for (name, value) in &*chat.template_kwargs {
            variables.insert(name.clone(), value.clone());
        }
        let own = chat.template.as_deref().map(request_templates::compiled);
        let own = own.transpose().map_err(|error| {
            let message = format!("cannot be used: {error}");
            wrong("chat_template", &message, "invalid_value")
        })?;
        let template = match &own {
            Some(own) => own,
            None => self.model.chat_template(chat.tools.is_some())?,
        };
        check_roles(&chat.messages, template.source())?;
        let mut variables = Value::Object(variables);
        let mut text = template.render_until(&variables, cancel.clone());
        let is_own = chat.template_kwargs.contains_key("messages");
        let amendments: &[Amendment] = match &text {
            _ if is_own => &[],
            Ok(text) if amendments::tells(text, &chat.messages) => &[],
            Ok(_) => &[amendments::one_system_message],
            Err(TemplateError::Stopped { .. }) => &[],
            Err(_) => amendments::ALL,
        };
        for amend in amendments {
            let messages = variables["messages"].as_array();
            let Some(amended) = messages.and_then(|messages| amend(messages)) else {
                continue;
            };
            variables["messages"] = amended.into();
            let again = template.render_until(&variables, cancel.clone());
            if again.is_ok() {
                text = again;
                break;
            }
        }
        let text = text.map_err(|error| rejected(error, own.is_some()))?;
        match chat.messages.last() {
            Some(message) if chat.continues => left_open(text, message),
            _ => Ok(text),
        }
    }
}

/// Roles that are accepted even if the template does not name them.
const ROLES: [&str; 5] = ["system", "user", "assistant", "tool", "function"];

/// Refuses roles that are neither usual in chats nor named by the template. Most templates would
/// write them into the prompt unchanged.
fn check_roles(messages: &[Value], template: &str) -> Result<()> {
    for (index, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        let is_named = |quote: char| template.contains(&format!("{quote}{role}{quote}"));
        if !ROLES.contains(&role) && !is_named('\'') && !is_named('"') {
            let field = format!("messages[{index}].role");
            let message = "is not a role of this model's chat template: expected `system`, \
                           `developer`, `user`, `assistant`, `tool` or `function`";
            return Err(wrong(&field, message, "invalid_value"));
        }
    }
    Ok(())
}

/// Returns the byte of a rendered conversation at which the content of the last user message
/// begins.
fn last_turn(text: &str, messages: &[Value]) -> Option<usize> {
    let mut asked = messages.iter().rev();
    let last = asked.find(|message| message["role"] == "user")?;
    let content = last["content"].as_str()?.trim();
    text.rfind(content).filter(|_| !content.is_empty())
}

/// Cuts a rendered conversation after the content of its last message, so that the answer continues
/// it.
fn left_open(mut text: String, last: &Value) -> Result<String> {
    let content = last["content"].as_str().unwrap_or_default();
    let trimmed = content.trim();
    let refused = |why: &str| Err(wrong("continue_final_message", why, "invalid_value"));
    if trimmed.is_empty() {
        return refused("needs a last message that has text");
    }
    let Some(begin) = text.rfind(trimmed) else {
        return refused("cannot be used: the chat template changes the last message");
    };
    // Templates that trim contents remove the space at the end.
    let whole = content.trim_start();
    let kept = if text[begin..].starts_with(whole) {
        whole
    } else {
        trimmed
    };
    text.truncate(begin + kept.len());
    Ok(text)
}

/// Returns the error of a failed rendering. A refused conversation, or a failure of the request's
/// own template, is the client's fault.
fn rejected(error: TemplateError, is_own: bool) -> Error {
    let (whose, field) = if is_own {
        ("request's", "chat_template")
    } else {
        ("model's", "messages")
    };
    let message = match &error {
        TemplateError::Raised(message) => {
            format!("the {whose} chat template refuses the conversation: {message}")
        }
        _ => format!("the {whose} chat template fails on the conversation: {error}"),
    };
    let refusal = Error::invalid(message).with_field(field);
    let refusal = match &error {
        TemplateError::Stopped { .. } => refusal.with_code("template_limit_exceeded"),
        _ => refusal,
    };
    refusal.with_source(error)
}
