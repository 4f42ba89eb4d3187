//! The shipped graphs that embed and rank, around a model that a test can reckon with.

use std::sync::{Arc, mpsc};

use graphmill_calculators::embed::EmbeddingModel;
use graphmill_calculators::payload::{HttpRequestPayload, HttpResponse, JsonBody};
use graphmill_engine::testing::Harness;
use graphmill_engine::{Environment, Error, Registry};
use graphmill_llm::backend::scripted::{Script, ScriptedBackend};
use graphmill_llm::embed::{
    EmbeddingBackend, EmbeddingCapacity, EmbeddingEngine, EmbeddingSpec, EmbeddingTask, PairForm,
    Pooling,
};
use graphmill_llm::{LlmEngineSpec, Token};
use serde_json::{Value, json};

pub(crate) const EMBEDDINGS: &str = include_str!("../../graphs/embeddings/graph.pbtxt");
pub(crate) const RERANK: &str = include_str!("../../graphs/rerank/graph.pbtxt");

/// Tokens of a text, at most.
const CONTEXT: u32 = 12;
/// Stands between a query and a document.
const SEPARATOR: Token = 0;

/// Tokens are bytes. A text's vector has its numbers of `a`, `b` and `c`, and its length; a pair's
/// score is the part of the document's bytes that the query has, too.
struct Counting(EmbeddingTask);

impl EmbeddingBackend for Counting {
    fn capacity(&self) -> EmbeddingCapacity {
        let ranks = self.0 == EmbeddingTask::Rank;
        EmbeddingCapacity {
            context_length: CONTEXT,
            batch_tokens: 24,
            max_sequences: 8,
            width: if ranks { 1 } else { 4 },
            pooling: if ranks { Pooling::Rank } else { Pooling::Mean },
        }
    }

    fn compute(&mut self, texts: &[&[Token]], out: &mut Vec<f32>) -> Result<(), String> {
        for text in texts {
            if self.0 == EmbeddingTask::Rank {
                let end = text.iter().position(|token| *token == SEPARATOR);
                let (query, document) = text.split_at(end.expect("a pair"));
                let document = &document[1..];
                let known = document.iter().filter(|byte| query.contains(byte)).count();
                out.push(known as f32 / document.len().max(1) as f32);
            } else {
                let count = |byte: u8| {
                    let found = text.iter().filter(|token| **token == Token::from(byte));
                    found.count() as f32
                };
                out.extend([count(b'a'), count(b'b'), count(b'c'), text.len() as f32]);
            }
        }
        Ok(())
    }
}

/// Computes a batch for each permit that the test gives.
struct Held(Counting, mpsc::Receiver<()>);

impl EmbeddingBackend for Held {
    fn capacity(&self) -> EmbeddingCapacity {
        self.0.capacity()
    }

    fn compute(&mut self, texts: &[&[Token]], out: &mut Vec<f32>) -> Result<(), String> {
        self.1.recv().ok(); // at its end, the test gives no more
        self.0.compute(texts, out)
    }
}

pub(crate) fn model(task: EmbeddingTask) -> Arc<EmbeddingModel> {
    model_of(task, Counting(task))
}

fn model_of(
    task: EmbeddingTask,
    backend: impl EmbeddingBackend + Send + 'static,
) -> Arc<EmbeddingModel> {
    let open = move || {
        let (_, vocab) =
            ScriptedBackend::new(Script::default(), &LlmEngineSpec::new("m.script.json"));
        let pairs = PairForm::around(vec![], vec![SEPARATOR], vec![]);
        Ok((backend, vocab, pairs))
    };
    let spec = EmbeddingSpec::new("model.gguf", task);
    let engine = EmbeddingEngine::with_backend(spec, open).expect("a valid spec");
    Arc::new(EmbeddingModel::new(engine).expect("a thread"))
}

fn run(graph: &str, uri: &str, body: &Value) -> Harness {
    let embeds = model(EmbeddingTask::Embed(None));
    let mut harness = start(graph, uri, body, embeds, model(EmbeddingTask::Rank));
    harness.block_until(Harness::ended);
    harness
}

fn start(
    graph: &str,
    uri: &str,
    body: &Value,
    embeds: Arc<EmbeddingModel>,
    ranks: Arc<EmbeddingModel>,
) -> Harness {
    let environment = Environment::new(Registry::global())
        .with_resource("embeddings_servable", embeds)
        .with_resource("rerank_servable", ranks);
    let mut harness = Harness::new(graph, environment);
    let input = harness.plan().graph_inputs().next().expect("one input");
    let input = input.to_owned();
    let payload = HttpRequestPayload {
        json: JsonBody::from_value(body).ok().map(Arc::new),
        ..HttpRequestPayload::new(uri, None)
    };
    harness.push(&input, 0, payload);
    if !harness.ended() {
        harness.close(&input);
    }
    harness
}

fn answer(graph: &str, uri: &str, body: &Value) -> Value {
    let mut harness = run(graph, uri, body);
    harness.finish();
    let output = harness.plan().graph_outputs().next().expect("one output");
    let output = output.to_owned();
    let packets = harness.packets(&output);
    let [packet] = &packets[..] else {
        panic!("one answer was expected, not {}", packets.len());
    };
    match packet.get::<HttpResponse>() {
        Some(HttpResponse::Body { bytes, .. }) => serde_json::from_slice(bytes).expect("JSON"),
        other => panic!("a body was expected, not {other:?}"),
    }
}

fn refusal(graph: &str, uri: &str, body: &Value) -> Error {
    run(graph, uri, body).error()
}

#[test]
fn a_request_tells_how_many_of_its_texts_are_computed() {
    let embed = json!({ "model": "m", "input": vec!["aaaaaaaaaaaa"; 3] });
    let documents = vec!["aaaaaa"; 3];
    let rank = json!({ "model": "m", "query": "aaaaa", "documents": documents });
    for (graph, uri, body, task) in [
        (
            EMBEDDINGS,
            "/v3/embeddings",
            embed,
            EmbeddingTask::Embed(None),
        ),
        (RERANK, "/v3/rerank", rank, EmbeddingTask::Rank),
    ] {
        let (permit, permits) = mpsc::channel();
        let held = model_of(task, Held(Counting(task), permits));
        let mut harness = start(graph, uri, &body, Arc::clone(&held), held);
        // Two of them are a batch.
        for computed in [0, 2] {
            let expected = format!(
                "waits for embedding engine `scripted`: {computed} of 3 texts are computed, requests in it: 1"
            );
            harness.block_until(|session| session.why().to_string().contains(&expected));
            permit.send(()).expect("the engine runs");
        }
        harness.block_until(Harness::ended);
        harness.finish();
    }
}

fn embed(change: Value) -> Value {
    let mut body = json!({"model": "m"});
    merge(&mut body, change);
    answer(EMBEDDINGS, "/v3/embeddings", &body)
}

fn merge(body: &mut Value, change: Value) {
    let (Value::Object(body), Value::Object(change)) = (body, change) else {
        panic!("two objects were expected");
    };
    body.extend(change);
}

#[test]
fn every_form_of_input_gives_a_vector_for_each_text() {
    let whole = embed(json!({"input": "abba"}));
    assert_eq!(
        whole,
        json!({
            "object": "list",
            "data": [{"object": "embedding", "index": 0, "embedding": [0.408_248_28, 0.408_248_28, 0.0, 0.816_496_55]}],
            "model": "m",
            "usage": {"prompt_tokens": 4, "total_tokens": 4},
        })
    );
    assert_eq!(embed(json!({"input": ["abba"]})), whole);
    assert_eq!(embed(json!({"input": [97, 98, 98, 97]})), whole);
    assert_eq!(embed(json!({"input": [[97, 98, 98, 97]]})), whole);
    let many = embed(json!({"input": ["c", "abba", "aabbccaabbcc", "c"], "user": "u"}));
    assert_eq!(many["usage"]["total_tokens"], 18);
    assert_eq!(many["data"].as_array().map(Vec::len), Some(4));
    assert_eq!(many["data"][1]["embedding"], whole["data"][0]["embedding"]);
    assert_eq!(many["data"][0]["embedding"], many["data"][3]["embedding"]);
    assert_eq!(many["data"][3]["index"], 3);
}

#[test]
fn base64_is_the_bytes_of_the_numbers() {
    let answer = embed(json!({"input": "c", "encoding_format": "base64", "dimensions": 3}));
    // 0, 0 and 1 as 32-bit floats, the lowest byte first.
    assert_eq!(answer["data"][0]["embedding"], "AAAAAAAAAAAAAIA/");
}

#[test]
fn fewer_dimensions_are_the_first_ones_with_length_one() {
    let vector = |dimensions: u32| {
        let mut answer = embed(json!({"input": "abb", "dimensions": dimensions}));
        answer["data"][0]["embedding"].take()
    };
    assert_eq!(vector(2), json!([0.447_213_6, 0.894_427_2]));
    assert_eq!(
        vector(4),
        embed(json!({"input": "abb"}))["data"][0]["embedding"]
    );
}

#[test]
fn options_decide_on_length_and_normalization() {
    let graph = EMBEDDINGS.replace(
        "allow_dimensions: true",
        "truncate: true normalize_embeddings: false",
    );
    let body = json!({"model": "m", "input": "a".repeat(2000)});
    let answer = answer(&graph, "/v1/embeddings", &body);
    assert_eq!(
        answer["data"][0]["embedding"],
        json!([12.0, 0.0, 0.0, 12.0])
    );
    let body = json!({"model": "m", "input": "a", "dimensions": 2});
    let error = refusal(&graph, "/v1/embeddings", &body);
    assert_eq!(error.field.as_deref(), Some("dimensions"));
}

#[test]
fn coheres_form_has_the_same_vectors() {
    let whole = |change: Value| {
        let mut body = json!({"model": "m", "texts": ["abba", "c"], "input_type": "search_query"});
        merge(&mut body, change);
        answer(EMBEDDINGS, "/v2/embed", &body)
    };
    let plain = whole(json!({}));
    let vectors = embed(json!({"input": ["abba", "c"]}));
    let vectors = [
        &vectors["data"][0]["embedding"],
        &vectors["data"][1]["embedding"],
    ];
    assert_eq!(plain["embeddings"], json!({"float": vectors}));
    assert_eq!(plain["texts"], json!(["abba", "c"]));
    assert_eq!(plain["response_type"], "embeddings_by_type");
    assert_eq!(plain["meta"]["billed_units"], json!({"input_tokens": 5}));
    assert!(
        plain["id"]
            .as_str()
            .is_some_and(|id| id.starts_with("embed-"))
    );
    let both = whole(json!({"embedding_types": ["base64", "float"], "output_dimension": 3}));
    assert_eq!(both["embeddings"]["base64"][1], "AAAAAAAAAAAAAIA/");
    assert_eq!(both["embeddings"]["float"][1], json!([0.0, 0.0, 1.0]));

    let long = json!({"texts": ["a", "abcabcabcabca"], "truncate": "END"});
    assert_eq!(whole(long)["meta"]["tokens"]["input_tokens"], 13);
    for (change, field) in [
        (json!({"texts": ["a", "abcabcabcabca"]}), "texts[1]"),
        (
            json!({"texts": ["abcabcabcabca"], "truncate": "NONE"}),
            "texts[0]",
        ),
        (json!({"texts": ["a"], "truncate": "START"}), "truncate"),
        (
            json!({"texts": ["a"], "output_dimension": 5}),
            "output_dimension",
        ),
        (json!({"texts": "a"}), "texts"),
        (json!({"images": ["data:,"]}), "images"),
        (
            json!({"texts": ["a"], "embedding_types": ["int8"]}),
            "embedding_types[0]",
        ),
        (
            json!({"texts": ["a"], "embedding_types": ["float", "base64", "int8", "ubinary"]}),
            "embedding_types[2]",
        ),
    ] {
        let mut body = json!({"model": "m"});
        merge(&mut body, change);
        let error = refusal(EMBEDDINGS, "/v2/embed", &body);
        assert_eq!(error.field.as_deref(), Some(field), "{body}: {error}");
    }
}

#[test]
fn what_is_wrong_in_a_request_for_vectors_is_named() {
    for (change, field) in [
        (json!({}), "input"),
        (json!({"input": 5}), "input"),
        (json!({"input": []}), "input"),
        (json!({"input": ""}), "input"),
        (json!({"input": ["a", ""]}), "input[1]"),
        (json!({"input": ["a", 5]}), "input[1]"),
        (json!({"input": [97, "a"]}), "input[1]"),
        (json!({"input": [[97], [98, -1]]}), "input[1][1]"),
        (json!({"input": ["a", [100_000]]}), "input[1]"),
        (json!({"input": ["a", "abcabcabcabca"]}), "input[1]"),
        (
            json!({"input": "a", "encoding_format": "hex"}),
            "encoding_format",
        ),
        (
            json!({"input": "a", "encoding_format": 1}),
            "encoding_format",
        ),
        (json!({"input": "a", "dimensions": 0}), "dimensions"),
        (json!({"input": "a", "dimensions": 5}), "dimensions"),
        (json!({"input": "a", "dimensions": "2"}), "dimensions"),
        (json!({"input": "a", "model": 5}), "model"),
        (json!({"input": "a", "model": null}), "model"),
    ] {
        let mut body = json!({"model": "m"});
        merge(&mut body, change);
        let error = refusal(EMBEDDINGS, "/v3/embeddings", &body);
        assert_eq!(error.field.as_deref(), Some(field), "{body}: {error}");
    }
    let body = json!({"model": "m", "input": "abcabcabcabca"});
    let error = refusal(EMBEDDINGS, "/v3/embeddings", &body);
    assert_eq!(error.code.as_deref(), Some("context_length_exceeded"));
    assert!(error.message.contains("13 tokens"), "{error}");
    let error = refusal(EMBEDDINGS, "/v3/completions", &body);
    assert_eq!(error.code.as_deref(), Some("unknown_endpoint"));
}

fn rerank(change: Value) -> Value {
    let mut body = json!({"model": "m", "query": "abc"});
    merge(&mut body, change);
    answer(RERANK, "/v3/rerank", &body)
}

#[test]
fn documents_come_back_with_the_best_one_first() {
    let texts = json!({"documents": ["xyz", "abx", "cab"]});
    let answer = rerank(texts.clone());
    assert_eq!(
        answer["results"],
        json!([
            {"index": 2, "relevance_score": 1.0},
            {"index": 1, "relevance_score": 0.666_666_7},
            {"index": 0, "relevance_score": 0.0},
        ])
    );
    assert_eq!(answer["usage"]["total_tokens"], 21);
    assert_eq!(answer["meta"]["tokens"]["input_tokens"], 21);
    assert_eq!(answer["model"], "m");
    let objects = json!({
        "documents": [{"text": "xyz", "title": "t"}, {"text": "cab"}],
        "top_n": 1,
        "return_documents": true,
    });
    assert_eq!(
        rerank(objects)["results"],
        json!([{"index": 1, "relevance_score": 1.0, "document": {"text": "cab"}}])
    );
    let one_node = RERANK_OVMS;
    let mut body = json!({"model": "m", "query": "abc"});
    merge(&mut body, texts);
    let ovms = self::answer(one_node, "/v3/rerank", &body);
    assert_eq!(ovms["results"], answer["results"]);
}

/// The form of OVMS's graphs.
const RERANK_OVMS: &str = r#"
input_stream: "REQUEST_PAYLOAD:input"
output_stream: "RESPONSE_PAYLOAD:output"
node {
  name: "RerankExecutor"
  input_side_packet: "RERANK_NODE_RESOURCES:rerank_servable"
  calculator: "RerankCalculatorOV"
  input_stream: "REQUEST_PAYLOAD:input"
  output_stream: "RESPONSE_PAYLOAD:output"
  node_options: {
    [type.googleapis.com / mediapipe.RerankCalculatorOVOptions]: {
      models_path: "./", max_allowed_chunks: 4, max_position_embeddings: 12
    }
  }
}
"#;

#[test]
fn a_long_document_has_the_score_of_its_best_piece() {
    // Beside the query and the separator there is room for eight bytes.
    let long = json!({"documents": ["xxxxxxxxabcabcab", "xxxxxxxxxxxxxxxx"]});
    assert_eq!(rerank(long.clone())["results"][0]["relevance_score"], 1.0);
    let mut first_piece = long;
    merge(&mut first_piece, json!({"max_chunks_per_doc": 1}));
    assert_eq!(rerank(first_piece)["results"][0]["relevance_score"], 0.0);
}

#[test]
fn what_is_wrong_in_a_request_to_rank_is_named() {
    for (change, field) in [
        (json!({"query": null}), "query"),
        (json!({"query": 5}), "query"),
        (json!({"query": "a query of many bytes"}), "query"),
        (json!({"documents": null}), "documents"),
        (json!({"documents": "a"}), "documents"),
        (json!({"documents": []}), "documents"),
        (json!({"documents": ["a", 5]}), "documents[1]"),
        (json!({"documents": ["a", {"text": "b"}]}), "documents[1]"),
        (json!({"documents": [{"title": "b"}]}), "documents[0].text"),
        (json!({"documents": [{"text": 5}]}), "documents[0].text"),
        (json!({"documents": ["a", "b", "c", "d", "e"]}), "documents"),
        (
            json!({"documents": ["abcdefghabcdefghabcdefghabcdefgha"]}),
            "documents",
        ),
        (json!({"top_n": 0}), "top_n"),
        (json!({"top_n": "1"}), "top_n"),
        (json!({"return_documents": 1}), "return_documents"),
        (json!({"max_chunks_per_doc": 0}), "max_chunks_per_doc"),
        (json!({"rank_fields": ["title"]}), "rank_fields"),
    ] {
        let mut body = json!({"model": "m", "query": "abc", "documents": ["a"]});
        merge(&mut body, change);
        let error = refusal(RERANK_OVMS, "/v3/rerank", &body);
        assert_eq!(error.field.as_deref(), Some(field), "{body}: {error}");
    }
}
