//! The memory that requests take. A body takes no more than four times its size, whatever is in it and
//! wherever it is sent.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use dhat::HeapStats;
use graphmill_calculators::payload::{HttpRequestPayload, JsonBody};
use graphmill_engine::testing::Harness;

mod bombs;

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;
/// What is allocated is counted for the whole program.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

const BODY_BYTES: usize = 16 << 20;

const CHAT: &str = r#"
    input_stream: "HTTP_REQUEST_PAYLOAD:input"
    output_stream: "REQUEST:request"
    output_stream: "PARAMS:params"
    output_stream: "QUESTION:question"
    node {
      calculator: "OpenAIRequestCalculator"
      input_stream: "HTTP_REQUEST_PAYLOAD:input"
      output_stream: "REQUEST:request"
      output_stream: "PARAMS:params"
      output_stream: "QUESTION:question"
    }
"#;

/// A graph of the request node of an endpoint.
fn graph(endpoint: &str) -> String {
    let calculator = match endpoint {
        "embeddings" => "EmbeddingsRequestCalculator",
        "rerank" => "RerankRequestCalculator",
        _ => return CHAT.to_owned(),
    };
    format!(
        r#"
        input_stream: "HTTP_REQUEST_PAYLOAD:input"
        output_stream: "REQUEST:request"
        node {{
          calculator: "{calculator}"
          input_stream: "HTTP_REQUEST_PAYLOAD:input"
          output_stream: "REQUEST:request"
        }}
        "#
    )
}

/// An object of 16 MiB in which a piece is repeated, between what is before and behind it.
fn body(before: &str, piece: &str, behind: &str) -> Bytes {
    let room = BODY_BYTES - before.len() - behind.len();
    let mut text = before.to_owned();
    text.push_str(&piece.repeat(room / piece.len()));
    if text.ends_with(',') {
        text.pop();
    }
    text.push_str(behind);
    text.into()
}

/// The most bytes that were allocated while a body was scanned and a node read the request, and the
/// body itself.
fn cost(endpoint: &str, bytes: &Bytes) -> usize {
    let mut harness = Harness::global(&graph(endpoint));
    let profiler = dhat::Profiler::builder()
        .testing()
        .trim_backtraces(Some(4))
        .build();
    if let Ok(json) = JsonBody::scan(bytes.clone()) {
        let payload = HttpRequestPayload {
            json: Some(Arc::new(json)),
            ..HttpRequestPayload::new(format!("/v3/{endpoint}"), None)
        };
        harness.push("input", 0, payload);
        harness.settle();
    }
    let most = HeapStats::get().max_bytes;
    drop(profiler);
    bytes.len() + most
}

#[test]
fn a_body_costs_at_most_four_times_its_size() {
    let _only = ONE_AT_A_TIME.lock();
    let model = r#"{"model":"m","#;
    let question = r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"#;
    let said = r#"{"model":"m","messages":[{"role":"user","content":"#;
    let called = r#"{"model":"m","messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{\"a\":["#;
    let list = |before: &str, name: &str| format!(r#"{before}"{name}":["#);
    let mut dear = Vec::new();
    let mut tried = 0;
    let mut attempt = |endpoint: &str, before: &str, piece: &str, behind: &str| {
        let cost = cost(endpoint, &body(before, piece, behind));
        tried += 1;
        if cost > 4 * BODY_BYTES {
            let times = cost as f64 / BODY_BYTES as f64;
            dear.push(format!("{endpoint} {before}{piece}: {times:.1}"));
        }
    };
    let fields = [
        ("chat/completions", "messages"),
        ("completions", "prompt"),
        ("responses", "input"),
        ("messages", "messages"),
        ("embeddings", "input"),
        ("rerank", "documents"),
        ("tokenize", "text"),
        ("detokenize", "tokens"),
        ("apply-template", "messages"),
        ("messages/count_tokens", "messages"),
    ];
    for (endpoint, field) in fields {
        attempt(endpoint, &list(model, field), "[0,0],", "]}");
    }
    let chat = "chat/completions";
    for field in ["tools", "unknown", "logit_bias", "temperature"] {
        attempt(chat, &list(question, field), "[0,0],", "]}");
    }
    let nested = r#""chat_template_kwargs":{"a":{"b":["#;
    attempt(chat, &format!("{question}{nested}"), "[0,0],", "]}}}");
    attempt(chat, &format!(r#"{question}"unknown":"#), "[", "");
    attempt(
        chat,
        &format!("{said}[{{\"type\":\"text\",\"text\":\"\",\"extra\":["),
        "[0,0],",
        "]}]}]}",
    );
    // JSON in strings.
    attempt(chat, called, "[0,0],", r#"]}"}}]}]}"#);
    let schema = r#""guided_json":"{\"a\":["#;
    attempt(chat, &format!("{question}{schema}"), "[0,0],", r#"]}"}"#);
    // Others than pairs.
    attempt("embeddings", &list(model, "input"), "0,", "]}");
    attempt(chat, &list(model, "messages"), r#"{"":0},"#, "]}");
    // Text, and names.
    attempt(chat, &format!("{said}\""), "x", r#""}]}"#);
    attempt(
        "completions",
        &format!(r#"{model}"prompt":""#),
        "x",
        r#""}"#,
    );
    attempt("embeddings", &format!(r#"{model}"input":""#), "x", r#""}"#);
    attempt(chat, &format!(r#"{question}""#), "x", r#"":0}"#);
    attempt(chat, &question[..question.len() - 1], r#","a":0"#, "}");
    attempt(
        "completions",
        &format!(r#"{model}"prompt":["#),
        "[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0],",
        "]}",
    );
    assert!(tried > 20);
    assert!(dear.is_empty(), "times the size:\n{}", dear.join("\n"));
}
