//! What a scrape of the metrics says, read by a parser of Prometheus' text format.

use prometheus_parse::{Scrape, Value};
use serde_json::json;

use crate::rest::support::{CHAT, Setup, TestServer, question, read};

pub(crate) async fn scrape(server: &TestServer) -> Scrape {
    let reply = server.get("/metrics").await;
    assert_eq!(reply.status, 200);
    let content_type = reply.header("content-type").expect("a content type");
    assert_eq!(content_type, "text/plain; version=0.0.4; charset=utf-8");
    Scrape::parse(reply.text.lines().map(|line| Ok(line.to_owned()))).expect("a good scrape")
}

/// The whole number of the one sample with this name and these labels.
pub(crate) fn value(scrape: &Scrape, name: &str, labels: &[(&str, &str)]) -> u64 {
    let matching: Vec<_> = scrape
        .samples
        .iter()
        .filter(|sample| {
            sample.metric == name
                && labels
                    .iter()
                    .all(|(label, value)| sample.labels.get(label) == Some(value))
        })
        .collect();
    assert_eq!(matching.len(), 1, "{name} {labels:?}: {matching:?}");
    match &matching[0].value {
        Value::Counter(value) | Value::Gauge(value) | Value::Untyped(value) => *value as u64,
        other => panic!("{name} is {other:?}"),
    }
}

#[tokio::test]
async fn a_scrape_counts_requests_tokens_and_times() {
    let script = json!({ "name": "scripted", "cells": 640, "replies": [{ "text": "hello" }] });
    let server = Setup::new()
        .graph("a", CHAT)
        .graph("b", CHAT)
        .script(&script)
        .start()
        .await;
    for graph in ["a", "b", "b"] {
        assert_eq!(server.chat(&question(graph, "hi")).await.status, 200);
    }
    assert_eq!(server.chat(&question("none", "hi")).await.status, 404);
    server.until_idle().await;

    let scrape = scrape(&server).await;
    let engine = [("graph", "a"), ("model", "scripted")];
    let endpoint = ("endpoint", "/v3/chat/completions");
    for (graph, code, count) in [("a", "200", 1), ("b", "200", 2), ("", "404", 1)] {
        let labels = [("graph", graph), ("code", code), endpoint];
        assert_eq!(value(&scrape, "graphmill_requests_total", &labels), count);
    }
    let number = |name| value(&scrape, name, &engine);
    let tokens = number("graphmill_generation_tokens_total");
    assert!(tokens > 0);
    assert_eq!(number("graphmill_requests_running"), 0);
    assert_eq!(number("graphmill_kv_cells_total"), 640);
    assert_eq!(number("graphmill_failed_steps_total"), 0);
    assert_eq!(number("graphmill_generation_first_token_seconds_count"), 3);
    for (graph, count) in [("a", 1), ("b", 2)] {
        let name = "graphmill_time_to_first_token_seconds_count";
        assert_eq!(value(&scrape, name, &[("graph", graph)]), count);
    }
    assert_eq!(number("graphmill_queue_time_seconds_count"), 3);
    assert_eq!(number("graphmill_generation_duration_seconds_count"), 3);
    let cached = number("graphmill_cached_prompt_tokens_total");
    assert!(cached > 0, "the prompts are equal");
    assert_eq!(number("graphmill_prefix_hits_total"), cached);
    assert_eq!(
        number("graphmill_request_prompt_tokens_sum"),
        number("graphmill_prompt_tokens_total") + cached
    );
    assert_eq!(number("graphmill_request_generation_tokens_sum"), tokens);
    let stopped = [("reason", "stop"), engine[0], engine[1]];
    assert_eq!(value(&scrape, "graphmill_finish_total", &stopped), 3);
}

/// What a line of a scrape says: `# TYPE name kind`, or the name of a sample.
enum Line<'a> {
    Type(&'a str, &'a str),
    Help(&'a str),
    Sample(&'a str),
}

fn lines(text: &str) -> Vec<Line<'_>> {
    fn read(line: &str) -> Line<'_> {
        match line.strip_prefix("# ") {
            None => Line::Sample(line.split(['{', ' ']).next().expect("a name")),
            Some(comment) => {
                let mut words = comment.split(' ');
                match [words.next(), words.next(), words.next()] {
                    [Some("TYPE"), Some(name), Some(kind)] => Line::Type(name, kind),
                    [Some("HELP"), Some(name), Some(_)] => Line::Help(name),
                    _ => panic!("neither help nor a type: {line}"),
                }
            }
        }
    }
    text.lines().map(read).collect()
}

#[tokio::test]
async fn a_scrape_has_nothing_that_readers_of_the_text_format_refuse() {
    let script = json!({ "name": "scripted", "replies": [{ "text": "hello" }] });
    let server = Setup::new().graph("a", CHAT).script(&script).start().await;
    assert_eq!(server.chat(&question("a", "hi")).await.status, 200);
    let reply = server.get("/metrics").await;
    assert_eq!(reply.header("vary"), Some("accept"));

    let mut family = ("", "");
    let mut seen = std::collections::BTreeSet::new();
    for line in lines(&reply.text) {
        match line {
            Line::Help(name) => assert!(seen.insert(name.to_owned()), "{name} twice"),
            Line::Type(name, kind) => {
                assert!(seen.contains(name), "{name} has no help before its type");
                assert!(
                    ["counter", "gauge", "histogram", "untyped"].contains(&kind),
                    "{kind}"
                );
                assert!(kind != "counter" || name.ends_with("_total"), "{name}");
                family = (name, kind);
            }
            Line::Sample(name) => {
                let rest = name
                    .strip_prefix(family.0)
                    .unwrap_or_else(|| panic!("{name} is of no family"));
                let suffixes: &[&str] = match family.1 {
                    "histogram" => &["_bucket", "_sum", "_count"],
                    _ => &[""],
                };
                assert!(suffixes.contains(&rest), "{name} of {family:?}");
            }
        }
    }
    assert!(
        reply
            .text
            .contains("# TYPE graphmill_build_info gauge\ngraphmill_build_info{")
    );
    assert!(
        reply
            .text
            .contains("# TYPE graphmill_requests_total counter\n")
    );
}

#[tokio::test]
async fn openmetrics_is_there_for_those_who_ask() {
    let server = Setup::new().start().await;
    let ask = |accept: &str| {
        let request = server.client.get(format!("{}/metrics", server.url));
        read(request.header("accept", accept.to_owned()))
    };
    // What Prometheus sends.
    let reply = ask(
        "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1",
    )
    .await;
    let content_type = reply.header("content-type").expect("a content type");
    assert!(content_type.starts_with("application/openmetrics-text; version=1.0.0"));
    assert!(reply.text.ends_with("# EOF\n"));
    assert!(reply.text.contains("# TYPE graphmill_build info\n"));
    let reply = ask("text/plain, application/openmetrics-text;q=0.5").await;
    assert!(
        reply
            .header("content-type")
            .expect("one")
            .starts_with("text/plain")
    );
    assert!(!reply.text.contains("# EOF"));
}

#[tokio::test]
async fn requests_of_graphs_have_the_names_of_openvino_model_server_too() {
    let script = json!({ "name": "scripted", "replies": [{ "text": "hello" }] });
    let server = Setup::new().graph("a", CHAT).script(&script).start().await;
    assert_eq!(server.chat(&question("a", "hi")).await.status, 200);
    let mut streamed = question("a", "hi");
    streamed["stream"] = json!(true);
    assert_eq!(server.chat(&streamed).await.status, 200);
    let mut wrong = question("a", "hi");
    wrong["temperature"] = json!(-1);
    assert_eq!(server.chat(&wrong).await.status, 400);
    server.until_idle().await;

    let scrape = scrape(&server).await;
    let name = ("name", "a");
    assert_eq!(value(&scrape, "ovms_current_graphs", &[name]), 0);
    for (method, accepted, failed) in [("Unary", 2, 1), ("Stream", 1, 0)] {
        let labels = [
            name,
            ("api", "V3"),
            ("method", method),
            ("interface", "REST"),
        ];
        let number = |name| value(&scrape, name, &labels);
        assert_eq!(number("ovms_requests_accepted"), accepted, "{method}");
        assert_eq!(number("ovms_requests_rejected"), 0, "{method}");
        assert_eq!(number("ovms_graph_error"), failed, "{method}");
    }
}

#[tokio::test]
async fn names_of_unknown_graphs_and_urls_make_no_series() {
    let server = Setup::new().start().await;
    for guess in 0..20 {
        server.get(&format!("/v9/guess/{guess}")).await;
        server
            .chat(&question(&format!("guess-{guess}"), "hi"))
            .await;
    }
    let scrape = scrape(&server).await;
    let requests = scrape
        .samples
        .iter()
        .filter(|sample| sample.metric == "graphmill_requests_total");
    assert_eq!(requests.count(), 2);
}

#[tokio::test]
async fn metrics_keep_their_names_helps_and_types() {
    let server = Setup::new()
        .graph("chat", CHAT)
        .script(&json!({}))
        .start()
        .await;
    let reply = server.get("/metrics").await;
    let declared = reply.text.lines().filter(|line| line.starts_with('#'));
    let declared: Vec<&str> = declared.collect();
    let expected: Vec<&str> = include_str!("metric_families.txt").lines().collect();
    assert_eq!(declared, expected);
}

/// The names of all members of an object, those of inner ones behind those around them.
fn names(value: &serde_json::Value) -> Vec<String> {
    let members = value.as_object().into_iter().flatten();
    let names = members.flat_map(|(name, inner)| {
        let inner = names(inner).into_iter();
        let inner = inner.map(move |inner| format!("{name}.{inner}"));
        std::iter::once(name.clone()).chain(inner)
    });
    names.collect()
}

#[tokio::test]
async fn the_status_of_an_engine_keeps_its_names() {
    let server = Setup::new()
        .graph("chat", CHAT)
        .script(&json!({}))
        .start()
        .await;
    let mut engine = server.status().await["engines"][0].clone();
    let effective = engine
        .as_object_mut()
        .expect("an object")
        .remove("effective");
    assert!(effective.is_some_and(|effective| effective["max_waiting"].is_number()));
    let mut names = names(&engine);
    names.sort_unstable();
    let mut expected: Vec<&str> = "
        model graph state restarts failure chat_refused file_change stopped stalled_seconds
        sequences_running sequences_waiting requests_preparing prompt_tokens_waiting refused
        kv_cells_used kv_cells_total
        prefix_cache prefix_cache.queries prefix_cache.hits prefix_cache.tokens prefix_cache.bytes
        prefix_cache.evicted prefix_cache.checkpoints prefix_cache.checkpoints.count
        prefix_cache.checkpoints.bytes prefix_cache.checkpoints.hits prefix_cache.checkpoints.dropped
        image_cache image_cache.queries image_cache.hits image_cache.images image_cache.bytes
        image_cache.encoded
        steps step step.target_ms step.expected_ms step.median_ms step.prompt_tokens failed_steps
        prompt_tokens generated_tokens drafted_tokens accepted_tokens preemptions moves
    "
    .split_whitespace()
    .collect();
    expected.sort_unstable();
    assert_eq!(names, expected);
}
