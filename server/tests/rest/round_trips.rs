//! Answers of models of all formats, sent back in all dialects.

use serde_json::{Value, json};

use crate::rest::agents::{AS_JSON, ask, server};
use crate::rest::support::{Reply, TestServer};

/// How a format of calls is known, and a call of `f` with arguments in it.
type Format = (&'static str, fn(&str) -> String);

const FORMATS: &[Format] = &[
    ("<tool_call></tool_call> <think></think>", |arguments| {
        format!(
            "<think>Hm.</think>Ok.<tool_call>{{\"name\": \"f\", \"arguments\": {arguments}}}</tool_call>"
        )
    }),
    ("<|python_tag|>", |arguments| {
        format!("Ok.<|python_tag|>{{\"name\": \"f\", \"parameters\": {arguments}}}")
    }),
    ("[TOOL_CALLS] [THINK]", |arguments| {
        format!(
            "[THINK]Hm.[/THINK]Ok.[TOOL_CALLS] [{{\"name\": \"f\", \"arguments\": {arguments}}}]"
        )
    }),
    ("functools", |arguments| {
        format!("Ok. functools[{{\"name\": \"f\", \"arguments\": {arguments}}}]")
    }),
    ("<function= <parameter=", |arguments| {
        format!(
            "Ok.<tool_call>\n<function=f>\n<parameter=x>\n{arguments}\n</parameter>\n</function>\n</tool_call>"
        )
    }),
    ("<|channel|>", |arguments| {
        format!(
            "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary<|message|>Ok.<|end|><|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{arguments}<|call|>"
        )
    }),
    ("<｜tool▁call▁begin｜>", |arguments| {
        format!(
            "Ok.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{arguments}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
        )
    }),
    ("", |arguments| {
        format!("{{\"name\": \"f\", \"arguments\": {arguments}}}")
    }),
];

/// Arguments that models write.
const ARGUMENTS: &[&str] = &[
    r#"{"x": 1}"#,
    r#"{"x": "é\n\"\ud83d\ude00"}"#,
    r#"{"x": "\ud83d"}"#,
    r#"{"x": 1e400}"#,
    r#"{"x": [{"y": null}]}"#,
    r#"{"x": "cut"#,
    "{}",
];

/// The events of a stream with names, by these.
fn named(reply: &Reply, name: &str) -> Vec<Value> {
    let events = reply.text.split_terminator("\n\n");
    let data = events.filter_map(|event| event.strip_prefix(&*format!("event: {name}\ndata: ")));
    data.map(|data| serde_json::from_str(data).expect("JSON"))
        .collect()
}

/// The message of a stream, as clients of Messages put it together.
fn joined(reply: &Reply) -> Value {
    let starts = named(reply, "content_block_start");
    let mut blocks: Vec<Value> = starts
        .iter()
        .map(|it| it["content_block"].clone())
        .collect();
    let mut inputs = vec![String::new(); blocks.len()];
    for event in named(reply, "content_block_delta") {
        let index = event["index"].as_u64().expect("an index") as usize;
        inputs[index] += event["delta"]["partial_json"].as_str().unwrap_or_default();
        for name in ["text", "thinking"] {
            let more = event["delta"][name].as_str().unwrap_or_default();
            if let Some(text) = blocks[index][name].as_str() {
                blocks[index][name] = (text.to_owned() + more).into();
            }
        }
    }
    for (block, input) in blocks.iter_mut().zip(inputs) {
        if block["type"] == "tool_use" && !input.is_empty() {
            block["input"] = serde_json::from_str(&input).expect("an object");
        }
    }
    json!(blocks)
}

/// Asks, sends the answer back with results for its calls, and tells what the second answer is.
async fn go_round(server: &TestServer, question: &str) -> [Reply; 4] {
    let user = json!({ "role": "user", "content": question });
    let parameters = json!({ "type": "object", "properties": { "x": {} } });
    let function = json!({ "name": "f", "parameters": parameters });
    let tools = json!([{ "type": "function", "function": function }]);
    let chat = json!({ "messages": [user], "tools": tools });
    let answer = ask(server, "/v1/chat/completions", chat).await.json();
    let message = answer["choices"][0]["message"].clone();
    let mut messages = vec![user.clone(), message.clone()];
    for call in message["tool_calls"].as_array().into_iter().flatten() {
        messages.push(json!({ "role": "tool", "tool_call_id": call["id"], "content": "1" }));
    }
    let chat = json!({ "messages": messages, "tools": tools });
    let chat = ask(server, "/v1/chat/completions", chat).await;

    let tools = json!([{ "type": "function", "name": "f", "parameters": parameters }]);
    let response = json!({ "input": [user], "tools": tools });
    let answer = ask(server, "/v1/responses", response).await.json();
    let mut items = vec![user.clone()];
    for item in answer["output"].as_array().expect("items") {
        items.push(item.clone());
        if item["type"] == "function_call" {
            items.push(json!({ "type": "function_call_output", "call_id": item["call_id"], "output": "1" }));
        }
    }
    let response = json!({ "input": items, "tools": tools });
    let response = ask(server, "/v1/responses", response).await;

    let tools = json!([{ "name": "f", "input_schema": parameters }]);
    let body = json!({ "messages": [user], "tools": tools });
    let whole = ask(server, "/v1/messages", body.clone()).await.json()["content"].clone();
    let mut streaming = body;
    streaming["stream"] = json!(true);
    let streamed = joined(&ask(server, "/v1/messages", streaming).await);
    let mut both = Vec::new();
    for content in [whole, streamed] {
        let calls = content.as_array().into_iter().flatten();
        let calls = calls.filter(|block| block["type"] == "tool_use");
        let mut results: Vec<Value> = calls
            .map(|call| json!({ "type": "tool_result", "tool_use_id": call["id"], "content": "1" }))
            .collect();
        results.push(json!({ "type": "text", "text": "go on" }));
        let messages = json!([user, { "role": "assistant", "content": content }, { "role": "user", "content": results }]);
        let body = json!({ "messages": messages, "tools": tools });
        both.push(ask(server, "/v1/messages", body).await);
    }
    let [whole, streamed] = both.try_into().expect("two");
    [chat, response, whole, streamed]
}

#[tokio::test]
async fn what_the_server_answers_can_be_sent_back_in_every_format_and_dialect() {
    for (mark, call) in FORMATS {
        let plain = AS_JSON.replace("<tool_call></tool_call> <think></think>", mark);
        let cases: Vec<(String, String)> = (ARGUMENTS.iter().zip(0..))
            .map(|(arguments, number)| (format!("case {number}."), call(arguments)))
            .collect();
        let replies: Vec<(&str, &str)> = cases.iter().map(|it| (&*it.0, &*it.1)).collect();
        let server = server(&plain, &replies).await;
        for (question, text) in &cases {
            for reply in go_round(&server, question).await {
                assert_eq!(reply.status, 200, "{text}: {}", reply.text);
            }
        }
        server.until_idle().await;
    }
}
