//! Adapters are models of their own to a client: listed, named behind their graph or alone.

use serde_json::{Value, json};

use crate::support::{CHAT, Setup, TestServer, question};

/// The published graph with two adapters of a scripted model, which moves letters on by the
/// adapter's number.
async fn server() -> TestServer {
    let options = "max_num_seqs: 4 \
        lora_adapters { name: \"one\" path: \"one.gguf\" } lora_adapters { path: \"adapters/two.gguf\" scale: 0.5 }";
    let graph = CHAT.replace("max_num_seqs: 4", options);
    let script = json!({ "name": "scripted", "replies": [{ "text": "abc" }] });
    let setup = Setup::new().graph("chat", &graph).script(&script);
    setup.start().await
}

async fn answer(server: &TestServer, model: &str) -> Value {
    let request = question(model, "hi");
    server.chat(&request).await.json()
}

#[tokio::test]
async fn requests_choose_an_adapter_by_their_model() {
    let server = server().await;
    for (model, text) in [
        ("chat", "abc"),
        ("chat:one", "bcd"),
        ("one", "bcd"),
        ("chat:two", "cde"),
        ("two", "cde"),
    ] {
        let answer = answer(&server, model).await;
        assert_eq!(answer["choices"][0]["message"]["content"], text, "{answer}");
        assert_eq!(answer["model"], model);
    }
}

#[tokio::test]
async fn models_lists_adapters_with_their_graph() {
    let server = server().await;
    let list = server.get("/v3/models").await.json();
    let models: Vec<(&str, &Value)> = list["data"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|model| (model["id"].as_str().expect("an id"), &model["parent"]))
        .collect();
    let parent = json!("chat");
    assert_eq!(
        models,
        [
            ("chat", &Value::Null),
            ("chat:one", &parent),
            ("chat:two", &parent)
        ]
    );
    let one = server.get("/v1/models/two").await.json();
    assert_eq!(one["id"], "chat:two");
}

#[tokio::test]
async fn an_adapter_that_is_not_there_is_an_unknown_model() {
    let server = server().await;
    for model in ["chat:three", "three", "other:one", "chat:"] {
        let response = server.chat(&question(model, "hi")).await;
        assert_eq!(response.status, 404, "{model}");
        let error = response.json();
        assert_eq!(error["error"]["code"], "model_not_found", "{error}");
        assert_eq!(error["error"]["param"], "model", "{error}");
    }
    let error = server.chat(&question("chat:oen", "hi")).await.json();
    let message = error["error"]["message"].as_str().expect("a message");
    assert!(message.contains("did you mean `chat:one`?"), "{message}");
}
