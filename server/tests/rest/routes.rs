//! Each route, and the states of graphs that they show.

use serde_json::json;

use crate::rest::support::{ACTOR, CHAT, Setup, TestServer, question, read};

async fn two_graphs() -> TestServer {
    let script = json!({ "name": "scripted", "cells": 640, "replies": [{ "text": "hello" }] });
    Setup::new()
        .graph("org/chat", CHAT)
        .graph("b", CHAT)
        .graph("actor", ACTOR)
        .script(&script)
        .start()
        .await
}

#[tokio::test]
async fn health() {
    let server = two_graphs().await;
    let live = server.get("/v2/health/live").await;
    assert_eq!((live.status, live.json()), (200, json!({ "live": true })));
    let ready = server.get("/v2/health/ready").await;
    assert_eq!(
        (ready.status, ready.json()),
        (200, json!({ "ready": true }))
    );
    for path in ["/health", "/ping", "/v1/health"] {
        let reply = server.get(path).await;
        assert_eq!((reply.status, &reply.json()["ready"]), (200, &json!(true)));
        let head = server.client.head(format!("{}{path}", server.url));
        assert_eq!(read(head).await.status, 200);
    }
}

#[tokio::test]
async fn slashes_around_a_path_are_no_part_of_it() {
    let server = two_graphs().await;
    for path in [
        "/v3/models/",
        "//v1/models",
        "/v2/health/ready/",
        "/v2/models/org/chat//",
    ] {
        let reply = server.get(path).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text);
    }
    let body = json!({ "model": "org/chat", "messages": [{ "role": "user", "content": "Hi" }] });
    for path in [
        "/v1/chat/completions/",
        "//v3/chat/completions",
        "/v1/chat/completions/?a=b",
    ] {
        let reply = read(server.post(path, body.to_string())).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text);
    }
    assert_eq!(server.get("/v3//models").await.status, 404);
}

#[tokio::test]
async fn models_are_listed_and_found_by_names_with_slashes() {
    let server = two_graphs().await;
    for prefix in ["/v1", "/v3", "/v3/v1"] {
        let list = server.get(&format!("{prefix}/models")).await.json();
        assert_eq!(list["object"], "list");
        let ids: Vec<_> = list["data"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|model| model["id"].as_str().expect("text"))
            .collect();
        assert_eq!(ids, ["actor", "b", "org/chat"]);
        for name in ["org/chat", "org%2Fchat"] {
            let model = server.get(&format!("{prefix}/models/{name}")).await.json();
            assert_eq!(
                (&model["id"], &model["object"], &model["owned_by"]),
                (&json!("org/chat"), &json!("model"), &json!("graphmill"))
            );
            assert!(model["created"].as_u64().expect("seconds") > 1_700_000_000);
            // The cells of the script, which are the longest context.
            assert_eq!(model["max_model_len"], 640);
            assert_eq!(&model, &list["data"][2]);
            assert_eq!(
                list["data"][0]["max_model_len"],
                json!(null),
                "it has no model"
            );
        }
    }
}

#[tokio::test]
async fn models_have_the_shape_of_the_dialect_that_asks() {
    let server = two_graphs().await;
    let ask = async |path: &str| {
        let request = server.client.get(format!("{}{path}", server.url));
        read(request.header("anthropic-version", "2023-06-01")).await
    };
    let list = ask("/v1/models?limit=1000").await.json();
    let ends = (&list["first_id"], &list["last_id"], &list["has_more"]);
    assert_eq!(ends, (&json!("actor"), &json!("org/chat"), &json!(false)));
    assert_eq!(list.get("object"), None);
    let chat = ask("/v1/models/org/chat").await.json();
    assert_eq!(&chat, &list["data"][2]);
    let created = chat["created_at"].as_str().expect("text");
    assert!(
        created.starts_with("20") && created.ends_with('Z'),
        "{created}"
    );
    let expected = json!({
        "type": "model", "id": "org/chat", "display_name": "org/chat", "created_at": created,
    });
    assert_eq!(chat, expected);
    let unknown = ask("/v1/models/nobody").await;
    assert_eq!(unknown.status, 404);
    assert_eq!(unknown.json()["error"]["type"], "not_found_error");
    let nothing = Setup::new().start().await;
    let request = nothing.client.get(format!("{}/v1/models", nothing.url));
    let nothing = read(request.header("anthropic-version", "2023-06-01")).await;
    let empty = json!({ "data": [], "has_more": false, "first_id": null, "last_id": null });
    assert_eq!(nothing.json(), empty);
}

#[tokio::test]
async fn the_configuration_has_the_shape_of_openvino_model_server() {
    let server = two_graphs().await;
    let version = json!({ "version": "1", "state": "AVAILABLE", "status": { "error_code": "OK", "error_message": "OK" } });
    let graph = json!({ "model_version_status": [version] });
    let expected = json!({ "actor": graph, "b": graph, "org/chat": graph });
    assert_eq!(server.get("/v1/config").await.json(), expected);
    assert_eq!(
        Setup::new().start().await.get("/v1/config").await.json(),
        json!({})
    );
}

#[tokio::test]
async fn graphs_with_one_model_share_one_engine() {
    let server = two_graphs().await;
    let status = server.status().await;
    let engines = status["engines"].as_array().expect("a list");
    assert_eq!(engines.len(), 1, "{status:#}");
    let idle = json!({
        "model": "scripted", "graph": "b", "sequences_running": 0, "sequences_waiting": 0,
        "kv_cells_used": 0, "kv_cells_total": 640, "steps": 0, "stopped": false,
        "prefix_cache": { "queries": 0, "hits": 0, "tokens": 0, "bytes": 0, "evicted": 0, "checkpoints": { "count": 0, "bytes": 0, "hits": 0, "dropped": 0 } },
    });
    for (name, value) in idle.as_object().expect("an object") {
        assert_eq!(engines[0][name], *value, "{name}");
    }
    assert_eq!(engines[0]["step"]["median_ms"], 0.0, "no step yet");
    let effective = &engines[0]["effective"];
    assert_eq!(
        (&effective["backend"], &effective["kv_cells"]),
        (&json!("script"), &json!(640))
    );
    let graph = |name: &str| {
        json!({
            "name": name, "state": "AVAILABLE", "open_sessions": 0, "jobs_waiting": 0, "refused": 0,
            "ready": true,
        })
    };
    assert_eq!(
        status["graphs"],
        json!([graph("actor"), graph("b"), graph("org/chat")])
    );
}

#[tokio::test]
async fn the_model_of_the_body_selects_the_graph_on_every_prefix() {
    let server = two_graphs().await;
    for prefix in ["/v1", "/v3", "/v3/v1"] {
        for name in ["org/chat", "b"] {
            let reply = read(server.post(
                &format!("{prefix}/chat/completions"),
                question(name, "hi").to_string(),
            ))
            .await;
            assert_eq!(
                (reply.status, &reply.json()["model"]),
                (200, &json!(name)),
                "{}",
                reply.text
            );
        }
        let body = json!({ "model": "b", "prompt": "a", "max_tokens": 3 });
        let reply = read(server.post(&format!("{prefix}/completions"), body.to_string())).await;
        assert_eq!(
            (reply.status, &reply.json()["object"]),
            (200, &json!("text_completion")),
            "{}",
            reply.text
        );
    }
}

#[tokio::test]
async fn any_path_reaches_the_graph_that_the_body_or_the_path_names() {
    let server = two_graphs().await;
    let body = json!({ "model": "actor", "actions": [{ "body": "by model" }] }).to_string();
    assert_eq!(
        read(server.post("/v3/my/own/path", body)).await.text,
        "by model"
    );
    let body = json!({ "actions": [{ "body": "by path" }] }).to_string();
    assert_eq!(read(server.post("/v1/actor", body)).await.text, "by path");
}

#[tokio::test]
async fn a_graph_that_cannot_be_loaded_does_not_keep_the_others() {
    let optional = json!({ "optional": true });
    let server = Setup::new()
        .graph("actor", ACTOR)
        .graph(
            "misspelt",
            &ACTOR.replace("ActorCalculator", "ActrCalculator"),
        )
        .that(&optional)
        .graph("no model", CHAT)
        .that(&optional)
        .graph("no border", r#"input_stream: "in""#)
        .that(&optional)
        .start()
        .await;
    assert_eq!(server.get("/v2/health/ready").await.status, 200);
    assert_eq!(
        server.act(json!([{ "body": "served" }])).await.text,
        "served"
    );

    let config = server.get("/v1/config").await.json();
    for (name, reason) in [
        ("misspelt", "ActrCalculator"),
        ("no model", "model.script.json"),
        ("no border", "HTTP_REQUEST_PAYLOAD"),
    ] {
        let reply = server.chat(&json!({ "model": name })).await;
        assert_eq!(
            (reply.status, &reply.json()["error"]["code"]),
            (503, &json!("graph_failed")),
            "{}",
            reply.text
        );
        assert!(reply.text.contains(reason), "{}", reply.text);
        let version = &config[name]["model_version_status"][0];
        assert_eq!(version["state"], "END");
        assert_eq!(version["status"]["error_code"], "FAILED_PRECONDITION");
        let told = version["status"]["error_message"].as_str();
        assert!(told.is_some_and(|told| told.contains(reason)), "{version}");
        assert_eq!(reply.header("x-should-retry"), Some("false"));
        let reply = server.get(&format!("/v3/models/{name}")).await;
        assert_eq!(reply.json()["error"]["code"], "graph_failed");
    }
    let models = server.get("/v3/models").await.json();
    assert_eq!(
        models["data"].as_array().map(Vec::len),
        Some(1),
        "only what answers is listed"
    );
}

#[tokio::test]
async fn nothing_is_ready_when_no_graph_could_be_loaded() {
    let server = Setup::new().graph("chat", CHAT).start().await;
    let reply = server.get("/v2/health/ready").await;
    assert_eq!(reply.status, 503);
    assert!(reply.text.contains("`chat`"), "{}", reply.text);
    for path in ["/health", "/ping", "/v1/health"] {
        assert_eq!(server.get(path).await.status, 503, "{path}");
    }
    assert_eq!(server.get("/v2/health/live").await.status, 200);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_burst_connects_while_the_server_is_busy() {
    let server = Setup::new().graph("actor", ACTOR).start().await;
    let address = server.server.addresses()[0];
    // The server has no other thread than this one, so it accepts none of them meanwhile. A
    // connection that the system has no place for is not refused: its client tries again and again,
    // in vain.
    let in_vain = std::time::Duration::from_secs(30);
    let burst: Result<Vec<_>, _> = (0..400)
        .map(|_| std::net::TcpStream::connect_timeout(&address, in_vain))
        .collect();
    assert_eq!(burst.expect("each has a place").len(), 400);
}

#[tokio::test]
async fn a_hint_never_names_what_was_asked_for() {
    let server = Setup::new()
        .graph("actor", ACTOR)
        .with(|options| options.management = vec![([127, 0, 0, 1], 0).into()])
        .start()
        .await;
    for path in ["/v1/config", "/v3/graphs/actor"] {
        let reply = server.get(path).await;
        assert_eq!(reply.status, 404);
        let message = &reply.json()["error"]["message"];
        let message = message.as_str().expect("a text");
        assert!(message.contains("`--management_port`"), "{message}");
        assert!(!message.contains("did you mean"), "{message}");
    }
    let url = format!("http://{}", server.server.management_addresses()[0]);
    let reply = read(server.client.get(format!("{url}/v3/models"))).await;
    let hint = "it is available at the clients' port";
    assert!(reply.text.contains(hint), "{}", reply.text);
    let reply = server.get("/v3/modles").await;
    assert!(
        reply.text.contains("did you mean `/v3/models`?"),
        "{}",
        reply.text
    );
    let reply = read(server.post("/generat", "{}")).await;
    assert!(!reply.text.contains("{*"), "{}", reply.text);
    // What a path is the beginning of, and never another thing that is spelled alike.
    for path in ["/v2/models/state", "/v2/models/org/stat"] {
        let reply = read(server.post(path, "{}")).await;
        let expected = "; did you mean `/v2/models/{name}/infer`?";
        assert!(reply.text.contains(expected), "{}", reply.text);
    }
    let reply = server.get("/v2/models/org/state/infer").await;
    assert!(!reply.text.contains("did you mean"), "{}", reply.text);
    let reply = read(
        server
            .client
            .delete(format!("{}/v2/models/state", server.url)),
    )
    .await;
    assert!(!reply.text.contains("did you mean"), "{}", reply.text);
}
