//! Dialects beside chat: their errors, whole and in the middle of a stream, and questions without a model's name.

use serde_json::{Value, json};

use crate::support::{ACTOR, CHAT, Setup, TestServer, question, read};

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
    assert_eq!(name, "event: error");
    assert_eq!(
        (&data["type"], &data["message"], &data["code"]),
        (&json!("error"), &json!("broken"), &json!("node_failed"))
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
