//! Further ways to the server: a Unix socket, a beginning of paths, an address for scrapers.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
};

use crate::rest::support::{ACTOR, CHAT, Setup, question, read};

/// What a server says at a socket to a request without a body.
async fn asked(path: &std::path::Path, head: &str) -> String {
    let mut stream = UnixStream::connect(path).await.expect("it listens");
    let request = format!("{head} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream
        .write_all(request.as_bytes())
        .await
        .expect("writable");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("readable");
    answer
}

#[tokio::test]
async fn a_unix_socket_is_there_while_the_server_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("graphmill.sock");
    // What a process leaves that was killed.
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket"));
    let at = path.clone();
    let setup = Setup::new().graph("actor", ACTOR);
    let server = setup
        .with(|options| options.unix_socket = Some(at))
        .start()
        .await;
    let answer = asked(&path, "GET /v1/models").await;
    assert!(
        answer.starts_with("HTTP/1.1 200 OK") && answer.contains("\"actor\""),
        "{answer}"
    );
    let named = asked(&path, "GET http://x/v1/models").await;
    assert!(named.starts_with("HTTP/1.1 200"), "{named}");
    let foreign = asked(&path, "GET http://example.com/v1/models").await;
    assert!(foreign.starts_with("HTTP/1.1 421"), "{foreign}");

    let at = path.clone();
    let other = Setup::new()
        .graph("actor", ACTOR)
        .with(|options| options.unix_socket = Some(at));
    let mut options = graphmill_server::Options::new(
        graphmill_server::config::load(&other.config())
            .config
            .expect("a configuration"),
        SocketAddr::from(([127, 0, 0, 1], 0)),
    );
    options.unix_socket = Some(path.clone());
    let started = graphmill_server::Server::start(options, graphmill_engine::Registry::global());
    let error = started.err().expect("another one listens").to_string();
    assert!(error.contains("--unix_socket"), "{error}");
    server.server.stop().await;
    assert!(!path.exists());
}

#[tokio::test]
async fn paths_are_served_behind_a_prefix_too() {
    let script = json!({ "replies": [{ "text": "fine" }] });
    let setup = Setup::new().graph("chat", CHAT).script(&script);
    let prefix = Some("/llm/api".to_owned());
    let server = setup
        .with(|options| options.api_prefix = prefix)
        .start()
        .await;
    let body = question("chat", "Hi").to_string();
    for path in [
        "/llm/api/v1/chat/completions",
        "/v1/chat/completions",
        "//llm/api/v1/chat/completions/",
    ] {
        let reply = read(server.post(path, body.clone())).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text);
    }
    assert_eq!(server.get("/llm/api/v2/health/ready").await.status, 200);
    let query = server.get("/llm/api/models?limit=1").await.json();
    assert_eq!(query["models"].as_array().map(Vec::len), Some(1), "{query}");
    for path in [
        "/llm/apiv1/models",
        "/llm/v1/models",
        "/llm/api/llm/api/v1/models",
    ] {
        assert_eq!(server.get(path).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn scrapers_have_an_address_of_their_own() {
    let setup = Setup::new().graph("actor", ACTOR);
    let at = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
    let server = setup.with(|options| options.metrics = at).start().await;
    let url = format!("http://{}", server.server.metrics_addresses()[0]);
    let metrics = read(server.client.get(format!("{url}/metrics"))).await;
    assert!(metrics.text.contains("graphmill_build"), "{}", metrics.text);
    for path in ["/v1/models", "/v3/models", "/v3/status", "/health"] {
        let reply = read(server.client.get(format!("{url}{path}"))).await;
        let said = format!("unknown URL `GET {path}`: this port serves only `/metrics`");
        assert_eq!(
            (reply.status, &reply.json()["error"]["message"]),
            (404, &json!(said))
        );
    }
}

#[tokio::test]
async fn metrics_can_be_left_out() {
    let setup = Setup::new().graph("actor", ACTOR);
    let server = setup.with(|options| options.serves_metrics = false);
    let server = server.start().await;
    let metrics = server.get("/metrics").await;
    assert_eq!(metrics.status, 404, "{}", metrics.text);
    let document = server.get("/openapi.json").await.json();
    assert!(document["paths"]["/v3/status"].is_object());
    assert!(document["paths"]["/metrics"].is_null());
}

#[tokio::test]
async fn a_graph_has_a_time_for_answers_that_requests_can_change() {
    // The answer takes twice as long.
    let script = json!({ "step_micros": 40_000, "replies": [{ "text": "0123456789" }] });
    let setup = Setup::new()
        .graph("chat", CHAT)
        .that(&json!({ "response_timeout_ms": 200 }));
    let server = setup.script(&script).start().await;
    let mut body = question("chat", "Hi");
    let late: Value = server.chat(&body).await.json();
    assert_eq!(late["error"]["code"], "deadline", "{late}");
    body["timeout"] = 3_600.into();
    let answer = server.chat(&body).await;
    assert_eq!(
        answer.status, 200,
        "the request has its own time: {}",
        answer.text
    );
}
