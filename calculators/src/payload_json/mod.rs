//! JSON form of the packets of a chat graph, for tools that run a graph from a file and show its
//! output.

use std::time::Duration;

use graphmill_engine::{Timestamp, register_payload};
use graphmill_llm::DraftCounts;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::payload::{
    Finish, HttpRequestPayload, HttpResponse, Prompt, Prompts, TemplatedPrompt, TextChunk, Token,
    TokenChunk, TokenLogprob, TokenPrompts, ToolCallDelta, ToolCallStart, Usage,
};

mod http;
mod logprobs;

use http::{request_from_json, request_to_json, response_from_json, response_to_json};
use logprobs::{EchoForm, LogprobForm};

register_payload!(HttpRequestPayload as "http_request", request_to_json, request_from_json);
register_payload!(HttpResponse as "http_response", response_to_json, response_from_json);
register_payload!(Prompts as "prompts", prompts_to_json, prompts_from_json);
register_payload!(
    TokenPrompts as "token_prompts",
    |prompts: &TokenPrompts| prompts.0.iter().map(|prompt| json!(prompt.tokens)).collect(),
    |value: &Value| {
        let prompts: Vec<Vec<Token>> = read(value)?;
        Ok(TokenPrompts(prompts.into_iter().map(Into::into).collect()))
    }
);
register_payload!(TokenChunk as "token_chunk", token_chunk_to_json, token_chunk_from_json);
register_payload!(TextChunk as "text_chunk", text_chunk_to_json, text_chunk_from_json);

fn read<T: for<'d> Deserialize<'d>>(value: &Value) -> Result<T, String> {
    T::deserialize(value).map_err(|error| error.to_string())
}

fn prompts_to_json(prompts: &Prompts) -> Value {
    let prompt = |prompt: &Prompt| match prompt {
        Prompt::Text(text) => json!({ "text": text }),
        Prompt::Templated(prompt) => json!({ "templated": prompt.text }),
        Prompt::Gap {
            before,
            after,
            context,
            ..
        } => {
            let mut gap = json!({ "before": before, "after": after });
            if !context.is_empty() {
                gap["context"] = json!(context);
            }
            json!({ "gap": gap })
        }
        Prompt::Spelled {
            text,
            add_special,
            parse_special,
        } => json!({
            "spelled": { "text": text, "add_special": add_special, "parse_special": parse_special }
        }),
        Prompt::Tokens(tokens) => json!({ "tokens": tokens }),
        Prompt::Vectors(vectors) => json!({
            "vectors": { "numbers": vectors.numbers().len(), "width": vectors.width() }
        }),
    };
    prompts.0.iter().map(prompt).collect()
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum PromptForm {
    Text(String),
    Templated(String),
    Gap {
        before: String,
        after: String,
        #[serde(default)]
        context: Vec<graphmill_llm::NamedText>,
    },
    Spelled {
        text: String,
        add_special: bool,
        parse_special: bool,
    },
    Tokens(Vec<graphmill_llm::Token>),
}

fn prompts_from_json(value: &Value) -> Result<Prompts, String> {
    let prompts: Vec<PromptForm> = read(value)?;
    let prompt = |form: PromptForm| match form {
        PromptForm::Text(text) => Prompt::Text(text),
        PromptForm::Templated(text) => Prompt::Templated(TemplatedPrompt {
            text,
            ..TemplatedPrompt::default()
        }),
        PromptForm::Gap {
            before,
            after,
            context,
        } => Prompt::Gap {
            before,
            after,
            field: "suffix",
            context,
        },
        PromptForm::Spelled {
            text,
            add_special,
            parse_special,
        } => Prompt::Spelled {
            text,
            add_special,
            parse_special,
        },
        PromptForm::Tokens(tokens) => Prompt::Tokens(tokens),
    };
    Ok(Prompts(prompts.into_iter().map(prompt).collect()))
}

/// Text of one choice. Fields that are left out are zero, empty or absent.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct TextForm {
    prompt: i64,
    index: u32,
    text: String,
    reasoning: String,
    tool_calls: Vec<ToolCallForm>,
    finish: Option<FinishForm>,
    usage: UsageForm,
}

/// Tokens of one choice. Fields that are left out are zero, empty or absent.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct TokensForm {
    prompt: i64,
    index: u32,
    echo: Option<EchoForm>,
    tokens: Vec<Token>,
    ids: Vec<Token>,
    logprobs: Vec<LogprobForm>,
    finish: Option<FinishForm>,
    usage: UsageForm,
}

#[derive(Copy, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FinishForm {
    Stop,
    Length,
    ToolCalls,
}

impl From<FinishForm> for Finish {
    fn from(form: FinishForm) -> Self {
        match form {
            FinishForm::Stop => Self::Stop,
            FinishForm::Length => Self::Length,
            FinishForm::ToolCalls => Self::ToolCalls,
        }
    }
}

/// A piece of a tool call. Only the first one has `id` and `name`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolCallForm {
    #[serde(default)]
    index: u32,
    id: Option<String>,
    name: Option<String>,
    #[serde(default)]
    arguments: String,
}

impl From<ToolCallForm> for ToolCallDelta {
    fn from(form: ToolCallForm) -> Self {
        let ToolCallForm {
            index,
            id,
            name,
            arguments,
        } = form;
        Self {
            index,
            start: name.map(|name| ToolCallStart {
                id: id.unwrap_or_default().into(),
                name,
            }),
            arguments,
        }
    }
}

fn tool_call_to_json(call: &ToolCallDelta) -> Value {
    let mut json = json!({ "index": call.index, "arguments": call.arguments });
    if let Some(start) = &call.start {
        json["id"] = start.id.as_ref().into();
        json["name"] = start.name.as_str().into();
    }
    json
}

#[derive(Copy, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct UsageForm {
    prompt_tokens: u32,
    cached_tokens: u32,
    sound_tokens: u32,
    generated_tokens: u32,
    drafts: Option<DraftsForm>,
}

#[derive(Copy, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct DraftsForm {
    accepted: u32,
    rejected: u32,
}

impl From<UsageForm> for Usage {
    fn from(form: UsageForm) -> Self {
        Self {
            prompt_tokens: form.prompt_tokens,
            cached_tokens: form.cached_tokens,
            sound_tokens: form.sound_tokens,
            generated_tokens: form.generated_tokens,
            // Packets in a file have no times.
            queued: Duration::ZERO,
            drafts: form
                .drafts
                .map(|DraftsForm { accepted, rejected }| DraftCounts { accepted, rejected }),
        }
    }
}

fn usage_to_json(usage: Usage) -> Value {
    let mut json = json!({
        "prompt_tokens": usage.prompt_tokens,
        "cached_tokens": usage.cached_tokens,
        "generated_tokens": usage.generated_tokens,
    });
    if usage.sound_tokens > 0 {
        json["sound_tokens"] = usage.sound_tokens.into();
    }
    if let Some(drafts) = usage.drafts {
        json["drafts"] = json!({"accepted": drafts.accepted, "rejected": drafts.rejected});
    }
    json
}

/// Adds the prompts that a chunk belongs to, unless they came at timestamp 0.
fn add_prompt(json: &mut Value, prompt: Timestamp) {
    if prompt != Timestamp::ZERO {
        json["prompt"] = prompt.value().into();
    }
}

/// Converts a chunk of tokens. A repeated prompt and log probabilities are added if there are any.
fn token_chunk_to_json(chunk: &TokenChunk) -> Value {
    let mut json = json!({
        "index": chunk.index,
        "tokens": chunk.tokens.as_slice(),
        "finish": chunk.finish.map(Finish::as_str),
        "usage": usage_to_json(chunk.usage),
    });
    add_prompt(&mut json, chunk.prompt);
    if let Some(echo) = &chunk.echo {
        json["echo"] = json!(EchoForm::from(&**echo));
    }
    if !chunk.logprobs.is_empty() {
        json["logprobs"] = chunk.logprobs.iter().map(LogprobForm::json).collect();
    }
    if !chunk.ids.is_empty() {
        json["ids"] = json!(chunk.ids);
    }
    json
}

fn token_chunk_from_json(value: &Value) -> Result<TokenChunk, String> {
    let chunk: TokensForm = read(value)?;
    let logprobs = chunk.logprobs.into_iter();
    Ok(TokenChunk {
        prompt: chunk.prompt.into(),
        index: chunk.index,
        echo: chunk.echo.map(|echo| Box::new(echo.into())),
        tokens: chunk.tokens.into_iter().collect(),
        ids: chunk.ids,
        logprobs: logprobs.map(TokenLogprob::from).collect(),
        finish: chunk.finish.map(Finish::from),
        usage: chunk.usage.into(),
        ..TokenChunk::default()
    })
}

/// Converts a chunk of text. Reasoning and tool calls are added if there are any.
fn text_chunk_to_json(chunk: &TextChunk) -> Value {
    let mut json = json!({
        "index": chunk.index,
        "text": chunk.text,
        "finish": chunk.finish.map(Finish::as_str),
        "usage": usage_to_json(chunk.usage),
    });
    add_prompt(&mut json, chunk.prompt);
    if !chunk.reasoning.is_empty() {
        json["reasoning"] = chunk.reasoning.as_str().into();
    }
    if !chunk.tool_calls.is_empty() {
        json["tool_calls"] = chunk.tool_calls.iter().map(tool_call_to_json).collect();
    }
    json
}

fn text_chunk_from_json(value: &Value) -> Result<TextChunk, String> {
    let chunk: TextForm = read(value)?;
    Ok(TextChunk {
        prompt: chunk.prompt.into(),
        index: chunk.index,
        text: chunk.text,
        reasoning: chunk.reasoning,
        tool_calls: chunk
            .tool_calls
            .into_iter()
            .map(ToolCallDelta::from)
            .collect(),
        finish: chunk.finish.map(Finish::from),
        usage: chunk.usage.into(),
        ..TextChunk::default()
    })
}

#[cfg(test)]
mod tests {
    use graphmill_engine::codec;

    use super::*;

    #[test]
    fn what_is_read_is_written_again() {
        for (name, value) in [
            (
                "http_request",
                json!({"method": "POST", "uri": "/v3/completions", "headers": {"a": "b"}, "body": {"model": "m"}}),
            ),
            (
                "http_request",
                json!({"method": "GET", "uri": "/", "headers": {}, "body": "plain"}),
            ),
            (
                "http_response",
                json!({"body": {"id": 1}, "content_type": "application/json"}),
            ),
            ("http_response", json!({"event": {"choices": []}})),
            ("http_response", json!("done")),
            (
                "prompts",
                json!([{"text": "a"}, {"templated": "b"}, {"gap": {"before": "c", "after": "d"}}, {"tokens": [1, 2]}]),
            ),
            ("token_prompts", json!([[1, 2], [3]])),
            (
                "token_chunk",
                json!({
                    "index": 1, "tokens": [5], "finish": null,
                    "usage": {"prompt_tokens": 2, "cached_tokens": 0, "generated_tokens": 1},
                    "echo": {"tokens": [3, 4], "logprobs": [{"token": 4, "logprob": -1.5}]},
                    "logprobs": [{"token": 5, "logprob": -0.25, "top": [[5, -0.25], [6, null]]}],
                }),
            ),
        ] {
            let packet = codec::decode(&value, Some(name), &[]).expect("a value");
            assert_eq!(codec::encode(&packet), Some(value));
        }
        let written = |name: &str, value: Value| {
            let packet = codec::decode(&value, Some(name), &[]).expect("a value");
            codec::encode(&packet).expect("registered")
        };
        let usage = json!({"prompt_tokens": 0, "cached_tokens": 0, "generated_tokens": 3});
        assert_eq!(
            written(
                "text_chunk",
                json!({"text": "a", "finish": "stop", "usage": {"generated_tokens": 3}})
            ),
            json!({"index": 0, "text": "a", "finish": "stop", "usage": usage})
        );
        let call = json!({"index": 0, "arguments": "{}", "id": "call_1", "name": "f"});
        assert_eq!(
            written(
                "text_chunk",
                json!({"reasoning": "so", "tool_calls": [call], "finish": "tool_calls", "usage": usage})
            ),
            json!({"index": 0, "text": "", "finish": "tool_calls", "usage": usage, "reasoning": "so", "tool_calls": [call]})
        );
        assert_eq!(
            written(
                "token_chunk",
                json!({"index": 1, "tokens": [5], "usage": usage})
            ),
            json!({"index": 1, "tokens": [5], "finish": null, "usage": usage})
        );
        let usage = json!({
            "prompt_tokens": 5, "cached_tokens": 0, "generated_tokens": 3, "drafts": {"accepted": 2, "rejected": 1},
        });
        assert_eq!(
            written("token_chunk", json!({"tokens": [5, 6, 7], "usage": usage}))["usage"],
            usage
        );
        let unknown = codec::decode(&json!({"uri": "/", "boddy": 1}), Some("http_request"), &[]);
        assert!(unknown.is_err_and(|why| why.contains("boddy")));
    }
}
