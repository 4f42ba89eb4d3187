//! Prompts that begin alike are computed once, in both layouts of the KV cache, as usage and
//! metrics say.

use std::path::Path;

use serde_json::{Value, json};

use crate::rest::{
    metrics::{scrape, value},
    support::{CHAT, Setup, TestServer, question},
};

const LAYOUTS: [bool; 2] = [true, false];
const SYSTEM: &str = "You are a helpful assistant. You answer in short sentences, you never make anything up, and you \
    say so when you do not know something.";

/// The published graph in a layout.
fn graph(unified: bool) -> String {
    let options = format!("max_num_seqs: 4 plugin_config: '{{\"kv_unified\": {unified}}}'");
    CHAT.replace("max_num_seqs: 4", &options)
}

async fn scripted(unified: bool, script: &Value) -> TestServer {
    let setup = Setup::new().graph("chat", &graph(unified)).script(script);
    setup.start().await
}

/// A question behind the system prompt.
fn ask(text: &str, extra: &Value) -> Value {
    let mut request = question("chat", text);
    request["messages"] = json!([
        { "role": "system", "content": SYSTEM },
        { "role": "user", "content": text },
    ]);
    let fields = request.as_object_mut().expect("an object");
    fields.extend(extra.as_object().expect("an object").clone());
    request
}

/// Tokens of an answer's prompt, and how many of these were not computed for it.
fn prompt(answer: &Value) -> (u64, u64) {
    let usage = &answer["usage"];
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{answer}"));
    (
        number(&usage["prompt_tokens"]),
        number(&usage["prompt_tokens_details"]["cached_tokens"]),
    )
}

async fn computed(server: &TestServer, model: &str) -> u64 {
    let labels = [("graph", "chat"), ("model", model)];
    value(
        &scrape(server).await,
        "graphmill_prompt_tokens_total",
        &labels,
    )
}

#[tokio::test]
async fn several_choices_compute_their_prompt_once() {
    for unified in LAYOUTS {
        let server = scripted(unified, &json!({ "name": "scripted" })).await;
        let answer = server.chat(&ask("hi", &json!({ "n": 4 }))).await.json();
        assert_eq!(answer["choices"].as_array().map(Vec::len), Some(4));
        let (tokens, _) = prompt(&answer);
        // The last token chooses the first of each answer, so each computes that one.
        let all = computed(&server, "scripted").await;
        assert_eq!(all, tokens + 3, "unified: {unified}");
    }
}

#[tokio::test]
async fn a_salt_shares_with_itself_only() {
    for unified in LAYOUTS {
        let server = scripted(unified, &json!({ "name": "scripted" })).await;
        let mut cached = Vec::new();
        for extra in [
            json!({ "cache_salt": "one" }),
            json!({ "cache_salt": "two" }),
            json!({}),
            json!({ "cache_salt": "one" }),
        ] {
            let (tokens, shared) = prompt(&server.chat(&ask("hi", &extra)).await.json());
            cached.push(tokens - shared);
        }
        let (tokens, _) = prompt(&server.chat(&ask("hi", &json!({}))).await.json());
        assert_eq!(cached, [tokens, tokens, tokens, 1], "unified: {unified}");
    }
}

#[tokio::test]
async fn a_second_request_computes_its_tail_while_the_first_generates() {
    let both = [true, false];
    let kinds = LAYOUTS
        .into_iter()
        .flat_map(|unified| both.map(|it| (unified, it)));
    for (unified, checkpoints) in kinds {
        let script = json!({
            "name": "scripted",
            "step_micros": 1000,
            "checkpoints": checkpoints,
            "replies": [{ "when": "endless", "text": "on and ", "then": "repeat" }, { "text": "done" }],
        });
        let server = scripted(unified, &script).await;
        let endless = ask("endless", &json!({ "stream": true, "max_tokens": 3000 }));
        let request = server.post("/v3/chat/completions", endless.to_string());
        let mut first = request.send().await.expect("an answer");
        first.chunk().await.expect("no error").expect("no end");
        server
            .until("generating", |status| {
                status["engines"][0]["generated_tokens"].as_u64() > Some(2)
            })
            .await;
        let before = computed(&server, "scripted").await;
        let (tokens, cached) = prompt(&server.chat(&ask("hi", &json!({}))).await.json());
        // One token for each byte and each of the marks around the messages.
        // The checkpoint is behind the last of these.
        let marks = if checkpoints {
            "_system\n_\n_"
        } else {
            "_system\n_\n_user\n"
        };
        let shared = (SYSTEM.len() + marks.len()) as u64;
        assert_eq!(
            cached, shared,
            "unified: {unified}, checkpoints: {checkpoints}"
        );
        assert_eq!(
            computed(&server, "scripted").await - before,
            tokens - shared
        );
        let status = server.status().await;
        assert_eq!(
            status["engines"][0]["sequences_running"], 1,
            "the first goes on"
        );
        drop(first);
        server.until_idle().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_growing_chat_computes_what_is_new() {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../demos/tiny_chat/model.gguf");
    for unified in LAYOUTS {
        let path = model.display().to_string();
        let graph = graph(unified).replace("../model.script.json", &path);
        let server = Setup::new().graph("chat", &graph).start().await;
        let mut request = ask("Hello!", &json!({ "max_tokens": 24 }));
        // Tokens that were computed, and those that had never been.
        let (mut all, mut new, mut known) = (0, 0, 0);
        for turn in 0..10 {
            let answer = server.chat(&request).await.json();
            let (tokens, cached) = prompt(&answer);
            let generated = &answer["usage"]["completion_tokens"];
            all += tokens - cached;
            new += tokens - known;
            // The last token of a reply is chosen, and computed only if the chat goes on.
            known = tokens + generated.as_u64().expect("a number") - 1;
            let messages = request["messages"].as_array_mut().expect("messages");
            messages.push(answer["choices"][0]["message"].clone());
            let next = ["What is your name?", "Tell me a story.", "How are you?"][turn % 3];
            messages.push(json!({ "role": "user", "content": next }));
        }
        assert_eq!(all, new, "unified: {unified}");
        assert_eq!(computed(&server, "tiny-chat").await, all);
    }
}
