//! Graphs that make room for others: those that nobody uses for one that a request asks for, and old
//! ones for what takes their place.

use std::fs;

use futures_util::StreamExt as _;
use graphmill_server::ReloadPolicy;
use serde_json::{Value, json};

use crate::rest::{
    gated::{GATED, loads, make_huge},
    residence::{ask, state, version},
    support::{CHAT, Setup, question, read, streamed},
};

#[tokio::test]
async fn where_memory_is_short_the_graph_leaves_that_was_used_least_recently() {
    let demanded = json!({ "load": "on_demand" });
    let setup = Setup::new()
        .graph("first", GATED)
        .that(&demanded)
        .graph("second", GATED)
        .that(&demanded)
        .graph("third", GATED)
        .graph("huge", GATED)
        .that(&demanded);
    let folder = setup.path().to_owned();
    make_huge(&folder.join("3"));
    let server = setup.start().await;
    for name in ["first", "second", "third"] {
        assert_eq!(ask(&server, name).await.status, 200);
    }
    let reply = ask(&server, "huge").await;
    assert_eq!(
        (reply.status, &reply.json()["error"]["code"]),
        (503, &json!("no_memory"))
    );
    assert_eq!(reply.header("retry-after"), Some("5"));
    let status = server.status().await;
    for name in ["first", "second"] {
        assert_eq!(state(&status, name), "END");
        let told = version(&server, name).await;
        let message = &told["status"]["error_message"];
        assert_eq!(message, "unloaded to make room for `huge`");
    }
    assert_eq!(
        state(&status, "third"),
        "AVAILABLE",
        "it does not come with a request"
    );
    assert_eq!(ask(&server, "first").await.status, 200);
    assert_eq!(loads(&folder.join("3")), 0);
}

#[tokio::test]
async fn a_reload_can_have_the_old_graphs_leave_first() {
    for fits in [false, true] {
        let setup = Setup::new().graph("chat", CHAT);
        let folder = setup.path().to_owned();
        let release = folder.join("release");
        let script = json!({ "name": "model", "release": release.to_str().expect("UTF-8"), "replies": [
            { "when": "hang", "text": "slow", "then": "hang" }, { "text": "fine" },
        ] });
        let setup = setup
            .script(&script)
            .with(|options| options.reload_policy = ReloadPolicy::Drain);
        let server = setup.start().await;
        let request = server.post("/v3/chat/completions", streamed("chat", "hang").to_string());
        let mut stream = request.send().await.expect("an answer").bytes_stream();
        let first = stream.next().await.expect("an event").expect("bytes");

        let huge = folder.join("huge");
        fs::create_dir(&huge).expect("writable");
        fs::write(huge.join("graph.pbtxt"), GATED).expect("writable");
        make_huge(&huge);
        let graph = folder.join("0/graph.pbtxt");
        fs::write(&graph, format!("# Changed.\n{CHAT}")).expect("writable");
        let config = json!({ "model_config_list": [], "mediapipe_config_list": [
            { "name": "chat", "base_path": "0" }, { "name": "huge" },
        ] });
        fs::write(folder.join("config.json"), config.to_string()).expect("writable");
        let reloads = read(server.post("/v1/config/reload", ""));
        let ask = question("chat", "Hi");
        let asks = async {
            let leaves = |status: &Value| state(status, "chat") == "UNLOADING";
            server.until("it leaves", leaves).await;
            server.chat(&ask).await
        };
        let ends = async {
            let waits = |status: &Value| status["graphs"][0]["requests_waiting"] == 1;
            server.until("a new request waits", waits).await;
            if fits {
                fs::write(huge.join("answer"), "small").expect("writable");
            }
            fs::write(&release, "").expect("writable");
            let mut text = String::from_utf8(first.to_vec()).expect("UTF-8");
            while let Some(bytes) = stream.next().await {
                text.push_str(std::str::from_utf8(&bytes.expect("bytes")).expect("UTF-8"));
            }
            assert!(text.ends_with("data: [DONE]\n\n"), "{text}");
        };
        let (reloaded, reply, ()) = tokio::join!(reloads, asks, ends);
        let expected = if fits { 201 } else { 412 };
        assert_eq!(reloaded.status, expected, "{}", reloaded.text);
        assert_eq!(reply.json()["choices"][0]["message"]["content"], "fine");
        let status = server.status().await;
        let graphs = status["graphs"].as_array().map(Vec::len);
        assert_eq!(graphs, Some(if fits { 2 } else { 1 }), "{status:#}");
        assert_eq!(state(&status, "chat"), "AVAILABLE");
    }
}
