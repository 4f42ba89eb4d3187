//! One message, one answer.

use std::time::Duration;

use graphmill_server::inference::{
    InferTensorContents, ModelConfigRequest, ModelConfigResponse, ModelInferRequest,
    ModelInferResponse, ModelMetadataRequest, ModelMetadataResponse, ModelReadyRequest,
    ModelReadyResponse, ModelStatisticsRequest, ModelStatisticsResponse, ServerLiveRequest,
    ServerLiveResponse, ServerMetadataRequest, ServerMetadataResponse, ServerReadyRequest,
    ServerReadyResponse,
    infer_parameter::ParameterChoice,
    model_infer_request::{InferInputTensor, InferRequestedOutputTensor},
};
use tonic::{Code, Request};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use super::{
    MIRROR, REPEAT, TEXT, WAIT,
    client::{Client, refused, request, with, with_input},
    setup, start,
};
use crate::rest::support::{ACTOR, sessions};

fn mirrored() -> ModelInferRequest {
    let x = with_input(
        request("mirror"),
        "x",
        "FP32",
        &[1, 2],
        vec![0, 0, 128, 63, 0, 0, 0, 64],
    );
    with_input(x, "y", "UINT8", &[3], vec![1, 2, 3])
}

#[tokio::test]
async fn the_server_and_its_graphs_say_what_they_are() {
    let (_server, client) = start(&[("mirror", MIRROR), ("text", TEXT), ("actor", ACTOR)]).await;
    let live: ServerLiveResponse = client
        .call("ServerLive", ServerLiveRequest {})
        .await
        .unwrap();
    let ready: ServerReadyResponse = client
        .call("ServerReady", ServerReadyRequest {})
        .await
        .unwrap();
    assert!(live.live && ready.ready);
    let server: ServerMetadataResponse = client
        .call("ServerMetadata", ServerMetadataRequest {})
        .await
        .unwrap();
    assert_eq!(server.name, "Graphmill");
    let asked = |name: &str| ModelMetadataRequest {
        name: name.to_owned(),
        version: "1".to_owned(),
    };
    let mirror: ModelMetadataResponse =
        client.call("ModelMetadata", asked("mirror")).await.unwrap();
    let ports =
        |ports: &[graphmill_server::inference::model_metadata_response::TensorMetadata]| {
            let port = ports
                .iter()
                .map(|it| (it.name.clone(), it.datatype.clone(), it.shape.clone()));
            port.collect::<Vec<_>>()
        };
    let expected = [
        ("x".to_owned(), "FP32".to_owned(), vec![-1, 2]),
        ("y".to_owned(), "INVALID".to_owned(), vec![]),
    ];
    let mut found = ports(&mirror.inputs);
    found.sort();
    assert_eq!(found, expected);
    let text: ModelMetadataResponse = client.call("ModelMetadata", asked("text")).await.unwrap();
    assert_eq!(
        ports(&text.inputs),
        [("text".to_owned(), "BYTES".to_owned(), vec![1])]
    );
    assert_eq!(
        ports(&text.outputs),
        [("same".to_owned(), "BYTES".to_owned(), vec![1])]
    );
    let actor: ModelMetadataResponse = client.call("ModelMetadata", asked("actor")).await.unwrap();
    // It takes HTTP requests.
    assert_eq!((actor.inputs, actor.outputs), (vec![], vec![]));
    let config: ModelConfigResponse = client
        .call(
            "ModelConfig",
            ModelConfigRequest {
                name: "mirror".to_owned(),
                version: String::new(),
            },
        )
        .await
        .unwrap();
    // A packet that goes in comes out once.
    let policy = config.config.unwrap().model_transaction_policy.unwrap();
    assert!(!policy.decoupled);
    let loads = setup(&[("mirror", MIRROR)]).that(&serde_json::json!({ "load": "on_demand" }));
    let loads = loads.start().await;
    let asked = asked("mirror");
    let loaded: ModelMetadataResponse = Client::connect(&loads)
        .await
        .call("ModelMetadata", asked)
        .await
        .unwrap();
    assert_eq!(loaded, mirror);
    let ready = |name: &str, version: &str| ModelReadyRequest {
        name: name.to_owned(),
        version: version.to_owned(),
    };
    let is_ready: ModelReadyResponse = client
        .call("ModelReady", ready("mirror", ""))
        .await
        .unwrap();
    assert!(is_ready.ready);
    for (name, version) in [("miror", ""), ("mirror", "2")] {
        let answer = client
            .call::<_, ModelReadyResponse>("ModelReady", ready(name, version))
            .await;
        assert_eq!(refused(answer).0, Code::NotFound, "{name} {version}");
    }
}

#[tokio::test]
async fn tensors_come_back_as_they_were_sent() {
    let (server, client) = start(&[("mirror", MIRROR), ("text", TEXT)]).await;
    let mut asked = mirrored();
    asked.id = "first".to_owned();
    let answer: ModelInferResponse = client.call("ModelInfer", asked.clone()).await.unwrap();
    assert_eq!(
        (answer.id.as_str(), answer.model_version.as_str()),
        ("first", "1")
    );
    let mut outputs: Vec<_> = answer
        .outputs
        .iter()
        .zip(&answer.raw_output_contents)
        .collect();
    outputs.sort_by_key(|(output, _)| output.name.clone());
    let [(x, x_data), (y, y_data)] = outputs[..] else {
        panic!("{answer:?}");
    };
    assert_eq!(
        (x.name.as_str(), x.datatype.as_str(), &x.shape[..]),
        ("same_x", "FP32", &[1, 2][..])
    );
    assert_eq!(
        (y.name.as_str(), y.datatype.as_str(), &y.shape[..]),
        ("same_y", "UINT8", &[3][..])
    );
    assert_eq!(
        [x_data, y_data],
        [&asked.raw_input_contents[0], &asked.raw_input_contents[1]]
    );

    asked.outputs = vec![InferRequestedOutputTensor {
        name: "same_y".to_owned(),
        ..Default::default()
    }];
    let one: ModelInferResponse = client.call("ModelInfer", asked).await.unwrap();
    assert_eq!(
        (one.outputs.len(), &one.raw_output_contents[0][..]),
        (1, &[1, 2, 3][..])
    );

    let mut typed = request("text");
    typed.inputs.push(InferInputTensor {
        name: "text".to_owned(),
        datatype: "BYTES".to_owned(),
        shape: vec![1],
        contents: Some(InferTensorContents {
            bytes_contents: vec!["grüße".into()],
            ..Default::default()
        }),
        ..Default::default()
    });
    let text: ModelInferResponse = client.call("ModelInfer", typed).await.unwrap();
    assert_eq!(
        &text.raw_output_contents[0][..],
        "\u{7}\0\0\0grüße".as_bytes()
    );

    server.until("idle", |status| sessions(status) == 0).await;
    let counted: ModelStatisticsResponse = client
        .call(
            "ModelStatistics",
            ModelStatisticsRequest {
                name: "mirror".to_owned(),
                version: String::new(),
            },
        )
        .await
        .unwrap();
    assert_eq!(counted.model_stats[0].inference_count, 2);
    let stats = counted.model_stats[0].inference_stats.as_ref().unwrap();
    for part in [
        &stats.compute_input,
        &stats.compute_infer,
        &stats.compute_output,
    ] {
        assert_eq!(part.as_ref().unwrap().count, 2);
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_request_is_named() {
    let (_server, client) = start(&[("mirror", MIRROR), ("text", TEXT), ("actor", ACTOR)]).await;
    let bytes = |name: &str, datatype: &str, shape: &[i64], bytes: usize| {
        let x = with_input(request("mirror"), "x", "FP32", &[1, 2], vec![0; 8]);
        with_input(x, name, datatype, shape, vec![0; bytes])
    };
    let x = |datatype: &str, shape: &[i64], bytes: usize| {
        let x = with_input(request("mirror"), "x", datatype, shape, vec![0; bytes]);
        with_input(x, "y", "UINT8", &[1], vec![0; 1])
    };
    let with_outputs = |name: &str| ModelInferRequest {
        outputs: vec![InferRequestedOutputTensor {
            name: name.to_owned(),
            ..Default::default()
        }],
        ..mirrored()
    };
    let mut both = mirrored();
    both.inputs[0].contents = Some(InferTensorContents::default());
    let mut fewer = mirrored();
    fewer.raw_input_contents.pop();
    let shared = {
        let mut shared = mirrored();
        let region = with(
            request(""),
            "shared_memory_region",
            ParameterChoice::StringParam("a".into()),
        );
        shared.inputs[1].parameters = region.parameters;
        shared
    };
    let utf8 = with_input(
        request("text"),
        "text",
        "BYTES",
        &[1],
        vec![1, 0, 0, 0, 255],
    );
    for (asked, code, why) in [
        (
            request("nothing"),
            Code::NotFound,
            "the model `nothing` does not exist",
        ),
        (
            ModelInferRequest {
                model_version: "7".into(),
                ..mirrored()
            },
            Code::NotFound,
            "no version `7`",
        ),
        (
            with_input(request("mirror"), "x", "FP32", &[1, 2], vec![0; 8]),
            Code::InvalidArgument,
            "`inputs.y`: the input is missing",
        ),
        (
            bytes("z", "UINT8", &[1], 1),
            Code::InvalidArgument,
            "`inputs.z`: unknown input: expected one of",
        ),
        (
            bytes("x", "FP32", &[1, 2], 8),
            Code::InvalidArgument,
            "`inputs.x`: the input is given twice",
        ),
        (
            bytes("y", "FLOAT", &[1], 4),
            Code::InvalidArgument,
            "`inputs[1].datatype`: the datatype must be one of BOOL",
        ),
        (
            bytes("y", "FP32", &[-1], 4),
            Code::InvalidArgument,
            "`inputs[1].shape`: the shape [-1] has a dimension below 0",
        ),
        (
            bytes("y", "FP32", &[3], 4),
            Code::InvalidArgument,
            "`inputs[1]`: FP32 of shape [3] has 12 bytes, but there are 4",
        ),
        (
            bytes("y", "FP64", &[i64::MAX, i64::MAX], 8),
            Code::InvalidArgument,
            "more elements than can be counted",
        ),
        (
            bytes("y", "BYTES", &[1], 3),
            Code::InvalidArgument,
            "element 0 of the BYTES ends behind the data",
        ),
        (
            x("FP64", &[1, 2], 16),
            Code::InvalidArgument,
            "`inputs.x`: the tensor is FP64, but the graph declares FP32",
        ),
        (
            x("FP32", &[2], 8),
            Code::InvalidArgument,
            "the tensor's shape is [2], but the graph declares [-1, 2]",
        ),
        (both, Code::InvalidArgument, "`inputs[0].contents`"),
        (
            fewer,
            Code::InvalidArgument,
            "`raw_input_contents`: expected one for each input, not 1 for 2 inputs",
        ),
        (
            shared,
            Code::Unimplemented,
            "shared memory is not supported",
        ),
        (utf8, Code::InvalidArgument, "the text is not UTF-8"),
        (
            with_input(request("text"), "text", "FP32", &[1], vec![0; 4]),
            Code::InvalidArgument,
            "takes BYTES with one element",
        ),
        (
            with_outputs("z"),
            Code::InvalidArgument,
            "the graph has no output `z`",
        ),
        (
            with(mirrored(), "speed", ParameterChoice::Int64Param(1)),
            Code::InvalidArgument,
            "no side packet for the parameter `speed`",
        ),
        (
            with(mirrored(), "sequence_id", ParameterChoice::Int64Param(1)),
            Code::NotFound,
            "has no sequence 1",
        ),
        (
            with(
                mirrored(),
                "OVMS_MP_TIMESTAMP",
                ParameterChoice::StringParam("1".into()),
            ),
            Code::InvalidArgument,
            "a 64-bit whole number",
        ),
        (
            with(
                mirrored(),
                "OVMS_MP_TIMESTAMP",
                ParameterChoice::Int64Param(i64::MAX),
            ),
            Code::InvalidArgument,
            "is not a valid timestamp",
        ),
        (
            with_input(request("actor"), "input", "BYTES", &[1], vec![0; 4]),
            Code::InvalidArgument,
            "takes HTTP requests, not tensors",
        ),
    ] {
        let (found, message) = refused(
            client
                .call::<_, ModelInferResponse>("ModelInfer", asked)
                .await,
        );
        assert!(
            found == code && message.contains(why),
            "{found:?} {message} ({why})"
        );
    }
    let answer: ModelInferResponse = client.call("ModelInfer", mirrored()).await.unwrap();
    assert_eq!(answer.outputs.len(), 2);
}

#[tokio::test]
async fn parameters_are_side_packets() {
    let (server, client) = start(&[("repeat", REPEAT), ("mirror", MIRROR)]).await;
    let asked = |times: i64| {
        let asked = with_input(request("repeat"), "x", "INT8", &[2], vec![1, 2]);
        with(asked, "times", ParameterChoice::Int64Param(times))
    };
    let once: ModelInferResponse = client.call("ModelInfer", asked(1)).await.unwrap();
    assert_eq!(&once.raw_output_contents[0][..], [1, 2]);
    for (times, code, why) in [
        (
            2,
            Code::InvalidArgument,
            "more than one packet: use ModelStreamInfer",
        ),
        (0, Code::Internal, "told to fail"),
        (-1, Code::Internal, ""),
    ] {
        let answer = client
            .call::<_, ModelInferResponse>("ModelInfer", asked(times))
            .await;
        let (found, message) = refused(answer);
        assert!(
            found == code && message.contains(why),
            "{found:?} {message}"
        );
    }
    let wrong = with_input(request("repeat"), "x", "INT8", &[1], vec![1]);
    let wrong = with(wrong, "times", ParameterChoice::StringParam("many".into()));
    let (code, message) = refused(
        client
            .call::<_, ModelInferResponse>("ModelInfer", wrong)
            .await,
    );
    assert!(
        code == Code::InvalidArgument && message.contains("`times`"),
        "{message}"
    );
    server.until("idle", |status| sessions(status) == 0).await;
    let after: ModelInferResponse = client.call("ModelInfer", mirrored()).await.unwrap();
    assert_eq!(after.outputs.len(), 2);
}

#[tokio::test]
async fn a_deadline_ends_a_run() {
    let (server, client) = start(&[("wait", WAIT)]).await;
    let asked = || with_input(request("wait"), "x", "INT8", &[1], vec![1]);
    let mut timed = Request::new(asked());
    timed.set_timeout(Duration::from_millis(200));
    let (code, _) = refused(
        client
            .send::<_, ModelInferResponse>("ModelInfer", timed)
            .await,
    );
    assert!(
        [Code::DeadlineExceeded, Code::Cancelled].contains(&code),
        "{code:?}"
    );
    let own = with(asked(), "timeout", ParameterChoice::Int64Param(50_000));
    let (code, message) = refused(
        client
            .call::<_, ModelInferResponse>("ModelInfer", own)
            .await,
    );
    assert_eq!(code, Code::DeadlineExceeded, "{message}");
    server.until("idle", |status| sessions(status) == 0).await;
}

#[tokio::test]
async fn health_is_that_of_the_server_and_of_graphs() {
    let (_server, whole) = start(&[("mirror", MIRROR)]).await;
    let asked = HealthCheckRequest::default();
    let path = "/grpc.health.v1.Health/Check";
    let answer = whole.call::<_, HealthCheckResponse>(path, asked).await;
    assert_eq!(answer.unwrap().status, 1);
    let (_server, client) = start(&[("mirror", MIRROR), ("broken", "node {")]).await;
    let check = async |service: &str| {
        let asked = HealthCheckRequest {
            service: service.to_owned(),
        };
        client.call::<_, HealthCheckResponse>(path, asked).await
    };
    for (service, status) in [
        ("", 2),
        ("inference.GRPCInferenceService", 2),
        ("mirror", 1),
        ("broken", 2),
    ] {
        assert_eq!(check(service).await.unwrap().status, status, "{service}");
    }
    assert_eq!(refused(check("nothing").await).0, Code::NotFound);
}
