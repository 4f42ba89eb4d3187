//! Streams: one run of a graph, packet by packet.

use graphmill_server::inference::{
    ModelInferRequest, ModelInferResponse, ModelStreamInferResponse,
    infer_parameter::ParameterChoice, model_infer_request::InferRequestedOutputTensor,
};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tonic::{Code, Status, Streaming};

use super::{
    MIRROR, REPEAT, WAIT,
    client::{Client, PATIENCE, refused, request, with, with_input},
    setup, start,
};
use crate::rest::support::sessions;

/// A tensor for a graph with the input `x`.
fn packet(graph: &str, value: u8) -> ModelInferRequest {
    with_input(request(graph), "x", "INT8", &[1], vec![value])
}

fn at(request: ModelInferRequest, time: i64) -> ModelInferRequest {
    with(
        request,
        "OVMS_MP_TIMESTAMP",
        ParameterChoice::Int64Param(time),
    )
}

fn asking_for(mut request: ModelInferRequest, outputs: &[&str]) -> ModelInferRequest {
    let names = outputs.iter();
    request.outputs = names
        .map(|name| InferRequestedOutputTensor {
            name: (*name).to_owned(),
            ..InferRequestedOutputTensor::default()
        })
        .collect();
    request
}

/// A stream whose first message this is.
pub(super) async fn begun(
    client: &Client,
    first: ModelInferRequest,
) -> (
    UnboundedSender<ModelInferRequest>,
    Streaming<ModelStreamInferResponse>,
) {
    let (sender, receiver) = unbounded_channel();
    sender.send(first).expect("open");
    let answers = client.open(receiver).await.expect("a stream");
    (sender, answers)
}

pub(super) async fn next(
    answers: &mut Streaming<ModelStreamInferResponse>,
) -> Result<Option<ModelStreamInferResponse>, Status> {
    let next = tokio::time::timeout(PATIENCE, answers.message()).await;
    next.expect("an answer in time")
}

/// The bytes and the timestamp of the next packet.
async fn given(answers: &mut Streaming<ModelStreamInferResponse>) -> (Vec<u8>, i64) {
    let answer = next(answers).await.expect("no status").expect("no end");
    assert_eq!(answer.error_message, "");
    let answer = answer.infer_response.expect("an answer");
    let time = answer.parameters["OVMS_MP_TIMESTAMP"]
        .parameter_choice
        .clone();
    let Some(ParameterChoice::Int64Param(time)) = time else {
        panic!("{answer:?}");
    };
    (answer.raw_output_contents[0].to_vec(), time)
}

/// What is wrong with a message.
async fn told(answers: &mut Streaming<ModelStreamInferResponse>) -> String {
    let answer = next(answers).await.expect("no status").expect("no end");
    answer.error_message
}

#[tokio::test]
async fn packets_come_as_the_graph_gives_them() {
    let (server, client) = start(&[("repeat", REPEAT)]).await;
    let first = with(
        at(packet("repeat", 1), 10),
        "times",
        ParameterChoice::Int64Param(3),
    );
    let (sender, mut answers) = begun(&client, first).await;
    for time in [10, 11, 12] {
        assert_eq!(given(&mut answers).await, (vec![1], time));
    }
    // Wall clock, as no timestamp is said.
    sender.send(packet("repeat", 2)).expect("open");
    let (data, first) = given(&mut answers).await;
    assert!(data == [2] && first > 1_600_000_000_000_000, "{first}");
    assert_eq!(given(&mut answers).await.1, first + 1);
    assert_eq!(given(&mut answers).await.1, first + 2);
    drop(sender);
    assert!(next(&mut answers).await.expect("OK").is_none());
    server.until("idle", |status| sessions(status) == 0).await;
}

#[tokio::test]
async fn a_wrong_message_is_told_and_the_stream_goes_on() {
    let (_server, client) = start(&[("mirror", MIRROR)]).await;
    let x = |value: u8, time| {
        at(
            with_input(request("mirror"), "x", "FP32", &[1, 2], vec![value; 8]),
            time,
        )
    };
    let y = |value: u8, time| {
        at(
            with_input(request("mirror"), "y", "INT8", &[1], vec![value]),
            time,
        )
    };
    // What is wrong with the tensors of the first is no reason to end, either.
    let (sender, mut answers) = begun(&client, at(packet("mirror", 1), 1)).await;
    assert!(told(&mut answers).await.contains("the graph declares FP32"));
    for (wrong, why) in [
        (packet("other", 1), "the stream is for the graph `mirror`"),
        (
            ModelInferRequest {
                model_version: "3".into(),
                ..y(1, 2)
            },
            "the stream is for the version 1",
        ),
        (
            with_input(request("mirror"), "z", "INT8", &[1], vec![1]),
            "unknown input",
        ),
        (
            with_input(request("mirror"), "y", "INT8", &[2], vec![1]),
            "has 2 bytes, but there are 1",
        ),
        (
            with(
                y(1, 2),
                "OVMS_MP_TIMESTAMP",
                ParameterChoice::BoolParam(true),
            ),
            "whole number",
        ),
    ] {
        sender.send(wrong).expect("open");
        let message = told(&mut answers).await;
        assert!(message.contains(why), "{message}");
    }
    // Inputs of one timestamp may come in several messages.
    sender.send(y(5, 20)).expect("open");
    sender.send(x(6, 20)).expect("open");
    let mut found = [given(&mut answers).await, given(&mut answers).await];
    found.sort();
    assert_eq!(found, [(vec![5], 20), (vec![6; 8], 20)]);
    sender.send(y(5, 20)).expect("open");
    let message = told(&mut answers).await;
    assert!(
        message.contains("timestamps of a stream must increase"),
        "{message}"
    );
    drop(sender);
    assert!(next(&mut answers).await.expect("OK").is_none());
}

#[tokio::test]
async fn a_request_learns_when_it_has_all_of_its_answers() {
    let (_server, client) = start(&[("repeat", REPEAT)]).await;
    let asked = |value: u8, id: &str| {
        let mut asked = packet("repeat", value);
        asked.id = id.to_owned();
        let wish = ParameterChoice::BoolParam(true);
        with(asked, "triton_enable_empty_final_response", wish)
    };
    let first = with(asked(1, "one"), "times", ParameterChoice::Int64Param(40));
    let (sender, mut answers) = begun(&client, first).await;
    for (value, id) in [(1, "one"), (2, "two")] {
        if value == 2 {
            sender.send(asked(value, id)).expect("open");
        }
        for _ in 0..40 {
            assert_eq!(given(&mut answers).await.0, [value]);
        }
        let last = next(&mut answers)
            .await
            .expect("no status")
            .expect("no end");
        let last = last.infer_response.expect("an answer");
        let said = last.parameters["triton_final_response"]
            .parameter_choice
            .clone();
        assert_eq!(
            (last.id.as_str(), said),
            (id, Some(ParameterChoice::BoolParam(true)))
        );
        assert!(last.outputs.is_empty());
    }
}

#[tokio::test]
async fn an_error_of_the_graph_ends_the_stream_with_a_status() {
    let (server, client) = start(&[("repeat", REPEAT), ("mirror", MIRROR)]).await;
    for times in [0, -1] {
        let first = with(
            packet("repeat", 1),
            "times",
            ParameterChoice::Int64Param(times),
        );
        let (_sender, mut answers) = begun(&client, first).await;
        let status = next(&mut answers).await.expect_err("a status");
        assert_eq!(status.code(), Code::Internal, "{status:?}");
    }
    for (first, code) in [
        (packet("nothing", 1), Code::NotFound),
        (
            with(packet("repeat", 1), "tims", ParameterChoice::Int64Param(1)),
            Code::InvalidArgument,
        ),
    ] {
        let (sender, receiver) = unbounded_channel();
        sender.send(first).expect("open");
        assert_eq!(refused(client.open(receiver).await.map(drop)).0, code);
    }
    let (sender, receiver) = unbounded_channel();
    drop(sender);
    let (code, message) = refused(client.open(receiver).await.map(drop));
    assert_eq!(code, Code::InvalidArgument, "{message}");
    server.until("idle", |status| sessions(status) == 0).await;
}

#[tokio::test]
async fn a_thousand_streams_that_are_dropped_leave_nothing() {
    let (server, client) = start(&[("wait", WAIT), ("repeat", REPEAT)]).await;
    // As many as a connection may have at once, four times.
    for _ in 0..4 {
        let mut streams = Vec::new();
        for number in 0..250 {
            let graph = if number % 2 == 0 { "wait" } else { "repeat" };
            streams.push(begun(&client, packet(graph, 1)).await);
        }
        server.until("open", |status| sessions(status) == 250).await;
        drop(streams);
        server.until("gone", |status| sessions(status) == 0).await;
    }
}

#[tokio::test]
async fn a_stream_ends_with_the_server() {
    let setup = setup(&[("wait", WAIT)]).grace(std::time::Duration::from_millis(100));
    let server = setup.start().await;
    let client = Client::connect(&server).await;
    let (_sender, mut answers) = begun(&client, packet("wait", 1)).await;
    let stopping = tokio::spawn(server.server.stop());
    let status = next(&mut answers).await.expect_err("a status");
    assert_eq!(
        (status.code(), status.message()),
        (Code::Unavailable, "the server is stopping")
    );
    stopping.await.expect("it stops");
}

#[tokio::test]
async fn outputs_may_be_named_all_or_none() {
    let (_server, client) = start(&[("repeat", REPEAT)]).await;
    let (sender, mut answers) =
        begun(&client, asking_for(packet("repeat", 1), &["repeated"])).await;
    assert_eq!(given(&mut answers).await.0, [1]);
    let others = asking_for(packet("repeat", 2), &["repeated", "x"]);
    sender.send(others).expect("open");
    let answer = next(&mut answers)
        .await
        .expect("no status")
        .expect("no end");
    let told = "`outputs`: a stream returns the packets of all outputs";
    assert!(answer.error_message.contains(told), "{answer:?}");
}

#[tokio::test]
async fn answers_that_nobody_reads_hold_nothing_of_the_budget_of_bodies() {
    const BYTES: usize = 1 << 20;
    let setup = setup(&[("repeat", REPEAT)]).bodies(BYTES + 1_000, 4 * BYTES);
    let server = setup.start().await;
    let client = Client::connect(&server).await;
    let large = || with_input(request("repeat"), "x", "UINT8", &[1 << 20], vec![7; BYTES]);
    let mut streams = Vec::new();
    for _ in 0..3 {
        // More answers than the buffers of a connection hold.
        let many = with(large(), "times", ParameterChoice::Int64Param(40));
        streams.push(begun(&client, many).await);
        let read = |status: &serde_json::Value| status["bodies"]["bytes"] == 0;
        server.until("the graph has read it", read).await;
    }
    assert_eq!(sessions(&server.status().await), 3);
    let other = Client::connect(&server).await;
    let answer: ModelInferResponse = other.call("ModelInfer", large()).await.expect("room");
    assert_eq!(answer.raw_output_contents[0].len(), BYTES);
}
