//! Dialects beside chat: their errors, whole and in the middle of a stream, and questions without a
//! model's name.

use serde_json::{Value, json};

use crate::rest::support::{ACTOR, CHAT, Setup, TestServer, question, read};

async fn server() -> TestServer {
    let script = json!({ "replies": [{ "text": "hello" }] });
    Setup::new()
        .graph("chat", CHAT)
        .graph("actor", ACTOR)
        .script(&script)
        .start()
        .await
}

fn message(model: &str) -> Value {
    let mut body = question(model, "Hi");
    body["max_tokens"] = json!(20);
    body
}

#[tokio::test]
async fn an_error_of_messages_has_their_shape_and_the_requests_id() {
    let server = server().await;
    let mut body = message("chat");
    body["messages"] = json!([]);
    for (body, status, kind) in [
        (body, 400, "invalid_request_error"),
        (message("nobody"), 404, "not_found_error"),
    ] {
        let request = server
            .post("/v1/messages", body.to_string())
            .header("x-request-id", "number-7");
        let reply = read(request).await;
        assert_eq!(reply.status, status, "{}", reply.text);
        assert_eq!(reply.header("request-id"), Some("number-7"));
        let error = reply.json();
        assert_eq!(
            (
                &error["type"],
                &error["error"]["type"],
                &error["request_id"]
            ),
            (&json!("error"), &json!(kind), &json!("number-7"))
        );
    }
}

#[tokio::test]
async fn whatever_is_refused_under_messages_is_refused_in_their_shape() {
    let server = server().await;
    let nobody = message("nobody").to_string();
    let not_found = "not_found_error";
    let refused = "invalid_request_error";
    for (method, path, body, status, kind) in [
        ("POST", "/v1/messages/count_tokens", "{", 400, refused),
        (
            "POST",
            "/v1/messages/count_tokens",
            nobody.as_str(),
            404,
            not_found,
        ),
        (
            "POST",
            "/v3/v1/messages?beta=true",
            nobody.as_str(),
            404,
            not_found,
        ),
        ("POST", "/v1/messages/batches", "{}", 404, not_found),
        ("POST", "/v3/messages/batches/b/cancel", "", 404, not_found),
        ("GET", "/v1/messages/batches", "", 404, not_found),
        ("GET", "/v1/messages", "", 405, refused),
        ("DELETE", "/v3/messages/count_tokens", "", 405, refused),
    ] {
        let method = method.parse().expect("a method");
        let request = server
            .client
            .request(method, format!("{}{path}", server.url))
            .body(body.to_owned());
        let reply = read(request).await;
        assert_eq!(reply.status, status, "{path}: {}", reply.text);
        let error = reply.json();
        assert_eq!(
            (&error["type"], &error["error"]["type"]),
            (&json!("error"), &json!(kind)),
            "{path}"
        );
        assert_eq!(reply.header("request-id"), error["request_id"].as_str());
        assert_eq!(reply.header("content-type"), Some("application/json"));
        assert!(status != 405 || reply.header("allow").is_some(), "{path}");
    }
    let other = server.get("/v1/messagesque").await.json();
    assert!(other["error"]["code"].is_string(), "{other}");
}

#[tokio::test]
async fn a_text_block_has_no_field_that_clients_do_not_know() {
    let server = server().await;
    let whole = read(server.post("/v1/messages", message("chat").to_string())).await;
    assert_eq!(
        whole.json()["content"],
        json!([{ "type": "text", "text": "hello" }])
    );
    let mut body = message("chat");
    body["stream"] = json!(true);
    let events = read(server.post("/v1/messages", body.to_string()))
        .await
        .text;
    assert!(events.contains("content_block_start"), "{events}");
    assert!(!events.contains("citations"), "{events}");
}

#[tokio::test]
async fn a_stream_that_fails_ends_with_an_event_of_its_dialect() {
    let server = server().await;
    let body = json!({ "model": "actor", "actions": [
        { "event": "{}" },
        { "fail": { "kind": "internal", "message": "broken" } },
    ] });
    let last_event = |text: String| -> (String, Value) {
        let last = text.split_terminator("\n\n").last().expect("an event");
        let (name, data) = last.split_once('\n').expect("a name and data");
        let data = data.strip_prefix("data: ").expect("data");
        (name.to_owned(), serde_json::from_str(data).expect("JSON"))
    };
    let reply = read(server.post("/v1/messages", body.to_string())).await;
    let (name, data) = last_event(reply.text);
    assert_eq!(name, "event: error");
    assert_eq!(
        data["error"],
        json!({ "type": "api_error", "message": "broken", "code": "node_failed" })
    );
    let reply = read(server.post("/v1/responses", body.to_string())).await;
    let (name, data) = last_event(reply.text);
    assert_eq!(name, "event: response.failed");
    let response = &data["response"];
    assert_eq!(
        (
            &data["type"],
            &response["status"],
            data["sequence_number"].is_u64()
        ),
        (&json!("response.failed"), &json!("failed"), true)
    );
    assert!(
        response["id"]
            .as_str()
            .is_some_and(|id| id.starts_with("resp_"))
    );
    assert_eq!(
        (&response["error"]["message"], &response["error"]["code"]),
        (&json!("broken"), &json!("node_failed"))
    );
}

#[tokio::test]
async fn the_tokenizer_is_described_to_clients_that_build_prompts() {
    let script = json!({ "name": "scripted", "replies": [{ "text": "hello" }] });
    let server = Setup::new()
        .graph("chat", CHAT)
        .graph("actor", ACTOR)
        .script(&script)
        .start()
        .await;
    for path in [
        "/tokenizer_info",
        "/v1/tokenizer_info",
        "/v3/tokenizer_info?model=chat",
        "/tokenizer_info?x=1&model=%63hat",
    ] {
        let reply = server.get(path).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        let info = reply.json();
        assert_eq!(info["eos_token"], "<|im_end|>", "{info}");
        assert!(
            info["chat_template"]
                .as_str()
                .expect("one")
                .contains("messages")
        );
        // What a client asks next: the token of that text.
        let text = json!({ "prompt": info["eos_token"], "add_special_tokens": false });
        let tokens = read(server.post("/tokenize", text.to_string()))
            .await
            .json();
        assert_eq!(tokens["tokens"], json!([info["eos_token_id"]]));
        assert_eq!(info["model_max_length"], tokens["max_model_len"]);
    }
    for (path, status, param) in [
        ("/tokenizer_info?model=nobody", 404, "model"),
        ("/tokenizer_info?model=actor", 404, "model"),
    ] {
        let reply = server.get(path).await;
        assert_eq!(reply.status, status, "{}", reply.text);
        assert_eq!(reply.json()["error"]["param"], param);
    }
    let two = Setup::new()
        .graph("a", ACTOR)
        .graph("b", ACTOR)
        .start()
        .await;
    let reply = two.get("/tokenizer_info").await;
    assert_eq!(
        (reply.status, &reply.json()["error"]["param"]),
        (400, &json!("model"))
    );
}

#[tokio::test]
async fn questions_that_name_no_graph_go_to_the_one_with_a_language_model() {
    let server = server().await;
    let ask = || json!({ "content": "ab" }).to_string();
    for path in ["/tokenize", "/v1/tokenize", "/v3/tokenize"] {
        let reply = read(server.post(path, ask())).await;
        assert_eq!(reply.json()["tokens"], json!([97, 98]), "{}", reply.text);
    }
    let script = json!({ "replies": [{ "text": "hello" }] });
    let two = Setup::new()
        .graph("chat", CHAT)
        .graph("other", &CHAT.replace("max_num_seqs: 4", "max_num_seqs: 2"))
        .script(&script)
        .start()
        .await;
    let reply = read(two.post("/tokenize", ask())).await;
    assert_eq!(
        (reply.status, &reply.json()["error"]["param"]),
        (400, &json!("model"))
    );
}
