//! What may wait for a place in the batches, of a model and of a key: so many requests, and prompts
//! of so many tokens.

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::rest::{
    keys::{chat, code, get, is, metric},
    support::{CHAT, Reply, Setup, TestServer, question, streamed},
};
use graphmill_server::KeySource;

/// One place in the batch, and one key for each word here.
async fn server(options: &str, keys: &Value) -> TestServer {
    let script = json!({ "name": "m", "step_micros": 1000, "replies": [
        { "when": "brief", "text": "a word" },
        { "text": "on and on ", "then": "repeat" },
    ] });
    let graph = CHAT.replace("max_num_seqs: 4", &format!("max_num_seqs: 1 {options}"));
    let setup = Setup::new().graph("chat", &graph).script(&script);
    let file = setup.path().join("keys.json");
    let text = json!({ "keys": keys }).to_string();
    std::fs::write(&file, text).expect("writable");
    setup
        .with(move |options| options.keys = Some(KeySource::File(file)))
        .start()
        .await
}

/// A stream that is on its way until the value is dropped.
struct Open(JoinHandle<()>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn open(server: &TestServer, key: &str, text: &str) -> Open {
    // A connection of its own: dropping the request closes it.
    let request = crate::http::client()
        .post(format!("{}/v3/chat/completions", server.url))
        .header("x-api-key", key)
        .body(streamed("chat", text).to_string());
    Open(tokio::spawn(async move {
        let mut answer = request.send().await.expect("an answer");
        while let Ok(Some(_)) = answer.chunk().await {}
    }))
}

/// Waits until so many sequences run and wait, and says how many prompt tokens wait.
async fn until(server: &TestServer, running: u64, waiting: u64) -> u64 {
    loop {
        let status = get(server, "watch", "/v3/status").await.json();
        let engine = &status["engines"][0];
        let number = |name: &str| engine[name].as_u64().expect("a number");
        if [number("sequences_running"), number("sequences_waiting")] == [running, waiting] {
            return number("prompt_tokens_waiting");
        }
    }
}

fn retry_after(reply: &Reply) -> u32 {
    let seconds = reply.header("retry-after").expect("a time");
    seconds.parse().expect("seconds")
}

const WATCH: &str = "watch";

fn keys(limits: &Value) -> Value {
    let mut limited = json!({ "name": "limited", "key": "limited" });
    let fields = limits.as_object().expect("an object").clone();
    limited.as_object_mut().expect("an object").extend(fields);
    json!([
        limited,
        { "name": "other", "key": "other" },
        { "name": WATCH, "key": WATCH, "scopes": ["metrics"] },
    ])
}

#[tokio::test]
async fn prompts_that_wait_have_so_many_tokens_of_a_model() {
    let server = server("max_queued_prompt_tokens: 300", &keys(&json!({}))).await;
    let running = open(&server, "other", "go");
    until(&server, 1, 0).await;
    // Nothing waits, so a prompt that is longer than the bound is let in.
    let long = open(&server, "other", &"x".repeat(400));
    let tokens = until(&server, 1, 1).await;
    assert!((400..500).contains(&tokens), "{tokens}");
    let refused = chat(&server, "limited", &question("chat", "brief")).await;
    assert_eq!(code(&refused), is(429, "queue_full"), "{}", refused.text);
    assert!(refused.text.contains("holds 300"), "{}", refused.text);
    assert!(retry_after(&refused) >= 1);
    drop(long);
    assert_eq!(until(&server, 1, 0).await, 0);
    let first = open(&server, "other", &"x".repeat(150));
    let tokens = until(&server, 1, 1).await;
    assert!((150..250).contains(&tokens), "{tokens}");
    // A short one still fits, and one like the first does not.
    let second = open(&server, "limited", "x");
    assert!(until(&server, 1, 2).await > tokens);
    let refused = chat(&server, "other", &question("chat", &"x".repeat(150))).await;
    assert_eq!(code(&refused), is(429, "queue_full"), "{}", refused.text);
    let scraped = get(&server, WATCH, "/metrics").await.text;
    let now = until(&server, 1, 2).await;
    let line = format!("graphmill_queued_prompt_tokens{{graph=\"chat\",model=\"m\"}} {now}");
    assert!(scraped.contains(&line), "{line}: {scraped}");
    drop((running, first, second));
    assert_eq!(until(&server, 0, 0).await, 0);
}

#[tokio::test]
async fn so_many_requests_of_a_key_wait() {
    let server = server("", &keys(&json!({ "max_queued_requests": 2 }))).await;
    let running = open(&server, "other", "go");
    until(&server, 1, 0).await;
    let waiting = [
        open(&server, "limited", "go"),
        open(&server, "limited", "go"),
    ];
    until(&server, 1, 2).await;
    let refused = chat(&server, "limited", &question("chat", "brief")).await;
    assert_eq!(code(&refused), is(429, "rate_limit_exceeded"));
    assert!(
        refused.text.contains("max_queued_requests"),
        "{}",
        refused.text
    );
    assert!(retry_after(&refused) >= 1);
    // Others are not touched.
    let other = open(&server, "other", "go");
    until(&server, 1, 3).await;
    let queued = "graphmill_key_requests_queued{key=\"limited\"}";
    assert_eq!(metric(&server, WATCH, queued).await, Some(2.0));
    let refusals = "graphmill_key_refusals_total{key=\"limited\",reason=\"queued_requests\"}";
    assert_eq!(metric(&server, WATCH, refusals).await, Some(1.0));
    // Those that leave before they were admitted give their places back, and so do those that are
    // refused for something else on their way.
    drop((other, waiting));
    until(&server, 1, 0).await;
    for _ in 0..5 {
        let mut wrong = question("chat", "go");
        wrong["guided_regex"] = "(".into();
        assert_eq!(chat(&server, "limited", &wrong).await.status, 400);
    }
    drop(running);
    until(&server, 0, 0).await;
    for _ in 0..5 {
        let reply = chat(&server, "limited", &question("chat", "brief")).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
    }
    // Sequences that run do not wait.
    let running = open(&server, "limited", "go");
    until(&server, 1, 0).await;
    assert_eq!(metric(&server, WATCH, queued).await, Some(0.0));
    drop(running);
}

#[tokio::test]
async fn prompts_that_wait_have_so_many_tokens_of_a_key() {
    let server = server("", &keys(&json!({ "max_queued_prompt_tokens": 300 }))).await;
    let running = open(&server, "other", "go");
    until(&server, 1, 0).await;
    let waiting = open(&server, "limited", &"x".repeat(200));
    let tokens = until(&server, 1, 1).await;
    let queued = "graphmill_key_prompt_tokens_queued{key=\"limited\"}";
    assert_eq!(metric(&server, WATCH, queued).await, Some(tokens as f64));
    let refused = chat(&server, "limited", &question("chat", &"x".repeat(200))).await;
    assert_eq!(code(&refused), is(429, "rate_limit_exceeded"));
    assert!(
        refused.text.contains("max_queued_prompt_tokens"),
        "{}",
        refused.text
    );
    let other = open(&server, "other", &"x".repeat(200));
    until(&server, 1, 2).await;
    drop((running, waiting, other));
    until(&server, 0, 0).await;
    assert_eq!(metric(&server, WATCH, queued).await, Some(0.0));
    // One that is longer than the bound is let in where none of the key waits.
    let reply = chat(&server, "limited", &question("chat", &"brief ".repeat(100))).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
}
