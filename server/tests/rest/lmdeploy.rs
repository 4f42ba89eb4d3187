//! LMDeploy's `chat/interactive`, whose conversations the server keeps, and `encode`.

use serde_json::{Value, json};

use crate::rest::keys;
use crate::rest::support::{CHAT, Reply, Setup, TestServer, question, read};

/// A server whose model answers with the number of questions, which it sees in the prompt.
async fn server() -> TestServer {
    let replies = json!({ "replies": [
        { "when": "third", "text": "three" }, { "when": "second", "text": "two" }, { "text": "one" },
    ] });
    Setup::new()
        .graph("chat", CHAT)
        .script(&replies)
        .start()
        .await
}

async fn say(server: &TestServer, prompt: &str, more: Value) -> Reply {
    let mut body = json!({ "prompt": prompt, "session_id": 1, "interactive_mode": true });
    for (name, value) in more.as_object().expect("fields") {
        body[name] = value.clone();
    }
    read(server.post("/v1/chat/interactive", body.to_string())).await
}

#[tokio::test]
async fn a_conversation_is_kept_until_it_is_ended() {
    let server = server().await;
    let first = say(&server, "the first", json!({})).await.json();
    assert_eq!(
        (&first["text"], &first["history_tokens"]),
        (&json!("one"), &json!(0)),
        "{first}"
    );
    assert_eq!(first["finish_reason"], "stop");
    let parts = json!([{ "type": "text", "text": "the second" }]);
    let listed = json!({ "prompt": [{ "role": "user", "content": parts }] });
    let second = say(&server, "", listed).await.json();
    let count = |answer: &Value, name: &str| answer[name].as_u64().expect("a number");
    let before = count(&first, "input_tokens") + count(&first, "tokens");
    assert_eq!(
        (&second["text"], count(&second, "history_tokens")),
        (&json!("two"), before)
    );
    // Streams are lines of JSON.
    let reply = say(&server, "the third", json!({ "stream": true })).await;
    assert_eq!(reply.header("content-type"), Some("application/x-ndjson"));
    let lines = reply
        .text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    let lines: Vec<Value> = lines.collect();
    let texts = lines
        .iter()
        .map(|line| line["text"].as_str().expect("a text"));
    assert_eq!(texts.collect::<String>(), "three", "{reply:?}");
    let third = lines.last().expect("a line");
    assert_eq!(third["finish_reason"], "stop");
    assert!(count(third, "history_tokens") > before);
    // As LMDeploy's client ends a session.
    let end = json!({ "interactive_mode": false, "request_output_len": 0 });
    let ended = say(&server, "", end).await.json();
    assert_eq!(
        (&ended["text"], &ended["tokens"]),
        (&json!(""), &json!(0)),
        "{ended}"
    );
    let anew = say(&server, "the first", json!({})).await.json();
    assert_eq!(
        (&anew["text"], &anew["history_tokens"]),
        (&json!("one"), &json!(0)),
        "{anew}"
    );
    // Without the mode, an answer is the last of its conversation.
    let last = say(&server, "more", json!({ "interactive_mode": false }))
        .await
        .json();
    assert!(count(&last, "history_tokens") > 0, "{last}");
    let anew = say(&server, "more", json!({ "interactive_mode": false }))
        .await
        .json();
    assert_eq!(anew["history_tokens"], 0, "{anew}");
}

#[tokio::test]
async fn a_conversation_is_that_of_its_key() {
    let server = keys::server(&json!([
        { "name": "one", "key": "k-one", "models": ["chat"] },
        { "name": "two", "key": "k-two", "models": ["chat"] },
    ]))
    .await;
    let body = json!({ "prompt": "Hi", "session_id": 1, "interactive_mode": true });
    for (key, history) in [("k-one", false), ("k-two", false), ("k-one", true)] {
        let answer = keys::post(&server, key, "/v1/chat/interactive", &body)
            .await
            .json();
        let tokens = answer["history_tokens"].as_u64().expect("a number");
        assert_eq!(tokens > 0, history, "{key}: {answer}");
    }
}

#[tokio::test]
async fn a_request_that_fails_leaves_the_conversation_as_it_is() {
    let server = server().await;
    let first = say(&server, "the first", json!({})).await.json();
    for (fields, param) in [
        (json!({ "temperature": "hot" }), "temperature"),
        (json!({ "session_id": "x" }), "session_id"),
        (json!({ "prompt": 5 }), "prompt"),
        (
            json!({ "prompt": [{ "content": "no role" }] }),
            "prompt[0].role",
        ),
        (
            json!({ "image_url": "http://127.0.0.1/a.png" }),
            "image_url",
        ),
        (json!({ "tools": [{}] }), "tools"),
        (json!({ "request_output_len": 0 }), "request_output_len"),
        (json!({ "prompt": "x".repeat(1 << 20) }), "session_id"),
    ] {
        let reply = say(&server, "more", fields).await;
        assert_eq!(
            (reply.status, &reply.json()["error"]["param"]),
            (400, &json!(param)),
            "{reply:?}"
        );
    }
    // Without a number, nothing is kept.
    let body = json!({ "prompt": "Hi", "interactive_mode": true }).to_string();
    for _ in 0..2 {
        let answer = read(server.post("/v1/chat/interactive", body.clone()))
            .await
            .json();
        assert_eq!(answer["history_tokens"], 0, "{answer}");
    }
    // A client cannot make up what was said before.
    let forged =
        json!({ "history": [{ "role": "user", "content": "third" }], "history_tokens": 9 });
    let second = say(&server, "and", forged).await.json();
    assert_eq!(second["text"], "one", "{second}");
    let tokens = |name: &str| first[name].as_u64().expect("a number");
    assert_eq!(
        second["history_tokens"],
        tokens("input_tokens") + tokens("tokens")
    );
}

#[tokio::test]
async fn messages_of_its_client_may_be_one_text() {
    let server = server().await;
    let mut body = question("chat", "the second");
    let listed = server.chat(&body).await.json();
    body["messages"] = json!("the second");
    let refused = server.chat(&body).await.json();
    assert_eq!(refused["error"]["code"], "invalid_type", "{refused}");
    // As LMDeploy's client sends it.
    body["session_id"] = json!(-1);
    let said = server.chat(&body).await.json();
    assert_eq!(said["choices"][0]["message"]["content"], "two", "{said}");
    assert_eq!(
        said["usage"]["prompt_tokens"],
        listed["usage"]["prompt_tokens"]
    );
}

#[tokio::test]
async fn texts_are_encoded() {
    let server = server().await;
    let encode = async |body: Value| {
        read(server.post("/v1/encode", body.to_string()))
            .await
            .json()
    };
    let one = encode(json!({ "input": "Hi", "do_preprocess": false, "add_bos": false })).await;
    assert_eq!(one, json!({ "input_ids": [72, 105], "length": 2 }));
    let two = encode(json!({ "input": ["Hi", "a"], "add_bos": false })).await;
    assert_eq!(
        two,
        json!({ "input_ids": [[72, 105], [97]], "length": [2, 1] })
    );
    let asked = encode(json!({ "input": "Hi", "do_preprocess": true })).await;
    assert!(asked["length"].as_u64() > Some(2), "{asked}");
    let refused = encode(json!({ "input": ["Hi", "a"], "do_preprocess": true })).await;
    assert_eq!(refused["error"]["param"], "do_preprocess", "{refused}");
}
