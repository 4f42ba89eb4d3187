//! Triton's `generate` and `generate_stream`. The scripted model goes on with the bytes behind the
//! last of a prompt that is no chat.

use serde_json::{Value, json};

use crate::rest::support::{ACTOR, CHAT, Setup, TestServer, read};

async fn server() -> TestServer {
    let script = json!({ "replies": [{ "text": "hello" }] });
    let setup = Setup::new().graph("chat", CHAT).graph("org/chat", CHAT);
    setup.graph("actor", ACTOR).script(&script).start().await
}

/// The events of a stream, which has no more than these.
fn events(text: &str) -> Vec<Value> {
    let events = text.split_terminator("\n\n");
    events
        .map(|event| event.strip_prefix("data: ").expect("a data line"))
        .map(|data| serde_json::from_str(data).expect("JSON"))
        .collect()
}

#[tokio::test]
async fn a_text_is_continued() {
    let server = server().await;
    for path in [
        "/v2/models/chat/generate",
        "/v2/models/chat/versions/1/generate",
        "/v2/models/org/chat/generate",
    ] {
        let body = json!({ "id": "7", "text_input": "Hi", "parameters": { "temperature": 0, "stream": false } });
        let reply = read(server.post(path, body.to_string())).await;
        let name = if path.contains("org") {
            "org/chat"
        } else {
            "chat"
        };
        assert_eq!(
            (reply.status, reply.json()),
            (
                200,
                json!({ "id": "7", "model_name": name, "model_version": "1", "text_output": "jklmnopqrstuvwxyz{|}" })
            ),
        );
    }
    // What says nothing is ignored, also where it stands twice.
    let body = json!({ "text_input": "Hi", "other": 1, "parameters": { "other": 2 } });
    let reply = read(server.post("/v2/models/chat/generate", body.to_string())).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    // Where models of TensorRT-LLM have them: beside the text.
    let body = json!({ "text_input": "count", "max_tokens": 100, "bad_words": "", "stop_words": ["x"], "details": true });
    let reply = read(server.post("/v2/models/chat/generate", body.to_string())).await;
    let answer = reply.json();
    assert_eq!(answer["text_output"], "uvw", "{reply:?}");
    assert_eq!(
        answer["details"],
        json!({ "finish_reason": "stop_sequence" })
    );
    server.until_idle().await;
}

#[tokio::test]
async fn a_text_has_twenty_tokens_unless_the_request_says_more() {
    let server = server().await;
    let generated = async |parameters: Value| {
        let body = json!({ "text_input": "endless", "parameters": parameters });
        let reply = read(server.post("/v2/models/chat/generate", body.to_string())).await;
        let answer = reply.json();
        assert_eq!(answer["details"]["finish_reason"], "length", "{reply:?}");
        answer["text_output"].as_str().expect("a text").len()
    };
    let short = generated(json!({ "details": true })).await;
    assert_eq!(
        generated(json!({ "details": true, "max_tokens": 20 })).await,
        short
    );
    assert!(generated(json!({ "details": true, "max_tokens": 40 })).await > short);
}

#[tokio::test]
async fn a_stream_has_the_pieces_of_the_text() {
    let server = server().await;
    let body = json!({ "text_input": "count", "parameters": { "max_tokens": 5, "details": true } });
    let reply = read(server.post("/v2/models/chat/generate_stream", body.to_string())).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    assert!(
        reply
            .header("content-type")
            .is_some_and(|it| it.starts_with("text/event-stream"))
    );
    let events = events(&reply.text);
    let texts = events
        .iter()
        .map(|event| event["text_output"].as_str().expect("a text"));
    assert_eq!(texts.collect::<String>(), "uvwxy");
    assert!(events.iter().all(|event| event["model_name"] == "chat"));
    let last = events.last().expect("an event");
    assert_eq!(last["details"]["finish_reason"], "length", "{reply:?}");
    server.until_idle().await;
}

#[tokio::test]
async fn a_client_that_leaves_ends_the_text() {
    let server = server().await;
    let body = json!({ "text_input": "endless", "max_tokens": -1, "ignore_eos": true });
    let mut reply = server
        .post("/v2/models/chat/generate_stream", body.to_string())
        .send()
        .await
        .expect("an answer");
    assert!(reply.chunk().await.expect("a chunk").is_some());
    drop(reply);
    server.until_idle().await;
}

#[tokio::test]
async fn what_is_refused_is_told_as_triton_tells_it() {
    let server = server().await;
    for (method, path, body, status, why) in [
        (
            "POST",
            "/v2/models/nobody/generate",
            r#"{"text_input": "a"}"#,
            404,
            "nobody",
        ),
        (
            "POST",
            "/v2/models/chat/versions/3/generate",
            r#"{"text_input": "a"}"#,
            404,
            "version",
        ),
        ("POST", "/v2/models/chat/generate", "{", 400, "JSON"),
        ("POST", "/v2/models/chat/generate", "{}", 400, "text_input"),
        (
            "POST",
            "/v2/models/chat/generate",
            r#"{"text_input": "a", "model": "b"}"#,
            400,
            "expected `chat`, as in the path",
        ),
        (
            "POST",
            "/v2/models/chat/generate",
            r#"{"text_input": "a", "parameters": {"timeout": 1}}"#,
            400,
            "parameters.timeout",
        ),
        (
            "POST",
            "/v2/models/chat/generate_stream",
            r#"{"text_input": "a", "stream": false}"#,
            400,
            "stream",
        ),
        ("GET", "/v2/models/chat/generate", "", 405, "GET"),
    ] {
        let method = method.parse().expect("a method");
        let request = server
            .client
            .request(method, format!("{}{path}", server.url));
        let reply = read(request.body(body)).await;
        assert_eq!(reply.status, status, "{path}: {reply:?}");
        let error = reply.json()["error"].as_str().expect("a string").to_owned();
        assert!(error.contains(why), "{path} {body}: {error}");
    }
    let reply = read(server.post("/v2/models/actor/generate", r#"{"text_input": "a"}"#)).await;
    assert!(reply.status >= 200, "{reply:?}");
}
