//! The bodies of requests: how large they may be, alone and together, and what a refusal shows of
//! them.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::TcpStream;

use graphmill_dialects::{
    bodies::{CHAT, COMPLETIONS, EMBEDDINGS, MESSAGES, RERANK, RESPONSES, TOKENIZE},
    schema,
};
use graphmill_server::KeySource;
use serde_json::{Value, json};

use crate::rest::fields::{good, path, server, with};
use crate::rest::keys::{get, post};
use crate::rest::support::{self, Setup, TestServer, question, read, streamed};

/// The bytes of bodies that are in memory.
fn bytes(status: &Value) -> u64 {
    status["bodies"]["bytes"].as_u64().expect("a number")
}

async fn small_server(each: usize, all: usize) -> TestServer {
    let script = json!({ "step_micros": 1000, "replies": [{ "when": "", "text": "Hello", "then": "end" }, { "when": "endless", "text": "on ", "then": "repeat" }] });
    Setup::new()
        .script(&script)
        .graph("chat", support::CHAT)
        .bodies(each, all)
        .start()
        .await
}

/// A connection on which a body was begun and not ended.
fn begin(server: &TestServer, announced: usize, sent: usize) -> TcpStream {
    let address = server.url.strip_prefix("http://").expect("a URL");
    let mut stream = TcpStream::connect(address).expect("it listens");
    let head = format!(
        "POST /v3/chat/completions HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {announced}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("it reads");
    stream.write_all(&vec![b' '; sent]).expect("it reads");
    stream
}

#[tokio::test]
async fn a_longer_body_than_the_limit_is_refused_with_the_limit() {
    let server = small_server(1 << 20, 4 << 20).await;
    let long = vec![b' '; (1 << 20) + 1];
    let pieces: Vec<_> = long.chunks(1 << 16).map(<[u8]>::to_vec).collect();
    let pieces = futures_util::stream::iter(pieces.into_iter().map(Ok::<_, std::io::Error>));
    for body in [
        reqwest::Body::from(long.clone()),
        reqwest::Body::wrap_stream(pieces),
    ] {
        let reply = read(server.post("/v3/chat/completions", body)).await;
        assert_eq!(reply.status, 413, "{}", reply.text);
        let error = &reply.json()["error"];
        assert_eq!(error["code"], "request_too_large");
        let message = error["message"].as_str().expect("a message");
        assert!(message.contains("1 MiB") && message.contains("--max_body_bytes"));
    }
    assert_eq!(bytes(&server.status().await), 0);
}

#[tokio::test]
async fn a_byte_order_mark_before_the_json_is_left_out() {
    let server = small_server(1 << 20, 4 << 20).await;
    let infer = json!({ "inputs": [] }).to_string();
    for (path, body, status) in [
        (
            "/v3/chat/completions",
            question("chat", "Hi").to_string(),
            200,
        ),
        ("/v3/check", json!({ "graph": "" }).to_string(), 200),
        ("/v2/repository/index", "{}".to_owned(), 200),
        ("/v2/models/chat/infer", infer, 400),
    ] {
        let plain = read(server.post(path, body.clone())).await;
        let marked = read(server.post(path, format!("\u{feff}{body}"))).await;
        assert_eq!(
            (plain.status, marked.status),
            (status, status),
            "{path}: {}",
            marked.text
        );
        assert_eq!(plain.json()["error"], marked.json()["error"]);
    }
}

/// A body that was compressed, and what its header says.
fn compressed(body: &[u8]) -> [(&'static str, Vec<u8>); 4] {
    use flate2::{Compression, bufread};
    fn all(mut reader: impl std::io::Read) -> Vec<u8> {
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).expect("it is in memory");
        bytes
    }
    let level = Compression::default();
    let gzip = all(bufread::GzEncoder::new(body, level));
    [
        ("x-gzip", gzip.clone()),
        ("identity, GZIP", gzip),
        ("deflate", all(bufread::ZlibEncoder::new(body, level))),
        ("deflate", all(bufread::DeflateEncoder::new(body, level))),
    ]
}

fn encoded(server: &TestServer, encoding: &str, body: Vec<u8>) -> reqwest::RequestBuilder {
    let request = server.post("/v3/chat/completions", body);
    request.header("content-encoding", encoding)
}

#[tokio::test]
async fn compressed_bodies_are_read_and_bounded_by_what_they_stand_for() {
    let server = small_server(1 << 20, 4 << 20).await;
    let body = question("chat", "Hi").to_string();
    for (encoding, bytes) in compressed(body.as_bytes()) {
        let cut = bytes[..bytes.len() - 9].to_vec();
        let reply = read(encoded(&server, encoding, bytes)).await;
        assert_eq!(reply.status, 200, "{encoding}: {}", reply.text);
        let reply = read(encoded(&server, encoding, cut)).await;
        let found = (reply.status, reply.json()["error"]["code"].clone());
        assert_eq!(found, (400, json!("invalid_encoding")), "{encoding}");
    }
    // A kilobyte that stands for a megabyte and more.
    let bomb = vec![b' '; (1 << 20) + 1];
    for (encoding, bytes) in compressed(&bomb) {
        assert!(bytes.len() < 4_096);
        let reply = read(encoded(&server, encoding, bytes)).await;
        let found = (reply.status, reply.json()["error"]["code"].clone());
        assert_eq!(found, (413, json!("request_too_large")), "{encoding}");
    }
    for encoding in ["br", "zstd", "gzip, gzip", "gzip, br"] {
        let request = server.post("/v3/chat/completions", body.clone());
        let reply = read(request.header("content-encoding", encoding)).await;
        let found = (reply.status, reply.json()["error"]["code"].clone());
        assert_eq!(found, (415, json!("unsupported_encoding")), "{encoding}");
        assert_eq!(
            reply.header("accept-encoding"),
            Some("gzip, deflate, identity")
        );
    }
    let reply = read(encoded(&server, "gzip", body.into_bytes())).await;
    assert_eq!(reply.status, 400, "{}", reply.text);
    assert_eq!(bytes(&server.status().await), 0);
}

#[tokio::test]
async fn bodies_that_are_half_read_do_not_wait_for_each_other() {
    let server = small_server(1 << 20, 4 << 20).await;
    // What is announced is not taken, only what came.
    let dribbling: Vec<_> = (0..8).map(|_| begin(&server, 1 << 20, 10)).collect();
    server
        .until("a few bytes", |status| bytes(status) == 80)
        .await;
    let half_read: Vec<_> = (0..3)
        .map(|_| begin(&server, 1 << 20, (1 << 20) - 100))
        .collect();
    server
        .until("three large bodies", |status| bytes(status) > 3_100_000)
        .await;
    let mut large = question("chat", "Hi");
    large["unknown"] = "x".repeat(500_000).into();
    let refused = server.chat(&large).await;
    assert_eq!(refused.status, 503, "{}", refused.text);
    assert_eq!(refused.json()["error"]["code"], "bodies_full");
    assert_eq!(refused.header("retry-after"), Some("1"));
    // There is room for a usual request.
    assert_eq!(server.chat(&question("chat", "Hi")).await.status, 200);
    drop((dribbling, half_read));
    server.until("no body", |status| bytes(status) == 0).await;
    assert_eq!(server.chat(&large).await.status, 200);
}

#[tokio::test]
async fn a_body_is_given_back_while_its_answer_streams() {
    let server = small_server(1 << 20, 1 << 20).await;
    let mut body = streamed("chat", "endless");
    body["unknown"] = "x".repeat(500_000).into();
    let answer = server.post("/v3/chat/completions", body.to_string());
    let mut answer = answer.send().await.expect("an answer");
    assert_eq!(answer.status(), 200);
    assert!(answer.chunk().await.expect("an event").is_some());
    server.until("no body", |status| bytes(status) == 0).await;
    assert_eq!(support::sessions(&server.status().await), 1);
}

#[tokio::test]
async fn the_model_is_looked_for_before_the_rest_is_read() {
    let server = small_server(8 << 20, 8 << 20).await;
    let values = "[0,0],".repeat(1 << 20) + "0";
    let body = |model: &str| format!(r#"{{"messages":[{values}],"model":"{model}"}}"#);
    let reply = read(server.post("/v3/chat/completions", body("nobody"))).await;
    assert_eq!(reply.status, 404, "{}", reply.text);
    let reply = read(server.post("/v3/chat/completions", body("chat"))).await;
    assert_eq!(reply.status, 400, "{}", reply.text);
    let error = &reply.json()["error"];
    assert_eq!(
        (&error["code"], &error["param"]),
        (&json!("too_many_values"), &json!("messages"))
    );
}

/// Fields for which there is a most, each with one more.
fn beyond() -> Vec<(&'static str, Value, &'static str)> {
    let many = |value: Value, count: usize| Value::Array(vec![value; count]);
    let message = json!({ "role": "user", "content": "" });
    let biases: serde_json::Map<String, Value> = (0..4_097)
        .map(|token| (token.to_string(), 1.into()))
        .collect();
    vec![
        (
            CHAT,
            json!({ "messages": many(message.clone(), 16_385) }),
            "messages",
        ),
        (
            MESSAGES,
            json!({ "messages": many(message.clone(), 16_385) }),
            "messages",
        ),
        (
            RESPONSES,
            json!({ "input": many(message, 16_385) }),
            "input",
        ),
        (
            CHAT,
            json!({ "tools": many(json!({ "type": "function", "function": { "name": "f" } }), 1_025) }),
            "tools",
        ),
        (
            MESSAGES,
            json!({ "tools": many(json!({ "name": "f", "input_schema": {} }), 1_025) }),
            "tools",
        ),
        (
            RESPONSES,
            json!({ "tools": many(json!({ "type": "function", "name": "f" }), 1_025) }),
            "tools",
        ),
        (CHAT, json!({ "logit_bias": biases }), "logit_bias"),
        (
            COMPLETIONS,
            json!({ "logit_bias": many(json!([1, 1]), 4_097) }),
            "logit_bias",
        ),
        (CHAT, json!({ "stop": many("a".into(), 17) }), "stop"),
        (CHAT, json!({ "stop": "a".repeat(1_025) }), "stop"),
        (
            COMPLETIONS,
            json!({ "stop": ["a", "a".repeat(1_025)] }),
            "stop[1]",
        ),
        (
            MESSAGES,
            json!({ "stop_sequences": ["a".repeat(1_025)] }),
            "stop_sequences[0]",
        ),
        (
            CHAT,
            json!({ "stop_token_ids": many(1.into(), 1_025) }),
            "stop_token_ids",
        ),
        (
            COMPLETIONS,
            json!({ "prompt": many("a".into(), 1_025) }),
            "prompt",
        ),
        (TOKENIZE, json!({ "text": many("a".into(), 1_025) }), "text"),
        (
            EMBEDDINGS,
            json!({ "input": many("a".into(), 2_049) }),
            "input",
        ),
        (
            RERANK,
            json!({ "documents": many("a".into(), 4_097) }),
            "documents",
        ),
        (
            CHAT,
            json!({ "documents": many(json!({}), 4_097) }),
            "documents",
        ),
        (
            CHAT,
            json!({ "chat_template_kwargs": { "a": many(0.into(), 70_000) } }),
            "chat_template_kwargs",
        ),
    ]
}

#[tokio::test]
async fn lists_have_a_most_that_the_error_names() {
    let server = server().await;
    for (endpoint, fields, param) in beyond() {
        let body = with(good(endpoint), &fields).to_string();
        let reply = read(server.post(&format!("/v1/{endpoint}"), body)).await;
        assert_eq!(reply.status, 400, "{endpoint} {param}: {}", reply.text);
        let error = &reply.json()["error"];
        assert_eq!(error["param"], param, "{}", reply.text);
        let message = error["message"].as_str().expect("a message");
        assert!(message.contains(|c: char| c.is_ascii_digit()), "{message}");
    }
    let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
    let body = question("chat", "Hi").to_string();
    let deep = |field: &str| format!(r#"{},"{field}":{deep}}}"#, &body[..body.len() - 1]);
    let reply = read(server.post("/v3/chat/completions", deep("tools"))).await;
    assert_eq!(
        reply.json()["error"]["code"],
        "nested_too_deep",
        "{}",
        reply.text
    );
    let reply = read(server.post("/v3/chat/completions", deep("unknown"))).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
}

#[tokio::test]
async fn more_fields_than_there_are_is_refused() {
    let server = server().await;
    let mut many = String::new();
    for n in 0..300_000 {
        let _ = write!(many, r#","f{n}":0"#);
    }
    let body = question("chat", "Hi").to_string();
    let body = format!("{}{many}}}", &body[..body.len() - 1]);
    let reply = read(server.post("/v3/chat/completions", body)).await;
    assert_eq!(reply.status, 400);
    assert_eq!(reply.json()["error"]["code"], "too_many_fields");
    let mut body = question("chat", "Hi");
    for n in 0..15_000 {
        body[format!("f{n}")] = n.into();
    }
    let reply = server.chat(&body).await;
    assert_eq!(reply.status, 200);
    assert!(
        reply
            .header("x-ignored-fields")
            .is_some_and(|names| names.len() < 2_000)
    );
}

/// The longest run of the letter that all that is long here is made of.
fn longest_run(text: &str) -> usize {
    text.split(|c| c != 'q').map(str::len).max().unwrap_or(0)
}

#[tokio::test]
async fn errors_show_little_of_what_was_sent() {
    const LONG: usize = 3_000;
    let server = server().await;
    let long = "q".repeat(LONG);
    let values = [
        json!(long),
        json!([long]),
        json!({ &*long: long }),
        json!([{ "type": long, "role": long, "name": long, &*long: long }]),
        json!([{ "type": "function", "role": "user", "content": [{ "type": long }], "function": { "name": long } }]),
        json!({ "type": long, "format": { "type": long }, "function": { "name": long }, "effort": long }),
        json!({ "type": "function", "name": long, "function": { "name": long } }),
    ];
    let mut wrong = Vec::new();
    let mut check = |what: String, reply: &support::Reply| {
        let headers = format!("{:?}", reply.headers);
        if reply.status < 400 {
            return;
        }
        if longest_run(&reply.text) > 200 || longest_run(&headers) > 200 || reply.text.len() > 2_000
        {
            wrong.push(format!(
                "{what}: {} {headers}",
                &reply.text[..reply.text.len().min(700)]
            ));
        }
    };
    for endpoint in schema::endpoints() {
        for field in endpoint.names() {
            for value in &values {
                let fields = json!({ field: value });
                let name = endpoint.name;
                let body = with(good(name), &fields).to_string();
                let reply = read(server.post(&path(name), body)).await;
                let shape: String = value.to_string().replace(&long, "q");
                check(format!("{name} {field}: {shape}"), &reply);
            }
        }
    }
    for (field, value) in [
        ("model", json!(long)),
        (
            "response_format",
            json!({ "type": "json_schema", "json_schema": { "name": "a", "schema": { "type": long } } }),
        ),
        (
            "response_format",
            json!({ "type": "json_schema", "json_schema": { "name": "a", "schema": { &*long: 5, "type": "object", "required": [long] } } }),
        ),
        ("guided_regex", json!(format!("({long}"))),
        ("guided_grammar", json!(format!("root ::= {long}"))),
        ("guided_grammar", json!(format!("start: {long}"))),
        ("logit_bias", json!({ &*long: 1 })),
        ("stream_options", json!({ &*long: true })),
    ] {
        let mut body = question("chat", "Hi");
        body["stream"] = (field == "stream_options").into();
        body[field] = value;
        check(field.to_owned(), &server.chat(&body).await);
    }
    for path in [
        format!("/{long}"),
        format!("/v3/{long}"),
        format!("/v3/models/{long}"),
        format!("/v3/chat/completions?explain={long}"),
    ] {
        let body = question("chat", "Hi").to_string();
        check(
            path.replace(&long, "q"),
            &read(server.post(&path, body.clone())).await,
        );
        check(path.replace(&long, "q"), &server.get(&path).await);
    }
    for header in [
        "x-request-id",
        "x-request-timeout-ms",
        "content-type",
        "traceparent",
    ] {
        let body = question("nobody", "Hi").to_string();
        let request = server
            .post("/v3/chat/completions", body)
            .header(header, &long);
        check(header.to_owned(), &read(request).await);
    }
    for body in [
        long.clone(),
        format!("{{\"a\": {long}}}"),
        format!("{{{long}}}"),
        format!("{{\"a\":1}}{long}"),
    ] {
        check(
            "no JSON".to_owned(),
            &read(server.post("/v3/chat/completions", body)).await,
        );
    }
    assert!(
        wrong.is_empty(),
        "{} of them:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[tokio::test]
async fn the_bodies_of_a_key_leave_room_for_those_of_others() {
    let setup = Setup::new()
        .graph("chat", support::CHAT)
        .bodies(1 << 20, 4 << 20);
    let script = json!({ "replies": [{ "text": "Hello" }] });
    let file = setup.path().join("keys.json");
    let keys = json!({ "keys": [{ "name": "one", "key": "1", "scopes": ["infer", "metrics"] }, { "name": "other", "key": "2" }] });
    std::fs::write(&file, keys.to_string()).expect("writable");
    let setup = setup
        .script(&script)
        .with(move |options| options.keys = Some(KeySource::File(file)));
    let server = setup.start().await;
    let address = server.url.strip_prefix("http://").expect("a URL");
    let mut half_read = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(address).expect("it listens");
        let head = format!(
            "POST /v3/chat/completions HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer 1\r\ncontent-length: 1040000\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).expect("it reads");
        stream.write_all(&vec![b' '; 1_000_000]).expect("it reads");
        half_read.push(stream);
    }
    while bytes(&get(&server, "1", "/v3/status").await.json()) < 1_900_000 {
        tokio::task::yield_now().await;
    }
    let mut large = question("chat", "Hi");
    large["user"] = "x".repeat(200_000).into();
    let refused = post(&server, "1", "/v3/chat/completions", &large).await;
    assert_eq!(
        refused.json()["error"]["code"],
        "bodies_full",
        "{}",
        refused.text
    );
    assert!(
        refused.text.contains("of the key `one`"),
        "{}",
        refused.text
    );
    let answered = post(&server, "2", "/v3/chat/completions", &large).await;
    assert_ne!(
        answered.json()["error"]["code"],
        "bodies_full",
        "{}",
        answered.text
    );
}
