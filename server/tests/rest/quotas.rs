//! How much a key may use, and what it leaves to others.

use std::{
    fs,
    time::{Duration, Instant},
};

use graphmill_server::KeySource;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::rest::{
    keys::{chat, code, get, is, metric, post, server},
    support::{CHAT, Setup, TestServer, engine_numbers, question, read},
};

#[tokio::test]
async fn requests_a_minute_are_counted_for_each_key() {
    let server = server(&json!([
        { "name": "few", "key": "f", "requests_per_minute": 3 },
        { "name": "many", "key": "m", "scopes": ["infer", "metrics"] },
    ]))
    .await;
    for left in ["2", "1", "0"] {
        let reply = chat(&server, "f", &question("chat", "go")).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        assert_eq!(reply.header("x-ratelimit-limit-requests"), Some("3"));
        assert_eq!(reply.header("x-ratelimit-remaining-requests"), Some(left));
    }
    let reply = chat(&server, "f", &question("chat", "go")).await;
    assert_eq!(code(&reply), is(429, "rate_limit_exceeded"));
    assert_eq!(reply.header("x-ratelimit-remaining-requests"), Some("0"));
    let wait: u32 = reply
        .header("retry-after")
        .expect("a time")
        .parse()
        .expect("seconds");
    assert!((1..=20).contains(&wait), "{wait}");
    // What asks for no work is not limited, and others are not touched.
    assert_eq!(get(&server, "f", "/v3/models").await.status, 200);
    let reply = chat(&server, "m", &question("chat", "go")).await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("x-ratelimit-limit-requests"), None);
    let refused = "graphmill_key_refusals_total{key=\"few\",reason=\"requests\"}";
    assert_eq!(metric(&server, "m", refused).await, Some(1.0));
    let taken = "graphmill_key_requests_total{key=\"few\"}";
    assert_eq!(metric(&server, "m", taken).await, Some(5.0));
}

#[tokio::test]
async fn tokens_a_minute_are_reserved_and_given_back() {
    let server = server(&json!([
        { "name": "t", "key": "t", "tokens_per_minute": 1000, "scopes": ["infer", "metrics"] },
    ]))
    .await;
    let with = |text: &str, max_tokens: u32| {
        let mut body = question("chat", text);
        body["max_tokens"] = max_tokens.into();
        body
    };
    let reply = chat(&server, "t", &with("go", 1_000)).await;
    assert_eq!(
        code(&reply),
        is(400, "tokens_per_minute_exceeded"),
        "{}",
        reply.text
    );
    // Each reserves most of the minute and uses a little of it.
    let mut used = 0;
    for _ in 0..4 {
        let reply = chat(&server, "t", &with("go", 700)).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        used += reply.json()["usage"]["total_tokens"]
            .as_u64()
            .expect("a number");
        assert_eq!(reply.header("x-ratelimit-limit-tokens"), Some("1000"));
    }
    let name = |kind: &str| format!("graphmill_key_{kind}_tokens_total{{key=\"t\"}}");
    let prompt = metric(&server, "t", &name("prompt"))
        .await
        .expect("counted");
    let generated = metric(&server, "t", &name("generation"))
        .await
        .expect("counted");
    assert_eq!((prompt + generated) as u64, used);
    // Two at once are too much.
    let mut long = with("endless", 700);
    long["stream"] = true.into();
    let endless = chat(&server, "t", &long);
    let second = async {
        let until = |status: &Value| engine_numbers(status)[0] == 1;
        loop {
            if until(&get(&server, "t", "/v3/status").await.json()) {
                break;
            }
        }
        chat(&server, "t", &with("go", 700)).await
    };
    let (_, reply) = tokio::join!(endless, second);
    assert_eq!(
        code(&reply),
        is(429, "rate_limit_exceeded"),
        "{}",
        reply.text
    );
    let wait: u32 = reply
        .header("retry-after")
        .expect("a time")
        .parse()
        .expect("seconds");
    assert!((1..=60).contains(&wait), "{wait}");
}

#[tokio::test]
async fn sequences_at_once_are_limited_and_free_again_when_a_client_leaves() {
    let server = server(&json!([
        { "name": "s", "key": "s", "max_concurrent_sequences": 2, "scopes": ["infer", "metrics"] },
    ]))
    .await;
    let mut many = question("chat", "go");
    many["n"] = 3.into();
    let refused = chat(&server, "s", &many).await;
    assert_eq!(code(&refused), is(400, "too_many_sequences"));
    assert_eq!(refused.json()["error"]["param"], "n");
    let prompts = json!({ "model": "chat", "prompt": ["a", "b", "c"] });
    let request = server.post("/v3/completions", prompts.to_string());
    let refused = read(request.header("x-api-key", "s")).await;
    assert_eq!(code(&refused), is(400, "too_many_sequences"));
    assert_eq!(refused.json()["error"]["param"], "prompt");
    let mut endless = question("chat", "endless");
    endless["n"] = 2.into();
    endless["stream"] = true.into();
    let request = crate::http::client()
        .post(format!("{}/v3/chat/completions", server.url))
        .header("x-api-key", "s")
        .body(endless.to_string());
    let mut response = request.send().await.expect("an answer");
    response.chunk().await.expect("events");
    let reply = chat(&server, "s", &question("chat", "go")).await;
    assert_eq!(
        code(&reply),
        is(429, "rate_limit_exceeded"),
        "{}",
        reply.text
    );
    assert_eq!(reply.header("retry-after"), Some("1"));
    drop(response);
    let deadline = Instant::now() + Duration::from_secs(20);
    while chat(&server, "s", &question("chat", "go")).await.status != 200 {
        assert!(
            Instant::now() < deadline,
            "the sequences are not given back"
        );
    }
}

#[tokio::test]
async fn the_priority_of_a_key_is_its_limit_and_its_salt_its_own() {
    let server = server(&json!([
        { "name": "a", "key": "a", "max_priority": -2 },
        { "name": "b", "key": "b", "cache_salt": "team" },
        { "name": "c", "key": "c", "cache_salt": "team" },
    ]))
    .await;
    let explained = |key: &'static str, priority: i32| {
        let server = &server;
        async move {
            let mut body = question("chat", "go");
            body["priority"] = priority.into();
            let reply = post(server, key, "/v3/chat/completions?explain=1", &body).await;
            reply.json()["parameters"]["priority"]["value"].clone()
        }
    };
    assert_eq!(explained("a", 5).await, -2);
    assert_eq!(explained("a", -5).await, -5);
    assert_eq!(explained("b", 5).await, 5);
    let long = "many words ".repeat(40);
    let cached = |key: &'static str, salt: Option<&'static str>| {
        let (server, mut body) = (&server, question("chat", &long));
        if let Some(salt) = salt {
            body["cache_salt"] = salt.into();
        }
        async move {
            let reply = chat(server, key, &body).await;
            let usage = &reply.json()["usage"]["prompt_tokens_details"]["cached_tokens"];
            usage.as_u64().unwrap_or_else(|| panic!("{}", reply.text)) > 0
        }
    };
    assert!(!cached("a", None).await);
    assert!(cached("a", None).await);
    // Nobody gets at another's by naming it.
    assert!(!cached("b", None).await);
    assert!(!cached("b", Some("key:a")).await);
    // Those that share a salt do.
    assert!(cached("c", None).await);
    assert!(cached("c", Some("key:a")).await);
    assert!(!cached("a", Some("team")).await);
}

/// Headers with which one key comes.
fn with_key(server: &TestServer, key: &str, body: &Value) -> reqwest::RequestBuilder {
    let request = server.post("/v3/chat/completions", body.to_string());
    request.header("x-api-key", key)
}

#[tokio::test]
async fn a_flood_of_one_key_leaves_another_its_place() {
    const FLOOD: usize = 200;
    let script = json!({ "name": "m", "step_micros": 20_000, "replies": [
        { "when": "endless", "text": "on and on ", "then": "repeat" },
        { "text": "a word" },
    ] });
    let graph = CHAT.replace("max_num_seqs: 4", "max_num_seqs: 4 max_waiting: 128");
    let setup = Setup::new().graph("chat", &graph).script(&script);
    let file = setup.path().join("keys.json");
    let keys = json!({ "keys": [
        { "name": "flood", "key": "f" },
        { "name": "other", "key": "o", "scopes": ["infer", "metrics"] },
    ] });
    fs::write(&file, keys.to_string()).expect("writable");
    let setup = setup.with(move |options| options.keys = Some(KeySource::File(file)));
    let server = setup.start().await;
    // Prompts that begin differently, so that none is shared.
    let first_token = async |number: usize| {
        let mut body = question("chat", &format!("{number} go"));
        body["stream"] = true.into();
        let mut response = with_key(&server, "o", &body)
            .send()
            .await
            .expect("an answer");
        assert_eq!(response.status(), 200);
        response.chunk().await.expect("an event");
    };
    let mut flood = JoinSet::new();
    for number in 0..FLOOD {
        let mut body = question("chat", &format!("{number} endless"));
        body["stream"] = true.into();
        let request = with_key(&server, "f", &body);
        flood.spawn(async move {
            let mut response = request.send().await.expect("an answer");
            let status = response.status().as_u16();
            while let Ok(Some(_)) = response.chunk().await {}
            status
        });
    }
    // Those that find no place in the queue are refused, and told when to come again.
    let refused = flood
        .join_next()
        .await
        .expect("a flood")
        .expect("an answer");
    assert_eq!(refused, 429);
    while engine_numbers(&get(&server, "o", "/v3/status").await.json())[0] != 4 {}
    // What runs never ends, and as much waits as may.
    for number in 0..5 {
        first_token(number).await;
    }
}
