//! Open sessions, and why they do not go on.

use serde_json::{Value, json};

use super::{PATIENCE, STALL, act, named};
use crate::rest::{
    actor::Gate,
    support::{ACTOR, Setup, TestServer, read, sessions},
};

async fn until_listed(server: &TestServer, wanted: impl Fn(&Value) -> bool) -> Value {
    let listed = async {
        loop {
            let list = server.get("/v3/sessions").await.json();
            if let Some(session) = list["sessions"].as_array().expect("a list").first()
                && wanted(session)
            {
                return session.clone();
            }
            tokio::task::yield_now().await;
        }
    };
    let listed = tokio::time::timeout(PATIENCE, listed).await;
    listed.expect("the session is listed in time")
}

#[tokio::test]
async fn a_session_that_is_stuck_says_why() {
    let server = Setup::new().graph("stall", STALL).start().await;
    let ten = json!(vec![json!({ "event": "{}" }); 10]);
    let request = tokio::spawn(act(&server, "stall", "stuck", &ten).send());
    let session = until_listed(&server, |session| {
        named(&session["nodes"], "actor")["state"] == "blocked"
    })
    .await;
    assert_eq!(
        (&session["id"], &session["request_id"], &session["graph"]),
        (&json!("stuck"), &json!("stuck"), &json!("stall"))
    );
    assert_eq!(session["label"], "/v3/chat/completions");
    assert_eq!(named(&session["nodes"], "join")["state"], "waiting");
    let why = session["why"].as_str().expect("a sentence");
    assert!(
        why.starts_with("waits for an event") || why.contains("`silent` waits for an event"),
        "{why}"
    );

    let why = server.get("/v3/sessions/stuck/why").await.json();
    let waits = why["waits"].as_array().expect("a list");
    let of = |node: &str| {
        waits
            .iter()
            .find(|wait| wait["node"] == node)
            .expect("it waits")
    };
    assert_eq!(of("silent")["root"], true);
    assert_eq!(of("join")["root"], false);
    let reason = of("join")["reason"].as_str().expect("a reason");
    assert!(reason.contains("`never` from `silent`"), "{reason}");
    assert!(
        why["text"]
            .as_str()
            .expect("a text")
            .contains("`actor` waits for room")
    );

    request.abort();
    server.until("closed", |status| sessions(status) == 0).await;
    let gone = server.get("/v3/sessions/stuck/why").await;
    assert_eq!(
        (gone.status, &gone.json()["error"]["code"]),
        (404, &json!("not_found"))
    );
    let list = server.get("/v3/sessions").await.json();
    assert_eq!(list, json!({ "sessions": [], "total": 0 }));
}

#[tokio::test]
async fn requests_of_one_id_are_told_apart() {
    let server = Setup::new().graph("actor", ACTOR).start().await;
    let hang = json!([{ "hang": true }]);
    let requests = (0..2).map(|_| tokio::spawn(act(&server, "actor", "same", &hang).send()));
    let requests: Vec<_> = requests.collect();
    server
        .until("both run", |status| sessions(status) == 2)
        .await;
    let list = server.get("/v3/sessions").await.json();
    let ids: Vec<&Value> = list["sessions"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|it| &it["id"])
        .collect();
    assert_eq!(ids, ["same", "same~2"]);
    requests.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_session_that_computes_does_not_hold_up_who_asks() {
    let server = Setup::new().graph("actor", ACTOR).start().await;
    let [mut first, mut second] = ["first", "second"].map(Gate::new);
    let actions = json!([{ "gate": "first" }, { "gate": "second" }, { "body": "done" }]);
    let request = tokio::spawn(act(&server, "actor", "busy", &actions).send());
    first.reached().await;
    let computes = async || {
        let list = server.get("/v3/sessions").await.json();
        let session = &list["sessions"][0];
        assert_eq!(named(&session["nodes"], "Actor")["state"], "running");
        let why = session["why"].as_str().expect("a sentence");
        let expected = "`Actor` computes in the session's own task";
        assert!(why.starts_with(expected), "{why}");
    };
    computes().await;
    // The session may answer this one between the two calls. What it wakes then must not wait for
    // the second.
    let why = tokio::spawn(read(
        server
            .client
            .get(format!("{}/v3/sessions/busy/why", server.url)),
    ));
    computes().await;
    drop(first);
    second.reached().await;
    let why = why.await.expect("it ran").json();
    assert_eq!(why["id"], "busy");
    computes().await;
    drop(second);
    let done = request.await.expect("it ran").expect("an answer");
    assert_eq!(done.text().await.expect("a body"), "done");
}
