//! TorchServe's services over gRPC.

use std::net::SocketAddr;

use bytes::Bytes;
use futures_util::{TryStreamExt as _, stream};
use graphmill_server::torchserve_services::{
    inference::{PredictionResponse, PredictionsRequest, TorchServeHealthResponse},
    management::{
        DescribeModelRequest, ListModelsRequest, ManagementResponse, RegisterModelRequest,
        ScaleWorkerRequest, SetDefaultRequest, UnregisterModelRequest,
    },
};
use serde_json::Value;
use tonic::{Code, Request, Status, client::Grpc, transport::Channel, transport::Endpoint};
use tonic_prost::ProstCodec;

use crate::rest::torchserve::writer;

const INFERENCE: &str = "org.pytorch.serve.grpc.inference.InferenceAPIsService";
const MANAGEMENT: &str = "org.pytorch.serve.grpc.management.ManagementAPIsService";

async fn connect(address: SocketAddr) -> Grpc<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("a URL");
    let mut grpc = Grpc::new(endpoint.connect().await.expect("it listens"));
    grpc.ready().await.expect("a connection");
    grpc
}

async fn call<Q, A>(at: SocketAddr, service: &str, method: &str, message: Q) -> Result<A, Status>
where
    Q: prost::Message + Default + Send + Sync + 'static,
    A: prost::Message + Default + Send + Sync + 'static,
{
    let path = format!("/{service}/{method}").parse().expect("a path");
    let codec = ProstCodec::<Q, A>::default();
    let answered = connect(at)
        .await
        .unary(Request::new(message), path, codec)
        .await;
    Ok(answered?.into_inner())
}

/// The answers to messages of a stream, or to one.
pub(crate) async fn streamed(
    at: SocketAddr,
    method: &str,
    messages: Vec<PredictionsRequest>,
) -> Result<Vec<PredictionResponse>, Status> {
    let path = format!("/{INFERENCE}/{method}").parse().expect("a path");
    let codec = ProstCodec::<PredictionsRequest, PredictionResponse>::default();
    let messages = Request::new(stream::iter(messages));
    let answered = connect(at).await.streaming(messages, path, codec).await?;
    answered.into_inner().try_collect().await
}

pub(crate) fn asked(model: &str, input: &[(&str, &str)]) -> PredictionsRequest {
    let input = input.iter();
    let input =
        input.map(|(name, text)| ((*name).to_owned(), Bytes::copy_from_slice(text.as_bytes())));
    PredictionsRequest {
        model_name: model.to_owned(),
        input: input.collect(),
        ..PredictionsRequest::default()
    }
}

pub(crate) fn joined(answers: &[PredictionResponse]) -> String {
    let texts = answers
        .iter()
        .map(|it| str::from_utf8(&it.prediction).expect("a text"));
    texts.collect()
}

#[tokio::test]
async fn predictions_are_whole_or_come_in_pieces() {
    let server = writer(Some("<|endoftext|>")).await;
    let at = server.server.grpc_addresses()[0];
    let health: TorchServeHealthResponse = call(at, INFERENCE, "Ping", ()).await.expect("health");
    assert_eq!(health.health, "Healthy");
    for (model, input, answer) in [
        (
            "chat",
            &[("text", "Hi"), ("max_new_tokens", "3")][..],
            "jkl<|endoftext|>",
        ),
        ("texts", &[("data", "Hi")], "hello<|endoftext|>"),
    ] {
        let whole = call(at, INFERENCE, "Predictions", asked(model, input)).await;
        let whole: PredictionResponse = whole.expect("an answer");
        assert_eq!(joined(&[whole]), answer, "{model}");
        let pieces = streamed(at, "StreamPredictions", vec![asked(model, input)]).await;
        let pieces = pieces.expect("pieces");
        assert_eq!(joined(&pieces), answer, "{model}");
        assert!(pieces.len() > 1, "{pieces:?}");
    }
    let mut versioned = asked("chat", &[("prompt", "Hi"), ("max_tokens", "1")]);
    versioned.model_version = "1.0".to_owned();
    let whole: PredictionResponse = call(at, INFERENCE, "Predictions", versioned)
        .await
        .expect("an answer");
    assert_eq!(joined(&[whole]), "j<|endoftext|>");
    for (message, code, why) in [
        (asked("nobody", &[("text", "Hi")]), Code::NotFound, "nobody"),
        (asked("chat", &[]), Code::InvalidArgument, "`text`"),
        (
            asked("chat", &[("inputs_embeds", "x"), ("text", "a")]),
            Code::InvalidArgument,
            "inputs_embeds",
        ),
    ] {
        let refused = streamed(at, "StreamPredictions", vec![message]).await;
        let refused = refused.expect_err("refused");
        assert_eq!(refused.code(), code, "{refused:?}");
        assert!(refused.message().contains(why), "{refused:?}");
    }
    server.until_idle().await;
}

#[tokio::test]
async fn each_request_of_a_stream_is_answered_or_told_what_is_wrong() {
    let server = writer(None).await;
    let at = server.server.grpc_addresses()[0];
    let named = |id: &str, message: PredictionsRequest| PredictionsRequest {
        sequence_id: Some(id.to_owned()),
        ..message
    };
    let messages = vec![
        named(
            "1",
            asked("chat", &[("text", "Hi"), ("max_new_tokens", "3")]),
        ),
        named("2", asked("nobody", &[("text", "Hi")])),
        named("3", asked("texts", &[("text", "Hi")])),
    ];
    let answers = streamed(at, "StreamPredictions2", messages)
        .await
        .expect("answers");
    let of = |id: &str| -> Vec<PredictionResponse> {
        let of = answers
            .iter()
            .filter(|it| it.sequence_id.as_deref() == Some(id));
        of.cloned().collect()
    };
    assert_eq!((&*joined(&of("1")), &*joined(&of("3"))), ("jkl", "hello"));
    let [failed] = &of("2")[..] else {
        panic!("one answer: {answers:?}")
    };
    let status = failed.status.as_ref().expect("a status");
    assert_eq!(status.code, Code::NotFound as i32, "{status:?}");
    server.until_idle().await;
}

#[tokio::test]
async fn operators_ask_at_a_port_of_their_own() {
    let server = writer(None).await;
    let (clients, at) = (
        server.server.grpc_addresses()[0],
        server.server.grpc_management_addresses()[0],
    );
    let named = || DescribeModelRequest {
        model_name: "chat".to_owned(),
        ..DescribeModelRequest::default()
    };
    let answer = |answer: Result<ManagementResponse, Status>| -> Value {
        serde_json::from_str(&answer.expect("an answer").msg).expect("JSON")
    };
    let described = answer(call(at, MANAGEMENT, "DescribeModel", named()).await);
    assert_eq!(described[0]["workers"][0]["status"], "READY", "{described}");
    let page = ListModelsRequest {
        limit: 2,
        next_page_token: 0,
    };
    let listed = answer(call(at, MANAGEMENT, "ListModels", page).await);
    assert_eq!(
        listed["models"].as_array().map(Vec::len),
        Some(2),
        "{listed}"
    );
    assert_eq!(listed["nextPageToken"], "2", "{listed}");
    let scaled = |workers| ScaleWorkerRequest {
        model_name: "chat".to_owned(),
        min_worker: workers,
        ..ScaleWorkerRequest::default()
    };
    answer(call(at, MANAGEMENT, "ScaleWorker", scaled(1)).await);
    let default = SetDefaultRequest {
        model_name: "chat".to_owned(),
        model_version: "1.0".to_owned(),
    };
    answer(call(at, MANAGEMENT, "SetDefault", default).await);
    let refused = |answer: Result<ManagementResponse, Status>| answer.expect_err("refused").code();
    let scaled = call(at, MANAGEMENT, "ScaleWorker", scaled(3)).await;
    assert_eq!(refused(scaled), Code::Unimplemented);
    let register = RegisterModelRequest {
        url: "chat".to_owned(),
        model_name: "a name that is no message".to_owned(),
        ..RegisterModelRequest::default()
    };
    let registered = call(at, MANAGEMENT, "RegisterModel", register).await;
    assert_eq!(refused(registered), Code::Unimplemented);
    let unregister = UnregisterModelRequest::default();
    let unregistered = call(at, MANAGEMENT, "UnregisterModel", unregister).await;
    assert_eq!(refused(unregistered), Code::Unimplemented);
    let elsewhere = call(clients, MANAGEMENT, "DescribeModel", named()).await;
    assert_eq!(refused(elsewhere), Code::PermissionDenied);
}
