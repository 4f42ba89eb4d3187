//! Chunks of text in, answers out.

use std::sync::Arc;

use graphmill_engine::testing::Harness;
use graphmill_llm::{DraftCounts, Usage};
use serde_json::{Value, json};

use super::*;
use crate::http::{Chat, Completions, dialect::TextDialect};
use crate::payload::{Finish, Prompt, RequestInput, ToldTokens, ToolCallDelta, ToolCallStart};

const NODE: &str = r#"node {
    calculator: "OpenAIResponseCalculator"
    input_stream: "REQUEST:request"
    input_stream: "TEXT:text"
    output_stream: "HTTP_RESPONSE_PAYLOAD:output"
}"#;

fn request(dialect: &'static dyn TextDialect, stream: bool) -> TextRequest {
    TextRequest {
        id: "chatcmpl-1".into(),
        created: 7,
        model: "m".into(),
        dialect,
        input: RequestInput::Prompts([Prompt::Text("p".into())].into()),
        n: 1,
        stream,
        include_usage: false,
        continuous_usage: false,
        logprobs: false,
        told: ToldTokens::default(),
        function_call: false,
        echo: Arc::default(),
        ignored: [].into(),
    }
}

fn chunk(index: u32, text: &str, finish: Option<Finish>) -> TextChunk {
    TextChunk {
        index,
        text: text.into(),
        finish,
        usage: Usage {
            prompt_tokens: 9,
            cached_tokens: 4,
            generated_tokens: 2,
            ..Usage::default()
        },
        ..TextChunk::default()
    }
}

/// What comes out for a request and its chunks, each event as JSON.
fn answer(request: TextRequest, chunks: impl IntoIterator<Item = TextChunk>) -> Vec<Value> {
    let mut harness = Harness::for_calculator::<OpenAIResponse>(NODE);
    harness.push("request", 0, request).close("request");
    for (chunk, time) in chunks.into_iter().zip(0..) {
        harness.push("text", time, chunk);
    }
    harness.close("text");
    harness
        .packets("output")
        .iter()
        .map(|packet| match packet.get().expect("a response") {
            HttpResponse::Header { name, value } => json!({ *name: value }),
            HttpResponse::Body {
                content_type,
                bytes,
            } => {
                assert_eq!(*content_type, "application/json");
                serde_json::from_slice(bytes).expect("JSON")
            }
            HttpResponse::Event(event) => serde_json::from_str(event).expect("JSON"),
            HttpResponse::Done => json!("[DONE]"),
            HttpResponse::NamedEvent { .. } | HttpResponse::End => panic!("of another dialect"),
        })
        .collect()
}

/// The fields that every answer has, with these choices.
fn head(object: &str, choices: impl Into<Value>) -> Value {
    let choices = choices.into();
    let fingerprint = concat!("graphmill-", env!("CARGO_PKG_VERSION"));
    json!({"id": "chatcmpl-1", "object": object, "created": 7, "model": "m", "system_fingerprint": fingerprint, "choices": choices})
}

fn with_usage(mut answer: Value, usage: impl Into<Value>) -> Value {
    answer["usage"] = usage.into();
    answer
}

fn delta(index: u32, delta: impl Into<Value>, finish: impl Into<Value>) -> Value {
    let (delta, finish) = (delta.into(), finish.into());
    let choices =
        json!([{"index": index, "delta": delta, "logprobs": null, "finish_reason": finish}]);
    head("chat.completion.chunk", choices)
}

#[test]
fn a_whole_chat_answer_has_usage_and_one_message() {
    let answers = answer(
        request(&Chat, false),
        [chunk(0, "Hel", None), chunk(0, "lo", Some(Finish::Stop))],
    );
    let message = json!({"role": "assistant", "content": "Hello", "refusal": null});
    let choices =
        json!([{"index": 0, "message": message, "logprobs": null, "finish_reason": "stop"}]);
    let usage = json!({"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11, "prompt_tokens_details": {"cached_tokens": 4}});
    assert_eq!(
        answers,
        [with_usage(head("chat.completion", choices), usage)]
    );
}

#[test]
fn a_chat_stream_names_the_role_once_and_ends_with_its_reason() {
    let answers = answer(
        request(&Chat, true),
        [
            chunk(0, "", None),
            chunk(0, "Hel", None),
            chunk(0, "lo", Some(Finish::Length)),
        ],
    );
    assert_eq!(
        answers,
        [
            delta(0, json!({"role": "assistant", "content": ""}), json!(null)),
            delta(0, json!({"content": "Hel"}), json!(null)),
            delta(0, json!({"content": "lo"}), json!(null)),
            delta(0, json!({}), json!("length")),
            json!("[DONE]"),
        ]
    );
}

/// A message that thinks, says something and calls two tools, in several chunks.
fn calling() -> [TextChunk; 4] {
    let begin = |index: u32, name: &str, arguments: &str| ToolCallDelta {
        index,
        start: Some(ToolCallStart {
            id: format!("call_{index}").into(),
            name: name.into(),
        }),
        arguments: arguments.into(),
    };
    let more = |index: u32, arguments: &str| ToolCallDelta {
        index,
        start: None,
        arguments: arguments.into(),
    };
    let mut thinking = chunk(0, "", None);
    thinking.reasoning = "Hm.".into();
    let mut first = chunk(0, "Let me", None);
    first.tool_calls = vec![begin(0, "f", "")];
    let mut second = chunk(0, "", None);
    second.tool_calls = vec![more(0, "{\"x\":"), more(0, "1}"), begin(1, "g", "{}")];
    [
        thinking,
        first,
        second,
        chunk(0, "", Some(Finish::ToolCalls)),
    ]
}

#[test]
fn a_call_streams_its_id_and_name_once() {
    let none = json!(null);
    let call = |call: Value| json!({"tool_calls": [call]});
    let answers = answer(request(&Chat, true), calling());
    assert_eq!(
        answers,
        [
            delta(0, json!({"role": "assistant", "content": ""}), none.clone()),
            delta(0, json!({"reasoning_content": "Hm."}), none.clone()),
            delta(0, json!({"content": "Let me"}), none.clone()),
            delta(
                0,
                call(
                    json!({"index": 0, "id": "call_0", "type": "function", "function": {"name": "f", "arguments": ""}})
                ),
                none.clone()
            ),
            delta(
                0,
                call(json!({"index": 0, "function": {"arguments": "{\"x\":"}})),
                none.clone()
            ),
            delta(
                0,
                call(json!({"index": 0, "function": {"arguments": "1}"}})),
                none.clone()
            ),
            delta(
                0,
                call(
                    json!({"index": 1, "id": "call_1", "type": "function", "function": {"name": "g", "arguments": "{}"}})
                ),
                none
            ),
            delta(0, json!({}), json!("tool_calls")),
            json!("[DONE]"),
        ]
    );
}

#[test]
fn a_whole_answer_has_the_calls_in_its_message() {
    let answers = answer(request(&Chat, false), calling());
    let call = |id: &str, name: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
    let calls = [call("call_0", "f", "{\"x\":1}"), call("call_1", "g", "{}")];
    assert_eq!(
        answers[0]["choices"][0],
        json!({
            "index": 0,
            "message": {"role": "assistant", "content": "Let me", "reasoning_content": "Hm.", "refusal": null, "tool_calls": calls},
            "logprobs": null,
            "finish_reason": "tool_calls",
        })
    );
    let silent = calling().map(|chunk| TextChunk {
        text: String::new(),
        ..chunk
    });
    let answers = answer(request(&Chat, false), silent);
    assert_eq!(answers[0]["choices"][0]["message"]["content"], json!(null));
}

#[test]
fn usage_is_streamed_on_request_only() {
    let mut asked = request(&Chat, true);
    asked.include_usage = true;
    let answers = answer(asked, [chunk(0, "a", Some(Finish::Stop))]);
    let (last, before) = answers[..answers.len() - 1].split_last().expect("events");
    assert!(
        before
            .iter()
            .all(|event| event["usage"] == json!(null) && event.get("usage").is_some())
    );
    assert_eq!(last["choices"], json!([]));
    assert_eq!(last["usage"]["total_tokens"], 11);

    let answers = answer(request(&Chat, true), [chunk(0, "a", Some(Finish::Stop))]);
    assert!(answers.iter().all(|event| event.get("usage").is_none()));
}

#[test]
fn several_choices_begin_in_order_and_end_on_their_own() {
    let mut asked = request(&Chat, true);
    asked.n = 2;
    let answers = answer(
        asked,
        [
            chunk(1, "b", None),
            chunk(1, "", Some(Finish::Stop)),
            chunk(0, "a", Some(Finish::Length)),
        ],
    );
    let role = json!({"role": "assistant", "content": ""});
    assert_eq!(
        answers,
        [
            delta(0, role.clone(), json!(null)),
            delta(1, role, json!(null)),
            delta(1, json!({"content": "b"}), json!(null)),
            delta(1, json!({}), json!("stop")),
            delta(0, json!({"content": "a"}), json!(null)),
            delta(0, json!({}), json!("length")),
            json!("[DONE]"),
        ]
    );
}

#[test]
fn a_prompt_is_counted_once_however_often_it_was_answered() {
    let mut asked = request(&Completions, false);
    asked.n = 2;
    asked.input =
        RequestInput::Prompts([Prompt::Text("p".into()), Prompt::Text("q".into())].into());
    let answers = answer(
        asked,
        (0..4).map(|index| chunk(index, "x", Some(Finish::Stop))),
    );
    let usage = &answers[0]["usage"];
    assert_eq!(
        (&usage["prompt_tokens"], &usage["completion_tokens"]),
        (&json!(18), &json!(8))
    );
    assert_eq!(answers[0]["choices"].as_array().map(Vec::len), Some(4));
}

#[test]
fn completions_have_text_and_no_role() {
    let choice = |text: &str, finish: Value| json!([{"text": text, "index": 0, "logprobs": null, "finish_reason": finish}]);
    let chunks = [
        chunk(0, "a", None),
        chunk(0, "", None),
        chunk(0, "b", Some(Finish::Stop)),
    ];
    let answers = answer(request(&Completions, true), chunks.clone());
    assert_eq!(
        answers,
        [
            head("text_completion", choice("a", json!(null))),
            head("text_completion", choice("b", json!("stop"))),
            json!("[DONE]"),
        ]
    );
    let answers = answer(request(&Completions, false), chunks);
    assert_eq!(answers[0]["choices"], choice("ab", json!("stop")));
    assert_eq!(answers[0]["object"], "text_completion");
}

#[test]
fn nothing_follows_the_end_of_a_choice() {
    let mut asked = request(&Chat, false);
    asked.n = 2;
    let answers = answer(
        asked,
        [
            chunk(0, "a", Some(Finish::Stop)),
            chunk(0, "late", None),
            chunk(1, "b", Some(Finish::Stop)),
        ],
    );
    assert_eq!(answers[0]["choices"][0]["message"]["content"], "a");
}

#[test]
fn drafted_tokens_are_counted_over_all_choices() {
    let drafting = |index, drafts| {
        let mut chunk = chunk(index, "a", Some(Finish::Stop));
        chunk.usage.drafts = drafts;
        chunk
    };
    let mut request = request(&Completions, false);
    request.n = 3;
    let counts = |accepted, rejected| Some(DraftCounts { accepted, rejected });
    let chunks = [
        drafting(0, counts(5, 1)),
        drafting(1, None),
        drafting(2, counts(2, 0)),
    ];
    let answer = answer(request, chunks);
    assert_eq!(
        answer[0]["usage"]["completion_tokens_details"],
        json!({"accepted_prediction_tokens": 7, "rejected_prediction_tokens": 1})
    );
}
