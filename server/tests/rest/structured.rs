//! Structured output over HTTP: what matches, whole and streamed, what is refused and how, and that
//! neighbors notice nothing.

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::rest::{
    isolation::text,
    support::{CHAT, Setup, TestServer, question, read, streamed},
};

async fn server() -> TestServer {
    let script = json!({
        "name": "scripted",
        "replies": [{ "when": "free", "text": "free text" }, { "when": "", "text": "{\"n\": 12} and more" }],
    });
    Setup::new()
        .graph("chat", CHAT)
        .script(&script)
        .start()
        .await
}

fn schema() -> Value {
    json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] })
}

fn format(schema: &Value) -> Value {
    json!({ "type": "json_schema", "json_schema": { "name": "number", "schema": schema, "strict": true } })
}

#[tokio::test]
async fn constrained_answers_match_beside_free_ones() {
    let server = server().await;
    let asked = (0..12).map(|number| {
        let mut body = streamed("chat", if number % 3 == 0 { "free" } else { "number" });
        if number % 3 == 1 {
            body["response_format"] = format(&schema());
        }
        let server = &server;
        async move { server.chat(&body).await }
    });
    for (number, reply) in join_all(asked).await.iter().enumerate() {
        let expected = ["free text", "{\"n\": 12}", "{\"n\": 12} and more"][number % 3];
        assert_eq!(text(&reply.events()), expected);
    }
    let mut whole = question("chat", "number");
    whole["response_format"] = format(&schema());
    let answer = server.chat(&whole).await.json();
    assert_eq!(answer["choices"][0]["message"]["content"], "{\"n\": 12}");
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    server.until_idle().await;
}

#[tokio::test]
async fn what_cannot_be_enforced_is_a_400_before_any_event() {
    let server = server().await;
    for stream in [false, true] {
        let mut body = question("chat", "number");
        body["stream"] = stream.into();
        body["response_format"] = format(&json!({ "type": "array", "uniqueItems": true }));
        let reply = server.chat(&body).await;
        assert_eq!(reply.status, 400, "{}", reply.text);
        let error = &reply.json()["error"];
        assert_eq!(error["type"], "invalid_request_error");
        assert_eq!(error["code"], "invalid_constraint");
        assert_eq!(error["param"], "response_format.json_schema.schema");
    }
    let body = json!({ "model": "chat", "prompt": "1", "guided_regex": "(" });
    let reply = read(server.post("/v3/completions", body.to_string())).await;
    assert_eq!(
        (reply.status, &reply.json()["error"]["param"]),
        (400, &json!("guided_regex"))
    );
    for (keyword, value) in [
        ("minimum", json!("x")),
        ("type", json!(5)),
        ("required", json!("a")),
    ] {
        let mut body = question("chat", "number");
        body["guided_json"] = json!({ "properties": { "n": { keyword: value } } });
        let reply = server.chat(&body).await;
        let error = &reply.json()["error"];
        assert_eq!(
            (reply.status, &error["param"]),
            (400, &json!("guided_json"))
        );
        let message = error["message"].as_str().expect("words");
        assert!(
            message.contains(&format!("`{keyword}` is {value}")),
            "{message}"
        );
    }
    let mut body = question("chat", "number");
    body["guided_choice"] = json!(["{\"n\": 1", "2"]);
    body["max_tokens"] = 64.into();
    let answer = server.chat(&body).await.json();
    assert_eq!(answer["choices"][0]["message"]["content"], "{\"n\": 1");
    server.until_idle().await;
}
