//! What is wrong with a request, as the client reads it: status, type, code, field.

use serde_json::{Value, json};

use crate::rest::support::{ACTOR, Reply, Setup, TestServer, read};

async fn actor() -> TestServer {
    Setup::new()
        .graph("actor", ACTOR)
        .graph("org/actor", ACTOR)
        .start()
        .await
}

/// `(status, type, code, param)` of an error object that has all of its keys.
#[track_caller]
fn parts(reply: &Reply) -> (u16, String, Option<String>, Option<String>) {
    let error = &reply.json()["error"];
    let keys: Vec<&String> = error.as_object().expect("an object").keys().collect();
    assert_eq!(keys[..4], ["message", "type", "param", "code"], "{error}");
    assert!(!error["message"].as_str().expect("a message").is_empty());
    assert_eq!(reply.header("content-type"), Some("application/json"));
    assert!(reply.header("x-request-id").is_some());
    let text = |key: &str| error[key].as_str().map(str::to_owned);
    (
        reply.status,
        text("type").expect("a type"),
        text("code"),
        text("param"),
    )
}

#[track_caller]
fn assert_error(reply: &Reply, status: u16, kind: &str, code: Option<&str>, param: Option<&str>) {
    assert_eq!(
        parts(reply),
        (
            status,
            kind.to_owned(),
            code.map(str::to_owned),
            param.map(str::to_owned)
        ),
        "{}",
        reply.text
    );
}

#[tokio::test]
async fn a_body_that_is_no_request_is_refused() {
    let server = actor().await;
    for body in [
        "",
        "{",
        "[1]",
        "\"text\"",
        "null",
        "{\"model\": }",
        "\u{feff}",
        "\u{feff}\u{feff}{}",
        &"[".repeat(100_000),
    ] {
        let reply = read(server.post("/v3/chat/completions", body.to_owned())).await;
        assert_error(
            &reply,
            400,
            "invalid_request_error",
            Some("invalid_json"),
            None,
        );
    }
    let reply = read(server.post("/v1/completions", vec![0xff, 0xfe, 0x00])).await;
    assert_error(
        &reply,
        400,
        "invalid_request_error",
        Some("invalid_json"),
        None,
    );
    let reply = read(server.post("/v3/chat/completions", "{\n  \"model\": \"actor\",\n}")).await;
    assert!(reply.text.contains("line 3 column 1"), "{}", reply.text);
}

#[tokio::test]
async fn the_model_has_to_be_named() {
    let server = actor().await;
    for (body, code) in [
        (json!({}), "missing_required_parameter"),
        (json!({ "model": 1 }), "invalid_type"),
        (json!({ "model": null }), "missing_required_parameter"),
        (json!({ "model": "" }), "invalid_value"),
    ] {
        assert_error(
            &server.chat(&body).await,
            400,
            "invalid_request_error",
            Some(code),
            Some("model"),
        );
    }
}

#[tokio::test]
async fn an_unknown_model_is_not_found_and_near_names_are_told() {
    let server = actor().await;
    let reply = server.chat(&json!({ "model": "org/actr" })).await;
    assert_error(
        &reply,
        404,
        "invalid_request_error",
        Some("model_not_found"),
        Some("model"),
    );
    assert!(
        reply.text.contains("did you mean `org/actor`?"),
        "{}",
        reply.text
    );
    let reply = server.chat(&json!({ "model": "x".repeat(1 << 20) })).await;
    assert_error(
        &reply,
        404,
        "invalid_request_error",
        Some("model_not_found"),
        Some("model"),
    );
    assert!(
        reply.text.len() < 1000,
        "an answer does not grow with the request"
    );
    let reply = server.get("/v3/models/actr").await;
    assert_error(
        &reply,
        404,
        "invalid_request_error",
        Some("model_not_found"),
        Some("model"),
    );
}

#[tokio::test]
async fn unknown_paths_and_wrong_methods_are_told_apart() {
    let server = actor().await;
    for path in [
        "/nonsense",
        "/v3/chat/completion",
        "/v4/models",
        "/v1/config/nonsense",
    ] {
        assert_error(
            &server.get(path).await,
            404,
            "invalid_request_error",
            Some("unknown_url"),
            None,
        );
        let reply = read(server.post(path, "{}")).await;
        assert_error(
            &reply,
            404,
            "invalid_request_error",
            Some("unknown_url"),
            None,
        );
    }
    assert!(
        server
            .get("/v3/chat/completion")
            .await
            .text
            .contains("did you mean `/v3/chat/completions`?")
    );
    for path in [
        "/v3/chat/completions",
        "/v1/chat/completions",
        "/v1/completions",
    ] {
        assert_error(
            &server.get(path).await,
            405,
            "invalid_request_error",
            Some("method_not_supported"),
            None,
        );
    }
    for path in ["/v1/config", "/v3/models", "/v3/status"] {
        let reply = read(server.post(path, "{}")).await;
        assert_error(
            &reply,
            405,
            "invalid_request_error",
            Some("method_not_supported"),
            None,
        );
    }
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_too_large() {
    let server = actor().await;
    let reply = read(server.post("/v3/chat/completions", vec![b' '; (8 << 20) + 1])).await;
    assert_error(
        &reply,
        413,
        "invalid_request_error",
        Some("request_too_large"),
        None,
    );
}

/// Kind of the engine's error; then status, type, code and the header that tells whether to try
/// again.
type Row = (
    &'static str,
    u16,
    &'static str,
    Option<&'static str>,
    Option<&'static str>,
);

const TABLE: &[Row] = &[
    (
        "invalid",
        400,
        "invalid_request_error",
        Some("invalid_value"),
        None,
    ),
    (
        "not_found",
        404,
        "invalid_request_error",
        Some("not_found"),
        None,
    ),
    (
        "exhausted",
        429,
        "rate_limit_error",
        Some("queue_full"),
        Some("retry-after"),
    ),
    (
        "unavailable",
        503,
        "unavailable_error",
        Some("engine_failed"),
        Some("retry-after"),
    ),
    ("deadline", 504, "timeout_error", Some("deadline"), None),
    (
        "cancelled",
        500,
        "server_error",
        Some("cancelled"),
        Some("x-should-retry"),
    ),
    (
        "precondition",
        500,
        "server_error",
        Some("node_failed"),
        Some("x-should-retry"),
    ),
    (
        "internal",
        500,
        "server_error",
        Some("node_failed"),
        Some("x-should-retry"),
    ),
];

#[tokio::test]
async fn errors_of_nodes_have_the_status_of_their_kind() {
    let server = actor().await;
    for &(kind, status, of_type, code, header) in TABLE {
        let failure = json!({ "kind": kind, "message": "what happened" });
        let reply = server.act(json!([{ "fail": failure }])).await;
        assert_error(&reply, status, of_type, code, None);
        assert!(reply.text.contains("what happened"));
        for name in ["retry-after", "x-should-retry"] {
            assert_eq!(
                reply.header(name).is_some(),
                header == Some(name),
                "{kind}: {name}"
            );
        }
        let named = reply.json()["error"]["graph"]["node"] == json!("Actor");
        assert_eq!(
            named,
            status >= 500,
            "{kind}: the node is named where the request is not at fault"
        );

        let failure = json!({ "kind": kind, "message": "m", "code": "special", "field": "messages[0].content" });
        let reply = server.act(json!([{ "fail": failure }])).await;
        assert_error(
            &reply,
            status,
            of_type,
            Some("special"),
            Some("messages[0].content"),
        );
    }
}

#[tokio::test]
async fn an_error_after_the_first_event_is_the_last_event() {
    let server = actor().await;
    let failure = json!({ "kind": "internal", "message": "broken" });
    let reply = server
        .act(json!([{ "event": "{\"a\":1}" }, { "fail": failure }]))
        .await;
    assert_eq!(reply.status, 200);
    let error = json!({ "message": "broken", "type": "server_error", "param": null, "code": "node_failed", "graph": { "node": "Actor" } });
    assert_eq!(
        reply.text,
        format!(
            "data: {{\"a\":1}}\n\ndata: {}\n\n",
            json!({ "error": error })
        )
    );
}

#[tokio::test]
async fn a_graph_that_ends_without_an_answer_is_an_error() {
    let server = actor().await;
    assert_error(
        &server.act(json!([])).await,
        500,
        "server_error",
        Some("no_answer"),
        None,
    );
    let reply = server.act(json!([{ "event": "{}" }])).await;
    let last: Value =
        serde_json::from_str(reply.text.rsplit("data: ").next().expect("an event")).expect("JSON");
    assert_eq!(last["error"]["code"], "no_answer", "{}", reply.text);
}

#[tokio::test]
async fn an_id_of_the_client_comes_back_and_others_get_one() {
    let server = actor().await;
    let request = server
        .post("/v3/chat/completions", "{}")
        .header("x-request-id", "abc-1");
    assert_eq!(read(request).await.header("x-request-id"), Some("abc-1"));
    let malformed = server
        .post("/v3/chat/completions", "{}")
        .header("x-request-id", "two words");
    let reply = read(malformed).await;
    assert!(
        reply
            .header("x-request-id")
            .is_some_and(|id| id.starts_with("req-"))
    );
}
