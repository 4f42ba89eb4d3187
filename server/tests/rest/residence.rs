//! When graphs are in memory: with the server, when a request asks for them, until nobody has for a
//! while; and who waits for them.

use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use futures_util::{StreamExt as _, future::join_all};
use serde_json::{Value, json};

use crate::rest::{
    gated::{GATED, loads},
    support::{ACTOR, CHAT, Reply, Setup, TestServer, question, read, streamed},
};

pub(crate) async fn ask(server: &TestServer, model: &str) -> Reply {
    server.chat(&json!({ "model": model })).await
}

/// A graph that is loaded on demand, with its folder.
fn on_demand(more: &Value) -> (Setup, PathBuf) {
    let setup = Setup::new()
        .graph("gated", GATED)
        .that(&json!({ "load": "on_demand" }))
        .that(more);
    let folder = setup.path().join("0");
    fs::write(folder.join("answer"), "here").expect("writable");
    (setup, folder)
}

pub(crate) fn state<'a>(status: &'a Value, name: &str) -> &'a Value {
    let graphs = status["graphs"].as_array().expect("graphs");
    let mut graphs = graphs.iter();
    let graph = graphs.find(|graph| graph["name"] == name);
    &graph.expect("it is listed")["state"]
}

pub(crate) async fn version(server: &TestServer, name: &str) -> Value {
    let config = server.get("/v1/config").await.json();
    config[name]["model_version_status"][0].clone()
}

#[tokio::test]
async fn fifty_requests_at_once_load_a_graph_once() {
    let (setup, folder) = on_demand(&json!({}));
    fs::write(folder.join("gate"), "").expect("writable");
    let server = setup.start().await;
    assert_eq!(version(&server, "gated").await["state"], "START");
    let model = server.get("/v3/models/gated").await.json();
    assert_eq!(
        (&model["id"], &model["state"]),
        (&json!("gated"), &json!("START"))
    );
    assert_eq!(loads(&folder), 0);

    let requests = join_all((0..50).map(|_| ask(&server, "gated")));
    let opens = async {
        let wait = |status: &Value| status["graphs"][0]["requests_waiting"] == 50;
        let status = server.until("all wait", wait).await;
        assert_eq!(state(&status, "gated"), "LOADING");
        // It is loaded for a request, so the server is ready all the while.
        assert_eq!(server.get("/v2/health/ready").await.status, 200);
        fs::remove_file(folder.join("gate")).expect("it was there");
    };
    let (replies, ()) = tokio::join!(requests, opens);
    for reply in replies {
        assert_eq!((reply.status, reply.text.as_str()), (200, "here"));
    }
    assert_eq!(loads(&folder), 1);
    assert_eq!(version(&server, "gated").await["state"], "AVAILABLE");
}

#[tokio::test]
async fn no_more_requests_wait_than_can_be_held() {
    let (setup, folder) = on_demand(&json!({}));
    fs::write(folder.join("gate"), "").expect("writable");
    let server = setup.start().await;
    let requests = join_all((0..300).map(|_| ask(&server, "gated")));
    let opens = async {
        let full = |status: &Value| status["graphs"][0]["requests_waiting"] == 256;
        server.until("the queue is full", full).await;
        let refused = ask(&server, "gated").await;
        assert_eq!(
            (refused.status, &refused.json()["error"]["code"]),
            (429, &json!("queue_full"))
        );
        assert!(refused.header("retry-after").is_some());
        fs::remove_file(folder.join("gate")).expect("it was there");
    };
    let (replies, ()) = tokio::join!(requests, opens);
    let answered = replies.iter().filter(|reply| reply.status == 200).count();
    let refused = replies.iter().filter(|reply| reply.status == 429).count();
    assert!(
        answered >= 256 && answered + refused == 300,
        "{answered}, {refused}"
    );
}

/// Checks that the answer expects a load, which began at `begin` or later, to take as long again.
#[track_caller]
pub(crate) fn assert_takes_as_long_again(reply: &Reply, begin: Instant) {
    let elapsed = begin.elapsed().as_secs_f64().ceil() as u64;
    let seconds = reply.header("retry-after").and_then(|it| it.parse().ok());
    assert!(
        seconds.is_some_and(|seconds| (1..=elapsed.max(1)).contains(&seconds)),
        "{seconds:?} after {elapsed} s"
    );
}

#[tokio::test]
async fn a_request_that_waits_in_vain_is_told_when_to_come_again() {
    for wait in [Duration::ZERO, Duration::from_millis(100)] {
        let (setup, folder) = on_demand(&json!({}));
        fs::write(folder.join("gate"), "").expect("writable");
        let server = setup
            .with(move |options| options.load_wait = wait)
            .start()
            .await;
        let begin = Instant::now();
        let reply = ask(&server, "gated").await;
        assert_eq!(
            (reply.status, &reply.json()["error"]["code"]),
            (503, &json!("loading"))
        );
        assert!(reply.text.contains("is being loaded"), "{}", reply.text);
        assert_takes_as_long_again(&reply, begin);
        fs::remove_file(folder.join("gate")).expect("it was there");
        let is_there = |status: &Value| state(status, "gated") == "AVAILABLE";
        server
            .until("the load that it began is done", is_there)
            .await;
        assert_eq!(ask(&server, "gated").await.text, "here");
        assert_eq!(loads(&folder), 1);
    }
}

#[tokio::test]
async fn a_request_waits_for_a_load_no_longer_than_its_deadline() {
    let (setup, folder) = on_demand(&json!({}));
    fs::write(folder.join("gate"), "").expect("writable");
    let server = setup
        .with(|options| options.load_wait = Duration::from_hours(1))
        .start()
        .await;
    let mut body = json!({ "model": "gated", "timeout": 0.05 });
    let reply = server.chat(&body).await;
    assert_eq!(reply.json()["error"]["code"], "deadline", "{}", reply.text);
    fs::remove_file(folder.join("gate")).expect("it was there");
    body["timeout"] = 60.into();
    assert_eq!(server.chat(&body).await.text, "here");
    assert_eq!(loads(&folder), 1);
}

#[tokio::test]
async fn a_graph_that_nobody_uses_leaves_and_comes_back() {
    let script = json!({ "name": "model", "replies": [
        { "when": "hang", "text": "slow", "then": "hang" }, { "text": "fine" },
    ] });
    let setup = Setup::new()
        .graph("busy", CHAT)
        .graph("idle", GATED)
        .graph("kept", ACTOR)
        .that(&json!({ "idle_unload_seconds": 0 }))
        .with(|options| options.idle_unload = Some(Duration::from_millis(200)));
    let folder = setup.path().to_owned();
    let release = folder.join("release");
    let mut script = script;
    script["release"] = release.to_str().expect("UTF-8").into();
    fs::write(folder.join("1/answer"), "here").expect("writable");
    let server = setup.script(&script).start().await;
    let request = server.post("/v3/chat/completions", streamed("busy", "hang").to_string());
    let mut stream = request.send().await.expect("an answer").bytes_stream();
    let first = stream.next().await.expect("an event").expect("bytes");

    let left = |status: &Value| state(status, "idle") == "END";
    let status = server.until("the idle graph has left", left).await;
    assert_eq!(state(&status, "busy"), "AVAILABLE", "its stream runs");
    assert_eq!(state(&status, "kept"), "AVAILABLE");
    assert_eq!(
        version(&server, "idle").await,
        json!({ "version": "1", "state": "END",
            "status": { "error_code": "OK", "error_message": "unloaded when idle" } })
    );
    assert_eq!(server.get("/v2/health/ready").await.status, 200);
    assert_eq!(server.get("/v2/models/idle/ready").await.status, 200);
    let listed = server.get("/v3/models").await.json();
    assert_eq!(listed["data"].as_array().map(Vec::len), Some(3));
    assert_eq!(ask(&server, "idle").await.text, "here");
    assert_eq!(loads(&folder.join("1")), 2);

    fs::write(release, "").expect("writable");
    let mut text = String::from_utf8(first.to_vec()).expect("UTF-8");
    while let Some(bytes) = stream.next().await {
        text.push_str(std::str::from_utf8(&bytes.expect("bytes")).expect("UTF-8"));
    }
    assert!(text.ends_with("data: [DONE]\n\n"), "{text}");
    let left = |status: &Value| state(status, "busy") == "END";
    server.until("it leaves after its stream", left).await;
    let engines = &server.status().await["engines"];
    assert_eq!(*engines, json!([]), "its engine has ended");
    let reply = server.chat(&question("busy", "Hi")).await;
    assert_eq!(reply.json()["choices"][0]["message"]["content"], "fine");
}

#[tokio::test]
async fn a_load_on_demand_that_fails_is_told_and_shown() {
    let (setup, folder) = on_demand(&json!({}));
    fs::write(folder.join("fail"), "").expect("writable");
    let server = setup.start().await;
    assert_eq!(server.get("/v2/health/ready").await.status, 200);
    let reply = ask(&server, "gated").await;
    assert_eq!(
        (reply.status, &reply.json()["error"]["code"]),
        (503, &json!("graph_failed"))
    );
    assert!(
        reply.text.contains("the gated model fails"),
        "{}",
        reply.text
    );
    let told = version(&server, "gated").await;
    assert_eq!(told["state"], "END");
    assert_eq!(told["status"]["error_code"], "FAILED_PRECONDITION");
    let ready = server.get("/v2/health/ready").await;
    assert_eq!(ready.status, 503, "it is not optional: {}", ready.text);
    // It is not tried for each request.
    assert_eq!(ask(&server, "gated").await.status, 503);
    assert_eq!(loads(&folder), 1);
    fs::remove_file(folder.join("fail")).expect("it was there");
    assert_eq!(read(server.post("/v1/config/reload", "")).await.status, 201);
    assert_eq!(server.get("/v2/health/ready").await.status, 200);
    assert_eq!(ask(&server, "gated").await.text, "here");
}

#[tokio::test]
async fn a_graph_on_demand_with_a_mistake_is_told_at_the_start_and_refused_at_a_reload() {
    let wrong = GATED.replace("GatedCalculator", "GtedCalculator");
    let setup = Setup::new()
        .graph("wrong", &wrong)
        .that(&json!({ "load": "on_demand", "optional": true }))
        .graph("right", GATED)
        .that(&json!({ "load": "on_demand" }));
    let graph = setup.path().join("1/graph.pbtxt");
    let server = setup.start().await;
    assert_eq!(server.get("/v2/health/ready").await.status, 200);
    assert_eq!(
        ask(&server, "wrong").await.json()["error"]["code"],
        "graph_failed"
    );
    fs::write(&graph, wrong).expect("writable");
    let refused = read(server.post("/v1/config/reload", "")).await;
    assert_eq!(refused.status, 412, "{}", refused.text);
    assert!(
        refused.text.contains("`GtedCalculator`"),
        "{}",
        refused.text
    );
}

#[tokio::test]
async fn a_reload_in_the_middle_of_a_load_on_demand_loses_no_request() {
    let (setup, folder) = on_demand(&json!({}));
    let setup = setup.graph("other", ACTOR);
    let config = setup.path().join("config.json");
    fs::write(folder.join("gate"), "").expect("writable");
    let server = setup.start().await;
    let requests = join_all((0..10).map(|_| ask(&server, "gated")));
    let reloads = async {
        let wait = |status: &Value| status["graphs"][0]["requests_waiting"] == 10;
        server.until("all wait", wait).await;
        let text = fs::read_to_string(&config).expect("a file");
        fs::write(&config, text.replace("\"other\"", "\"another\"")).expect("writable");
        // A file that is written in place could be read in between.
        let new = folder.join("new");
        fs::write(&new, format!("# Changed.\n{GATED}")).expect("writable");
        fs::rename(&new, folder.join("graph.pbtxt")).expect("writable");
        let reload = read(server.post("/v1/config/reload", ""));
        let opens = async { fs::remove_file(folder.join("gate")).expect("it was there") };
        let (reloaded, ()) = tokio::join!(reload, opens);
        assert_eq!(reloaded.status, 201, "{}", reloaded.text);
    };
    let (replies, ()) = tokio::join!(requests, reloads);
    for reply in replies {
        assert_eq!(
            (reply.status, reply.text.as_str()),
            (200, "here"),
            "{}",
            reply.text
        );
    }
    let status = server.status().await;
    assert_eq!(status["graphs"][0]["name"], "another");
    assert_eq!(ask(&server, "other").await.status, 404);
}

#[tokio::test]
async fn readiness_needs_each_graph_that_is_not_optional() {
    let broken = ACTOR.replace("ActorCalculator", "ActrCalculator");
    let optional = json!({ "optional": true });
    let ready = async |setup: Setup| {
        let server = setup.start().await;
        let reply = server.get("/v2/health/ready").await;
        (
            reply.status,
            reply.json()["reason"].as_str().map(str::to_owned),
        )
    };
    let two = |first: &str, second: &str| Setup::new().graph("a", first).graph("b", second);
    assert_eq!(ready(two(ACTOR, ACTOR)).await.0, 200);
    let (status, reason) = ready(two(ACTOR, &broken)).await;
    assert_eq!(status, 503);
    assert!(reason.is_some_and(|it| it.contains("`b` could not be loaded")));
    assert_eq!(ready(two(ACTOR, &broken).that(&optional)).await.0, 200);
    let setup = Setup::new().graph("a", &broken).that(&optional);
    assert_eq!(
        ready(setup.graph("b", ACTOR).that(&optional)).await.0,
        200,
        "one answers"
    );
    let setup = Setup::new().graph("a", &broken).that(&optional);
    assert_eq!(ready(setup).await.0, 503, "none answers");
}

#[tokio::test]
async fn the_server_is_ready_while_an_optional_graph_is_loaded() {
    let setup = Setup::new()
        .graph("gated", GATED)
        .that(&json!({ "optional": true }))
        .graph("actor", ACTOR);
    let gate = setup.path().join("0/gate");
    fs::write(&gate, "").expect("writable");
    let mut server = setup.start_loading();
    let loading = |status: &Value| state(status, "gated") == "LOADING";
    server
        .until("the optional graph is loaded last", loading)
        .await;
    let status = server.status().await;
    assert_eq!(state(&status, "actor"), "AVAILABLE");
    assert_eq!(server.get("/v2/health/ready").await.status, 200);
    assert_eq!(server.get("/v2/models/gated/ready").await.status, 503);
    fs::remove_file(gate).expect("it was there");
    assert_eq!(server.server.loaded().await, None);
}

#[tokio::test]
async fn a_server_that_stops_does_not_wait_for_a_load() {
    let (setup, folder) = on_demand(&json!({}));
    fs::write(folder.join("gate"), "").expect("writable");
    let server = setup.grace(Duration::from_millis(100)).start().await;
    let body = json!({ "model": "gated" }).to_string();
    let waits = tokio::spawn(read(server.post("/v3/chat/completions", body)));
    let is_waiting = |status: &Value| status["graphs"][0]["requests_waiting"] == 1;
    server.until("a request waits", is_waiting).await;
    server.server.stop().await;
    let reply = waits.await.expect("no panic");
    assert_eq!(
        (reply.status, &reply.json()["error"]["code"]),
        (503, &json!("draining"))
    );
    assert_eq!(loads(&folder), 1, "the load is left to itself");
    fs::remove_file(folder.join("gate")).expect("it was there");
}
