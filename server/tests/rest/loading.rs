//! What a client sees while a graph's model is being loaded.

use std::{
    sync::{Condvar, Mutex},
    time::{Duration, Instant},
};

use graphmill_calculators::payload::{HttpRequestPayload, HttpResponse};
use graphmill_engine::{
    Calculator, Contract, Cx, FileSource, Flow, In, NoOptions, OpenCx, Out, Res, Resource, Result,
    register,
};
use serde_json::json;

use crate::rest::{
    residence::assert_takes_as_long_again,
    support::{ACTOR, CHAT, Setup, read},
};

/// A model that loads for as long as the test wants.
struct SlowModel;

static MAY_LOAD: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());

impl Resource for SlowModel {
    type Spec = ();

    fn load((): &(), _: &dyn FileSource) -> Result<Self> {
        let (may, changed) = &MAY_LOAD;
        let may = may.lock().expect("no panic");
        drop(changed.wait_while(may, |may| !*may).expect("no panic"));
        Ok(Self)
    }
}

/// Answers with the name of its model, once it has one.
struct Slow;

impl Calculator for Slow {
    const NAME: &'static str = "SlowCalculator";
    const DOC: &'static str = "Answers when a slow model is loaded.";
    type Options = NoOptions;
    type Ports = (In<HttpRequestPayload>, Out<HttpResponse>, Res<SlowModel>);

    fn contract(c: &mut Contract, _: &NoOptions) -> Self::Ports {
        let (request, response) = (
            c.input("HTTP_REQUEST_PAYLOAD"),
            c.output("HTTP_RESPONSE_PAYLOAD"),
        );
        (request, response, c.resource("MODEL", Some(())))
    }

    fn open(_: &NoOptions, _: Self::Ports, _: &mut OpenCx<'_>) -> Result<Self> {
        Ok(Self)
    }

    fn process(&mut self, (request, response, _): Self::Ports, cx: &mut Cx<'_>) -> Result<Flow> {
        if cx.get(request).is_some() {
            cx.emit(
                response,
                HttpResponse::Body {
                    content_type: "text/plain",
                    bytes: "loaded".into(),
                },
            );
        }
        Ok(Flow::Continue)
    }
}

register!(Slow);

#[tokio::test]
async fn a_graph_that_is_being_loaded_says_so_while_others_answer() {
    let graph = ACTOR.replace(
        "ActorCalculator\"",
        "SlowCalculator\" input_side_packet: \"MODEL:model\"",
    );
    let begin = Instant::now();
    let mut server = Setup::new()
        .graph("actor", ACTOR)
        .graph("slow", &graph)
        .with(|options| options.load_wait = Duration::ZERO)
        .start_loading();
    let waits = server
        .until("the other graph is available", |status| {
            status["graphs"][0]["state"] == "AVAILABLE"
        })
        .await;
    assert_eq!(waits["graphs"][1]["state"], "LOADING");
    let progress = &waits["graphs"][1]["loading"];
    assert!(progress["stage"].is_string() && progress["seconds"].is_number());
    assert_eq!(waits["graphs"][0].get("loading"), None);
    assert_eq!(
        server.act(json!([{ "body": "served" }])).await.text,
        "served"
    );

    let reply = server.chat(&json!({ "model": "slow" })).await;
    assert_eq!(
        (reply.status, &reply.json()["error"]["code"]),
        (503, &json!("loading")),
        "{}",
        reply.text
    );
    assert_takes_as_long_again(&reply, begin);
    let ready = server.get("/v2/health/ready").await;
    assert_eq!(
        (ready.status, ready.json()["reason"].as_str()),
        (503, Some("loading `slow`"))
    );
    assert_eq!(server.get("/v2/health/live").await.status, 200);
    let state = &server.get("/v1/config").await.json()["slow"]["model_version_status"][0];
    assert_eq!(
        (&state["state"], &state["status"]["error_code"]),
        (&json!("LOADING"), &json!("OK"))
    );
    assert_eq!(server.get("/v3/models/slow").await.status, 503);

    *MAY_LOAD.0.lock().expect("no panic") = true;
    MAY_LOAD.1.notify_all();
    assert_eq!(server.server.loaded().await, None);
    let reply = read(server.post(
        "/v3/chat/completions",
        json!({ "model": "slow" }).to_string(),
    ))
    .await;
    assert_eq!((reply.status, reply.text.as_str()), (200, "loaded"));
}

#[tokio::test]
async fn the_documentation_tells_of_a_model_once_it_is_loaded() {
    let setup = Setup::new()
        .graph("chat", CHAT)
        .with(|options| options.wait_for_models = true);
    let script = setup.path().join("model.script.json");
    let server = setup.start().await;
    let schema = async || {
        let document = server.get("/openapi.json").await;
        assert_eq!(document.header("content-type"), Some("application/json"));
        let body = &document.json()["paths"]["/v3/detokenize"]["post"]["requestBody"];
        body["content"]["application/json"]["schema"]["properties"].clone()
    };
    let before = schema().await;
    assert_eq!(before["tokens"]["items"]["maximum"], 0);
    std::fs::write(script, json!({ "replies": [] }).to_string()).expect("writable");
    server
        .until("the graph is available", |status| {
            status["graphs"][0]["state"] == "AVAILABLE"
        })
        .await;
    let after = schema().await;
    let last_token = after["tokens"]["items"]["maximum"].as_u64();
    assert!(last_token.is_some_and(|token| token > 0), "{after}");
    assert_eq!(after["model"], before["model"]);
}

#[tokio::test]
async fn a_script_that_is_wrong_fails_however_long_its_graph_has_waited() {
    let setup = Setup::new()
        .graph("chat", CHAT)
        .with(|options| options.wait_for_models = true);
    let script = setup.path().join("model.script.json");
    let server = setup.start().await;
    server
        .until("the graph waits", |status| {
            status["graphs"][0]["state"] == "WAITING"
        })
        .await;
    std::fs::write(script, json!({ "answers": [] }).to_string()).expect("writable");
    let status = server
        .until("the graph has failed", |status| {
            status["graphs"][0]["state"] == "END"
        })
        .await;
    let why = status["graphs"][0].to_string();
    assert!(why.contains("unknown field `answers`"), "{why}");
    assert!(why.contains("GM0509"), "{why}");
}
