//! Tensors that are not what they say, in each way that they are sent: refused, in the same words
//! each time, and nobody else notices.

use graphmill_server::inference::{
    InferTensorContents, ModelInferRequest, ModelInferResponse,
    model_infer_request::InferInputTensor,
};
use prost::Message as _;
use serde_json::{Value, json};
use tonic::Code;

use super::{
    client::{Client, refused, request, with_input},
    start,
};
use crate::rest::support::{TestServer, read, sessions};

const SAME: &str = r#"
    input_stream: "TENSOR:x"
    output_stream: "TENSOR:same"
    node { calculator: "PassThroughCalculator" input_stream: "x" output_stream: "same" }
"#;

/// Bytes that are no tensor of a datatype and a shape, and why.
const BYTES: [(&str, &[i64], &[u8], &str); 19] = [
    (
        "FP32",
        &[-1],
        &[0; 4],
        "the shape [-1] has a dimension below 0",
    ),
    ("FP32", &[2, i64::MIN], &[], "has a dimension below 0"),
    ("FP32", &[0, -1], &[], "has a dimension below 0"),
    (
        "INT8",
        &[i64::MAX, 3],
        &[0],
        "more elements than can be counted",
    ),
    ("FP32", &[1 << 62], &[], "more elements than can be counted"),
    (
        "FP64",
        &[1 << 31, 1 << 31],
        &[],
        "more elements than can be counted",
    ),
    (
        "UINT8",
        &[i64::MAX],
        &[0],
        "has 9223372036854775807 bytes, but there are 1",
    ),
    (
        "INT64",
        &[0, i64::MAX],
        &[0; 8],
        "has 0 bytes, but there are 8",
    ),
    (
        "FP32",
        &[2],
        &[0; 7],
        "FP32 of shape [2] has 8 bytes, but there are 7",
    ),
    (
        "FP32",
        &[2],
        &[0; 9],
        "FP32 of shape [2] has 8 bytes, but there are 9",
    ),
    (
        "FP16",
        &[],
        &[0; 4],
        "FP16 of shape [] has 2 bytes, but there are 4",
    ),
    ("fp32", &[1], &[0; 4], "the datatype must be one of BOOL"),
    ("", &[1], &[0; 4], "the datatype must be one of BOOL"),
    (
        "BYTES",
        &[1],
        &[1, 0, 0],
        "element 0 of the BYTES ends behind the data",
    ),
    (
        "BYTES",
        &[1],
        &[255, 255, 255, 255, 1],
        "element 0 of the BYTES ends behind the data",
    ),
    (
        "BYTES",
        &[2],
        &[1, 0, 0, 0, 65, 2, 0, 0, 0, 66],
        "element 1 of the BYTES ends behind the data",
    ),
    (
        "BYTES",
        &[1 << 40],
        &[0; 4],
        "has 1099511627776 elements, but there are 1",
    ),
    ("BYTES", &[1], &[0; 8], "has 1 elements, but there are 2"),
    ("BYTES", &[0], &[0; 4], "has 0 elements, but there are 1"),
];

/// The error of a request that is sent twice.
async fn grpc(client: &Client, asked: &ModelInferRequest) -> String {
    let answer = async || {
        let answer = client.call::<_, ModelInferResponse>("ModelInfer", asked.clone());
        refused(answer.await)
    };
    let told = answer().await;
    assert_eq!(told, answer().await);
    assert_eq!(told.0, Code::InvalidArgument, "{told:?}");
    told.1
}

/// The same over REST, with bytes behind the JSON if there are some.
async fn rest(server: &TestServer, input: &Value, behind: Option<&[u8]>) -> String {
    let json = json!({ "inputs": [input] }).to_string();
    let body = [json.as_bytes(), behind.unwrap_or_default()].concat();
    let answer = async || {
        let request = server.post("/v2/models/same/infer", body.clone());
        let request = match behind {
            Some(_) => request.header("inference-header-content-length", json.len()),
            None => request,
        };
        let reply = read(request).await;
        (reply.status, reply.json()["error"].to_string())
    };
    let told = answer().await;
    assert_eq!(told, answer().await);
    assert_eq!(told.0, 400, "{input}: {told:?}");
    told.1
}

/// Nothing is left, and the next request is answered.
async fn goes_on(server: &TestServer, client: &Client) {
    server.until("idle", |status| sessions(status) == 0).await;
    let good = with_input(request("same"), "x", "FP32", &[1, 0], Vec::<u8>::new());
    let answer: ModelInferResponse = client.call("ModelInfer", good).await.expect("an answer");
    assert_eq!(answer.outputs[0].shape, [1, 0]);
}

#[tokio::test]
async fn bytes_have_to_be_those_of_datatype_and_shape() {
    let (server, client) = start(&[("same", SAME)]).await;
    for (datatype, shape, bytes, why) in BYTES {
        let raw = with_input(request("same"), "x", datatype, shape, bytes.to_vec());
        let told = grpc(&client, &raw).await;
        assert!(told.contains(why), "{told} ({why})");
        let input = json!({
            "name": "x", "datatype": datatype, "shape": shape,
            "parameters": { "binary_data_size": bytes.len() },
        });
        let told = rest(&server, &input, Some(bytes)).await;
        assert!(told.contains(why), "{told} ({why})");
    }
    goes_on(&server, &client).await;
}

#[tokio::test]
async fn json_has_to_be_what_datatype_and_shape_say() {
    let (server, client) = start(&[("same", SAME)]).await;
    let huge: Value = serde_json::from_str("[18446744073709551616]").expect("JSON");
    for (datatype, shape, data, why) in [
        ("FP32", json!([-1]), json!([1]), "has a dimension below 0"),
        (
            "FP32",
            json!([i64::MAX, 3]),
            json!([1]),
            "more elements than can be counted",
        ),
        (
            "FP32",
            json!([1_u64 << 40]),
            json!([1]),
            "has 1099511627776 elements, but there are 1",
        ),
        ("FP32", json!([u64::MAX]), json!([1]), "invalid value"),
        ("FP32", json!([1.5]), json!([1]), "invalid type"),
        ("FP32", json!("1"), json!([1]), "invalid type"),
        (
            "FP32",
            json!([2]),
            json!([1]),
            "has 2 elements, but there are 1",
        ),
        (
            "FP32",
            json!([1]),
            json!([1, 2]),
            "has 1 elements, but there are more",
        ),
        (
            "FP32",
            json!([0]),
            json!([1]),
            "has 0 elements, but there are more",
        ),
        (
            "FP32",
            json!([2, 2]),
            json!([[1, 2], [3]]),
            "an array has 1 elements",
        ),
        (
            "FP32",
            json!([2, 2]),
            json!([[1, 2], 3, 4]),
            "neither all in one array nor",
        ),
        (
            "FP32",
            json!([1]),
            json!([[1]]),
            "nested deeper than the dimensions",
        ),
        ("FP32", json!([1]), json!(1), "neither all in one array nor"),
        (
            "FP32",
            json!([1]),
            json!(["1"]),
            "element 0 is a string, which is no FP32",
        ),
        ("FP32", json!([1]), json!([1e300]), "which is no FP32"),
        ("FP32", json!([1]), json!([null]), "invalid type"),
        ("FP16", json!([1]), json!([1]), "FP16 has no form in JSON"),
        (
            "INT8",
            json!([1]),
            json!([128]),
            "element 0 is 128, which is no INT8",
        ),
        (
            "UINT8",
            json!([2]),
            json!([1, -1]),
            "element 1 is -1, which is no UINT8",
        ),
        ("UINT64", json!([1]), huge, "which is no UINT64"),
        (
            "INT64",
            json!([1]),
            json!([1.5]),
            "element 0 is 1.5, which is no INT64",
        ),
        (
            "BOOL",
            json!([1]),
            json!([2]),
            "element 0 is 2, which is no BOOL",
        ),
        (
            "BYTES",
            json!([1]),
            json!([1]),
            "element 0 is 1, which is no BYTES",
        ),
        (
            "BYTES",
            json!([2]),
            json!(["a"]),
            "has 2 elements, but there are 1",
        ),
    ] {
        let input = json!({ "name": "x", "datatype": datatype, "shape": shape, "data": data });
        let told = rest(&server, &input, None).await;
        assert!(told.contains(why), "{input}: {told} ({why})");
    }
    goes_on(&server, &client).await;
}

#[tokio::test]
async fn contents_have_to_be_those_of_datatype_and_shape() {
    let (server, client) = start(&[("same", SAME)]).await;
    let none = InferTensorContents::default;
    let ints = |values: &[i32]| InferTensorContents {
        int_contents: values.to_vec(),
        ..none()
    };
    let uints = |values: &[u32]| InferTensorContents {
        uint_contents: values.to_vec(),
        ..none()
    };
    let floats = |count: usize| InferTensorContents {
        fp32_contents: vec![0.0; count],
        ..none()
    };
    let texts = |count: usize| InferTensorContents {
        bytes_contents: vec!["a".into(); count],
        ..none()
    };
    let two = InferTensorContents {
        int64_contents: vec![1],
        ..floats(1)
    };
    for (datatype, shape, contents, why) in [
        ("FP32", &[-1][..], floats(1), "has a dimension below 0"),
        (
            "FP32",
            &[i64::MAX, 3],
            floats(1),
            "more elements than can be counted",
        ),
        (
            "FP32",
            &[2],
            floats(1),
            "FP32 of shape [2] has 8 bytes, but there are 4",
        ),
        (
            "FP32",
            &[1],
            floats(2),
            "FP32 of shape [1] has 4 bytes, but there are 8",
        ),
        (
            "FP32",
            &[1],
            none(),
            "FP32 of shape [1] has 4 bytes, but there are 0",
        ),
        (
            "FP64",
            &[1],
            floats(1),
            "FP64 belongs in `fp64_contents`, not in `fp32_contents`",
        ),
        (
            "FP32",
            &[1],
            two,
            "FP32 belongs in `fp32_contents`, not in `int64_contents`",
        ),
        ("FP16", &[1], none(), "FP16 belongs in `raw_input_contents`"),
        ("BF16", &[0], none(), "BF16 belongs in `raw_input_contents`"),
        ("INT8", &[1], ints(&[128]), "128 is out of range of INT8"),
        (
            "INT16",
            &[2],
            ints(&[1, -40_000]),
            "-40000 is out of range of INT16",
        ),
        ("UINT8", &[1], uints(&[256]), "256 is out of range of UINT8"),
        (
            "UINT16",
            &[1],
            uints(&[u32::MAX]),
            "4294967295 is out of range of UINT16",
        ),
        ("BYTES", &[2], texts(1), "has 2 elements, but there are 1"),
        ("BYTES", &[1], texts(2), "has 1 elements, but there are 2"),
        ("FLOAT", &[1], floats(1), "the datatype must be one of BOOL"),
    ] {
        let mut asked = request("same");
        asked.inputs.push(InferInputTensor {
            name: "x".to_owned(),
            datatype: datatype.to_owned(),
            shape: shape.to_vec(),
            contents: Some(contents),
            ..InferInputTensor::default()
        });
        let told = grpc(&client, &asked).await;
        assert!(told.contains(why), "{datatype} {shape:?}: {told} ({why})");
    }
    goes_on(&server, &client).await;
}

#[tokio::test]
async fn a_message_that_is_cut_anywhere_is_answered_the_same_way_each_time() {
    let (server, client) = start(&[("same", SAME)]).await;
    let address = server.server.grpc_addresses()[0];
    let url = format!("http://{address}/inference.GRPCInferenceService/ModelInfer");
    let whole = with_input(request("same"), "x", "INT32", &[2, 1], vec![7; 8]).encode_to_vec();
    for cut in 0..whole.len() {
        let mut body = vec![0];
        body.extend((cut as u32).to_be_bytes());
        body.extend(&whole[..cut]);
        let answer = async || {
            let request = server.client.post(&url).body(body.clone());
            let reply = read(request.header("content-type", "application/grpc")).await;
            let header = |name: &str| reply.header(name).map(str::to_owned);
            (header("grpc-status"), header("grpc-message"))
        };
        let told = answer().await;
        assert_eq!(told, answer().await);
        // No name is a graph that there is not, no tensor one that is missing.
        let (status, message) = told;
        let refused = ["3", "5"].map(|status| Some(status.to_owned()));
        assert!(refused.contains(&status), "{cut}: {status:?} {message:?}");
    }
    goes_on(&server, &client).await;
}
