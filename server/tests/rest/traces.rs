//! What a collector of traces gets of requests, and what a server does without one that answers.

use std::time::Duration;

use graphmill_server::{OtlpProtocol, TraceOptions};
use opentelemetry_proto::tonic::trace::v1::Span;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::rest::{
    collector::{Collector, attribute},
    support::{CHAT, Setup, TestServer, question, read, streamed},
};

const SERVER: i32 = 2;
const INTERNAL: i32 = 1;
/// A span's status of an error.
const ERROR: i32 = 2;

async fn server(endpoint: &str, protocol: OtlpProtocol, sample_ratio: Option<f64>) -> TestServer {
    let script = json!({ "name": "scripted", "replies": [
        { "when": "panic", "then": "panic" },
        { "when": "midway", "text": "hello", "then": "panic" },
        { "text": "hello there" },
    ] });
    let traces = TraceOptions {
        endpoint: endpoint.to_owned(),
        protocol,
        timeout: Duration::from_hours(1),
        sample_ratio,
    };
    Setup::new()
        .graph("chat", CHAT)
        .script(&script)
        .with(|options| options.traces = Some(traces))
        .start()
        .await
}

async fn over_http(collector: &Collector, sample_ratio: Option<f64>) -> TestServer {
    let endpoint = format!("{}/v1/traces", collector.url);
    server(&endpoint, OtlpProtocol::HttpProtobuf, sample_ratio).await
}

fn named<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let named: Vec<_> = spans.iter().filter(|span| span.name == name).collect();
    let all: Vec<_> = spans.iter().map(|span| &span.name).collect();
    assert_eq!(named.len(), 1, "{name} in {all:?}");
    named[0]
}

fn number(span: &Span, name: &str) -> f64 {
    let value = attribute(span, name).unwrap_or_else(|| panic!("{name} is missing"));
    value.parse().expect("a number")
}

#[tokio::test]
async fn a_chat_is_a_span_with_one_for_the_graph_and_one_for_each_node() {
    let collector = Collector::start().await;
    let server = over_http(&collector, None).await;
    let mut body = question("chat", "hi");
    body["max_tokens"] = json!(20);
    body["top_k"] = json!(3);
    let request = server.post("/v3/chat/completions?key=secret", body.to_string());
    let request = request.header("x-request-id", "mine").header(
        "traceparent",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    );
    let reply = read(request).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let usage = reply.json()["usage"].clone();
    server.until_idle().await;
    server.server.stop().await;

    let spans = collector.spans();
    let request = spans
        .iter()
        .find(|span| span.name == "POST /v3/chat/completions")
        .expect("the request's");
    assert_eq!(request.kind, SERVER);
    assert_eq!(
        request.parent_span_id,
        [0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7]
    );
    for (name, value) in [
        ("http.request.method", "POST"),
        ("http.route", "/v3/chat/completions"),
        ("url.path", "/v3/chat/completions"),
        ("http.response.status_code", "200"),
        ("graphmill.request_id", "mine"),
    ] {
        assert_eq!(attribute(request, name).as_deref(), Some(value), "{name}");
    }
    let graph = named(&spans, "invoke_workflow chat");
    assert_eq!(
        (graph.kind, &graph.parent_span_id),
        (INTERNAL, &request.span_id)
    );
    assert_eq!(
        attribute(graph, "gen_ai.agent.name").as_deref(),
        Some("chat")
    );

    for span in &spans {
        let code = span.status.as_ref().map_or(0, |status| status.code);
        assert_eq!(code, 0, "{} is no failure", span.name);
    }

    let nodes: Vec<_> = spans
        .iter()
        .filter(|span| span.parent_span_id == graph.span_id)
        .collect();
    assert!(nodes.len() > 5, "a span for each node");
    for node in &nodes {
        assert!(number(node, "graphmill.calls") >= 1.0);
        assert!(
            attribute(node, "graphmill.calculator").is_some_and(|it| it.ends_with("Calculator"))
        );
        assert!(node.start_time_unix_nano <= node.end_time_unix_nano);
        assert!(node.trace_id == request.trace_id);
    }
    let inference = named(&spans, "chat chat");
    assert_eq!(inference.parent_span_id, graph.span_id);
    for (name, value) in [
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "graphmill"),
        ("gen_ai.request.model", "chat"),
        ("gen_ai.request.max_tokens", "20"),
        ("gen_ai.request.top_k", "3"),
        ("gen_ai.request.temperature", "0"),
        ("gen_ai.response.finish_reasons", "stop"),
        ("graphmill.calculator", "LLMCalculator"),
    ] {
        assert_eq!(attribute(inference, name).as_deref(), Some(value), "{name}");
    }
    for (name, field) in [
        ("gen_ai.usage.input_tokens", "prompt_tokens"),
        ("gen_ai.usage.output_tokens", "completion_tokens"),
    ] {
        let tokens = usage[field].to_string();
        assert_eq!(attribute(inference, name), Some(tokens), "{name}");
    }
    for time in ["queue", "prefill", "decode"] {
        assert!(number(inference, &format!("graphmill.{time}_seconds")) >= 0.0);
    }
    assert_eq!(
        collector.resource("service.name").as_deref(),
        Some("graphmill")
    );
    let everything = format!("{spans:?}");
    assert!(!everything.contains("secret") && !everything.contains("hello there"));
}

#[tokio::test]
async fn a_stream_has_the_same_spans_over_grpc_and_none_for_tokens() {
    let collector = Collector::start().await;
    let server = server(&collector.url, OtlpProtocol::Grpc, Some(1.0)).await;
    let reply = server.chat(&streamed("chat", "hi")).await;
    assert!(reply.events().len() > 3);
    server.until_idle().await;
    server.server.stop().await;

    let spans = collector.spans();
    let graph = named(&spans, "invoke_workflow chat");
    let inference = named(&spans, "chat chat");
    assert_eq!(inference.parent_span_id, graph.span_id);
    assert_eq!(
        attribute(inference, "gen_ai.request.stream").as_deref(),
        Some("true")
    );
    let names: std::collections::BTreeSet<_> = spans.iter().map(|span| &span.name).collect();
    let chats = spans.iter().filter(|span| span.trace_id == graph.trace_id);
    assert!(chats.count() <= names.len(), "no name twice in a trace");
}

#[tokio::test]
async fn failures_are_seen_in_the_spans_of_those_that_failed() {
    let collector = Collector::start().await;
    let server = over_http(&collector, None).await;
    assert_eq!(server.chat(&question("chat", "panic")).await.status, 500);
    assert_eq!(server.chat(&question("none", "hi")).await.status, 404);
    server.until_idle().await;
    server.server.stop().await;

    let spans = collector.spans();
    let failed = named(&spans, "invoke_workflow chat");
    let status = failed.status.as_ref().expect("a status");
    assert_eq!(status.code, ERROR);
    assert!(attribute(failed, "error.type").is_some());
    let inference = named(&spans, "chat chat");
    assert_eq!(inference.status.as_ref().expect("a status").code, ERROR);
    let mut codes: Vec<_> = spans
        .iter()
        .filter(|span| span.name == "POST /v3/chat/completions")
        .filter_map(|span| attribute(span, "http.response.status_code"))
        .collect();
    codes.sort();
    assert_eq!(codes, ["404", "500"]);
}

#[tokio::test]
async fn a_stream_that_fails_midway_is_an_error_of_its_request() {
    let collector = Collector::start().await;
    let server = over_http(&collector, None).await;
    let reply = server.chat(&streamed("chat", "midway")).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    server.until_idle().await;
    server.server.stop().await;

    let spans = collector.spans();
    let request = named(&spans, "POST /v3/chat/completions");
    assert_eq!(request.status.as_ref().expect("a status").code, ERROR);
    assert_eq!(
        attribute(request, "error.type").as_deref(),
        Some("node_failed")
    );
}

#[tokio::test]
async fn whoever_sends_a_trace_decides_and_others_are_sampled() {
    let collector = Collector::start().await;
    let server = over_http(&collector, Some(0.0)).await;
    for (parent, wanted) in [("01", true), ("00", false)] {
        let header = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-{parent}");
        let request = server.post("/v3/chat/completions", question("chat", "hi").to_string());
        let reply = read(request.header("traceparent", header)).await;
        assert_eq!(reply.status, 200, "{wanted}");
    }
    for damaged in [
        "",
        "00-x-y-01",
        "00-00000000000000000000000000000000-0000000000000000-01",
    ] {
        let request = server.post("/v3/chat/completions", question("chat", "hi").to_string());
        let reply = read(request.header("traceparent", damaged)).await;
        assert_eq!(reply.status, 200);
    }
    server.until_idle().await;
    server.server.stop().await;
    let spans = collector.spans();
    named(&spans, "POST /v3/chat/completions");
    named(&spans, "chat chat");
}

#[tokio::test]
async fn a_collector_that_does_not_answer_holds_nobody_up() {
    // It takes connections and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/v1/traces", silent.local_addr().expect("one"));
    let server = server(&url, OtlpProtocol::HttpProtobuf, None).await;
    for _ in 0..20 {
        assert_eq!(server.chat(&question("chat", "hi")).await.status, 200);
    }
    server.until_idle().await;
    let stopped = tokio::time::timeout(Duration::from_mins(1), server.server.stop());
    stopped.await.expect("it does not wait for the collector");
}

#[tokio::test]
async fn requests_have_a_trace_in_openmetrics_and_none_in_the_text_format() {
    let collector = Collector::start().await;
    let server = over_http(&collector, None).await;
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let request = server.post("/v3/chat/completions", question("chat", "hi").to_string());
    let parent = format!("00-{trace}-00f067aa0ba902b7-01");
    assert_eq!(
        read(request.header("traceparent", parent)).await.status,
        200
    );
    server.until_idle().await;
    let request = server.client.get(format!("{}/metrics", server.url));
    let reply = read(request.header("accept", "application/openmetrics-text")).await;
    let exemplar = format!("# {{trace_id=\"{trace}\"}}");
    assert!(reply.text.contains(&exemplar), "{}", reply.text);
    assert!(!server.get("/metrics").await.text.contains(trace));
}

#[tokio::test]
async fn an_answer_says_what_it_took() {
    let script = json!({ "name": "scripted", "replies": [{ "text": "hello" }] });
    let server = Setup::new()
        .graph("chat", CHAT)
        .script(&script)
        .start()
        .await;
    let reply = server.chat(&question("chat", "hi")).await;
    let header = reply.header("server-timing").expect("times");
    let names: Vec<_> = header
        .split(", ")
        .map(|part| {
            let (name, time) = part.split_once(";dur=").expect("a time");
            assert!(time.parse::<f64>().expect("a number") >= 0.0);
            name
        })
        .collect();
    assert_eq!(
        names,
        ["prepare", "queue", "prefill", "decode", "ttft", "total"]
    );
}

#[tokio::test]
async fn an_answer_tells_its_times_by_node_where_it_is_asked() {
    let script = json!({ "name": "scripted", "replies": [{ "text": "hello" }] });
    let server = Setup::new()
        .graph("chat", CHAT)
        .script(&script)
        .start()
        .await;
    let path = "/v3/chat/completions?timings=1";
    let reply = read(server.post(path, question("chat", "hi").to_string())).await;
    let whole = reply.json();
    assert_eq!(whole["choices"][0]["message"]["content"], "hello");
    let stream = read(server.post(path, streamed("chat", "hi").to_string())).await;
    let (answer, last) = stream
        .text
        .rsplit_once("event: timings\ndata: ")
        .expect("an event");
    assert!(answer.ends_with("data: [DONE]\n\n"), "{answer}");
    let last: Value = serde_json::from_str(last).expect("JSON");
    for timings in [&whole["timings"], &last] {
        for part in ["prepare_ms", "queue_ms", "prefill_ms", "decode_ms"] {
            let part = timings[part].as_f64().expect(part);
            assert!(part <= timings["total_ms"].as_f64().expect("a number"));
        }
        let nodes = timings["nodes"].as_array().expect("nodes");
        assert!(
            nodes
                .iter()
                .any(|node| node["calls"].as_u64() > Some(0) && node["span_ms"].is_f64())
        );
    }
    let plain = server.chat(&question("chat", "hi")).await;
    assert!(plain.json().get("timings").is_none());
}
