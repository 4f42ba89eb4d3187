//! What fails, fails alone.

use serde_json::json;

use crate::rest::support::{
    ACTOR, CHAT, Setup, TestServer, engine_numbers, question, sessions, streamed,
};

async fn server() -> TestServer {
    let script = json!({ "name": "fair", "replies": [
        { "when": "fail now", "text": "half", "then": "fail" },
        { "when": "panic now", "text": "half", "then": "panic" },
        { "text": "a fair answer of some length, long enough to overlap with what the others do" },
    ] });
    Setup::new()
        .graph("chat", CHAT)
        .graph("actor", ACTOR)
        .script(&script)
        .bodies(16 << 20, 64 << 20)
        .start()
        .await
}

const FAIR: &str = "a fair answer of some length, long enough to overlap with what the others do";

#[tokio::test]
async fn a_node_that_panics_ends_its_own_request() {
    let server = server().await;
    let body = streamed("chat", "hello");
    let panics = async {
        for _ in 0..10 {
            let reply = server.act(json!([{ "panic": "a bug in a node" }])).await;
            assert_eq!(reply.status, 500);
            let error = &reply.json()["error"];
            assert_eq!(
                (&error["code"], &error["graph"]["node"]),
                (&json!("node_failed"), &json!("Actor"))
            );
            assert_eq!(reply.header("x-should-retry"), Some("false"));
        }
    };
    let fair = async {
        for _ in 0..10 {
            assert_eq!(text(&server.chat(&body).await.events()), FAIR);
        }
    };
    tokio::join!(panics, fair);
    server.until_idle().await;
}

#[tokio::test]
async fn a_panic_in_the_middle_of_a_stream_is_its_last_event() {
    let server = server().await;
    let reply = server
        .act(json!([{ "event": "{}" }, { "panic": "a bug in a node" }]))
        .await;
    assert_eq!(reply.status, 200);
    assert!(
        reply.text.starts_with("data: {}\n\ndata: {\"error\":"),
        "{}",
        reply.text
    );
    assert!(reply.text.contains("\"node_failed\"") && !reply.text.contains("[DONE]"));
    server.until("closed", |status| sessions(status) == 0).await;
}

#[tokio::test]
async fn a_step_that_fails_or_panics_does_not_end_the_engine() {
    let server = server().await;
    for text_of in ["fail now", "panic now"] {
        let reply = server.chat(&question("chat", text_of)).await;
        assert!(reply.status >= 500, "{}", reply.text);
        assert_eq!(
            reply.json()["error"]["type"],
            if reply.status == 500 {
                "server_error"
            } else {
                "unavailable_error"
            }
        );
        let reply = server.chat(&question("chat", "hello")).await;
        assert_eq!(reply.json()["choices"][0]["message"]["content"], FAIR);
    }
    server.until_idle().await;
    assert_eq!(server.get("/v2/health/ready").await.status, 200);
}

#[tokio::test]
async fn a_prompt_of_ten_megabytes_is_refused_and_disturbs_nobody() {
    let server = server().await;
    let huge = question("chat", &"word ".repeat(2_000_000));
    let small = question("chat", "hello");
    let (refusal, answer) = tokio::join!(server.chat(&huge), server.chat(&small));
    assert_eq!(refusal.status, 400);
    assert_eq!(refusal.json()["error"]["code"], "context_length_exceeded");
    assert_eq!(answer.json()["choices"][0]["message"]["content"], FAIR);
    let status = server.status().await;
    assert_eq!(engine_numbers(&status), [0, 0, 0]);
}

#[tokio::test]
async fn thirty_two_streams_each_have_the_text_they_have_alone() {
    let replies: Vec<_> = (0..32)
        .map(|i| json!({ "when": format!("number {i}."), "text": format!("{i}:").repeat(5 + i) }))
        .collect();
    let script = json!({ "name": "many", "replies": replies });
    let server = Setup::new()
        .graph("chat", CHAT)
        .script(&script)
        .start()
        .await;
    let streams = (0..32).map(|i| {
        let server = &server;
        async move {
            text(
                &server
                    .chat(&streamed("chat", &format!("number {i}.")))
                    .await
                    .events(),
            )
        }
    });
    let texts = futures_util::future::join_all(streams).await;
    for (i, text) in texts.iter().enumerate() {
        assert_eq!(*text, format!("{i}:").repeat(5 + i));
    }
    server.until_idle().await;
}

/// The text of a stream.
pub(crate) fn text(events: &[serde_json::Value]) -> String {
    events
        .iter()
        .filter_map(|event| event["choices"][0]["delta"]["content"].as_str())
        .collect()
}
