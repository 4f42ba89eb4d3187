//! Models whose own chat template cannot be used.

use std::fs;

use serde_json::json;

use crate::rest::support::{CHAT, Setup, question, read};

#[tokio::test]
async fn a_model_whose_own_template_cannot_be_used_says_so_and_completes_texts() {
    let setup = Setup::new().graph("chat", CHAT);
    let script = json!({ "name": "broken", "chat_template": "Hi\n{% if %}" });
    let server = setup.script(&script).start().await;
    let why = "the chat template in the file of the model `broken` cannot be used: chat template, line 2:";
    for path in ["/v3/chat/completions", "/v3/chat/completions/render"] {
        let reply = read(server.post(path, question("chat", "Hi").to_string())).await;
        assert_eq!(reply.status, 400, "{}", reply.text);
        let message = reply.json()["error"]["message"].clone();
        let message = message.as_str().expect("a text");
        assert!(message.starts_with(why), "{message}");
        assert!(
            message.ends_with("put a `chat_template.jinja` beside the model"),
            "{message}"
        );
    }
    let body = json!({ "model": "chat", "prompt": "ab", "max_tokens": 2 });
    let reply = read(server.post("/v3/completions", body.to_string())).await;
    assert_eq!(reply.status, 200, "{}", reply.text);

    let status = server.get("/v3/status").await.json();
    let said = status["engines"][0]["chat_refused"].as_str();
    assert!(said.is_some_and(|said| said.starts_with(why)), "{status}");
    let models = server.get("/v3/models").await.json();
    let model = &models["data"][0];
    let said = model["chat_refused"].as_str();
    assert!(said.is_some_and(|said| said.starts_with(why)), "{models}");
    assert_eq!(
        model["endpoints"],
        json!([
            "completions",
            "openllm/generate",
            "openllm/generate_stream",
            "generate",
            "generate_stream",
            "/generate",
            "/generate_stream",
            "/",
            "api/generate",
            "/completion",
            "/infill"
        ]),
        "{models}"
    );
}

#[tokio::test]
async fn a_reload_refuses_a_template_of_the_graph_that_cannot_be_used() {
    let option = "chat_template_file: \"mine.jinja\" models_path:";
    let setup = Setup::new().graph("chat", &CHAT.replacen("models_path:", option, 1));
    let setup = setup.script(&json!({ "replies": [{ "text": "yes" }] }));
    let template = setup.path().join("0/mine.jinja");
    fs::write(&template, "{{ messages[0].content }}").expect("writable");
    let server = setup.start().await;
    fs::write(&template, "Hi\n{% if %}").expect("writable");
    let reply = read(server.post("/v1/config/reload", "")).await;
    assert_eq!(reply.status, 412, "{}", reply.text);
    assert!(reply.text.contains("mine.jinja:2`"), "{}", reply.text);
    // What was served before still is.
    let reply = server.chat(&question("chat", "Hi")).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
}

#[tokio::test]
async fn a_model_that_chats_refuses_nothing() {
    let setup = Setup::new().graph("chat", CHAT);
    let server = setup.script(&json!({})).start().await;
    let status = server.get("/v3/status").await.json();
    assert_eq!(status["engines"][0]["chat_refused"], json!(null));
    let model = server.get("/v3/models").await.json()["data"][0].clone();
    assert_eq!(model["chat_refused"], json!(null), "{model}");
    assert_eq!(model["endpoints"][0], "chat/completions", "{model}");
}
