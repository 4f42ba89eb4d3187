//! A graph with an ONNX model: the demo `digits`.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::support::{Reply, Setup, TestServer, read};

fn demo() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../demos/digits")
}

fn picture(digit: usize) -> Vec<u8> {
    fs::read(demo().join(format!("samples/{digit}.png"))).expect("a sample")
}

/// A server of the graph with this model beside it.
fn setup(model: &[u8]) -> Setup {
    let graph = fs::read_to_string(demo().join("graph.pbtxt")).expect("the graph");
    let setup = Setup::new().graph("digits", &graph);
    fs::write(setup.path().join("0/model.onnx"), model).expect("writable");
    setup
}

async fn start() -> TestServer {
    let model = fs::read(demo().join("model.onnx")).expect("the model");
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
        (json!(["hello"]), "expected a PNG or JPEG file"),
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
    assert!(config.contains("it is no ONNX file"), "{config}");
    assert!(config.contains("graph.pbtxt:61:19"), "{config}");
    let reply = infer(&server, &json!(["x"])).await;
    assert_eq!(reply.status, 503, "{}", reply.text);
}
