//! Server-sent events: the bytes on the wire.

use std::time::Duration;

use serde_json::json;

use crate::rest::support::{ACTOR, Setup, sessions};

#[tokio::test]
async fn events_are_framed_and_the_stream_ends_with_done() {
    let server = Setup::new().graph("actor", ACTOR).start().await;
    let reply = server
        .act(json!([{ "event": "{\"a\":1}" }, { "event": "{\"b\":\"é\"}" }, { "done": true }]))
        .await;
    assert_eq!(reply.status, 200);
    assert_eq!(
        reply.header("content-type"),
        Some("text/event-stream; charset=utf-8")
    );
    assert_eq!(reply.header("cache-control"), Some("no-cache"));
    assert_eq!(reply.header("x-accel-buffering"), Some("no"));
    assert!(reply.header("x-request-id").is_some());
    assert_eq!(
        reply.text,
        "data: {\"a\":1}\n\ndata: {\"b\":\"é\"}\n\ndata: [DONE]\n\n"
    );
}

#[tokio::test]
async fn a_stream_may_have_no_event_but_its_end() {
    let server = Setup::new().graph("actor", ACTOR).start().await;
    let reply = server.act(json!([{ "done": true }])).await;
    assert_eq!(
        (reply.status, reply.text.as_str()),
        (200, "data: [DONE]\n\n")
    );
}

#[tokio::test]
async fn text_cannot_break_the_framing() {
    let server = Setup::new().graph("actor", ACTOR).start().await;
    let reply = server
        .act(json!([{ "event": "a\n\ndata: [DONE]\r\nid: 7" }, { "done": true }]))
        .await;
    assert_eq!(
        reply.text,
        "data: a\ndata: \ndata: data: [DONE]\ndata: id: 7\n\ndata: [DONE]\n\n"
    );
}

#[tokio::test]
async fn a_whole_answer_is_sent_as_it_is() {
    let server = Setup::new().graph("actor", ACTOR).start().await;
    let reply = server.act(json!([{ "body": "whole" }])).await;
    assert_eq!(
        (
            reply.status,
            reply.header("content-type"),
            reply.text.as_str()
        ),
        (200, Some("text/plain"), "whole")
    );
    assert_eq!(reply.header("content-length"), Some("5"));
}

#[tokio::test]
async fn an_error_after_a_whole_answer_does_not_take_it_back() {
    let server = Setup::new().graph("actor", ACTOR).start().await;
    let reply = server
        .act(json!([{ "body": "whole" }, { "fail": { "kind": "internal", "message": "late" } }]))
        .await;
    assert_eq!((reply.status, reply.text.as_str()), (200, "whole"));
    server.until("closed", |status| sessions(status) == 0).await;
}

#[tokio::test]
async fn many_events_arrive_in_order() {
    let server = Setup::new().graph("actor", ACTOR).start().await;
    let mut actions: Vec<_> = (0..5_000)
        .map(|i| json!({ "event": format!("{i}") }))
        .collect();
    actions.push(json!({ "done": true }));
    let expected = (0..5_000)
        .map(|i| format!("data: {i}\n\n"))
        .collect::<Vec<_>>()
        .concat();
    assert_eq!(
        server.act(json!(actions)).await.text,
        expected + "data: [DONE]\n\n"
    );
}

#[tokio::test]
async fn silence_is_broken_by_comments() {
    let setup = Setup::new()
        .graph("actor", ACTOR)
        .keep_alive(Duration::from_millis(5));
    let server = setup.start().await;
    let body = json!({ "model": "actor", "actions": [{ "event": "{}" }, { "hang": true }] });
    let mut response = server
        .post("/v3/chat/completions", body.to_string())
        .send()
        .await
        .expect("an answer");
    let mut text = String::new();
    while text.matches(": ping\n\n").count() < 3 {
        let chunk = response.chunk().await.expect("no error").expect("no end");
        text.push_str(std::str::from_utf8(&chunk).expect("UTF-8"));
    }
    assert!(text.starts_with("data: {}\n\n: ping\n\n"), "{text}");
    drop(response);
    server.until("closed", |status| sessions(status) == 0).await;
}

#[tokio::test]
async fn a_stop_ends_running_streams_with_an_error_they_can_read() {
    let setup = Setup::new()
        .graph("actor", ACTOR)
        .grace(Duration::from_millis(20));
    let server = setup.start().await;
    let hang = |actions| {
        server.post(
            "/v3/chat/completions",
            json!({ "model": "actor", "actions": actions }).to_string(),
        )
    };
    let mut streaming = hang(json!([{ "event": "{}" }, { "hang": true }]))
        .send()
        .await
        .expect("an answer");
    assert_eq!(
        streaming.chunk().await.expect("no error").as_deref(),
        Some(&b"data: {}\n\n"[..])
    );
    let waiting = tokio::spawn(hang(json!([{ "hang": true }])).send());
    server
        .until("both run", |status| sessions(status) == 2)
        .await;

    server.server.stop().await;
    let rest = streaming.text().await.expect("a whole body");
    assert!(
        rest.starts_with("data: {\"error\":")
            && rest.contains("\"draining\"")
            && rest.ends_with("\n\n"),
        "{rest}"
    );
    let answer = waiting.await.expect("no panic").expect("an answer");
    assert_eq!(answer.status(), 503);
    assert!(answer.headers().contains_key("retry-after"));
}
