//! Graphs that operators load and unload: `/models/load` and `/models/unload` of llama-server, vLLM's
//! `/sleep` and `/wake_up`, and how many are loaded at a time.

use std::fs;

use serde_json::{Value, json};

use crate::rest::{
    gated::{GATED, loads},
    keys,
    residence::{ask, state},
    support::{ACTOR, CHAT, Reply, Setup, TestServer, read, streamed},
};

async fn post(server: &TestServer, path: &str, body: &Value) -> Reply {
    read(server.post(path, body.to_string())).await
}

async fn status(server: &TestServer, name: &str) -> Value {
    let model = server.get(&format!("/v1/models/{name}")).await.json();
    model["status"]["value"].clone()
}

/// Graphs that are loaded on demand, with the answers `one`, `two` and `three`.
fn three() -> Setup {
    let mut setup = Setup::new();
    for (place, name) in ["one", "two", "three"].into_iter().enumerate() {
        setup = setup
            .graph(name, GATED)
            .that(&json!({ "load": "on_demand" }));
        let folder = setup.path().join(place.to_string());
        fs::write(folder.join("answer"), name).expect("writable");
    }
    setup
}

#[tokio::test]
async fn the_least_recently_used_graph_leaves_for_another() {
    let server = three()
        .with(|options| options.models_max = Some(2))
        .start()
        .await;
    for name in ["one", "two", "one"] {
        assert_eq!(ask(&server, name).await.text, name);
    }
    assert_eq!(ask(&server, "three").await.text, "three");
    let states = [
        status(&server, "one").await,
        status(&server, "two").await,
        status(&server, "three").await,
    ];
    assert_eq!(states, ["loaded", "unloaded", "loaded"]);
}

#[tokio::test]
async fn graphs_in_use_are_not_unloaded_for_another() {
    let script = json!({ "replies": [{ "text": "slow", "then": "hang" }] });
    let setup = Setup::new()
        .graph("busy", CHAT)
        .that(&json!({ "load": "on_demand" }))
        .graph("other", GATED)
        .that(&json!({ "load": "on_demand" }))
        .with(|options| options.models_max = Some(1));
    fs::write(setup.path().join("1/answer"), "here").expect("writable");
    let server = setup.script(&script).start().await;
    let request = server.post("/v3/chat/completions", streamed("busy", "Hi").to_string());
    let stream = request.send().await.expect("an answer");
    let refused = ask(&server, "other").await;
    assert_eq!(
        (refused.status, &refused.json()["error"]["code"]),
        (503, &json!("no_memory"))
    );
    assert!(refused.text.contains("--models_max"), "{}", refused.text);
    assert_eq!(status(&server, "busy").await, "loaded");
    drop(stream);
}

#[tokio::test]
async fn operators_load_and_unload_graphs_by_name() {
    let setup = three().graph("always", ACTOR);
    let folder = setup.path().join("0");
    let server = setup.start().await;
    let model = |name: &str| json!({ "model": name });
    assert_eq!(status(&server, "one").await, "unloaded");
    let loaded = post(&server, "/models/load", &model("one")).await;
    assert_eq!(
        (loaded.status, loaded.json()),
        (200, json!({ "success": true }))
    );
    assert_eq!(status(&server, "one").await, "loaded");
    let unloaded = post(&server, "/models/unload", &model("one")).await;
    assert_eq!(
        (unloaded.status, unloaded.json()),
        (200, json!({ "success": true }))
    );
    assert_eq!(status(&server, "one").await, "unloaded");
    let again = post(&server, "/models/unload", &model("one")).await;
    assert_eq!(again.status, 200, "it is not loaded: {}", again.text);
    assert_eq!(
        ask(&server, "one").await.text,
        "one",
        "a request loads it again"
    );
    assert_eq!(loads(&folder), 2);
    // A graph that is loaded with the server comes back with a request, too.
    post(&server, "/models/unload", &model("always")).await;
    assert_eq!(status(&server, "always").await, "unloaded");
    assert_eq!(server.get("/v2/health/ready").await.status, 200);
    server
        .chat(&json!({ "model": "always", "actions": [] }))
        .await;
    assert_eq!(status(&server, "always").await, "loaded");
    for (path, body, status) in [
        ("/models/load", model("nobody"), 404),
        ("/models/unload", model("nobody"), 404),
        ("/models/load", json!({}), 400),
        ("/models/load", json!({ "model": 1 }), 400),
        (
            "/models/load",
            json!({ "model": "one", "path": "/etc" }),
            400,
        ),
    ] {
        let reply = post(&server, path, &body).await;
        assert_eq!(reply.status, status, "{path} {body}: {}", reply.text);
        assert!(
            reply.json()["error"]["message"].is_string(),
            "{}",
            reply.text
        );
    }
}

#[tokio::test]
async fn a_load_that_fails_is_told_and_listed() {
    let setup = three();
    fs::write(setup.path().join("0/fail"), "").expect("writable");
    let server = setup.start().await;
    let reply = post(&server, "/models/load", &json!({ "model": "one" })).await;
    assert_eq!(
        (reply.status, &reply.json()["error"]["code"]),
        (503, &json!("graph_failed"))
    );
    assert_eq!(ask(&server, "two").await.text, "two");
}

#[tokio::test]
async fn all_graphs_sleep_and_wake_up() {
    let setup = three().graph("always", ACTOR);
    let folder = setup.path().join("0");
    let server = setup.start().await;
    assert_eq!(ask(&server, "one").await.text, "one");
    let sleeps = async || server.get("/is_sleeping").await.json()["is_sleeping"].clone();
    assert_eq!(sleeps().await, false);
    let reply = post(&server, "/sleep?level=1", &json!({})).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    assert_eq!(sleeps().await, true);
    let told = server.status().await;
    assert_eq!(
        (state(&told, "one"), state(&told, "always")),
        (&json!("END"), &json!("END"))
    );
    assert_eq!(post(&server, "/wake_up", &json!({})).await.status, 200);
    assert_eq!(sleeps().await, false);
    let told = server.status().await;
    let states = ["one", "two", "always"].map(|name| state(&told, name));
    assert_eq!(
        states,
        ["AVAILABLE", "START", "AVAILABLE"],
        "those wake up that slept"
    );
    // A graph that cannot be loaded does not keep the others asleep.
    assert_eq!(post(&server, "/sleep", &json!({})).await.status, 200);
    fs::write(folder.join("fail"), "").expect("writable");
    let reply = post(&server, "/wake_up", &json!({})).await;
    assert_eq!(reply.status, 503, "{}", reply.text);
    let told = server.status().await;
    let states = ["one", "always"].map(|name| state(&told, name));
    assert_eq!(states, ["END", "AVAILABLE"]);
    for path in [
        "/sleep?level=9",
        "/sleep?mode=abort",
        "/wake_up?tags=weights",
    ] {
        let reply = post(&server, path, &json!({})).await;
        assert_eq!(reply.status, 400, "{path}: {}", reply.text);
    }
}

#[tokio::test]
async fn only_operators_change_what_is_loaded() {
    let keys = json!([
        { "name": "a", "key": "client", "scopes": ["infer"] },
        { "name": "b", "key": "operator", "scopes": ["admin"] },
    ]);
    let server = keys::server(&keys).await;
    let chat = json!({ "model": "chat" });
    for path in ["/models/load", "/models/unload", "/sleep", "/wake_up"] {
        let reply = keys::post(&server, "client", path, &chat).await;
        assert_eq!(reply.status, 403, "{path}: {}", reply.text);
        let reply = keys::post(&server, "operator", path, &chat).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text);
    }
    assert_eq!(
        keys::get(&server, "client", "/is_sleeping").await.status,
        403
    );
}
