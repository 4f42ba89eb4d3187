//! Graphs and their numbers.

use std::fs;

use futures_util::future::join_all;
use serde_json::json;

use super::{CHAIN, Events, STALL, act, edge, named};
use crate::rest::support::{Setup, read};

#[tokio::test]
async fn graphs_are_listed_and_shown_as_they_run() {
    let optional = json!({ "optional": true });
    let server = Setup::new()
        .graph("org/chain", CHAIN)
        .graph("broken", "node {")
        .that(&optional)
        .start()
        .await;
    let list = server.get("/v3/graphs").await.json();
    let chain = named(&list["graphs"], "org/chain");
    assert_eq!(
        (&chain["state"], &chain["required"], &chain["sessions"]),
        (&json!("AVAILABLE"), &json!(true), &json!(0))
    );
    let broken = named(&list["graphs"], "broken");
    assert_eq!(
        (&broken["state"], &broken["required"], &broken["version"]),
        (&json!("END"), &json!(false), &json!(null))
    );
    let graph = server.get("/v3/graphs/org%2Fchain").await.json();
    assert_eq!(graph["name"], "org/chain");
    let file = graph["file"].as_str().expect("a path");
    assert!(file.ends_with("graph.pbtxt"), "{file}");
    assert_eq!(graph["plan"]["nodes"][0]["calculator"], "ActorCalculator");
    for (format, media_type, begins) in [
        ("dot", "text/plain; charset=utf-8", "digraph {"),
        ("mermaid", "text/plain; charset=utf-8", "flowchart TB"),
        ("text", "text/plain; charset=utf-8", "takes in"),
    ] {
        let shown = server
            .get(&format!("/v3/graphs/org%2Fchain?format={format}"))
            .await;
        assert_eq!(shown.header("content-type"), Some(media_type));
        assert!(shown.text.starts_with(begins), "{}", shown.text);
    }
    for (path, status) in [
        ("/v3/graphs/nobody", 404),
        ("/v3/graphs/broken", 503),
        ("/v3/graphs/org%2Fchain?format=png", 400),
        ("/v3/graphs/org%2Fchain?from=1", 400),
        ("/v3/graphs/nobody/events", 404),
        ("/v3/graphs/broken/events", 503),
        ("/v3/graphs/org%2Fchain/events?session=nobody", 404),
    ] {
        let reply = server.get(path).await;
        assert_eq!(reply.status, status, "{path}: {}", reply.text);
        assert!(reply.json()["error"]["message"].is_string(), "{path}");
    }
    let unknown = server.get("/v3/graphs/chain").await.json();
    let message = "the graph `chain` does not exist; did you mean `org/chain`?";
    assert_eq!(unknown["error"]["message"], message);
    assert_eq!(unknown["error"]["param"], "graph");
}

#[tokio::test]
async fn numbers_come_as_a_snapshot_and_then_as_what_changes() {
    let server = Setup::new().graph("stall", STALL).start().await;
    let mut events = Events::of(&server, "/v3/graphs/stall/events").await;
    let (name, snapshot) = events.next().await.expect("an event");
    assert_eq!((&*name, &snapshot["seq"]), ("snapshot", &json!(0)));
    assert_eq!(snapshot["sessions"], 0);
    assert_eq!(snapshot["nodes"].as_array().map(Vec::len), Some(3));
    let queue = edge(&snapshot, "join", "said");
    assert_eq!(
        *queue,
        json!({ "stream": "said", "node": "join", "input": ":0", "queued": 0, "bound": 4, "packets": 0 })
    );
    assert!(snapshot["at_ms"].as_u64().expect("a time") > 1_700_000_000_000);

    let ten = json!(vec![json!({ "event": "{}" }); 10]);
    let request = act(&server, "stall", "stuck", &ten);
    let request = tokio::spawn(request.send());
    let is_stuck = |_: &str, event: &serde_json::Value| edge(event, "join", "said")["queued"] == 4;
    let stuck = events.until("a full queue", is_stuck).await;
    assert!(stuck["seq"].as_u64().expect("a number") >= 1);
    assert_eq!(stuck["sessions"], 1);
    assert_eq!(
        named(&stuck["nodes"], "actor")["states"],
        json!({ "blocked": 1 })
    );
    assert_eq!(
        named(&stuck["nodes"], "join")["states"],
        json!({ "waiting": 1 })
    );
    assert_eq!(
        named(&stuck["nodes"], "silent")["states"],
        json!({ "waiting": 1 })
    );
    let calls = named(&stuck["nodes"], "actor")["calls"].as_u64();

    request.abort();
    let is_over = |_: &str, event: &serde_json::Value| event["sessions"] == 0;
    let over = events.until("the end of the session", is_over).await;
    let actor = named(&over["nodes"], "actor");
    assert_eq!(actor["states"], json!({}));
    assert!(actor["calls"].as_u64() >= calls, "{over}");
    assert_eq!(edge(&over, "join", "said")["queued"], 0);
}

#[tokio::test]
async fn fifty_viewers_see_the_same() {
    let server = Setup::new().graph("chain", CHAIN).start().await;
    let viewers = (0..50).map(|_| Events::of(&server, "/v3/graphs/chain/events"));
    let mut viewers = join_all(viewers).await;
    for viewer in &mut viewers {
        assert_eq!(viewer.next().await.expect("an event").0, "snapshot");
    }
    let actions = json!([{ "event": "{}" }, { "done": true }]);
    for _ in 0..3 {
        assert_eq!(
            read(act(&server, "chain", "request", &actions))
                .await
                .status,
            200
        );
    }
    for viewer in &mut viewers {
        let last = viewer
            .until("three sessions", |_, event| {
                edge(event, "third", "c")["packets"] == 6
            })
            .await;
        assert_eq!(edge(&last, "third", "c")["queued"], 0);
    }
}

#[tokio::test]
async fn one_session_is_watched_to_its_end() {
    let server = Setup::new().graph("stall", STALL).start().await;
    let request = act(
        &server,
        "stall",
        "watched",
        &json!([{ "event": "{}" }, { "hang": true }]),
    );
    let request = tokio::spawn(request.send());
    server
        .until("it runs", |status| {
            crate::rest::support::sessions(status) == 1
        })
        .await;
    let mut events = Events::of(&server, "/v3/graphs/stall/events?session=watched").await;
    events
        .until("a packet that waits", |_, event| {
            edge(event, "join", "said")["queued"] == 1
        })
        .await;
    request.abort();
    events
        .until("its end", |_, event| {
            named(&event["nodes"], "join")["states"] == json!({ "closed": 1 })
        })
        .await;
    assert!(events.next().await.is_none(), "nothing comes after the end");
}

#[tokio::test]
async fn the_node_in_which_a_session_failed_is_told() {
    let server = Setup::new().graph("chain", CHAIN).start().await;
    let mut events = Events::of(&server, "/v3/graphs/chain/events").await;
    let fail = json!([{ "fail": { "kind": "internal", "message": "no" } }]);
    assert_eq!(read(act(&server, "chain", "bad", &fail)).await.status, 500);
    events
        .until("an error", |_, event| {
            named(&event["nodes"], "actor")["errors"] == 1
        })
        .await;
}

#[tokio::test]
async fn a_graph_that_is_loaded_anew_has_another_snapshot() {
    let setup = Setup::new().graph("chain", CHAIN);
    let file = setup.path().join("0").join("graph.pbtxt");
    let server = setup.start().await;
    let mut events = Events::of(&server, "/v3/graphs/chain/events").await;
    assert_eq!(events.next().await.expect("an event").0, "snapshot");
    fs::write(file, CHAIN.replace("\"second\"", "\"other\"")).expect("writable");
    assert_eq!(read(server.post("/v1/config/reload", "")).await.status, 201);
    let snapshot = events
        .until("a snapshot", |name, _| name == "snapshot")
        .await;
    assert_eq!(snapshot["seq"], 0);
    assert!(named(&snapshot["nodes"], "other").is_object(), "{snapshot}");
    let actions = json!([{ "event": "{}" }, { "done": true }]);
    assert_eq!(
        read(act(&server, "chain", "request", &actions))
            .await
            .status,
        200
    );
    events
        .until("its packets", |_, event| {
            edge(event, "other", "b")["packets"] == 2
        })
        .await;
}
