//! The `generation_config.json` beside a model says what neither a request nor its graph does.

use serde_json::{Value, json};

use crate::rest::support::{CHAT, Setup, TestServer, read};

async fn server(config: &str) -> TestServer {
    let setup = Setup::new().graph("chat", CHAT).script(&json!({}));
    std::fs::write(setup.path().join("generation_config.json"), config).expect("writable");
    setup.start().await
}

/// A request that says nothing about sampling.
fn question() -> Value {
    json!({ "model": "chat", "messages": [{ "role": "user", "content": "hello" }] })
}

/// A value that a request would run with, and where it is from.
async fn resolved(server: &TestServer, request: &Value, field: &str) -> (Value, Value) {
    let url = "/v3/chat/completions?explain=1";
    let explained = read(server.post(url, request.to_string())).await.json();
    let value = &explained["parameters"][field];
    (value["value"].clone(), value["source"].clone())
}

#[tokio::test]
async fn a_graph_names_another_file_and_has_settings_of_openvino_without_effect() {
    let options = |path: &str| {
        let more = format!(
            "max_num_seqs: 4 generation_config_path: \"{path}\" \
             cache_eviction_config {{ aggregation_mode: SUM start_size: 32 recent_size: 128 \
             max_cache_size: 672 kv_crush_config {{ budget: 1 anchor_point_mode: MEAN }} }} \
             sparse_attention_config {{ mode: XATTENTION xattention_threshold: 0.8 }}"
        );
        CHAT.replace("max_num_seqs: 4", &more)
    };
    let setup = Setup::new().graph("chat", &options("other.json"));
    let setup = setup.graph("nothing", &options("nothing.json"));
    let setup = setup.script(&json!({}));
    let write = |name: &str, config: Value| {
        std::fs::write(setup.path().join(name), config.to_string()).expect("writable");
    };
    write("generation_config.json", json!({ "temperature": 0.5 }));
    write("other.json", json!({ "temperature": 0.25 }));
    let server = setup.start().await;
    assert_eq!(
        resolved(&server, &question(), "temperature").await,
        (json!(0.25), json!("model"))
    );
    let states = server.get("/v1/config").await.text;
    assert!(states.contains("nothing.json"), "{states}");
}

#[tokio::test]
async fn a_model_says_how_it_is_sampled_unless_a_request_does() {
    let config = json!({
        "do_sample": true, "temperature": 0.5, "top_k": 20, "max_new_tokens": 2, "eos_token_id": [1], "seed": 7,
    });
    let server = server(&config.to_string()).await;
    let mut request = question();
    let model = |value: Value| (value, json!("model"));
    assert_eq!(
        resolved(&server, &request, "temperature").await,
        model(json!(0.5))
    );
    assert_eq!(resolved(&server, &request, "top_k").await, model(json!(20)));
    let usual = (json!(1.0), json!("default"));
    assert_eq!(resolved(&server, &request, "top_p").await, usual);
    let answer = server.chat(&request).await.json();
    assert_eq!(answer["choices"][0]["finish_reason"], "length", "{answer}");
    request["max_tokens"] = json!(50);
    request["temperature"] = json!(0.75);
    assert_eq!(
        resolved(&server, &request, "temperature").await,
        (json!(0.75), json!("request"))
    );
    let answer = server.chat(&request).await.json();
    assert_eq!(answer["choices"][0]["finish_reason"], "stop", "{answer}");
}

#[tokio::test]
async fn a_model_that_does_not_sample_takes_the_likeliest_token() {
    let server = server(r#"{ "do_sample": false, "temperature": 0.5 }"#).await;
    let request = question();
    let found = resolved(&server, &request, "temperature").await;
    assert_eq!(found, (json!(0.0), json!("model")));
}

#[tokio::test]
async fn a_file_that_is_wrong_keeps_the_graph_from_loading_and_says_why() {
    for (config, reason) in [
        (
            r#"{ "temperature": "warm" }"#,
            "invalid type: string \"warm\"",
        ),
        (r#"{ "top_p": 7 }"#, "`top_p` must be in [0, 1], not 7"),
        ("temperature: 1", "at line 1 column 2"),
    ] {
        let server = server(config).await;
        let status = server.status().await;
        let said = status["graphs"][0]["reason"].as_str().expect("a reason");
        assert!(said.contains("generation_config.json`: "), "{said}");
        assert!(said.contains(reason), "{said}");
    }
}
