//! What nodes of requests do with a second one in the same session: they serve it, or name it in an
//! error. None is dropped.

use std::sync::Arc;

use graphmill_calculators::payload::{
    Embeddings, HttpRequestPayload, JsonBody, PromptReport, Relevance,
};
use graphmill_engine::{Environment, Kind, Packet, Payload, Registry, testing::Harness};
use graphmill_llm::embed::EmbeddingTask;
use serde_json::{Value, json};

use crate::chat::{self, Chat, script};
use crate::embedding_graphs::{EMBEDDINGS, RERANK, model};

/// A session of a graph in which all models are at hand.
fn session(chat: &Chat, graph: &str) -> Harness {
    let environment = Environment::new(Registry::global())
        .with_resource("llm", Arc::clone(&chat.model))
        .with_resource("embeddings_servable", model(EmbeddingTask::Embed(None)))
        .with_resource("rerank_servable", model(EmbeddingTask::Rank));
    Harness::new(graph, environment)
}

fn request(uri: &str, body: &Value) -> HttpRequestPayload {
    HttpRequestPayload {
        json: JsonBody::from_value(body).ok().map(Arc::new),
        ..HttpRequestPayload::new(uri, None)
    }
}

#[test]
fn a_second_request_at_a_node_that_writes_one_answer_is_an_error_that_names_it() {
    let chat = Chat::new(&script(&[("", "Yes.")]));
    let asked = json!({ "model": "m", "messages": [{ "role": "user", "content": "Hi" }] });
    let streamed = json!({ "model": "m", "prompt": "Hi", "stream": true });
    let ranked = json!({ "model": "m", "query": "a", "documents": ["ab", "c"] });
    for (graph, uri, body) in [
        (chat::GRAPH, "/v3/chat/completions", &asked),
        (chat::GRAPH, "/v3/chat/completions?explain=1", &asked),
        (chat::GRAPH, "/v3/completions", &streamed),
        (
            EMBEDDINGS,
            "/v3/embeddings",
            &json!({ "model": "m", "input": "ab" }),
        ),
        (RERANK, "/v3/rerank", &ranked),
    ] {
        for after_the_answer in [false, true] {
            let mut h = session(&chat, graph);
            let input = h.plan().graph_inputs().next().expect("an input").to_owned();
            let output = h
                .plan()
                .graph_outputs()
                .next()
                .expect("an output")
                .to_owned();
            h.push(&input, 0, request(uri, body));
            if after_the_answer {
                h.block_until(|h| h.count(&output) > 0);
            }
            h.push(&input, 1, request(uri, body));
            h.block_until(Harness::ended);
            let error = h.error();
            assert_eq!(error.kind, Kind::FailedPrecondition, "{uri}: {error}");
            assert!(
                error
                    .message
                    .starts_with("the packet at 1 of the input REQUEST is a second request"),
                "{uri}: {error}"
            );
            assert_eq!(error.time, 1.into(), "{uri}");
        }
    }
}

/// What `output` has for requests at 0, 10 and 20, which are there together.
fn served<T: Payload + Clone>(graph: &str, uri: &str, bodies: &[Value; 3], output: &str) -> Vec<T> {
    let chat = Chat::new(&script(&[("", "Yes.")]));
    let mut h = session(&chat, graph);
    for (time, body) in (0_i64..).step_by(10).zip(bodies) {
        h.push("in", time, request(uri, body));
    }
    // Nothing comes before 31, which is known behind the node once it has served what came.
    h.bound("in", 31).block_until(|h| h.count(output) == 3);
    assert_eq!(h.bounds(output).last(), Some(&30.into()), "{uri}");
    let packets = h.packets(output);
    let times: Vec<i64> = packets.iter().map(|packet| packet.time.value()).collect();
    assert_eq!(times, [0, 10, 20], "{uri}");
    h.close("in").block_until(Harness::ended);
    h.finish();
    let values = packets.into_iter().map(Packet::into_value);
    values.map(|value| value.expect("of this type")).collect()
}

/// A graph around `nodes`, which make `out` of `in`.
fn around(nodes: &str) -> String {
    format!(r#"input_stream: "in" output_stream: "out" {nodes}"#)
}

#[test]
fn nodes_that_compute_serve_one_request_after_the_other() {
    let embed = around(
        r#"node { calculator: "EmbeddingsRequestCalculator" input_stream: "HTTP_REQUEST_PAYLOAD:in" output_stream: "REQUEST:request" }
           node { calculator: "EmbedCalculator" input_side_packet: "EMBEDDINGS_NODE_RESOURCES:embeddings_servable"
                  input_stream: "REQUEST:request" output_stream: "EMBEDDINGS:out"
                  node_options { [type.googleapis.com/mediapipe.EmbeddingsCalculatorOVOptions] { models_path: "./" normalize_embeddings: false } } }"#,
    );
    let texts = ["a", "ab", "abc"].map(|text| json!({ "model": "m", "input": text }));
    let vectors: Vec<Embeddings> = served(&embed, "/v3/embeddings", &texts, "out");
    let letters: Vec<&[f32]> = vectors.iter().map(|found| &found.vectors[0][..3]).collect();
    assert_eq!(letters, [[1., 0., 0.], [1., 1., 0.], [1., 1., 1.]]);

    let rank = around(
        r#"node { calculator: "RerankRequestCalculator" input_stream: "HTTP_REQUEST_PAYLOAD:in" output_stream: "REQUEST:request" }
           node { calculator: "RankCalculator" input_side_packet: "RERANK_NODE_RESOURCES:rerank_servable"
                  input_stream: "REQUEST:request" output_stream: "RELEVANCE:out"
                  node_options { [type.googleapis.com/mediapipe.RerankCalculatorOVOptions] { models_path: "./" } } }"#,
    );
    let documents = ["aa", "ab", "bb"]
        .map(|document| json!({ "model": "m", "query": "a", "documents": [document] }));
    let found: Vec<Relevance> = served(&rank, "/v3/rerank", &documents, "out");
    let scores: Vec<f32> = found.iter().map(|found| found.scores[0]).collect();
    assert_eq!(scores, [1.0, 0.5, 0.0]);

    let report = around(
        r#"node { calculator: "OpenAIRequestCalculator" input_side_packet: "LLM_NODE_RESOURCES:llm" input_stream: "HTTP_REQUEST_PAYLOAD:in"
                  output_stream: "REQUEST:request" output_stream: "PARAMS:params" output_stream: "QUESTION:question" }
           node { calculator: "ChatTemplateCalculator" input_side_packet: "LLM_NODE_RESOURCES:llm" input_stream: "REQUEST:request" output_stream: "PROMPT:prompt" }
           node { calculator: "TokenizerCalculator" input_side_packet: "LLM_NODE_RESOURCES:llm" input_stream: "PROMPT:prompt" output_stream: "TOKENS:tokens" }
           node { calculator: "PromptReportCalculator" input_side_packet: "LLM_NODE_RESOURCES:llm" input_stream: "QUESTION:question"
                  input_stream: "PROMPT:prompt" input_stream: "TOKENS:tokens" output_stream: "REPORT:out" }"#,
    );
    for uri in ["/v3/completions?explain=1", "/v3/tokenize"] {
        let texts = ["a", "ab", "abc"];
        let field = if uri.contains("tokenize") {
            "text"
        } else {
            "prompt"
        };
        let questions = texts.map(|text| json!({ "model": "m", field: text }));
        let reports: Vec<PromptReport> = served(&report, uri, &questions, "out");
        let lengths: Vec<usize> = reports
            .iter()
            .map(|report| report.0.to_string().len())
            .collect();
        assert!(lengths.is_sorted_by(|one, next| one < next), "{reports:?}");
    }
}
