//! Adapters are models of their own to a client: listed, named behind their graph or alone.

use std::{
    fs,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::rest::support::{CHAT, Setup, TestServer, engine_numbers, question, read, streamed};

/// The published graph with two adapters of a scripted model, which moves letters on by the
/// adapter's number times its scale.
async fn server() -> TestServer {
    let options = "max_num_seqs: 4 \
        lora_adapters { name: \"one\" path: \"one.gguf\" } lora_adapters { path: \"adapters/two.gguf\" scale: 1.5 }";
    let graph = CHAT.replace("max_num_seqs: 4", options);
    let script = json!({ "name": "scripted", "replies": [{ "text": "abc" }] });
    let setup = Setup::new().graph("chat", &graph).script(&script);
    setup.start().await
}

async fn answer(server: &TestServer, model: &str) -> Value {
    let request = question(model, "hi");
    server.chat(&request).await.json()
}

#[tokio::test]
async fn requests_choose_an_adapter_by_their_model() {
    let server = server().await;
    for (model, text) in [
        ("chat", "abc"),
        ("chat:one", "bcd"),
        ("one", "bcd"),
        ("chat:two", "def"),
        ("two", "def"),
    ] {
        let answer = answer(&server, model).await;
        assert_eq!(answer["choices"][0]["message"]["content"], text, "{answer}");
        assert_eq!(answer["model"], model);
    }
}

#[tokio::test]
async fn models_lists_adapters_with_their_graph() {
    let server = server().await;
    let list = server.get("/v3/models").await.json();
    let models: Vec<(&str, &Value)> = list["data"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|model| (model["id"].as_str().expect("an id"), &model["parent"]))
        .collect();
    let parent = json!("chat");
    assert_eq!(
        models,
        [
            ("chat", &Value::Null),
            ("chat:one", &parent),
            ("chat:two", &parent)
        ]
    );
    let one = server.get("/v1/models/two").await.json();
    assert_eq!(one["id"], "chat:two");
}

#[tokio::test]
async fn adapters_are_known_while_their_graph_is_not_in_memory() {
    let server = server().await;
    let list = async || server.get("/v3/models").await.json()["data"].clone();
    let ids = |list: &Value| -> Vec<Value> {
        let models = list.as_array().expect("a list").iter();
        models.map(|model| model["id"].clone()).collect()
    };
    let all = ids(&list().await);
    for model in ["one", "chat:one"] {
        let body = json!({ "model": "chat" }).to_string();
        let unloaded = read(server.post("/models/unload", body)).await;
        assert_eq!(unloaded.status, 200, "{}", unloaded.text);
        let listed = list().await;
        assert_eq!(listed[0]["status"]["value"], "unloaded", "{listed}");
        assert_eq!(ids(&listed), all);
        let answer = answer(&server, model).await;
        assert_eq!(
            answer["choices"][0]["message"]["content"], "bcd",
            "{answer}"
        );
    }
}

#[tokio::test]
async fn adapters_of_a_graph_on_demand_are_known_from_the_start() {
    let options = "max_num_seqs: 4 lora_adapters { name: \"one\" path: \"one.gguf\" }";
    let setup = Setup::new()
        .graph("chat", &CHAT.replace("max_num_seqs: 4", options))
        .that(&json!({ "load": "on_demand" }))
        .script(&json!({ "replies": [{ "text": "abc" }] }));
    let file = setup.path().join("0/graph.pbtxt");
    let server = setup.start().await;
    let one = server.get("/v1/models/one").await.json();
    assert_eq!(one["id"], "chat:one", "{one}");
    let told = answer(&server, "one").await;
    assert_eq!(told["choices"][0]["message"]["content"], "bcd", "{told}");
    // A mistake in its file does not hide the name.
    let body = json!({ "model": "chat" }).to_string();
    let unloaded = read(server.post("/models/unload", body)).await;
    assert_eq!(unloaded.status, 200, "{}", unloaded.text);
    fs::write(&file, "node {").expect("writable");
    let failed = server.chat(&question("one", "hi")).await;
    let is_503 = (failed.status, &failed.json()["error"]["code"]) == (503, &json!("graph_failed"));
    assert!(is_503, "{}", failed.text);
}

#[tokio::test]
async fn an_adapter_that_is_not_there_is_an_unknown_model() {
    let server = server().await;
    for model in ["chat:three", "three", "other:one", "chat:"] {
        let response = server.chat(&question(model, "hi")).await;
        assert_eq!(response.status, 404, "{model}");
        let error = response.json();
        assert_eq!(error["error"]["code"], "model_not_found", "{error}");
        assert_eq!(error["error"]["param"], "model", "{error}");
    }
    let error = server.chat(&question("chat:oen", "hi")).await.json();
    let message = error["error"]["message"].as_str().expect("a message");
    assert!(message.contains("did you mean `chat:one`?"), "{message}");
}

#[tokio::test]
async fn schedulers_see_which_adapters_work() {
    let options = "max_num_seqs: 1 lora_adapters { name: \"one\" path: \"one.gguf\" } lora_adapters { name: \"two\" path: \"two.gguf\" }";
    let graph = CHAT.replace("max_num_seqs: 4", options);
    let script = json!({
        "name": "scripted", "cells": 640, "step_micros": 1000, "replies": [{ "text": "and on ", "then": "repeat" }],
    });
    let server = Setup::new()
        .graph("chat", &graph)
        .script(&script)
        .start()
        .await;
    let mut open = Vec::new();
    for (running, waiting, model) in [(1, 0, "one"), (1, 1, "two")] {
        let request = server.post("/v3/chat/completions", streamed(model, "hi").to_string());
        open.push(tokio::spawn(request.send()));
        server
            .until("submitted", |status| {
                engine_numbers(status)[..2] == [running, waiting]
            })
            .await;
    }
    // What adapters wait is told with the next step.
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let scrape = server.get("/metrics").await.text;
        let adapters = "max_lora=\"2\",running_lora_adapters=\"one\",waiting_lora_adapters=\"two\"";
        if scrape.contains(&format!("vllm:lora_requests_info{{{adapters}}} ")) {
            assert!(
                scrape.contains("\nvllm:num_requests_running 1.0\n"),
                "{scrape}"
            );
            assert!(
                scrape.contains("\nvllm:num_requests_waiting 1.0\n"),
                "{scrape}"
            );
            let blocks = "vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"40\"} 1\n";
            assert!(scrape.contains(blocks), "{scrape}");
            break;
        }
        assert!(Instant::now() < deadline, "{scrape}");
        tokio::task::yield_now().await;
    }
    for request in open {
        request.abort();
    }
}
