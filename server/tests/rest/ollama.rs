//! Ollama's API: conversations and prompts as lines of JSON, vectors, the lists of models, and when
//! graphs are in memory.

use std::time::Duration;

use graphmill_server::KeySource;
use serde_json::{Value, json};

use crate::rest::{
    agents::AS_JSON,
    fields, keys,
    residence::state,
    support::{ACTOR, CHAT, Reply, Setup, TestServer, question, read, sessions},
};

const LINES: &str = "application/x-ndjson";

/// A server of a model that thinks, calls a tool where there is one, and else says hello.
async fn server() -> TestServer {
    let call = r#"<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call><tool_call>{"name": "add", "arguments": {"a": 2}}</tool_call>"#;
    let script = json!({
        "chat_template": AS_JSON, "context": 16_384, "cells": 65_536,
        "replies": [
            { "when": "\"role\": \"tool\"", "text": "It is 3." },
            { "when": "\"name\": \"add\"", "text": format!("<think>Sums.</think>Wait.{call}") },
            { "when": "endless", "text": "on ", "then": "repeat" },
            { "when": "raw", "text": "er" },
            { "when": "", "text": "<think>Hm.</think>Hello\nyou" },
        ],
    });
    let setup = Setup::new().graph("chat", CHAT).graph("actor", ACTOR);
    setup.script(&script).start().await
}

async fn ask(server: &TestServer, path: &str, body: &Value) -> Reply {
    read(server.post(path, body.to_string())).await
}

fn lines(reply: &Reply) -> Vec<Value> {
    assert_eq!(reply.header("content-type"), Some(LINES), "{reply:?}");
    assert!(reply.text.ends_with('\n'), "{}", reply.text);
    let lines = reply.text.lines();
    lines
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

fn joined(lines: &[Value], of: &str) -> String {
    let texts = lines.iter().filter_map(|line| line.pointer(of)?.as_str());
    texts.collect()
}

fn whole(body: &Value) -> Value {
    fields::with(body.clone(), &json!({ "stream": false }))
}

#[tokio::test]
async fn a_conversation_is_answered_in_lines_and_whole() {
    let server = server().await;
    let usage = server.chat(&question("chat", "Hi")).await.json()["usage"].clone();
    let body = json!({ "model": "chat:latest", "messages": [{ "role": "user", "content": "Hi" }] });
    let reply = ask(&server, "/api/chat", &body).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let lines = lines(&reply);
    assert_eq!(joined(&lines, "/message/thinking"), "Hm.");
    assert_eq!(joined(&lines, "/message/content"), "Hello\nyou");
    let (last, others) = lines.split_last().expect("lines");
    for line in &lines {
        assert_eq!(
            (&line["model"], &line["message"]["role"]),
            (&json!("chat:latest"), &json!("assistant"))
        );
        let time = line["created_at"].as_str().expect("a text");
        assert!(chrono::DateTime::parse_from_rfc3339(time).is_ok(), "{time}");
    }
    assert!(
        others
            .iter()
            .all(|line| line["done"] == false && line.get("done_reason").is_none())
    );
    let answer = ask(&server, "/api/chat", &whole(&body)).await.json();
    assert_eq!(
        answer["message"],
        json!({ "role": "assistant", "content": "Hello\nyou", "thinking": "Hm." })
    );
    for end in [last, &answer] {
        assert_eq!(
            (&end["done"], &end["done_reason"]),
            (&json!(true), &json!("stop"))
        );
        assert_eq!(end["prompt_eval_count"], usage["prompt_tokens"]);
        assert_eq!(end["eval_count"], usage["completion_tokens"]);
        let time = |name: &str| {
            end[name]
                .as_u64()
                .unwrap_or_else(|| panic!("{name} in {end}"))
        };
        let parts = ["load_duration", "prompt_eval_duration", "eval_duration"].map(time);
        assert!(time("total_duration") >= parts.iter().sum(), "{end}");
        assert!(parts.iter().take(2).all(|time| *time > 0), "{end}");
    }
    server.until_idle().await;
}

#[tokio::test]
async fn tools_are_called_and_their_results_come_back() {
    let server = server().await;
    let add = json!({ "type": "function", "function": { "name": "add", "parameters": { "type": "object", "properties": { "a": { "type": "integer" } } } } });
    let body = json!({ "model": "chat", "messages": [{ "role": "user", "content": "Hi" }], "tools": [add] });
    let lines = lines(&ask(&server, "/api/chat", &body).await);
    let called = lines
        .iter()
        .filter_map(|line| line["message"]["tool_calls"].as_array());
    let called: Vec<&Value> = called.flatten().collect();
    let answer = ask(&server, "/api/chat", &whole(&body)).await.json();
    let told = answer["message"]["tool_calls"].as_array().expect("calls");
    for calls in [called, told.iter().collect()] {
        let functions: Vec<&Value> = calls.iter().map(|call| &call["function"]).collect();
        assert_eq!(
            functions,
            [
                &json!({ "index": 0, "name": "add", "arguments": { "a": 1 } }),
                &json!({ "index": 1, "name": "add", "arguments": { "a": 2 } }),
            ]
        );
    }
    assert_eq!(joined(&lines, "/message/content"), "Wait.");
    assert_eq!(lines.last().expect("a line")["done_reason"], "stop");

    // As clients of different age send it: without ids, and with the tool's name or nothing.
    let mut message = answer["message"].clone();
    message["tool_calls"][0]
        .as_object_mut()
        .expect("a call")
        .remove("id");
    let history = json!([
        { "role": "system", "content": "Sum." }, { "role": "user", "content": "Hi" }, message,
        { "role": "tool", "content": "1", "tool_name": "add" }, { "role": "tool", "content": "2" },
    ]);
    let body = json!({ "model": "chat", "messages": history, "tools": [add], "stream": false });
    let answer = ask(&server, "/api/chat", &body).await.json();
    assert_eq!(answer["message"]["content"], "It is 3.", "{answer}");
}

#[tokio::test]
async fn a_prompt_is_answered_or_taken_as_it_is() {
    let server = server().await;
    let body = json!({ "model": "chat", "prompt": "Hi", "system": "Be brief.", "images": [], "context": [], "template": "" });
    let lines = lines(&ask(&server, "/api/generate", &body).await);
    assert_eq!(
        (joined(&lines, "/thinking"), joined(&lines, "/response")),
        ("Hm.".to_owned(), "Hello\nyou".to_owned())
    );
    let answer = ask(&server, "/api/generate", &whole(&body)).await.json();
    assert_eq!(
        (&answer["response"], &answer["thinking"]),
        (&json!("Hello\nyou"), &json!("Hm."))
    );
    assert_eq!(
        answer["prompt_eval_count"],
        lines.last().expect("a line")["prompt_eval_count"]
    );

    let raw = json!({ "model": "chat", "prompt": "Hi", "raw": true, "stream": false, "options": { "num_predict": 3 } });
    let answer = ask(&server, "/api/generate", &raw).await.json();
    let prompt = json!({ "model": "chat", "prompt": "Hi", "max_tokens": 3, "temperature": 0 });
    let same = ask(&server, "/v1/completions", &prompt).await.json();
    assert_eq!(answer["response"], same["choices"][0]["text"]);
    assert_eq!(
        (&answer["done_reason"], &answer["eval_count"]),
        (&json!("length"), &json!(3))
    );
}

#[tokio::test]
async fn options_are_fields_and_those_of_a_load_are_named() {
    let server = server().await;
    let mut body =
        json!({ "model": "chat", "prompt": "endless", "stream": false, "keep_alive": "5m" });
    body["options"] = json!({
        "num_predict": 4, "stop": [], "repeat_penalty": 1.0, "temperature": 0, "seed": 1, "top_k": 40, "min_p": 0.0,
        "num_ctx": 4096, "num_gpu": 99, "use_mmap": null,
    });
    let reply = ask(&server, "/api/generate", &body).await;
    let answer = reply.json();
    assert_eq!(
        (&answer["done_reason"], &answer["eval_count"]),
        (&json!("length"), &json!(4)),
        "{answer}"
    );
    let named = reply.headers.get_all("x-ignored-fields").iter();
    let named: Vec<&str> = named.map(|value| value.to_str().expect("text")).collect();
    assert_eq!(
        named.join(", "),
        "options.num_ctx, options.num_gpu, keep_alive"
    );
    body["options"] = json!({ "stop": ["on on"] });
    let answer = ask(&server, "/api/generate", &body).await.json();
    assert_eq!(answer["done_reason"], "stop", "{answer}");
    body = json!({ "model": "chat", "prompt": "Hi", "stream": false, "format": { "enum": [5] } });
    let answer = ask(&server, "/api/generate", &body).await.json();
    assert_eq!(answer["response"], "5", "{answer}");
}

#[tokio::test]
async fn probabilities_are_told_with_their_tokens() {
    let server = server().await;
    let body = json!({ "model": "chat", "messages": [{ "role": "user", "content": "Hi" }], "logprobs": true, "top_logprobs": 1 });
    let lines = lines(&ask(&server, "/api/chat", &body).await);
    let of_lines = lines.iter().filter_map(|line| line["logprobs"].as_array());
    let of_lines: Vec<&Value> = of_lines.flatten().collect();
    let answer = ask(&server, "/api/chat", &whole(&body)).await.json();
    let of_whole: Vec<&Value> = answer["logprobs"]
        .as_array()
        .expect("a list")
        .iter()
        .collect();
    assert_eq!(of_lines, of_whole);
    assert!(of_whole.iter().all(|token| {
        token["logprob"].is_number()
            && token["top_logprobs"]
                .as_array()
                .is_some_and(|top| top.len() == 1)
    }));
    let spelled: String = of_whole
        .iter()
        .filter_map(|token| token["token"].as_str())
        .collect();
    assert!(spelled.contains("Hello"), "{spelled}");
}

#[tokio::test]
async fn what_fails_is_told_as_ollama_tells_it() {
    let server = server().await;
    for (method, path, body, status, says) in [
        ("POST", "/api/chat", "{", 400, "JSON"),
        (
            "POST",
            "/api/chat",
            r#"{"messages": []}"#,
            400,
            "`model` is missing",
        ),
        (
            "POST",
            "/api/chat",
            r#"{"model": "nobody", "messages": []}"#,
            404,
            "`nobody`",
        ),
        (
            "POST",
            "/api/chat",
            r#"{"model": "chat:7b", "messages": []}"#,
            404,
            "`chat:7b`",
        ),
        ("GET", "/api/chat", "", 405, "does not support"),
        ("GET", "/api/nothing", "", 404, "unknown URL"),
        ("POST", "/api/show", "{}", 400, "`model` is missing"),
        (
            "POST",
            "/api/show",
            r#"{"model": "nobody"}"#,
            404,
            "`nobody`",
        ),
        (
            "POST",
            "/api/pull",
            r#"{"model": "nobody"}"#,
            404,
            "`graphmill pull org/repo`",
        ),
        ("POST", "/api/create", "{}", 501, "configuration"),
        ("POST", "/api/copy", "{}", 501, "configuration"),
        ("POST", "/api/push", "{}", 501, "uploaded"),
        ("DELETE", "/api/delete", "{}", 501, "configuration"),
        ("POST", "/api/blobs/sha256:0", "", 501, "configuration"),
    ] {
        let method = method.parse().expect("a method");
        let request = server
            .client
            .request(method, format!("{}{path}", server.url));
        let reply = read(request.body(body)).await;
        assert_eq!(reply.status, status, "{path} {body}: {}", reply.text);
        let error = reply.json();
        let message = error["error"]
            .as_str()
            .unwrap_or_else(|| panic!("{path}: {error}"));
        assert!(message.contains(says), "{path} {body}: {message}");
    }
    let fails = json!([{ "event": "{}" }, { "fail": { "kind": "internal", "message": "broken" } }]);
    let body = json!({ "model": "actor", "messages": [{}], "actions": fails });
    let reply = ask(&server, "/api/chat", &body).await;
    assert_eq!(lines(&reply)[1]["error"], "broken", "{}", reply.text);
    server.until_idle().await;
}

#[tokio::test]
async fn silence_is_broken_by_white_space_before_the_next_line() {
    let setup = Setup::new()
        .graph("actor", ACTOR)
        .keep_alive(Duration::from_millis(5));
    let server = setup.start().await;
    let body = json!({ "model": "actor", "messages": [{}], "actions": [{ "event": "{}" }, { "hang": true }] });
    let request = server.post("/api/chat", body.to_string());
    let mut response = request.send().await.expect("an answer");
    let mut text = String::new();
    while text.len() < 6 {
        let chunk = response.chunk().await.expect("no error").expect("no end");
        text.push_str(std::str::from_utf8(&chunk).expect("UTF-8"));
    }
    assert_eq!((&text[..3], text.trim()), ("{}\n", "{}"));
    drop(response);
    server.until("closed", |status| sessions(status) == 0).await;
}

#[tokio::test]
async fn times_of_a_stream_are_a_line_behind_its_end() {
    let server = server().await;
    let body = json!({ "model": "chat", "prompt": "Hi" });
    let lines = lines(&ask(&server, "/api/generate?timings=1", &body).await);
    let [.., end, times] = &lines[..] else {
        panic!("{lines:?}")
    };
    assert_eq!(end["done"], true);
    assert!(times["timings"]["total_ms"].is_number(), "{times}");
}

#[tokio::test]
async fn texts_have_vectors() {
    let server = fields::server().await;
    let openai = json!({ "model": "embed", "input": ["a side packet", "bread"] });
    let openai = ask(&server, "/v1/embeddings", &openai).await.json();
    let body = json!({ "model": "embed:latest", "input": ["a side packet", "bread"], "options": { "num_ctx": 64 } });
    let reply = ask(&server, "/api/embed", &body).await;
    let answer = reply.json();
    assert_eq!(reply.header("x-ignored-fields"), Some("options.num_ctx"));
    assert_eq!(answer["model"], "embed:latest");
    for (index, vector) in answer["embeddings"]
        .as_array()
        .expect("a list")
        .iter()
        .enumerate()
    {
        assert_eq!(*vector, openai["data"][index]["embedding"]);
    }
    assert_eq!(
        answer["prompt_eval_count"],
        openai["usage"]["prompt_tokens"]
    );
    assert!(
        answer["total_duration"].as_u64() > answer["load_duration"].as_u64(),
        "{answer}"
    );
    let alone = json!({ "model": "embed", "input": "bread" });
    let alone = ask(&server, "/api/embed", &alone).await.json();
    let one = json!({ "model": "embed", "prompt": "bread" });
    let one = ask(&server, "/api/embeddings", &one).await.json();
    assert_eq!(one, json!({ "embedding": alone["embeddings"][0] }));

    // Too long, unless it is cut.
    let long = "bread ".repeat(2_000);
    let body = |truncate: Value| json!({ "model": "embed", "input": long, "truncate": truncate });
    assert_eq!(
        ask(&server, "/api/embed", &body(Value::Null)).await.status,
        200
    );
    let refused = ask(&server, "/api/embed", &body(false.into())).await;
    assert_eq!(
        (refused.status, &refused.json()["param"]),
        (400, &json!("input")),
        "{refused:?}"
    );
    let one = json!({ "model": "embed", "prompt": long });
    assert_eq!(ask(&server, "/api/embeddings", &one).await.status, 200);

    // Nothing to embed.
    for (path, empty, nothing) in [
        ("/api/embed", json!({ "input": [] }), "embeddings"),
        ("/api/embed", json!({}), "embeddings"),
        ("/api/embeddings", json!({ "prompt": "" }), "embedding"),
    ] {
        let body = fields::with(json!({ "model": "embed" }), &empty);
        let answer = ask(&server, path, &body).await.json();
        assert_eq!(answer[nothing], json!([]), "{answer}");
    }
}

#[tokio::test]
async fn models_are_listed_and_shown() {
    let server = fields::server().await;
    let tags = server.get("/api/tags").await.json();
    let models = tags["models"].as_array().expect("a list");
    let model = |name: &str| {
        let mut all = models.iter();
        all.find(|model| model["name"] == name)
            .unwrap_or_else(|| panic!("{name} in {tags}"))
    };
    let embed = model("embed:latest");
    assert_eq!(embed["model"], embed["name"]);
    assert_eq!(embed["details"]["format"], "gguf");
    let family = embed["details"]["family"].as_str().expect("a text");
    assert!(
        !family.is_empty() && embed["size"].as_u64() > Some(0),
        "{embed}"
    );
    let digest = embed["digest"].as_str().expect("a text");
    assert!(
        digest.len() == 64 && digest != model("rank:latest")["digest"],
        "{embed}"
    );
    assert_eq!(server.get("/api/tags").await.json(), tags);
    let time = embed["modified_at"].as_str().expect("a text");
    assert!(chrono::DateTime::parse_from_rfc3339(time).is_ok(), "{time}");

    let show = async |body: Value| ask(&server, "/api/show", &body).await.json();
    let embed = show(json!({ "model": "embed:latest" })).await;
    assert_eq!(embed["capabilities"], json!(["embedding"]));
    let info = &embed["model_info"];
    assert_eq!(info["general.architecture"], family);
    let models = server.get("/v1/models").await.json();
    let mut listed = models["data"].as_array().expect("a list").iter();
    let found = listed
        .find(|model| model["id"] == "embed")
        .expect("it is served");
    assert_eq!(
        info[format!("{family}.context_length")],
        found["max_model_len"]
    );
    assert!(
        info[format!("{family}.embedding_length")].is_u64(),
        "{embed}"
    );
    let chat = show(json!({ "name": "chat" })).await;
    assert_eq!(chat["capabilities"][0], "completion");
    assert_eq!(
        show(json!({ "model": "rank" })).await["capabilities"],
        json!([])
    );

    let running = server.get("/api/ps").await.json();
    let mut all = running["models"].as_array().expect("a list").iter();
    let embed = all
        .find(|model| model["name"] == "embed:latest")
        .expect("it runs");
    assert!(embed["size"].as_u64() > Some(0), "{embed}");
    assert_eq!(embed["context_length"], found["max_model_len"]);
    let expires = embed["expires_at"].as_str().expect("a text");
    assert!(expires > "2200", "{expires}");
    let version = server.get("/api/version").await.json();
    assert_eq!(version["graphmill"], env!("CARGO_PKG_VERSION"));
    let numbers = version["version"].as_str().expect("a text").split('.');
    let numbers: Vec<u32> = numbers
        .map(|part| part.parse().expect("a number"))
        .collect();
    assert!(numbers.as_slice() >= &[0, 6, 4][..], "{version}");
}

#[tokio::test]
async fn what_a_model_is_taught_is_shown() {
    let server = server().await;
    let body = json!({ "model": "chat", "verbose": true });
    let shown = ask(&server, "/api/show", &body).await.json();
    assert_eq!(
        shown["capabilities"],
        json!(["completion", "tools", "thinking"])
    );
    assert_eq!(shown["template"], AS_JSON);
    let context = server.get("/v1/models/chat").await.json()["max_model_len"].clone();
    assert_eq!(shown["parameters"], format!("num_ctx {context}"));
    for (stream, kind) in [(json!(null), LINES), (json!(false), "application/json")] {
        let body = json!({ "name": "chat:latest", "stream": stream });
        let reply = ask(&server, "/api/pull", &body).await;
        assert_eq!(
            (reply.status, reply.header("content-type")),
            (200, Some(kind))
        );
        assert_eq!(reply.json(), json!({ "status": "success" }));
    }
}

#[tokio::test]
async fn a_request_without_anything_to_answer_loads_or_unloads() {
    let demand = json!({ "load": "on_demand" });
    let setup = Setup::new()
        .graph("chat", CHAT)
        .that(&demand)
        .graph("stays", CHAT);
    let server = setup
        .script(&json!({ "replies": [{ "text": "hello" }] }))
        .start()
        .await;
    let is = |wanted: &'static str| move |status: &Value| state(status, "chat") == wanted;
    let unloads = |path: &'static str, fields: Value| {
        let body = fields::with(json!({ "model": "chat", "keep_alive": 0 }), &fields);
        let server = &server;
        async move { ask(server, path, &body).await }
    };
    let listed = server.get("/api/tags").await.json();
    assert_eq!(listed["models"][0]["name"], "chat:latest", "{listed}");
    let running = server.get("/api/ps").await.json();
    assert_eq!(
        running["models"].as_array().map(Vec::len),
        Some(1),
        "{running}"
    );

    // Nothing is loaded to be unloaded.
    let reply = unloads("/api/chat", json!({ "messages": [] })).await;
    assert_eq!(reply.json()["done_reason"], "unload", "{}", reply.text);
    server.until("as it was", is("START")).await;

    let body = json!({ "model": "chat", "keep_alive": -1 });
    let reply = ask(&server, "/api/generate", &body).await;
    let answer = reply.json();
    assert_eq!(
        (&answer["done"], &answer["done_reason"], &answer["response"]),
        (&json!(true), &json!("load"), &json!(""))
    );
    assert_eq!(reply.header("x-ignored-fields"), Some("keep_alive"));
    server.until("loaded", is("AVAILABLE")).await;

    // An answer first.
    let said = json!({ "messages": [{ "role": "user", "content": "Hi" }], "stream": false, "keep_alive": "0s" });
    let reply = unloads("/api/chat", said).await;
    assert_eq!(
        reply.json()["message"]["content"],
        "hello",
        "{}",
        reply.text
    );
    assert_eq!(reply.header("x-ignored-fields"), None);
    server.until("unloaded", is("END")).await;

    let reply = ask(&server, "/api/chat", &json!({ "model": "chat" })).await;
    assert_eq!(
        reply.json()["message"],
        json!({ "role": "assistant", "content": "" })
    );
    let reply = unloads("/api/generate", json!({})).await;
    assert_eq!(reply.json()["done_reason"], "unload");
    server.until("unloaded again", is("END")).await;

    // Another one is in memory for good.
    let body = json!({ "model": "stays", "keep_alive": 0 });
    let reply = ask(&server, "/api/chat", &body).await;
    assert_eq!(
        (
            &reply.json()["done_reason"],
            reply.header("x-ignored-fields")
        ),
        (&json!("load"), Some("keep_alive"))
    );
}

#[tokio::test]
async fn a_key_sees_its_models_and_unloads_none() {
    let demand = json!({ "load": "on_demand" });
    let setup = Setup::new()
        .graph("chat", CHAT)
        .that(&demand)
        .graph("other", CHAT);
    let setup = setup.script(&json!({ "replies": [{ "text": "hello" }] }));
    let file = setup.path().join("keys.json");
    let listed = json!({ "keys": [{ "name": "user", "key": "u", "models": ["chat"] }] });
    std::fs::write(&file, listed.to_string()).expect("writable");
    let source = KeySource::File(file);
    let server = setup
        .with(move |options| options.keys = Some(source))
        .start()
        .await;
    let refused = server.get("/api/tags").await;
    assert_eq!(
        (refused.status, refused.json()["error"].is_string()),
        (401, true)
    );
    let tags = keys::get(&server, "u", "/api/tags").await.json();
    assert_eq!(tags["models"].as_array().map(Vec::len), Some(1), "{tags}");
    let shown = keys::post(&server, "u", "/api/show", &json!({ "model": "other" })).await;
    assert_eq!(shown.status, 404, "{}", shown.text);
    let body = json!({ "model": "chat", "keep_alive": 0 });
    let loaded = keys::post(&server, "u", "/api/chat", &body).await;
    assert_eq!(
        (
            &loaded.json()["done_reason"],
            loaded.header("x-ignored-fields")
        ),
        (&json!("load"), Some("keep_alive"))
    );
}
