//! A client that leaves takes its work with it: in the queue, in the prompt, in the answer, and
//! while it waits for a whole one.
//!
//! The model of these tests takes a while for each step, so that a generation lasts; what is
//! asserted is that everything is given back, not how soon.

use serde_json::{Value, json};

use crate::rest::support::{CHAT, Setup, TestServer, engine_numbers, question, sessions, streamed};

/// Generates without end, a step a millisecond.
async fn endless() -> TestServer {
    let script = json!({ "name": "endless", "step_micros": 1000, "replies": [{ "text": "on and on ", "then": "repeat" }] });
    Setup::new()
        .graph("chat", CHAT)
        .script(&script)
        .start()
        .await
}

fn running(status: &Value) -> u64 {
    engine_numbers(status)[0]
}

fn waiting(status: &Value) -> u64 {
    engine_numbers(status)[1]
}

/// A request whose client leaves when the value is dropped.
fn leaving(server: &TestServer, body: &Value) -> tokio::task::JoinHandle<()> {
    // A connection of its own: dropping the request closes it.
    let request = crate::http::client()
        .post(format!("{}/v3/chat/completions", server.url))
        .body(body.to_string());
    tokio::spawn(async move {
        if let Ok(mut response) = request.send().await {
            while let Ok(Some(_)) = response.chunk().await {}
        }
    })
}

#[tokio::test]
async fn leaving_while_a_stream_runs() {
    let server = endless().await;
    let mut response = server
        .client
        .post(format!("{}/v3/chat/completions", server.url));
    response = response.body(streamed("chat", "go").to_string());
    let mut response = response.send().await.expect("an answer");
    for _ in 0..3 {
        response.chunk().await.expect("no error").expect("no end");
    }
    let status = server.status().await;
    assert_eq!((sessions(&status), running(&status)), (1, 1), "{status:#}");
    let metrics = server.get("/metrics").await.text;
    let first = "graphmill_time_to_first_token_seconds_count{graph=\"chat\"} 1";
    assert!(metrics.contains(first), "counted as it leaves: {metrics}");
    drop(response);
    server.until_idle().await;
}

#[tokio::test]
async fn leaving_while_a_whole_answer_is_made() {
    let server = endless().await;
    let client = leaving(&server, &question("chat", "go"));
    server
        .until("decoding", |status| engine_numbers(status)[2] > 60)
        .await;
    client.abort();
    server.until_idle().await;
}

#[tokio::test]
async fn leaving_while_the_prompt_is_computed() {
    let server = endless().await;
    for body in [
        question("chat", &"long ".repeat(700)),
        streamed("chat", &"long ".repeat(700)),
    ] {
        let client = leaving(&server, &body);
        server
            .until("prefilling", |status| running(status) == 1)
            .await;
        client.abort();
        server.until_idle().await;
    }
}

#[tokio::test]
async fn leaving_while_waiting_for_a_place() {
    let server = endless().await;
    let running_clients: Vec<_> = (0..4)
        .map(|_| leaving(&server, &streamed("chat", "go")))
        .collect();
    server
        .until("all places are taken", |status| running(status) == 4)
        .await;
    for body in [streamed("chat", "me too"), question("chat", "me too")] {
        let client = leaving(&server, &body);
        server
            .until("one waits", |status| waiting(status) == 1)
            .await;
        client.abort();
        let status = server
            .until("none waits", |status| {
                waiting(status) == 0 && sessions(status) == 4
            })
            .await;
        assert_eq!(running(&status), 4, "the others are undisturbed");
    }
    running_clients
        .iter()
        .for_each(tokio::task::JoinHandle::abort);
    server.until_idle().await;
}

#[tokio::test]
async fn a_burst_that_leaves_at_once() {
    let server = endless().await;
    let bodies = (0..24).map(|i| {
        if i % 2 == 0 {
            streamed("chat", "go")
        } else {
            question("chat", "go")
        }
    });
    let clients: Vec<_> = bodies.map(|body| leaving(&server, &body)).collect();
    server
        .until("some run and some wait", |status| {
            running(status) == 4 && waiting(status) > 0
        })
        .await;
    clients.iter().for_each(tokio::task::JoinHandle::abort);
    server.until_idle().await;
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_up_nobody() {
    let script = json!({ "name": "fast", "context": 60_000, "cells": 200_000, "replies": [
        { "when": "forever", "text": "on and on ", "then": "repeat" }, { "text": "short" },
    ] });
    let server = Setup::new()
        .graph("chat", CHAT)
        .script(&script)
        .start()
        .await;
    let mut slow = server
        .post(
            "/v3/chat/completions",
            streamed("chat", "forever").to_string(),
        )
        .send()
        .await
        .expect("an answer");
    slow.chunk().await.expect("no error").expect("no end");
    // The slow one has filled what buffers it has, or is about to; others are answered all the
    // same.
    for _ in 0..20 {
        assert_eq!(
            server.chat(&question("chat", "quick")).await.json()["choices"][0]["message"]["content"],
            "short"
        );
    }
    drop(slow);
    server.until_idle().await;
}
