//! Requests that go beyond what a graph or its model can do, and how clients are told.

use serde_json::json;

use crate::rest::agents::{ask, events, respond};
use crate::rest::support::{CHAT, Setup, question};

#[tokio::test]
async fn more_tokens_than_the_graph_allows_are_lowered_to_these() {
    let limited = CHAT.replace("max_num_seqs: 4", "max_num_seqs: 4, max_tokens_limit: 5");
    let script = json!({ "replies": [{ "text": "A long answer." }] });
    let setup = Setup::new().graph("limited", &limited).graph("chat", CHAT);
    let server = setup.script(&script).start().await;
    for stream in [false, true] {
        let mut body = question("limited", "Hi");
        body["max_tokens"] = json!(32_000);
        body["stream"] = json!(stream);
        let reply = server.chat(&body).await;
        assert_eq!(
            (reply.status, reply.header("x-max-tokens")),
            (200, Some("5"))
        );
        assert!(
            reply.text.contains(r#""finish_reason":"length""#),
            "{}",
            reply.text
        );
        body["max_tokens"] = json!(5);
        assert_eq!(server.chat(&body).await.header("x-max-tokens"), None);
        body["model"] = json!("chat");
        body["max_tokens"] = json!(32_000);
        assert_eq!(server.chat(&body).await.header("x-max-tokens"), None);
    }
}

#[tokio::test]
async fn an_overflow_has_the_words_that_clients_look_for() {
    let script = json!({ "context": 64, "replies": [{ "text": "Ok." }] });
    let server = Setup::new()
        .graph("chat", CHAT)
        .script(&script)
        .start()
        .await;
    let long = "x".repeat(100);
    for (path, body) in [
        ("/v1/chat/completions", question("chat", &long)),
        ("/v1/responses", json!({ "input": long })),
        (
            "/v1/messages",
            json!({ "messages": [{ "role": "user", "content": long }] }),
        ),
    ] {
        let reply = ask(&server, path, body).await;
        let error = reply.json()["error"].clone();
        assert_eq!(
            (reply.status, &error["code"]),
            (400, &json!("context_length_exceeded"))
        );
        let why = error["message"].as_str().expect("a message");
        assert!(
            why.contains(
                "This model's maximum context length is 64 tokens. However, your prompt resulted in"
            ),
            "{why}"
        );
        assert!(why.contains("prompt is too long"), "{why}");
    }
}

#[tokio::test]
async fn a_response_that_fails_on_its_way_ends_as_failed() {
    let script = json!({ "replies": [{ "text": "Well", "then": "fail" }] });
    let server = Setup::new()
        .graph("chat", CHAT)
        .script(&script)
        .start()
        .await;
    let reply = respond(&server, json!({ "input": "Hi", "stream": true })).await;
    let events = events(&reply);
    let last = events.last().expect("events");
    assert_eq!(last["type"], "response.failed");
    assert_eq!(last["sequence_number"], events.len() - 1);
    assert_eq!(last["response"]["id"], events[0]["response"]["id"]);
    assert_eq!(last["response"]["status"], "failed");
    let why = last["response"]["error"]["message"]
        .as_str()
        .expect("a message");
    assert!(why.contains("scripted failure"), "{why}");
}

#[tokio::test]
async fn a_script_that_says_what_none_can_is_not_being_loaded() {
    let setup = Setup::new().graph("chat", CHAT);
    let setup = setup.script(&json!({ "replys": [] }));
    let setup = setup.with(|options| options.wait_for_models = true);
    let server = setup.start().await;
    let reply = server.chat(&question("chat", "Hi")).await;
    let error = &reply.json()["error"];
    assert_eq!(
        (reply.status, &error["code"]),
        (503, &json!("graph_failed"))
    );
    assert_eq!(reply.header("retry-after"), None);
    let why = error["message"].as_str().expect("a message");
    assert!(why.contains("unknown field `replys`"), "{why}");
}
