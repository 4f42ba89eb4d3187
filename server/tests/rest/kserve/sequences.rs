//! Sequences: runs of graphs that stay between requests.

use std::time::Duration;

use graphmill_server::{
    KeySource, SequenceLimits,
    inference::{ModelInferRequest, ModelInferResponse, infer_parameter::ParameterChoice},
};
use serde_json::{Value, json};
use tonic::Code;

use super::{
    SUM, WAIT,
    client::{Client, refused, request, with, with_input},
    setup, start,
    stream::{begun, next},
};
use crate::rest::{
    metrics::{scrape, value},
    support::{TestServer, read, sessions},
};

/// A part of a sequence.
fn part(id: u64, number: i64, flags: &[&str]) -> ModelInferRequest {
    of(ParameterChoice::Uint64Param(id), number, flags)
}

fn of(id: ParameterChoice, number: i64, flags: &[&str]) -> ModelInferRequest {
    let asked = with_input(
        request("sum"),
        "x",
        "INT64",
        &[1],
        number.to_le_bytes().to_vec(),
    );
    let asked = with(asked, "sequence_id", id);
    flags.iter().fold(asked, |asked, flag| {
        with(asked, flag, ParameterChoice::BoolParam(true))
    })
}

const START: &str = "sequence_start";
const END: &str = "sequence_end";

fn sum(answer: &ModelInferResponse) -> i64 {
    i64::from_le_bytes(
        answer.raw_output_contents[0][..]
            .try_into()
            .expect("a number"),
    )
}

async fn infer(client: &Client, asked: ModelInferRequest) -> Result<i64, (Code, String)> {
    let answer: Result<ModelInferResponse, _> = client.call("ModelInfer", asked).await;
    match answer {
        Ok(answer) => Ok(sum(&answer)),
        Err(status) => Err((status.code(), status.message().to_owned())),
    }
}

async fn until_idle(server: &TestServer) {
    until(server, 0).await;
}

async fn until(server: &TestServer, open: u64) {
    server
        .until("as many sessions", |status| sessions(status) == open)
        .await;
}

#[tokio::test]
async fn what_nodes_keep_stays_between_requests() {
    let (server, client) = start(&[("sum", SUM)]).await;
    let text = |number, flags: &[&str]| {
        let id = ParameterChoice::StringParam("a".to_owned());
        of(id, number, flags)
    };
    let first = with(
        part(5, 1, &[START]),
        "first",
        ParameterChoice::Int64Param(100),
    );
    assert_eq!(infer(&client, first).await, Ok(101));
    assert_eq!(infer(&client, text(7, &[START])).await, Ok(7));
    assert_eq!(infer(&client, part(5, 2, &[])).await, Ok(103));
    assert_eq!(infer(&client, text(8, &[END])).await, Ok(15));
    assert_eq!(infer(&client, part(5, 3, &[END])).await, Ok(106));
    assert_eq!(infer(&client, part(5, 4, &[START, END])).await, Ok(4));
    // Without an id, a request is by itself.
    assert_eq!(infer(&client, part(0, 4, &[])).await, Ok(4));
    until_idle(&server).await;
}

#[tokio::test]
async fn rest_has_the_same_sequences() {
    let (server, client) = start(&[("sum", SUM)]).await;
    assert_eq!(infer(&client, part(5, 1, &[START])).await, Ok(1));
    let body = json!({
        "parameters": { "sequence_id": 5, "sequence_end": true },
        "inputs": [{ "name": "x", "datatype": "INT64", "shape": [1], "data": [2] }],
    });
    let reply = read(server.post("/v2/models/sum/infer", body.to_string())).await;
    assert_eq!(reply.json()["outputs"][0]["data"], json!([3]), "{reply:?}");
    let reply = read(server.post("/v2/models/sum/infer", body.to_string())).await;
    assert_eq!(reply.status, 404, "{reply:?}");
    assert!(reply.text.contains("sequence_start"), "{reply:?}");
}

#[tokio::test]
async fn what_is_wrong_with_a_request_leaves_its_sequence() {
    let (server, client) = start(&[("sum", SUM)]).await;
    for (wrong, code, why) in [
        (part(5, 1, &[]), Code::NotFound, "no sequence 5"),
        (
            part(0, 1, &[START]),
            Code::InvalidArgument,
            "`sequence_id` is missing",
        ),
        (
            of(ParameterChoice::Int64Param(-1), 1, &[START]),
            Code::InvalidArgument,
            "at least 0",
        ),
        (
            of(ParameterChoice::BoolParam(true), 1, &[START]),
            Code::InvalidArgument,
            "at least 0",
        ),
        (
            of(ParameterChoice::StringParam("a".repeat(129)), 1, &[START]),
            Code::InvalidArgument,
            "at most 128 bytes",
        ),
        (
            with(part(5, 1, &[]), START, ParameterChoice::Int64Param(1)),
            Code::InvalidArgument,
            "true or false",
        ),
    ] {
        let (found, message) = infer(&client, wrong).await.expect_err("an error");
        assert!(
            found == code && message.contains(why),
            "{found:?} {message}"
        );
    }
    // One that begins with a mistake has not begun.
    let no_tensor = ModelInferRequest {
        inputs: Vec::new(),
        raw_input_contents: Vec::new(),
        ..part(5, 1, &[START])
    };
    assert!(infer(&client, no_tensor.clone()).await.is_err());
    assert_eq!(infer(&client, part(5, 1, &[START])).await, Ok(1));
    let no_tensor = ModelInferRequest {
        parameters: part(5, 1, &[]).parameters,
        ..no_tensor
    };
    for (wrong, why) in [
        (part(5, 1, &[START]), "has already begun"),
        (no_tensor, "the input is missing"),
        (
            with(part(5, 1, &[]), "first", ParameterChoice::Int64Param(1)),
            "only the first request of a run",
        ),
        (
            ModelInferRequest {
                model_version: "3".to_owned(),
                ..part(5, 1, &[])
            },
            "for the version 1",
        ),
        (
            with(
                part(5, 1, &[]),
                "OVMS_MP_TIMESTAMP",
                ParameterChoice::Int64Param(0),
            ),
            "timestamps of a stream must increase",
        ),
    ] {
        let (code, message) = infer(&client, wrong).await.expect_err("an error");
        assert!(message.contains(why), "{code:?} {message}");
    }
    assert_eq!(infer(&client, part(5, 1, &[])).await, Ok(2));
    // What goes wrong in the graph ends it.
    assert_eq!(
        infer(&client, part(5, -1, &[]))
            .await
            .expect_err("told to")
            .0,
        Code::Internal
    );
    assert_eq!(
        infer(&client, part(5, 1, &[])).await.expect_err("gone").0,
        Code::NotFound
    );
    until_idle(&server).await;
}

#[tokio::test]
async fn a_sequence_is_of_one_key_and_a_key_has_so_many() {
    let limits = SequenceLimits {
        all: 3,
        of_a_key: 2,
        ..SequenceLimits::default()
    };
    let setup = setup(&[("sum", SUM)]).with(|options| options.sequences = limits);
    let keys = json!({ "keys": [{ "name": "one", "key": "key-one" }, { "name": "other", "key": "key-other" }] });
    let file = setup.path().join("keys.json");
    std::fs::write(&file, keys.to_string()).expect("writable");
    let setup = setup.with(move |options| options.keys = Some(KeySource::File(file)));
    let server = setup.start().await;
    let client = Client::connect(&server).await;
    let (one, other) = (client.with_key("key-one"), client.with_key("key-other"));
    assert_eq!(infer(&one, part(5, 1, &[START])).await, Ok(1));
    assert_eq!(
        infer(&other, part(5, 1, &[]))
            .await
            .expect_err("not its own")
            .0,
        Code::NotFound
    );
    assert_eq!(infer(&other, part(5, 10, &[START])).await, Ok(10));
    assert_eq!(infer(&one, part(5, 2, &[])).await, Ok(3));
    assert_eq!(infer(&one, part(6, 1, &[START])).await, Ok(1));
    let (code, message) = infer(&one, part(7, 1, &[START])).await.expect_err("full");
    assert!(
        code == Code::ResourceExhausted && message.contains("the key `one` has 2 sequences"),
        "{code:?} {message}"
    );
    let (_, message) = infer(&other, part(7, 1, &[START])).await.expect_err("full");
    assert!(message.contains("there are 3 sequences"), "{message}");
    assert_eq!(infer(&other, part(5, 1, &[END])).await, Ok(11));
    assert_eq!(infer(&other, part(7, 1, &[START])).await, Ok(1));
}

#[tokio::test]
async fn a_sequence_that_nobody_uses_ends() {
    let idle = Duration::from_millis(100);
    let limits = SequenceLimits {
        idle,
        ..SequenceLimits::default()
    };
    let setup = setup(&[("sum", SUM)]).with(|options| options.sequences = limits);
    let server = setup.start().await;
    let client = Client::connect(&server).await;
    assert_eq!(infer(&client, part(5, 1, &[START])).await, Ok(1));
    until_idle(&server).await;
    assert_eq!(
        infer(&client, part(5, 1, &[])).await.expect_err("gone").0,
        Code::NotFound
    );
}

#[tokio::test]
async fn sequences_are_counted_by_their_end() {
    let (server, client) = start(&[("sum", SUM)]).await;
    assert_eq!(infer(&client, part(1, 1, &[START, END])).await, Ok(1));
    assert_eq!(infer(&client, part(2, 1, &[START])).await, Ok(1));
    assert!(infer(&client, part(2, -1, &[])).await.is_err(), "told to");
    assert_eq!(infer(&client, part(3, 1, &[START])).await, Ok(1));
    assert!(infer(&client, part(4, 1, &[])).await.is_err(), "not begun");
    until(&server, 1).await;
    let scrape = scrape(&server).await;
    let open = value(&scrape, "graphmill_sequences_open", &[("graph", "sum")]);
    assert_eq!(open, 1);
    for (reason, count) in [("done", 1), ("failed", 1), ("idle", 0), ("stopped", 0)] {
        let labels = [("reason", reason)];
        let ended = value(&scrape, "graphmill_sequences_ended_total", &labels);
        assert_eq!(ended, count, "{reason}");
    }
    let refused = value(&scrape, "graphmill_sequence_refusals_total", &[]);
    assert_eq!(refused, 0);
    let told = server.status().await["sequences"].clone();
    let expected = json!({
        "open": 1, "in_use": 0, "refused": 0, "limit": 1024, "limit_of_a_key": 256,
        "idle_seconds": 60.0, "graphs": { "sum": 1 },
    });
    assert_eq!(told, expected);
}

#[tokio::test]
async fn two_requests_do_not_work_with_a_sequence_at_once() {
    let (server, client) = start(&[("wait", WAIT)]).await;
    let waiting = |flags: &[&str]| ModelInferRequest {
        model_name: "wait".to_owned(),
        ..with_input(
            ModelInferRequest {
                inputs: Vec::new(),
                raw_input_contents: Vec::new(),
                ..part(5, 1, flags)
            },
            "x",
            "INT8",
            &[1],
            vec![1],
        )
    };
    // The graph never ends, which the end of a sequence waits for.
    let first = tokio::spawn({
        let (client, asked) = (client.clone(), waiting(&[START, END]));
        async move { infer(&client, asked).await }
    });
    server.until("open", |status| sessions(status) == 1).await;
    let (code, message) = infer(&client, waiting(&[])).await.expect_err("in use");
    assert!(
        code == Code::ResourceExhausted && message.contains("is in use by another request"),
        "{code:?} {message}"
    );
    // A client that leaves ends it, and a deadline does.
    first.abort();
    until_idle(&server).await;
    let timed = with(
        waiting(&[START, END]),
        "timeout",
        ParameterChoice::Int64Param(10_000),
    );
    assert_eq!(
        infer(&client, timed).await.expect_err("late").0,
        Code::DeadlineExceeded
    );
    until_idle(&server).await;
}

#[tokio::test]
async fn streams_carry_sequences_side_by_side() {
    let (server, client) = start(&[("sum", SUM)]).await;
    let (sender, mut answers) = begun(&client, part(5, 1, &[START])).await;
    let mut given = async || {
        let answer = next(&mut answers)
            .await
            .expect("no status")
            .expect("no end");
        match &*answer.error_message {
            "" => Ok(sum(&answer.infer_response.expect("an answer"))),
            why => Err(why.to_owned()),
        }
    };
    assert_eq!(given().await, Ok(1));
    for (asked, expected) in [
        (part(6, 10, &[START]), Ok(10)),
        (part(5, 2, &[]), Ok(3)),
        (part(7, 1, &[]), Err("no sequence 7")),
        (part(0, 1, &[]), Err("the stream is for sequences")),
        (part(6, 20, &[END]), Ok(30)),
    ] {
        sender.send(asked).expect("open");
        match (given().await, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err(found), Err(expected)) => assert!(found.contains(expected), "{found}"),
            other => panic!("{other:?}"),
        }
    }
    drop(sender);
    assert!(next(&mut answers).await.expect("OK").is_none());
    // It stays when the stream has ended.
    assert_eq!(infer(&client, part(5, 3, &[END])).await, Ok(6));
    until_idle(&server).await;
    // A stream that is a run has no sequences.
    let asked = with_input(request("sum"), "x", "INT64", &[1], vec![0; 8]);
    let (sender, mut answers) = begun(&client, asked).await;
    next(&mut answers)
        .await
        .expect("no status")
        .expect("no end");
    sender.send(part(5, 1, &[START])).expect("open");
    let told = next(&mut answers)
        .await
        .expect("no status")
        .expect("no end");
    assert!(
        told.error_message.contains("a single run of a graph"),
        "{told:?}"
    );
}

#[tokio::test]
async fn a_sequence_stays_on_the_graph_that_it_began_with_and_ends_with_the_server() {
    let setup = setup(&[("sum", SUM)]).grace(Duration::from_hours(1));
    let graph = setup.path().join("0/graph.pbtxt");
    let server = setup.start().await;
    let client = Client::connect(&server).await;
    assert_eq!(infer(&client, part(5, 1, &[START])).await, Ok(1));
    let changed = std::fs::read_to_string(&graph)
        .expect("a graph")
        .replace("\"sum\"", "\"total\"");
    std::fs::write(&graph, changed).expect("writable");
    server.server.reloader().reload().await;
    let output = |asked: ModelInferRequest| async {
        let answer: ModelInferResponse = client.call("ModelInfer", asked).await.expect("an answer");
        (answer.outputs[0].name.clone(), sum(&answer))
    };
    assert_eq!(output(part(6, 1, &[START])).await, ("total".to_owned(), 1));
    assert_eq!(output(part(5, 1, &[])).await, ("sum".to_owned(), 2));
    let stopped = tokio::time::timeout(Duration::from_mins(1), server.server.stop());
    stopped.await.expect("sequences do not hold up the end");
}

#[tokio::test]
async fn a_thousand_sequences_leave_nothing() {
    let limits = SequenceLimits {
        of_a_key: 1_024,
        ..SequenceLimits::default()
    };
    let setup = setup(&[("sum", SUM)]).with(|options| options.sequences = limits);
    let server = setup.start().await;
    let client = Client::connect(&server).await;
    for id in 1..=1_024 {
        assert_eq!(infer(&client, part(id, 1, &[START])).await, Ok(1));
    }
    let full = refused(
        client
            .call::<_, ModelInferResponse>("ModelInfer", part(2_000, 1, &[START]))
            .await,
    );
    assert_eq!(full.0, Code::ResourceExhausted, "{}", full.1);
    server
        .until("open", |status: &Value| sessions(status) == 1_024)
        .await;
    for id in 1..=1_024 {
        assert_eq!(infer(&client, part(id, 1, &[END])).await, Ok(2));
    }
    until_idle(&server).await;
}

#[tokio::test]
async fn without_keys_a_client_has_so_many_sequences() {
    let limits = SequenceLimits {
        all: 3,
        of_a_key: 2,
        ..SequenceLimits::default()
    };
    let setup = setup(&[("sum", SUM)]).with(|options| options.sequences = limits);
    let server = setup.start().await;
    let client = Client::connect(&server).await;
    for id in [1, 2] {
        assert_eq!(infer(&client, part(id, 1, &[START])).await, Ok(1));
    }
    let (code, message) = infer(&client, part(3, 1, &[START]))
        .await
        .expect_err("full");
    assert!(
        code == Code::ResourceExhausted && message.contains("the client 127.0.0.1 has 2 sequences"),
        "{code:?} {message}"
    );
    assert_eq!(infer(&client, part(1, 1, &[END])).await, Ok(2));
    assert_eq!(infer(&client, part(3, 1, &[START])).await, Ok(1));
}
