//! What a large tensor costs on its way through the server. Over gRPC it is copied once, out of
//! what the socket is read into, and its answer is written from where it is. Over REST the body's
//! buffer doubles as it comes, because what a client announces is not trusted, and the answer is
//! not copied.
//!
//! A connection reads into more memory than it keeps: a part of a frame moves to where the rest of
//! it comes. Each limit is less than one more copy away from what was seen, and above it.

#[expect(dead_code, reason = "other tests use the rest")]
mod serving;

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
};

use bytes::{BufMut as _, Bytes, BytesMut};
use dhat::HeapStats;
use graphmill_engine::Registry;
use graphmill_server::{
    Options, Server, config,
    inference::{
        ModelInferRequest,
        model_infer_request::{InferInputTensor, InferRequestedOutputTensor},
    },
};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message as _;
use serde_json::json;

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// Everything that comes in goes out.
const MIRROR: &str = r#"
    input_stream: "large"
    input_stream: "small"
    output_stream: "same_large"
    output_stream: "same_small"
    node {
      calculator: "PassThroughCalculator"
      input_stream: "large"
      input_stream: "small"
      output_stream: "same_large"
      output_stream: "same_small"
    }
"#;

const TENSOR_BYTES: usize = 4 << 20;

/// What a request may take besides: buffers of connections, names, the run.
const SLACK_BYTES: u64 = 1 << 20;

/// How many times the tensor's memory was taken since then.
fn tensors_of_memory(before: &HeapStats) -> f64 {
    let bytes = HeapStats::get().total_bytes - before.total_bytes;
    bytes.saturating_sub(SLACK_BYTES) as f64 / TENSOR_BYTES as f64
}

/// A request for one output, as it is on the wire.
fn message(output: &str) -> Bytes {
    let tensor = |name: &str, bytes: usize| InferInputTensor {
        name: name.to_owned(),
        datatype: "UINT8".to_owned(),
        shape: vec![bytes as i64],
        ..InferInputTensor::default()
    };
    let request = ModelInferRequest {
        model_name: "mirror".to_owned(),
        inputs: vec![tensor("large", TENSOR_BYTES), tensor("small", 1)],
        outputs: vec![InferRequestedOutputTensor {
            name: output.to_owned(),
            ..InferRequestedOutputTensor::default()
        }],
        raw_input_contents: vec![vec![7; TENSOR_BYTES].into(), vec![7].into()],
        ..ModelInferRequest::default()
    };
    let mut bytes = BytesMut::new();
    bytes.put_u8(0);
    bytes.put_u32(request.encoded_len() as u32);
    request.encode(&mut bytes).expect("room");
    bytes.freeze()
}

/// Asks over gRPC, and tells how long the answer is, which is not kept.
async fn infer(client: &mut SendRequest<Full<Bytes>>, at: SocketAddr, message: &Bytes) -> usize {
    let path = "inference.GRPCInferenceService/ModelInfer";
    let request = hyper::Request::post(format!("http://{at}/{path}"))
        .header("content-type", "application/grpc")
        .body(Full::new(message.clone()))
        .expect("a request");
    let mut answer = client.send_request(request).await.expect("an answer");
    let mut length = 0;
    while let Some(frame) = answer.frame().await {
        let frame = frame.expect("the answer ends well");
        if let Some(trailers) = frame.trailers_ref() {
            assert_eq!(trailers["grpc-status"], "0");
        }
        length += frame.data_ref().map_or(0, Bytes::len);
    }
    length
}

/// A request for one output behind its JSON, as it is on the wire.
fn request(output: &str) -> Vec<u8> {
    let tensor = |name: &str, bytes: usize| {
        json!({
            "name": name,
            "datatype": "UINT8",
            "shape": [bytes],
            "parameters": { "binary_data_size": bytes },
        })
    };
    let json = json!({
        "inputs": [tensor("large", TENSOR_BYTES), tensor("small", 1)],
        "outputs": [{ "name": output, "parameters": { "binary_data": true } }],
    });
    let json = json.to_string();
    let length = json.len() + TENSOR_BYTES + 1;
    let mut bytes = format!(
        "POST /v2/models/mirror/infer HTTP/1.1\r\n\
         host: localhost\r\n\
         connection: close\r\n\
         inference-header-content-length: {}\r\n\
         content-length: {length}\r\n\r\n",
        json.len()
    )
    .into_bytes();
    bytes.extend_from_slice(json.as_bytes());
    bytes.resize(bytes.len() + TENSOR_BYTES + 1, 7);
    bytes
}

/// Sends this, and tells how long what comes back is, which is not kept.
fn exchange(at: SocketAddr, request: &[u8], buffer: &mut [u8]) -> usize {
    let mut socket = TcpStream::connect(at).expect("it listens");
    socket.write_all(request).expect("it reads");
    let mut length = 0;
    loop {
        let read = socket.read(buffer).expect("it writes");
        if length == 0 {
            assert!(buffer.starts_with(b"HTTP/1.1 200"), "it is well");
        }
        match read {
            0 => return length,
            more => length += more,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_tensor_is_copied_once_on_its_way_in_and_not_on_its_way_out() {
    let mut graphs = serving::Graphs::new();
    graphs.add("mirror", MIRROR);
    let loaded = config::load(&graphs.config());
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut options = Options::new(loaded.config.expect("a good configuration"), any);
    options.grpc = vec![any];
    let mut server = Server::start(options, Registry::global()).expect("it starts");
    server.loaded().await;
    let (grpc, rest) = (server.grpc_addresses()[0], server.addresses()[0]);

    let socket = tokio::net::TcpStream::connect(grpc)
        .await
        .expect("it listens");
    let shaken = http2::handshake(TokioExecutor::new(), TokioIo::new(socket));
    let (mut client, connection) = shaken.await.expect("HTTP/2");
    tokio::spawn(connection);
    let messages = [message("same_small"), message("same_large")];
    let requests = [request("same_small"), request("same_large")];
    let mut buffer = vec![0; 1 << 20];
    // The first of each makes what later ones use again.
    infer(&mut client, grpc, &messages[0]).await;
    exchange(rest, &requests[0], &mut buffer);

    let _profiler = dhat::Profiler::builder().testing().build();
    let none = HeapStats::get();
    assert!(infer(&mut client, grpc, &messages[0]).await < 1_000);
    let taken = tensors_of_memory(&none);
    assert!(taken <= 2.5, "gRPC, in: {taken} times the tensor");

    // This client reads the answer into memory of the same process.
    let before = HeapStats::get();
    assert!(infer(&mut client, grpc, &messages[1]).await > TENSOR_BYTES);
    let taken = tensors_of_memory(&before);
    assert!(taken <= 4.2, "gRPC, in and out: {taken} times the tensor");

    let before = HeapStats::get();
    let (request, buffer) = (&requests[1], &mut buffer);
    let length = tokio::task::block_in_place(|| exchange(rest, request, buffer));
    assert!(length > TENSOR_BYTES);
    let taken = tensors_of_memory(&before);
    assert!(taken <= 3.2, "REST, in and out: {taken} times the tensor");
    server.stop().await;
}
