//! Engines that die or hang: who notices, who does not, and what comes after.

use serde_json::{Value, json};

use crate::rest::support::{CHAT, Setup, TestServer, question, read, streamed};

/// A graph with these options besides those of [`CHAT`].
fn chat(options: &str) -> String {
    CHAT.replace("max_num_seqs: 4", &format!("max_num_seqs: 4 {options}"))
}

/// Hangs, dies or says `fine`, as it is told.
fn script() -> Value {
    json!({ "name": "moody", "replies": [
        { "when": "hang", "text": "on", "then": "hang" },
        { "when": "die", "text": "now", "then": "die" },
        { "when": "number", "text": "17" },
        { "text": "fine" },
    ] })
}

/// Lets steps that hang go on when the test is over, so that no thread is left behind.
struct Release(std::path::PathBuf);

impl Drop for Release {
    fn drop(&mut self) {
        // Fails when the folder is gone already, and then nobody waits.
        let _ = std::fs::write(&self.0, "");
    }
}

fn releasable(setup: Setup, mut script: Value) -> (Setup, Release) {
    let file = setup.path().join("release");
    script["release"] = file.to_str().expect("UTF-8").into();
    (setup.script(&script), Release(file))
}

async fn until_restarted(server: &TestServer) -> Value {
    let up = |status: &Value| {
        let engine = &status["engines"][0];
        engine["state"] == "RUNNING" && engine["restarts"].as_u64() > Some(0)
    };
    server.until("started again", up).await
}

fn is_refusal(reply: &crate::rest::support::Reply) {
    assert_eq!(reply.status, 503, "{}", reply.text);
    assert_eq!(reply.json()["error"]["code"], "engine_failed");
    assert!(reply.header("retry-after").is_some());
}

#[tokio::test]
async fn an_engine_that_dies_is_replaced_and_its_requests_are_told() {
    let server = Setup::new()
        .graph("chat", CHAT)
        .script(&script())
        .start()
        .await;
    let schema = |text: &str| {
        let mut body = question("chat", text);
        body["response_format"] = json!({ "type": "json_schema", "json_schema": {
            "name": "n", "schema": { "type": "integer" } } });
        body
    };
    let number = |reply: &crate::rest::support::Reply| {
        assert_eq!(reply.status, 200, "{}", reply.text);
        reply.json()["choices"][0]["message"]["content"].clone()
    };
    assert_eq!(number(&server.chat(&schema("a number")).await), "17");

    let reply = server.chat(&streamed("chat", "die")).await;
    // What it said before may have been on its way still.
    assert!(matches!(reply.status, 200 | 500 | 503), "{}", reply.text);
    let last = reply.text.trim_end().rsplit("data: ").next();
    let last: Value = serde_json::from_str(last.expect("an event")).expect("JSON");
    assert!(last["error"]["code"].is_string(), "{}", reply.text);
    assert!(!reply.text.contains("[DONE]"));

    let status = until_restarted(&server).await;
    assert_eq!(status["engines"][0]["restarts"], 1);
    let failure = status["engines"][0]["failure"].as_str();
    assert!(
        failure.is_some_and(|failure| failure.contains("ended")),
        "{status:#}"
    );
    let reply = server.chat(&question("chat", "hello")).await;
    assert_eq!(reply.json()["choices"][0]["message"]["content"], "fine");
    // What was compiled for the engine before holds for the one after it.
    assert_eq!(number(&server.chat(&schema("a number")).await), "17");
    let metrics = server.get("/metrics").await.text;
    let count = "graphmill_engine_restarts_total{graph=\"chat\",model=\"moody\"} 1";
    assert!(metrics.contains(count), "{metrics}");
    assert!(metrics.contains("graphmill_engine_up{graph=\"chat\",model=\"moody\"} 1"));
    for probe in [
        "/v2/health/live",
        "/v2/health/ready",
        "/v2/models/chat/ready",
    ] {
        assert_eq!(server.get(probe).await.status, 200, "{probe}");
    }
    server.until_idle().await;
}

#[tokio::test]
async fn an_engine_that_hangs_is_given_up_with_all_that_wait_for_it() {
    let (setup, release) = releasable(
        Setup::new().graph("chat", &chat("step_timeout: 0.5")),
        script(),
    );
    let server = setup.start().await;
    let explained = server.post(
        "/v3/chat/completions?explain=1",
        question("chat", "hello").to_string(),
    );
    let (whole, events) = (question("chat", "hang"), streamed("chat", "hang"));
    let (hangs, stream) = (server.chat(&whole), server.chat(&events));
    let (hangs, stream, explained) = tokio::join!(hangs, stream, async {
        let hanging = |status: &Value| {
            let engine = &status["engines"][0];
            engine["state"] != "RUNNING" || engine["sequences_running"].as_u64() > Some(0)
        };
        server.until("computing", hanging).await;
        read(explained).await
    });
    is_refusal(&hangs);
    assert!(hangs.text.contains("step_timeout"), "{}", hangs.text);
    assert!(stream.text.contains("\"engine_failed\""), "{}", stream.text);
    // It may have come a moment before or after.
    if explained.status != 200 {
        is_refusal(&explained);
    }

    until_restarted(&server).await;
    // A slow machine may take even this engine for one that hangs.
    for attempt in 0.. {
        let reply = server.chat(&question("chat", "hello")).await;
        if reply.status == 200 {
            assert_eq!(reply.json()["choices"][0]["message"]["content"], "fine");
            break;
        }
        assert!(attempt < 3, "{}", reply.text);
        until_restarted(&server).await;
    }
    assert_eq!(server.get("/v2/health/live").await.status, 200);
    drop(release);
}

#[tokio::test]
async fn an_engine_that_cannot_be_replaced_makes_its_graph_unready_and_the_server_not_alive() {
    let server = Setup::new()
        .graph("chat", &chat("max_engine_restarts: 0"))
        .that(&json!({ "optional": true }))
        .graph("other", &chat("max_waiting: 77"))
        .script(&script())
        .start()
        .await;
    assert_eq!(server.get("/v2/health/live").await.status, 200);
    let reply = server.chat(&question("chat", "die")).await;
    assert!(reply.status >= 500, "{}", reply.text);
    let failed = |status: &Value| status["engines"][0]["state"] == "FAILED";
    let status = server.until("given up", failed).await;
    assert_eq!(status["engines"][0]["graph"], "chat");
    assert_eq!(status["graphs"][0]["ready"], false, "{status:#}");
    assert_eq!(status["graphs"][1]["ready"], true, "{status:#}");

    is_refusal(&server.chat(&question("chat", "hello")).await);
    let reply = server.chat(&question("other", "hello")).await;
    assert_eq!(reply.json()["choices"][0]["message"]["content"], "fine");
    // The graph that answers is the one that is needed, so the server is ready; and it will not get
    // well by itself, so it is not alive.
    assert_eq!(server.get("/v2/health/ready").await.status, 200);
    assert_eq!(server.get("/v2/models/other/ready").await.status, 200);
    let ready = server.get("/v2/models/chat/ready").await;
    assert_eq!((ready.status, &ready.json()["ready"]), (503, &json!(false)));
    let live = server.get("/v2/health/live").await;
    assert_eq!((live.status, &live.json()["live"]), (503, &json!(false)));
    assert!(live.text.contains("`moody` has failed"), "{}", live.text);
    let metrics = server.get("/metrics").await.text;
    assert!(metrics.contains("graphmill_engine_up{graph=\"chat\",model=\"moody\"} 0"));
    assert!(metrics.contains("graphmill_engine_up{graph=\"other\",model=\"moody\"} 1"));
}

#[tokio::test]
async fn a_model_that_is_gone_when_the_engine_is_to_be_replaced_is_told() {
    let setup = Setup::new()
        .graph("chat", &chat("max_engine_restarts: 1"))
        .script(&script());
    let file = setup.path().join("model.script.json");
    let server = setup.start().await;
    std::fs::remove_file(file).expect("it was there");
    server.chat(&question("chat", "die")).await;
    let failed = |status: &Value| status["engines"][0]["state"] == "FAILED";
    let status = server.until("given up", failed).await;
    let why = status["engines"][0]["failure"].as_str().unwrap_or_default();
    assert!(why.contains("could not be loaded again"), "{why}");
    assert_eq!(server.get("/v2/health/live").await.status, 503);
    let ready = server.get("/v2/health/ready").await;
    assert_eq!(ready.status, 503);
    assert!(ready.text.contains("model.script.json"), "{}", ready.text);
}

#[tokio::test]
async fn the_readiness_of_a_graph_needs_a_graph() {
    let server = Setup::new()
        .graph("chat", CHAT)
        .script(&script())
        .start()
        .await;
    let reply = server.get("/v2/models/caht/ready").await;
    assert_eq!(reply.json()["code"], "model_not_found");
    assert_eq!(server.get("/v2/models/chat").await.status, 200);
    assert_eq!(
        server.get("/v2/models/chat/ready").await.json()["name"],
        "chat"
    );
}
