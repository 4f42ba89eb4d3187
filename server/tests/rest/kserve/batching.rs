//! Graphs that batch the requests of all clients.

use std::time::Duration;

use serde_json::{Value, json};

use super::{MIRROR, start};
use crate::rest::{
    metrics::{scrape, value},
    support::{TestServer, read},
};

/// Gives rows back as they are, batched with those of others.
fn graph(options: &str) -> String {
    format!(
        r#"
        input_stream: "x"
        output_stream: "y"
        node {{
          calculator: "DynamicBatchCalculator"
          input_stream: "x"
          output_stream: "y"
          node_options {{
            [type.googleapis.com/graphmill.DynamicBatchCalculatorOptions] {{
              input {{ name: "x" datatype: INT64 shape: [-1, 2] }}
              {options}
            }}
          }}
        }}
        "#
    )
}

const MIRRORED: &str = r#"model { calculator: "PassThroughCalculator" } max_batch_size: 4"#;

fn asked(rows: &[[i64; 2]], parameters: &Value) -> Value {
    let x = json!({ "name": "x", "datatype": "INT64", "shape": [rows.len(), 2], "data": rows });
    json!({ "inputs": [x], "parameters": parameters })
}

fn infer(server: &TestServer, graph: &str, body: &Value) -> reqwest::RequestBuilder {
    server.post(&format!("/v2/models/{graph}/infer"), body.to_string())
}

async fn error(server: &TestServer, graph: &str, body: &Value) -> (u16, String) {
    let reply = read(infer(server, graph, body)).await;
    let error = reply.json()["error"].as_str().map(str::to_owned);
    (reply.status, error.unwrap_or_else(|| panic!("{reply:?}")))
}

fn waiting(status: &Value) -> u64 {
    status["batchers"][0]["requests_waiting"]
        .as_u64()
        .unwrap_or(0)
}

#[tokio::test]
async fn clients_get_their_rows_of_a_batch() {
    let options =
        format!("{MIRRORED} preferred_batch_size: 4 max_queue_delay_microseconds: 3600000000");
    let (server, _client) = start(&[("rows", &graph(&options))]).await;
    let ask = |rows: &'static [[i64; 2]]| {
        let request = infer(&server, "rows", &asked(rows, &json!({})));
        async move { read(request).await.json()["outputs"][0]["data"].clone() }
    };
    let answers = tokio::join!(ask(&[[1, 2]]), ask(&[[3, 4], [5, 6]]), ask(&[[7, 8]]));
    assert_eq!(answers.0, json!([1, 2]));
    assert_eq!(answers.1, json!([3, 4, 5, 6]));
    assert_eq!(answers.2, json!([7, 8]));
    let labels = [("graph", "rows"), ("model", "PassThroughCalculator")];
    let scrape = scrape(&server).await;
    let number = |name: &str| value(&scrape, &format!("graphmill_batching_{name}"), &labels);
    assert_eq!(number("batches_total"), 1);
    assert_eq!(number("batch_rows_sum"), 4);
    assert_eq!(number("batch_requests_sum"), 3);
    assert_eq!(number("queue_time_seconds_count"), 3);
    assert_eq!(number("requests_waiting"), 0);
    let done = [labels[0], labels[1], ("reason", "done")];
    assert_eq!(value(&scrape, "graphmill_batching_finish_total", &done), 3);
    let status = server.status().await;
    let effective = &status["batchers"][0]["effective"];
    assert_eq!(effective["max_batch_size"], 4);
    assert_eq!(effective["inputs"][0]["shape"], json!([-1, 2]));
}

#[tokio::test]
async fn what_cannot_be_batched_is_refused() {
    let levels = format!("{MIRRORED} priority_levels: 2 default_priority_level: 2");
    let (server, _client) = start(&[
        ("rows", &graph(MIRRORED)),
        ("levels", &graph(&levels)),
        ("mirror", MIRROR),
    ])
    .await;
    let (status, why) = error(&server, "rows", &asked(&[[1, 2]; 5], &json!({}))).await;
    assert!(
        status == 400 && why.contains("5 rows, and a batch at most 4"),
        "{why}"
    );
    let mut long = asked(&[[1, 2]], &json!({}));
    long["inputs"][0]["shape"] = json!([2, 1]);
    long["inputs"][0]["data"] = json!([1, 2]);
    let (status, why) = error(&server, "rows", &long).await;
    assert!(
        status == 400 && why.contains("the shape is [2, 1], but the model takes [-1, 2]"),
        "{why}"
    );
    for (graph, priority, expected) in [
        ("rows", json!(1), "no node of the graph has priority levels"),
        (
            "mirror",
            json!(1),
            "no node of the graph has priority levels",
        ),
        ("levels", json!(3), "expected a level from 1 to 2, not 3"),
        ("levels", json!(-1), "the number of a priority level"),
        ("levels", json!("high"), "the number of a priority level"),
    ] {
        let body = asked(&[[1, 2]], &json!({ "priority": priority }));
        let (status, why) = error(&server, graph, &body).await;
        assert!(status == 400 && why.contains(expected), "{graph} {why}");
    }
    for priority in 0..=2 {
        let body = asked(&[[1, 2]], &json!({ "priority": priority }));
        assert_eq!(read(infer(&server, "levels", &body)).await.status, 200);
    }
}

#[tokio::test]
async fn a_stuck_model_holds_up_no_deadline_and_no_client_that_leaves() {
    let stuck = r#"model { calculator: "WaitCalculator" } max_batch_size: 1
                   default_timeout_microseconds: 200000"#;
    let (server, _client) = start(&[("stuck", &graph(stuck))]).await;
    let with = |parameters: Value| asked(&[[1, 2]], &parameters);
    let timeout = json!({ "timeout": 100_000 });
    let (status, _) = error(&server, "stuck", &with(timeout.clone())).await;
    assert_eq!(status, 504, "the one that the model has");
    let (status, _) = error(&server, "stuck", &with(timeout)).await;
    assert_eq!(status, 504, "one that waits");
    let (status, why) = error(&server, "stuck", &with(json!({}))).await;
    assert!(
        status == 429 && why.contains("default_timeout_microseconds"),
        "{why}"
    );
    server
        .until("nobody waits", |status| waiting(status) == 0)
        .await;
}

#[tokio::test]
async fn who_waits_for_a_batch_when_the_server_stops_is_told() {
    let options = format!("{MIRRORED} max_queue_delay_microseconds: 3600000000");
    let setup = super::setup(&[("rows", &graph(&options))]);
    let server = setup.grace(Duration::ZERO).start().await;
    let body = asked(&[[1, 2]], &json!({}));
    let left = tokio::spawn(read(infer(&server, "rows", &body)));
    server
        .until("one waits", |status| waiting(status) == 1)
        .await;
    left.abort();
    server
        .until("it has left", |status| waiting(status) == 0)
        .await;
    let asked = tokio::spawn(read(infer(&server, "rows", &body)));
    server
        .until("one waits", |status| waiting(status) == 1)
        .await;
    server.server.stop().await;
    let reply = asked.await.expect("an answer");
    assert_eq!(reply.status, 503, "{reply:?}");
}
