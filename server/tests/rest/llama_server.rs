//! llama-server's own paths.

use serde_json::{Value, json};

use crate::rest::keys;
use crate::rest::support::{
    CHAT, Reply, Setup, TestServer, engine_numbers, question, read, streamed,
};

async fn post(server: &TestServer, path: &str, body: Value) -> Reply {
    read(server.post(path, body.to_string())).await
}

#[tokio::test]
async fn a_model_is_described() {
    let script = json!({ "name": "scripted", "cells": 640, "replies": [{ "text": "hello" }] });
    let setup = Setup::new().graph("chat", CHAT).script(&script);
    let server = setup.start().await;
    let props = server.get("/props").await.json();
    assert_eq!(props["default_generation_settings"]["n_ctx"], 640);
    assert_eq!(
        (&props["total_slots"], &props["model_alias"]),
        (&json!(4), &json!("chat"))
    );
    assert_eq!(
        props["modalities"],
        json!({ "vision": false, "audio": false })
    );
    let template = server.get("/tokenizer_info").await.json();
    assert_eq!(props["chat_template"], template["chat_template"]);
    assert_eq!(props["eos_token"], template["eos_token"]);
    let path = props["model_path"].as_str().expect("a path");
    assert!(path.ends_with("model.script.json"), "{props}");
    assert!(
        props["build_info"]
            .as_str()
            .is_some_and(|it| it.starts_with("graphmill-"))
    );
    for (path, status, param) in [
        ("/props?model=other", 404, "model"),
        ("/props?model=chat&model=chat", 400, "model"),
        ("/props?autoload=maybe", 400, "autoload"),
    ] {
        let reply = server.get(path).await;
        let error = &reply.json()["error"];
        assert_eq!(
            (reply.status, &error["param"]),
            (status, &json!(param)),
            "{path}"
        );
    }
    for path in ["/props", "/slots/0?action=save", "/lora-adapters"] {
        let reply = post(&server, path, json!({})).await;
        assert_eq!(
            (reply.status, &reply.json()["error"]["code"]),
            (501, &json!("not_supported")),
            "{path}"
        );
    }
}

#[tokio::test]
async fn of_several_graphs_the_query_names_one() {
    let options = "max_num_seqs: 2 lora_adapters { name: \"one\" path: \"one.gguf\" } lora_adapters { path: \"two.gguf\" scale: 0.5 }";
    let setup = Setup::new()
        .graph("chat", CHAT)
        .graph("more", &CHAT.replace("max_num_seqs: 4", "max_num_seqs: 3"))
        .graph("other", &CHAT.replace("max_num_seqs: 4", options))
        .that(&json!({ "load": "on_demand" }));
    let server = setup.script(&json!({})).start().await;
    let props = server.get("/props").await.json();
    assert_eq!(props["role"], "router", "{props}");
    let asleep = server.get("/props?model=other&autoload=false").await;
    assert_eq!(asleep.status, 503, "{asleep:?}");
    let props = server.get("/props?model=other").await.json();
    assert_eq!(
        (&props["model_alias"], &props["total_slots"]),
        (&json!("other"), &json!(2))
    );
    let listed = server.get("/lora-adapters?model=other").await.json();
    let told = |id: usize| (&listed[id]["id"], &listed[id]["name"], &listed[id]["scale"]);
    assert_eq!(told(0), (&json!(0), &json!("one"), &json!(1.0)));
    assert_eq!(told(1), (&json!(1), &json!("two"), &json!(0.5)));
    assert!(
        listed[0]["path"]
            .as_str()
            .is_some_and(|path| path.ends_with("one.gguf")),
        "{listed}"
    );
    assert_eq!(
        server.get("/lora-adapters?model=chat").await.json(),
        json!([])
    );
    assert_eq!(server.get("/slots").await.status, 400);
}

#[tokio::test]
async fn paths_of_files_are_for_operators() {
    let server = keys::server(&json!([
        { "name": "one", "key": "k-one", "models": ["chat"] },
        { "name": "two", "key": "k-two", "scopes": ["infer", "admin"] },
    ]))
    .await;
    for (key, shows) in [("k-one", false), ("k-two", true)] {
        let request = server
            .client
            .get(format!("{}/props?model=chat", server.url));
        let props = read(request.bearer_auth(key)).await.json();
        assert_eq!(props["model_alias"], "chat", "{props}");
        assert_eq!(props.get("model_path").is_some(), shows, "{props}");
    }
}

#[tokio::test]
async fn slots_tell_what_they_do() {
    let script = json!({
        "name": "scripted", "cells": 640, "step_micros": 1000, "replies": [{ "text": "and on ", "then": "repeat" }],
    });
    let graph = CHAT.replace("max_num_seqs: 4", "max_num_seqs: 2");
    let setup = Setup::new().graph("chat", &graph).script(&script);
    let server = setup.start().await;
    let idle = server.get("/slots?fail_on_no_slot=1").await.json();
    let slot = |id: u32| json!({ "id": id, "n_ctx": 640, "is_processing": false });
    assert_eq!(idle, json!([slot(0), slot(1)]));
    let mut body = streamed("chat", "hi");
    body["max_tokens"] = 500.into();
    let open = [(); 2].map(|()| {
        let request = server.post("/v3/chat/completions", body.to_string());
        tokio::spawn(request.send())
    });
    server
        .until("running", |status| engine_numbers(status)[0] == 2)
        .await;
    let busy = server.get("/slots").await.json();
    for id in [0, 1] {
        let slot = &busy[id];
        assert_eq!(
            (&slot["id"], &slot["is_processing"]),
            (&json!(id), &json!(true)),
            "{busy}"
        );
        let next = &slot["next_token"];
        let count = |name: &str| next[name].as_u64();
        // A prompt that is computed has no tokens behind it.
        assert!(
            slot["n_prompt_tokens"].is_u64()
                || count("n_decoded")
                    .zip(count("n_remain"))
                    .map(|(one, other)| one + other)
                    == Some(500),
            "{busy}"
        );
    }
    let full = server.get("/slots?fail_on_no_slot=1").await;
    assert_eq!(
        (full.status, &full.json()["error"]["code"]),
        (503, &json!("no_slot"))
    );
    for request in open {
        request.abort();
    }
    server.until_idle().await;
    assert_eq!(server.get("/slots").await.json(), idle);
    assert_eq!(server.chat(&question("chat", "hi")).await.status, 200);
}
