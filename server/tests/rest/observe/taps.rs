//! Packets on their way.

use serde_json::{Value, json};

use super::{CHAIN, Events, act};
use crate::rest::support::{Setup, read};

#[tokio::test]
async fn a_tap_shows_the_packets_of_sessions_that_are_open_and_that_come() {
    let server = Setup::new().graph("chain", CHAIN).start().await;
    let hang = json!([{ "event": "{\"n\":1}" }, { "hang": true }]);
    let mut first = act(&server, "chain", "first", &hang)
        .send()
        .await
        .expect("an answer");
    first.chunk().await.expect("no error").expect("an event");
    let mut tap = Events::of(&server, "/v3/graphs/chain/tap?stream=b&stream=output").await;
    let actions = json!([{ "event": "{\"n\":2}" }, { "done": true }]);
    assert_eq!(
        read(act(&server, "chain", "second", &actions)).await.status,
        200
    );
    let mut seen = Vec::new();
    for _ in 0..4 {
        let (name, packet) = tap.next().await.expect("a packet");
        assert_eq!(
            (&*name, &packet["session"], &packet["truncated"]),
            ("packet", &json!("second"), &json!(false))
        );
        assert_eq!(packet["type"], "http_response");
        seen.push((
            packet["stream"].clone(),
            packet["timestamp"].clone(),
            packet["payload"].clone(),
        ));
    }
    let event = json!({ "event": { "n": 2 } });
    let of = |stream: &str| -> Vec<&Value> {
        let of = seen.iter().filter(|(of, ..)| of == stream);
        of.map(|(.., payload)| payload).collect()
    };
    assert_eq!(of("b"), [&event, &json!("done")]);
    assert_eq!(of("output"), [&event, &json!("done")]);

    // One session alone, and nothing of what packets carry.
    let path = "/v3/graphs/chain/tap?stream=a&session=first&payloads=false";
    let mut alone = Events::of(&server, path).await;
    let open = Events::of(&server, "/v3/graphs/chain/tap?stream=a&session=first").await;
    drop(open);
    drop(first);
    let ended = tokio::time::timeout(std::time::Duration::from_millis(50), alone.next());
    assert!(
        ended.await.is_err(),
        "a tap goes on until its viewer leaves"
    );
}

#[tokio::test]
async fn a_viewer_that_does_not_read_misses_packets_and_slows_nobody() {
    const PACKETS: usize = 3_000;
    let server = Setup::new().graph("chain", CHAIN).start().await;
    let path = "/v3/graphs/chain/tap?stream=a&stream=b&stream=c&stream=output";
    let mut tap = Events::of(&server, path).await;
    let text = json!({ "text": "x".repeat(2_000) }).to_string();
    let mut actions = vec![json!({ "event": text }); PACKETS];
    actions.push(json!({ "done": true }));
    let reply = read(act(&server, "chain", "fast", &json!(actions))).await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.events().len(), PACKETS, "the answer is whole");
    let (mut packets, mut dropped) = (0, 0);
    while packets + dropped < 4 * (PACKETS + 1) {
        match tap.next().await.expect("an event") {
            (name, event) if name == "dropped" => {
                dropped += event["count"].as_u64().expect("a number") as usize;
            }
            _ => packets += 1,
        }
    }
    assert_eq!(packets + dropped, 4 * (PACKETS + 1));
    assert!(dropped > 0, "the viewer has seen all of {packets} packets");
}

#[tokio::test]
async fn texts_are_redacted_and_long_ones_cut() {
    let observation = json!({ "redact": ["[0-9]{4}-[0-9]{4}"] });
    let setup = Setup::new()
        .graph("chain", CHAIN)
        .says("observation", observation);
    let server = setup.start().await;
    let mut tap = Events::of(&server, "/v3/graphs/chain/tap?stream=a").await;
    let long = json!({ "long": "y".repeat(100_000) }).to_string();
    let actions =
        json!([{ "event": "{\"card\":\"1234-5678\"}" }, { "event": long }, { "done": true }]);
    read(act(&server, "chain", "request", &actions)).await;
    let (_, packet) = tap.next().await.expect("a packet");
    assert_eq!(
        packet["payload"],
        json!({ "event": { "card": "[redacted]" } })
    );
    let (_, packet) = tap.next().await.expect("a packet");
    assert_eq!(packet["truncated"], true);
    let shown = packet["payload"].as_str().expect("a text");
    assert!(shown.starts_with("{\"event\":{\"long\":\"yyy") && shown.len() <= 32 << 10);
}

#[tokio::test]
async fn payloads_are_shown_to_nobody_where_the_configuration_says_so() {
    let setup = Setup::new().graph("chain", CHAIN);
    let server = setup
        .says("observation", json!({ "payloads": false }))
        .start()
        .await;
    let mut tap = Events::of(&server, "/v3/graphs/chain/tap?stream=a&payloads=true").await;
    read(act(
        &server,
        "chain",
        "request",
        &json!([{ "event": "{}" }, { "done": true }]),
    ))
    .await;
    let (_, packet) = tap.next().await.expect("a packet");
    assert_eq!(
        (&packet["payload"], &packet["type"]),
        (&json!(null), &json!("http_response"))
    );
    let body = json!({ "payloads": true }).to_string();
    let refused = read(server.post("/v3/graphs/chain/recording", body)).await;
    assert_eq!(refused.status, 403, "{}", refused.text);
}

#[tokio::test]
async fn refusals_have_a_code() {
    let server = Setup::new().graph("chain", CHAIN).start().await;
    for (query, code) in [
        ("", "missing_required_parameter"),
        ("?streams=a", "unsupported_parameter"),
        ("?stream=a&rate=2", "invalid_value"),
    ] {
        let refused = server.get(&format!("/v3/graphs/chain/tap{query}")).await;
        let told = (refused.status, &refused.json()["error"]["code"]);
        assert_eq!(told, (400, &json!(code)), "{query}");
    }
}

#[tokio::test]
async fn a_share_of_the_packets_can_be_tapped() {
    let server = Setup::new().graph("chain", CHAIN).start().await;
    let mut tap = Events::of(&server, "/v3/graphs/chain/tap?stream=a&rate=0.1").await;
    let mut actions = vec![json!({ "event": "{}" }); 39];
    actions.push(json!({ "done": true }));
    read(act(&server, "chain", "request", &json!(actions))).await;
    let mut times = Vec::new();
    for _ in 0..4 {
        times.push(tap.next().await.expect("a packet").1["timestamp"].clone());
    }
    assert_eq!(times, [10, 20, 30, 40]);
    for (path, part) in [
        ("/v3/graphs/chain/tap", "`stream` is missing"),
        ("/v3/graphs/chain/tap?stream=z", "no stream `z`; there are"),
        (
            "/v3/graphs/chain/tap?stream=a&rate=2",
            "`rate` is not a share",
        ),
        (
            "/v3/graphs/chain/tap?stream=a&rate=0",
            "`rate` is not a share",
        ),
        (
            "/v3/graphs/chain/tap?stream=a&payloads=no",
            "neither `true` nor `false`",
        ),
        (
            "/v3/graphs/chain/tap?stream=a&session=nobody",
            "no session `nobody` is open",
        ),
        ("/v3/graphs/chain/tap?stram=a", "unknown parameter `stram`"),
    ] {
        let reply = server.get(path).await;
        assert!(
            (400..=404).contains(&reply.status),
            "{path}: {}",
            reply.status
        );
        assert!(reply.text.contains(part), "{path}: {}", reply.text);
    }
}
