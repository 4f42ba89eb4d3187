//! Chat and completions through the published graph, with a scripted model: whole objects and exact
//! streams.

use serde_json::{Value, json};

use crate::rest::support::{CHAT, Reply, Setup, TestServer, question, read, streamed};

async fn server() -> TestServer {
    let script = json!({ "name": "scripted", "context": 256, "replies": [{ "when": "greet", "text": "Hié" }] });
    Setup::new()
        .graph("org/chat", CHAT)
        .script(&script)
        .start()
        .await
}

/// The stream with the values that differ from run to run replaced: the id by `ID`, the time by
/// `0`.
fn normalized(reply: &Reply) -> String {
    let first: Value = serde_json::from_str(
        reply
            .text
            .lines()
            .next()
            .expect("a line")
            .trim_start_matches("data: "),
    )
    .expect("JSON");
    let id = first["id"].as_str().expect("an id");
    let created = format!(
        "\"created\":{}",
        first["created"].as_u64().expect("seconds")
    );
    reply
        .text
        .replace(id, "ID")
        .replace(&created, "\"created\":0")
}

fn chunk(choice: &str, usage: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "data: {{\"id\":\"ID\",\"object\":\"chat.completion.chunk\",\"created\":0,\"model\":\"org/chat\",\
         \"system_fingerprint\":\"graphmill-{version}\",\"choices\":[{choice}]{usage}}}\n\n"
    )
}

fn delta(delta: &str, finish: &str) -> String {
    format!("{{\"index\":0,\"delta\":{{{delta}}},\"logprobs\":null,\"finish_reason\":{finish}}}")
}

/// The chunks of the greeting, each with `usage` at its end.
fn greeting(usage: &str) -> String {
    [
        delta("\"role\":\"assistant\",\"content\":\"\"", "null"),
        delta("\"content\":\"H\"", "null"),
        delta("\"content\":\"i\"", "null"),
        delta("\"content\":\"é\"", "null"),
        delta("", "\"stop\""),
    ]
    .map(|choice| chunk(&choice, usage))
    .concat()
}

#[tokio::test]
async fn a_stream_of_chat_chunks_byte_for_byte() {
    let server = server().await;
    let reply = server.chat(&streamed("org/chat", "greet")).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    assert_eq!(normalized(&reply), greeting("") + "data: [DONE]\n\n");
}

#[tokio::test]
async fn usage_comes_last_and_only_on_request() {
    let server = server().await;
    let mut body = streamed("org/chat", "greet");
    body["stream_options"] = json!({ "include_usage": true });
    let reply = server.chat(&body).await;
    let events = reply.events();
    let usage = &events.last().expect("events")["usage"];
    let (prompt, completion) = (
        usage["prompt_tokens"].as_u64().expect("a number"),
        usage["completion_tokens"].as_u64().expect("a number"),
    );
    assert!(prompt > 0 && completion > 0);
    let counts = json!({ "prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion,
        "prompt_tokens_details": { "cached_tokens": usage["prompt_tokens_details"]["cached_tokens"] } });
    let expected = greeting(",\"usage\":null")
        + &chunk("", &format!(",\"usage\":{counts}"))
        + "data: [DONE]\n\n";
    assert_eq!(normalized(&reply), expected);
}

#[tokio::test]
async fn a_whole_chat_answer() {
    let server = server().await;
    let reply = server.chat(&question("org/chat", "greet")).await;
    assert_eq!(
        (reply.status, reply.header("content-type")),
        (200, Some("application/json"))
    );
    let answer = reply.json();
    assert!(
        answer["id"]
            .as_str()
            .expect("an id")
            .starts_with("chatcmpl-")
    );
    assert!(answer["created"].as_u64().expect("seconds") > 1_700_000_000);
    assert_eq!(
        (&answer["object"], &answer["model"]),
        (&json!("chat.completion"), &json!("org/chat"))
    );
    let message = json!({ "role": "assistant", "content": "Hié", "refusal": null });
    assert_eq!(
        answer["choices"],
        json!([{ "index": 0, "message": message, "logprobs": null, "finish_reason": "stop" }])
    );
    let usage = &answer["usage"];
    let count = |key: &str| usage[key].as_u64().expect("a number");
    assert_eq!(
        count("prompt_tokens") + count("completion_tokens"),
        count("total_tokens")
    );
}

#[tokio::test]
async fn completions_whole_and_streamed_agree() {
    let server = server().await;
    let mut body =
        json!({ "model": "org/chat", "prompt": "abc", "temperature": 0, "max_tokens": 4 });
    let whole = read(server.post("/v3/completions", body.to_string()))
        .await
        .json();
    let choice = json!({ "text": "defg", "index": 0, "logprobs": null, "finish_reason": "length" });
    assert_eq!(whole["choices"], json!([choice]));
    assert_eq!(whole["usage"]["completion_tokens"], 4);
    body["stream"] = true.into();
    let events = read(server.post("/v3/completions", body.to_string()))
        .await
        .events();
    let text: String = events
        .iter()
        .filter_map(|event| event["choices"][0]["text"].as_str())
        .collect();
    assert_eq!(text, "defg");
    assert_eq!(
        events.last().expect("events")["choices"][0]["finish_reason"],
        "length"
    );
    assert!(
        events
            .iter()
            .all(|event| event.get("usage").is_none() && event["object"] == "text_completion")
    );
}

#[tokio::test]
async fn fields_that_are_wrong_are_named() {
    let server = server().await;
    let with = |field: &str, value: Value| {
        let mut body = question("org/chat", "greet");
        body[field] = value;
        body
    };
    for (body, param) in [
        (with("temperature", json!(3)), "temperature"),
        (with("temperature", json!("hot")), "temperature"),
        (with("top_p", json!(-1)), "top_p"),
        (with("max_tokens", json!(-2)), "max_tokens"),
        (with("messages", json!([])), "messages"),
        (with("messages", json!("hello")), "messages"),
        (with("stream", json!("yes")), "stream"),
        (with("stop", json!(7)), "stop"),
        (json!({ "model": "org/chat" }), "messages"),
    ] {
        for stream in [false, true] {
            let mut body = body.clone();
            if stream && param != "stream" {
                body["stream"] = true.into();
            }
            let reply = server.chat(&body).await;
            let error = &reply.json()["error"];
            assert_eq!(
                (reply.status, &error["type"]),
                (400, &json!("invalid_request_error")),
                "{body}: {error}"
            );
            assert_eq!(error["param"].as_str(), Some(param), "{body}: {error}");
        }
    }
}

#[tokio::test]
async fn a_prompt_that_can_never_fit_is_refused_with_the_numbers() {
    let server = server().await;
    for mut body in [
        question("org/chat", &"a".repeat(500)),
        streamed("org/chat", &"a".repeat(500)),
    ] {
        body["max_tokens"] = 1.into();
        let reply = server.chat(&body).await;
        let error = &reply.json()["error"];
        assert_eq!(
            (reply.status, &error["code"]),
            (400, &json!("context_length_exceeded")),
            "{error}"
        );
        assert_eq!(error["param"], "messages");
        assert!(
            error["message"].as_str().expect("text").contains("256"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_path_that_chat_graphs_do_not_serve_is_not_found() {
    let server = server().await;
    let reply = read(server.post("/v3/nonsense", question("org/chat", "greet").to_string())).await;
    assert_eq!(reply.status, 404, "{}", reply.text);
}

#[tokio::test]
async fn a_role_that_nobody_knows_is_refused() {
    let script = json!({ "replies": [{ "text": "fine" }] });
    let server = Setup::new()
        .graph("chat", CHAT)
        .script(&script)
        .start()
        .await;
    for (role, status) in [
        ("usr", 400),
        ("developer", 200),
        ("function", 200),
        ("user", 200),
    ] {
        let mut body = question("chat", "hi");
        body["messages"][0]["role"] = role.into();
        let reply = server.chat(&body).await;
        assert_eq!(reply.status, status, "{role}: {}", reply.text);
        if status == 400 {
            let error = &reply.json()["error"];
            assert_eq!(error["param"], "messages[0].role");
            assert_eq!(error["code"], "invalid_value");
        }
    }
}
