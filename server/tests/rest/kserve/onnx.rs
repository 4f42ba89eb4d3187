//! Graphs with ONNX models: the demos `digits` and `text_classifier`.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use graphmill_calculators::tensor::{Datatype, Tensor};
use graphmill_server::inference::{ModelInferRequest, ModelInferResponse};
use serde_json::{Value, json};
use tonic::Code;

use super::client::{Client, refused, request, with_input};
use crate::rest::metrics::{scrape, value};
use crate::rest::support::{Reply, Setup, TestServer, read};

fn demo(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../demos")
        .join(name)
}

fn picture(digit: usize) -> Vec<u8> {
    fs::read(demo("digits").join(format!("samples/{digit}.png"))).expect("a sample")
}

/// A server of the graph with this model beside it.
fn setup(model: &[u8]) -> Setup {
    let graph = fs::read_to_string(demo("digits").join("graph.pbtxt")).expect("the graph");
    let setup = Setup::new().graph("digits", &graph);
    fs::write(setup.path().join("0/model.onnx"), model).expect("writable");
    setup
}

async fn start() -> TestServer {
    let model = fs::read(demo("digits").join("model.onnx")).expect("the model");
    setup(&model).start().await
}

async fn infer(server: &TestServer, data: &Value) -> Reply {
    let length = data.as_array().map_or(0, Vec::len);
    let body = json!({ "inputs": [
        { "name": "image", "datatype": "BYTES", "shape": [length], "data": data },
    ] });
    read(server.post("/v2/models/digits/infer", body.to_string())).await
}

#[tokio::test]
async fn pictures_become_digits() {
    let server = start().await;
    let metadata = server.get("/v2/models/digits").await.json();
    assert_eq!(
        metadata["outputs"],
        json!([
            { "name": "digit", "datatype": "BYTES", "shape": [1, 1] },
            { "name": "share", "datatype": "FP32", "shape": [1, 1] },
        ])
    );
    let ask = async |digit: usize| {
        let reply = infer(&server, &json!([STANDARD.encode(picture(digit))])).await;
        let answer = reply.json();
        assert_eq!(answer["outputs"][0]["data"], json!([digit.to_string()]));
        let share = answer["outputs"][1]["data"][0].as_f64().expect("a number");
        assert!((0.5..=1.0).contains(&share), "{share}");
    };
    futures_util::future::join_all((0..10).map(ask)).await;
}

#[tokio::test]
async fn a_file_is_sent_as_it_is() {
    let server = start().await;
    let file = picture(4);
    let element = [&(file.len() as u32).to_le_bytes()[..], &file].concat();
    let head = json!({ "inputs": [{
        "name": "image", "datatype": "BYTES", "shape": [1],
        "parameters": { "binary_data_size": element.len() },
    }] });
    let head = head.to_string();
    let body = [head.as_bytes(), &element].concat();
    let request = server.post("/v2/models/digits/infer", body);
    let reply = read(request.header("inference-header-content-length", head.len())).await;
    assert_eq!(reply.json()["outputs"][0]["data"], json!(["4"]));
}

#[tokio::test]
async fn what_is_no_picture_is_refused() {
    let server = start().await;
    for (data, why) in [
        (
            json!(["hello"]),
            "expected a PNG, JPEG, WebP, GIF or BMP file",
        ),
        (json!([]), "the graph declares [1]"),
        (json!(["a", "b"]), "the graph declares [1]"),
    ] {
        let reply = infer(&server, &data).await;
        assert_eq!(reply.status, 400, "{}", reply.text);
        let error = reply.json()["error"].to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[tokio::test]
async fn a_damaged_model_is_told_where_the_graph_names_it() {
    let server = setup(b"not a model").start().await;
    let config = server.get("/v1/config").await.text;
    assert!(config.contains("it is not an ONNX file"), "{config}");
    assert!(config.contains("graph.pbtxt:61:19"), "{config}");
    let reply = infer(&server, &json!(["x"])).await;
    assert_eq!(reply.status, 503, "{}", reply.text);
}

/// A server of `batched.pbtxt` with something else in the place of a part of it.
async fn batched(part: &str, other: &str) -> (TestServer, Client) {
    let demo = demo("text_classifier");
    let graph = fs::read_to_string(demo.join("batched.pbtxt")).expect("the graph");
    assert!(graph.contains(part), "{graph}");
    let setup = super::setup(&[("topics", &graph.replace(part, other))]);
    for file in ["model.onnx", "labels.txt"] {
        fs::copy(demo.join(file), setup.path().join("0").join(file)).expect("writable");
    }
    let server = setup.start().await;
    let client = Client::connect(&server).await;
    (server, client)
}

fn texts(texts: &[&str]) -> ModelInferRequest {
    let element = |text: &&str| [&(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat();
    let data: Vec<u8> = texts.iter().flat_map(element).collect();
    with_input(
        request("topics"),
        "text",
        "BYTES",
        &[texts.len() as i64],
        data,
    )
}

async fn topics(client: &Client, asked: &[&str]) -> Vec<String> {
    let answer: ModelInferResponse = client
        .call("ModelInfer", texts(asked))
        .await
        .expect("an answer");
    let named = answer.outputs.iter().position(|it| it.name == "topic");
    let data = &answer.raw_output_contents[named.expect("an output")];
    let topics = Tensor::new(Datatype::Bytes, [asked.len()], data.clone());
    let topics = topics.expect("a topic for each text");
    let topic = |it: &[u8]| String::from_utf8_lossy(it).into_owned();
    topics.strings().map(topic).collect()
}

#[tokio::test]
async fn requests_of_several_clients_are_one_batch_of_a_model() {
    let options =
        "max_batch_size: 8 preferred_batch_size: 4 max_queue_delay_microseconds: 3600000000";
    let (server, client) = batched("max_batch_size: 64", options).await;
    let answers = tokio::join!(
        topics(
            &client,
            &["My password is rejected every time I try to log in"]
        ),
        topics(
            &client,
            &[
                "There are two charges on my credit card for one order",
                "Thank you so much, the jacket is beautiful!",
            ],
        ),
        topics(
            &client,
            &["These shoes are too tight, I want to exchange them for a larger size"],
        ),
    );
    assert_eq!(answers.0, ["account"]);
    assert_eq!(answers.1, ["billing", "praise"]);
    assert_eq!(answers.2, ["return"]);
    let scrape = scrape(&server).await;
    let labels = [("graph", "topics"), ("model", "OnnxInferenceCalculator")];
    let number = |name: &str| value(&scrape, &format!("graphmill_batching_{name}"), &labels);
    assert_eq!(number("batches_total"), 1);
    assert_eq!(number("batch_rows_sum"), 4);
    assert_eq!(number("batch_requests_sum"), 3);
}

#[tokio::test]
async fn a_batch_has_no_more_rows_than_it_may() {
    let (_server, client) = batched("max_batch_size: 64", "max_batch_size: 2").await;
    let asked = ["I cannot log in", "Where is my parcel?"];
    let alone = topics(&client, &asked).await;
    let many = futures_util::future::join_all((0..64).map(|_| topics(&client, &asked))).await;
    assert!(many.iter().all(|topics| *topics == alone), "{many:?}");
    let answer = client.call::<_, ModelInferResponse>("ModelInfer", texts(&["a", "b", "c"]));
    let (code, why) = refused(answer.await);
    assert_eq!(code, Code::InvalidArgument, "{why}");
    assert!(why.contains("3 rows, and a batch at most 2"), "{why}");
}

#[tokio::test]
async fn a_batched_model_without_the_input_is_told_when_the_graph_is_loaded() {
    let path = "model_path: \"model.onnx\"";
    let names = "tag_to_input_tensor_names { key: \"FEATURES\" value: \"pixels\" }";
    let (server, _) = batched(path, &format!("{path} {names}")).await;
    let config = server.get("/v1/config").await.text;
    assert!(
        config.contains("the model has no input `pixels`, but `features`"),
        "{config}"
    );
}
