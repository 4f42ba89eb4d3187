//! Who may ask, how much may be sent, and what is no gRPC.

use std::{convert::Infallible, net::SocketAddr, time::Duration};

use futures_util::stream;
use graphmill_server::{
    KeySource,
    inference::{
        LogSettingsRequest, LogSettingsResponse, ModelInferResponse, RepositoryModelLoadRequest,
        RepositoryModelLoadResponse, ServerLiveRequest, ServerLiveResponse, ServerMetadataRequest,
        ServerMetadataResponse,
    },
};
use prost::Message as _;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tonic::Code;

use super::{
    REPEAT,
    client::{Client, refused, request, with_input},
    setup, start,
};
use crate::rest::support::{read, sessions};

#[tokio::test]
async fn a_message_can_be_as_long_as_a_body() {
    let setup = setup(&[("repeat", REPEAT)]).bodies(100_000, 150_000);
    let server = setup.start().await;
    let client = Client::connect(&server).await;
    let asked = |bytes: usize| {
        with_input(
            request("repeat"),
            "x",
            "UINT8",
            &[bytes as i64],
            vec![7; bytes],
        )
    };
    let answer: ModelInferResponse = client.call("ModelInfer", asked(99_000)).await.unwrap();
    assert_eq!(answer.raw_output_contents[0].len(), 99_000);
    let (code, message) = refused(
        client
            .call::<_, ModelInferResponse>("ModelInfer", asked(100_001))
            .await,
    );
    assert!(
        code == Code::ResourceExhausted && message.contains("--max_body_bytes"),
        "{code:?} {message}"
    );
    let again: ModelInferResponse = client.call("ModelInfer", asked(1)).await.unwrap();
    assert_eq!(again.raw_output_contents[0].len(), 1);
}

#[tokio::test]
async fn keys_say_who_may_ask_what() {
    let setup = setup(&[("repeat", REPEAT), ("other", REPEAT)]);
    let keys = json!({ "keys": [
        { "name": "user", "key": "user-key", "scopes": ["infer"], "models": ["repeat"] },
        { "name": "admin", "key": "admin-key", "scopes": ["admin"] },
    ] });
    let file = setup.path().join("keys.json");
    std::fs::write(&file, keys.to_string()).expect("writable");
    let setup = setup.with(move |options| options.keys = Some(KeySource::File(file)));
    let server = setup.start().await;
    let client = Client::connect(&server).await;
    let (user, admin) = (client.with_key("user-key"), client.with_key("admin-key"));
    let infer = async |client: &Client, graph: &str| {
        let asked = with_input(request(graph), "x", "INT8", &[1], vec![1]);
        client
            .call::<_, ModelInferResponse>("ModelInfer", asked)
            .await
    };
    // Probes have no key.
    let live: ServerLiveResponse = client
        .call("ServerLive", ServerLiveRequest {})
        .await
        .unwrap();
    assert!(live.live);
    let metadata =
        client.call::<_, ServerMetadataResponse>("ServerMetadata", ServerMetadataRequest {});
    assert_eq!(refused(metadata.await).0, Code::Unauthenticated);
    assert_eq!(
        refused(infer(&client, "repeat").await).0,
        Code::Unauthenticated
    );
    assert_eq!(
        refused(infer(&client.with_key("wrong"), "repeat").await).0,
        Code::Unauthenticated
    );
    assert_eq!(
        refused(infer(&admin, "repeat").await).0,
        Code::PermissionDenied
    );
    assert_eq!(refused(infer(&user, "other").await).0, Code::NotFound);
    assert_eq!(infer(&user, "repeat").await.unwrap().outputs.len(), 1);
    let load = |client: Client| async move {
        let asked = RepositoryModelLoadRequest {
            model_name: "repeat".to_owned(),
            ..Default::default()
        };
        client
            .call::<_, RepositoryModelLoadResponse>("RepositoryModelLoad", asked)
            .await
    };
    assert_eq!(refused(load(user.clone()).await).0, Code::PermissionDenied);
    load(admin.clone()).await.unwrap();
    let log = client.with_key("admin-key");
    let log: LogSettingsResponse = log
        .call("LogSettings", LogSettingsRequest::default())
        .await
        .unwrap();
    assert!(log.settings.contains_key("log_info"));
}

#[tokio::test]
async fn damaged_messages_are_refused_and_hurt_nobody() {
    let (server, client) = start(&[("repeat", REPEAT)]).await;
    let address = server.server.grpc_addresses()[0];
    // Statuses of requests that are refused are in heads, which HTTP/1 has, too.
    let http = &server.client;
    let post = |body: Vec<u8>| {
        let url = format!("http://{address}/inference.GRPCInferenceService/ModelInfer");
        http.post(url)
            .header("content-type", "application/grpc")
            .body(body)
    };
    let many = {
        // Ten thousand empty inputs in twenty thousand bytes.
        let mut body = vec![0, 0, 0, 78, 32];
        body.extend([42, 0].repeat(10_000));
        body
    };
    let inside = {
        // One input with as many empty parameters.
        let mut body = vec![0, 0, 0, 78, 36, 42, 0xa0, 0x9c, 1];
        body.extend([34, 0].repeat(10_000));
        body
    };
    for (body, code, why) in [
        (vec![], 3, "the%20request%20has%20no%20message"),
        (vec![0, 0], 3, "ends%20within%20a%20message"),
        (vec![0, 0, 0, 0, 9, 1], 3, "ends%20within%20a%20message"),
        (vec![1, 0, 0, 0, 1, 1], 3, "compressed"),
        (vec![0, 255, 255, 255, 255, 1], 8, "--max_body_bytes"),
        (
            vec![0, 0, 0, 0, 3, 255, 255, 255],
            3,
            "not%20a%20ModelInferRequest",
        ),
        (
            vec![0, 0, 0, 0, 2, 10, 200],
            3,
            "not%20a%20ModelInferRequest",
        ),
        (
            vec![0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            3,
            "more%20than%20one%20message",
        ),
        (many, 3, "at%20most%204096%20are%20allowed"),
        (inside, 3, "at%20most%204096%20are%20allowed"),
    ] {
        let reply = read(post(body.clone())).await;
        let header = |name: &str| reply.header(name).unwrap_or_default().to_owned();
        assert_eq!(reply.status, 200);
        assert_eq!(
            header("grpc-status"),
            code.to_string(),
            "{body:?}: {reply:?}"
        );
        assert!(header("grpc-message").contains(why), "{reply:?}");
        assert!(reply.header("x-request-id").is_some());
    }
    let unknown = read(
        http.post(format!(
            "http://{address}/inference.GRPCInferenceService/Nothing"
        ))
        .header("content-type", "application/grpc"),
    );
    assert_eq!(unknown.await.header("grpc-status"), Some("12"));
    let plain = read(server.client.get(format!("http://{address}/v2"))).await;
    let rest = format!(
        "the REST API is at port {}",
        server.server.addresses()[0].port()
    );
    assert!(
        plain.status == 415 && plain.text.contains(&rest),
        "{plain:?}"
    );
    let asked = with_input(request("repeat"), "x", "INT8", &[1], vec![1]);
    let answer: ModelInferResponse = client.call("ModelInfer", asked).await.unwrap();
    assert_eq!(answer.outputs.len(), 1);
}

#[tokio::test]
async fn a_message_that_dribbles_in_is_cut_off() {
    let setup = setup(&[("repeat", REPEAT)]);
    let setup = setup.with(|options| options.limits.body = Duration::from_millis(200));
    let server = setup.start().await;
    let mut stream = TcpStream::connect(server.server.grpc_addresses()[0])
        .await
        .expect("it listens");
    let head = "POST /inference.GRPCInferenceService/ModelInfer HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/grpc\r\ncontent-length: 100\r\n\r\n\0\0\0";
    stream.write_all(head.as_bytes()).await.expect("writable");
    let mut answer = String::new();
    let read = tokio::time::timeout(Duration::from_secs(30), stream.read_to_string(&mut answer));
    read.await.expect("it is closed").expect("text");
    assert!(answer.contains("grpc-status: 4"), "{answer}");
}

#[tokio::test]
async fn more_metadata_than_fits_is_refused() {
    let (_server, client) = start(&[("repeat", REPEAT)]).await;
    let asked = || with_input(request("repeat"), "x", "INT8", &[1], vec![1]);
    let mut large = tonic::Request::new(asked());
    let value = "a".repeat(100_000).parse().expect("ASCII");
    large.metadata_mut().insert("x-large", value);
    let answer = client.send::<_, ModelInferResponse>("ModelInfer", large);
    assert!(answer.await.is_err());
    let answer: ModelInferResponse = client.call("ModelInfer", asked()).await.unwrap();
    assert_eq!(answer.outputs.len(), 1);
}

#[tokio::test]
async fn compressed_messages_are_read_as_far_as_a_body_may_go() {
    let setup = setup(&[("repeat", REPEAT)]).bodies(100_000, 150_000);
    let server = setup.start().await;
    let address = server.server.grpc_addresses()[0];
    let post = async |bytes: usize, encoding: &'static str| {
        let message = with_input(
            request("repeat"),
            "x",
            "UINT8",
            &[bytes as i64],
            vec![7; bytes],
        );
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        std::io::Write::write_all(&mut encoder, &message.encode_to_vec()).expect("memory");
        let packed = encoder.finish().expect("memory");
        let mut body = vec![1];
        body.extend((packed.len() as u32).to_be_bytes());
        body.extend(packed);
        let url = format!("http://{address}/inference.GRPCInferenceService/ModelInfer");
        let request = server
            .client
            .post(url)
            .header("content-type", "application/grpc");
        read(request.header("grpc-encoding", encoding).body(body)).await
    };
    let fits = post(90_000, "deflate").await;
    assert!(
        fits.header("grpc-status")
            .is_none_or(|status| status == "0"),
        "{fits:?}"
    );
    let bomb = post(1 << 20, "deflate").await;
    assert_eq!(bomb.header("grpc-status"), Some("8"), "{bomb:?}");
    assert_eq!(post(10, "gzip").await.header("grpc-status"), Some("3"));
    assert_eq!(post(10, "br").await.header("grpc-status"), Some("12"));
}

#[tokio::test]
async fn a_tensor_in_frames_of_any_length_is_what_was_sent() {
    let (server, _client) = start(&[("repeat", REPEAT)]).await;
    let address = server.server.grpc_addresses()[0];
    let url = format!("http://{address}/inference.GRPCInferenceService/ModelInfer");
    let data: Vec<u8> = (0..40_000).map(|at| at as u8).collect();
    let asked = with_input(request("repeat"), "x", "UINT8", &[40_000], data.clone());
    let asked = asked.encode_to_vec();
    let wire = [&[0][..], &(asked.len() as u32).to_be_bytes(), &asked].concat();
    for frame in [1, 7, 1_023, 1_024, 16 << 10, wire.len()] {
        let frames = wire
            .chunks(frame)
            .map(<[u8]>::to_vec)
            .map(Ok::<_, Infallible>);
        let frames = stream::iter(frames.collect::<Vec<_>>());
        let request = server
            .client
            .post(&url)
            .header("content-type", "application/grpc");
        let request = request.body(reqwest::Body::wrap_stream(frames));
        let answer = request.send().await.expect("an answer");
        let answer = answer.bytes().await.expect("a message").slice(5..);
        let answer = ModelInferResponse::decode(answer).expect("a message");
        assert_eq!(answer.raw_output_contents[0], data, "{frame}");
    }
}

#[tokio::test]
async fn garbage_on_the_port_hurts_nobody() {
    let (server, client) = start(&[("repeat", REPEAT)]).await;
    let address: SocketAddr = server.server.grpc_addresses()[0];
    for bytes in [
        &b"\0\xff\xff\xff\xff\xff"[..],
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        b"GET /v2 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
    ] {
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        stream.write_all(bytes).await.expect("writable");
        let mut rest = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut rest));
        // It may be reset, too.
        let _ = read.await.expect("it is closed");
    }
    let asked = with_input(request("repeat"), "x", "INT8", &[1], vec![1]);
    let answer: ModelInferResponse = client.call("ModelInfer", asked).await.unwrap();
    assert_eq!(answer.outputs.len(), 1);
    server.until("idle", |status| sessions(status) == 0).await;
}

#[tokio::test]
async fn an_answer_that_nobody_reads_holds_nothing_of_the_budget_of_bodies() {
    /// More than the buffers of a connection.
    const BYTES: usize = 24 << 20;
    let setup = setup(&[("repeat", REPEAT)]).bodies(2 * BYTES, 2 * BYTES);
    let server = setup.start().await;
    let asked = json!({
        "inputs": [{
            "name": "x", "datatype": "UINT8", "shape": [BYTES],
            "parameters": { "binary_data_size": BYTES },
        }],
        "parameters": { "binary_data_output": true },
    });
    let asked = asked.to_string();
    let head = format!(
        "POST /v2/models/repeat/infer HTTP/1.1\r\nhost: localhost\r\ninference-header-content-length: {}\r\ncontent-length: {}\r\n\r\n{asked}",
        asked.len(),
        asked.len() + BYTES
    );
    let mut stream = TcpStream::connect(server.server.addresses()[0])
        .await
        .expect("it listens");
    stream.write_all(head.as_bytes()).await.expect("it reads");
    stream.write_all(&vec![7; BYTES]).await.expect("it reads");
    let mut first = [0; 12];
    stream.read_exact(&mut first).await.expect("an answer");
    assert_eq!(&first, b"HTTP/1.1 200");
    assert_eq!(server.status().await["bodies"]["bytes"], 0);
}
