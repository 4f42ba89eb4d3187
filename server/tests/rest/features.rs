//! Two hundred requests at once, each with fields of its own, on the shipped model: each gets what
//! it gets alone.

use std::{net::SocketAddr, path::Path, time::Duration};

use futures_util::future::join_all;
use graphmill_engine::Registry;
use graphmill_server::{Options, Server, config};
use serde_json::{Value, json};

use crate::rest::support::Reply;

const QUESTIONS: [&str; 5] = [
    "What is OpenVINO?",
    "Say this is a test",
    "Count to five",
    "What is 2 + 3?",
    "Name three colors",
];

/// How long the last of them may take on a machine that does much else.
const PATIENCE: Duration = Duration::from_mins(10);

/// The endpoint and the fields of each kind of request; the question or prompt is added.
fn kinds() -> Vec<(&'static str, Value)> {
    let chat = [
        json!({}),
        json!({ "stream": true }),
        json!({ "stream": true, "stream_options": { "include_usage": true } }),
        json!({ "n": 3 }),
        json!({ "n": 2, "stream": true }),
        json!({ "logprobs": true, "top_logprobs": 3 }),
        json!({ "logprobs": true, "stream": true }),
        json!({ "stop": [" is", "3"] }),
        json!({ "stop": [" is", "3"], "include_stop_str_in_output": true, "stream": true }),
        json!({ "stop": "e", "logprobs": true, "top_logprobs": 1 }),
        json!({ "max_tokens": 1 }),
        json!({ "max_completion_tokens": 7 }),
        json!({ "min_tokens": 20 }),
        json!({ "ignore_eos": true, "max_tokens": 30 }),
        json!({ "stop_token_ids": [10, 20, 30, 40] }),
        json!({ "logit_bias": { "50": -100, "60": 5 } }),
        json!({ "logit_bias": [[70, false], [80, 3.5]] }),
        json!({ "presence_penalty": 1.5 }),
        json!({ "frequency_penalty": 1.0, "stream": true }),
        json!({ "repetition_penalty": 1.3 }),
        json!({ "dry_multiplier": 1.0, "dry_allowed_length": 1 }),
        json!({ "mirostat": 2, "top_k": 5, "typical_p": 0.5 }),
        json!({ "cache_salt": "mine" }),
        json!({ "priority": 5, "user": "someone", "metadata": { "a": "b" } }),
        json!({ "num_assistant_tokens": 4, "max_ngram_size": 2 }),
        json!({ "continue_final_message": true }),
        json!({ "add_generation_prompt": false, "max_tokens": 5 }),
        json!({ "timeout": 600 }),
    ];
    let completions = [
        json!({ "max_tokens": 12 }),
        json!({ "max_tokens": 12, "stream": true }),
        json!({ "max_tokens": 4, "echo": true }),
        json!({ "max_tokens": 4, "echo": true, "stream": true, "logprobs": 0 }),
        json!({ "max_tokens": 1, "echo": true, "logprobs": 2 }),
        json!({ "max_tokens": 0, "echo": true, "logprobs": 1 }),
        json!({ "max_tokens": 0, "echo": true }),
        json!({ "max_tokens": 6, "logprobs": 4, "n": 2 }),
        json!({ "max_tokens": 6, "prompt": ["One", "Two"], "n": 2, "stream": true }),
        json!({ "max_tokens": 6, "prompt": [[40, 41, 42], [50]], "echo": true, "logprobs": 1 }),
        json!({ "max_tokens": 9, "stop": [" ", "a"], "echo": true }),
        json!({ "max_tokens": 5, "logit_bias": { "44": 100 } }),
    ];
    let chat = chat.into_iter().map(|fields| ("chat/completions", fields));
    chat.chain(
        completions
            .into_iter()
            .map(|fields| ("completions", fields)),
    )
    .collect()
}

fn request(endpoint: &str, fields: &Value, question: &str) -> Value {
    let mut body = if endpoint == "completions" {
        json!({ "model": "graphmill/tiny-chat", "temperature": 0, "prompt": question })
    } else {
        let user = json!({ "role": "user", "content": question });
        let mut messages = vec![user];
        if fields["continue_final_message"] == true {
            messages.push(json!({ "role": "assistant", "content": "It is" }));
        }
        json!({ "model": "graphmill/tiny-chat", "temperature": 0, "max_tokens": 24, "messages": messages })
    };
    for (name, value) in fields.as_object().expect("fields") {
        body[name] = value.clone();
    }
    body
}

/// What does not depend on who else is there: of a stream, each choice's text, reason and log
/// probabilities, joined.
fn outcome(reply: &Reply, stream: bool) -> Vec<Value> {
    assert_eq!(reply.status, 200, "{}", reply.text);
    if !stream {
        return reply.json()["choices"].as_array().expect("choices").clone();
    }
    let mut joined: Vec<Value> = Vec::new();
    for event in reply.events() {
        for choice in event["choices"].as_array().expect("choices") {
            let index = choice["index"].as_u64().expect("an index") as usize;
            joined.resize(
                joined.len().max(index + 1),
                json!({ "text": "", "numbers": [] }),
            );
            let known = &mut joined[index];
            let text = choice["delta"]["content"]
                .as_str()
                .or(choice["text"].as_str());
            known["text"] = format!(
                "{}{}",
                known["text"].as_str().unwrap_or_default(),
                text.unwrap_or_default()
            )
            .into();
            if !choice["finish_reason"].is_null() {
                known["finish_reason"] = choice["finish_reason"].clone();
            }
            for list in [
                &choice["logprobs"]["content"],
                &choice["logprobs"]["token_logprobs"],
            ] {
                let numbers = list.as_array().cloned().unwrap_or_default();
                known["numbers"]
                    .as_array_mut()
                    .expect("a list")
                    .extend(numbers);
            }
        }
    }
    joined
}

/// Equal, but for the last digits of numbers: kernels add in an order that depends on what else is
/// computed.
fn alike(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            let (left, right) = (left.as_f64().unwrap_or(0.0), right.as_f64().unwrap_or(0.0));
            (left - right).abs() <= 0.02 + 0.02 * left.abs()
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .zip(right)
                    .all(|(left, right)| alike(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .all(|(name, value)| right.get(name).is_some_and(|other| alike(value, other)))
        }
        _ => left == right,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_requests_with_fields_of_their_own_get_what_each_gets_alone() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config.json");
    let config = config::load(&file).config.expect("a good configuration");
    let options = Options::new(config, SocketAddr::from(([127, 0, 0, 1], 0)));
    let mut server = Server::start(options, Registry::global()).expect("it starts");
    assert_eq!(server.loaded().await, None);
    let url = format!("http://{}", server.addresses()[0]);
    let client = crate::http::client();
    let requests: Vec<(&str, Value)> = QUESTIONS
        .iter()
        .flat_map(|question| {
            let kinds = kinds().into_iter();
            kinds.map(|(endpoint, fields)| (endpoint, request(endpoint, &fields, question)))
        })
        .collect();
    assert!(requests.len() >= 200, "{}", requests.len());
    let send = |endpoint: &str, body: &Value| {
        let request = client.post(format!("{url}/v1/{endpoint}"));
        let request = request.body(body.to_string()).timeout(PATIENCE);
        async {
            let response = request.send().await.expect("an answer in time");
            let (status, headers) = (response.status().as_u16(), response.headers().clone());
            Reply {
                status,
                headers,
                text: response.text().await.expect("a body"),
            }
        }
    };
    let mut alone = Vec::new();
    for (endpoint, body) in &requests {
        alone.push(outcome(&send(endpoint, body).await, body["stream"] == true));
    }
    let together = join_all(requests.iter().map(|(endpoint, body)| send(endpoint, body))).await;
    for (((endpoint, body), alone), reply) in requests.iter().zip(alone).zip(&together) {
        let found = outcome(reply, body["stream"] == true);
        assert!(
            alike(&Value::from(alone.clone()), &Value::from(found.clone())),
            "{endpoint} {body}\nalone:    {}\ntogether: {}",
            Value::from(alone),
            Value::from(found)
        );
    }
    server.stop().await;
}
