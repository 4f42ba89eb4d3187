//! Graphs with versions: which are served, which one a request gets, how they come and go.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use serde_json::{Value, json};

use crate::rest::{
    gated::{GATED, loads},
    support::{Setup, TestServer, read},
};

/// Writes a version that answers with its number.
fn write(setup: &Path, version: u64) {
    let folder = setup.join("0").join(version.to_string());
    fs::create_dir(&folder).expect("writable");
    fs::write(folder.join("answer"), version.to_string()).expect("writable");
    // Last: a version is there with its graph.
    fs::write(folder.join("graph.pbtxt"), GATED).expect("writable");
}

/// A graph with the versions 1, 2 and 3, of which the configuration says this.
fn versions(said: &Value) -> Setup {
    let setup = Setup::new().graph("chat", GATED).that(said);
    fs::remove_file(setup.path().join("0/graph.pbtxt")).expect("it was written");
    // Names that are no versions.
    for name in ["0", "07", "beta", "-1"] {
        let folder = setup.path().join("0").join(name);
        fs::create_dir(&folder).expect("writable");
        fs::write(folder.join("graph.pbtxt"), GATED).expect("writable");
    }
    for version in 1..=3 {
        write(setup.path(), version);
    }
    setup
}

async fn answer(server: &TestServer, model: &str) -> String {
    server.chat(&json!({ "model": model })).await.text
}

/// Versions and their states, as OpenVINO Model Server's clients see them.
async fn states(server: &TestServer) -> Vec<(String, String)> {
    let config = server.get("/v1/config").await.json();
    let versions = config["chat"]["model_version_status"].as_array();
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let versions = versions.expect("versions").iter();
    versions
        .map(|it| (text(&it["version"]), text(&it["state"])))
        .collect()
}

fn available(numbers: &[u64]) -> Vec<(String, String)> {
    let state = |number: &u64| (number.to_string(), "AVAILABLE".to_owned());
    numbers.iter().map(state).collect()
}

#[tokio::test]
async fn the_policy_says_which_versions_are_served() {
    for (said, served) in [
        (json!(null), &[3][..]),
        (json!({ "latest": { "num_versions": 2 } }), &[2, 3]),
        (json!({ "latest": {} }), &[3]),
        (json!({ "all": {} }), &[1, 2, 3]),
        (json!({ "specific": { "versions": [1, 3, 9] } }), &[1, 3]),
    ] {
        let said = if said.is_null() {
            json!({})
        } else {
            json!({ "model_version_policy": said })
        };
        let setup = versions(&said);
        let folder = setup.path().join("0");
        let server = setup.start().await;
        assert_eq!(states(&server).await, available(served), "{said}");
        let newest = served.last().expect("one").to_string();
        assert_eq!(answer(&server, "chat").await, newest, "{said}");
        for number in 1..=3 {
            let reply = answer(&server, &format!("chat@{number}")).await;
            let is_served = served.contains(&number);
            assert_eq!(reply == number.to_string(), is_served, "{said}: {reply}");
            let loads = loads(&folder.join(number.to_string()));
            assert_eq!(loads, usize::from(is_served), "{said}");
        }
        let listed = server.get("/v3/models").await.json();
        let ids = listed["data"].as_array().expect("a list").iter();
        let ids: Vec<&str> = ids.map(|it| it["id"].as_str().expect("text")).collect();
        let mut expected = vec!["chat".to_owned()];
        expected.extend(served.iter().map(|number| format!("chat@{number}")));
        assert_eq!(ids, expected);
        assert_eq!(server.get("/v2/models/chat@3/ready").await.status, 200);
        assert_eq!(server.get("/v3/models/chat@9").await.status, 404);
        let metrics = server.get("/metrics").await.text;
        assert!(
            metrics.contains("ovms_requests_accepted{name=\"chat@3\""),
            "{metrics}"
        );
    }
}

#[tokio::test]
async fn versions_come_and_go_with_their_folders() {
    let said = json!({ "model_version_policy": { "latest": { "num_versions": 2 } } });
    // Looks far less often than the test waits, so the system has to tell.
    let setup = versions(&said).with(|options| options.poll = std::time::Duration::from_mins(10));
    let path = setup.path().to_owned();
    let server = setup.start().await;
    assert_eq!(answer(&server, "chat").await, "3");
    let is_served = |number: u64| {
        let name = format!("chat@{number}");
        move |status: &Value| {
            let graphs = status["graphs"].as_array().expect("graphs");
            let mut graphs = graphs.iter();
            graphs.any(|it| it["name"] == *name && it["state"] == "AVAILABLE")
        }
    };
    write(&path, 12);
    server.until("the new version", is_served(12)).await;
    assert_eq!(states(&server).await, available(&[3, 12]));
    assert_eq!(answer(&server, "chat").await, "12");
    assert_eq!(loads(&path.join("0/3")), 1, "it stayed as it was");
    fs::remove_dir_all(path.join("0/12")).expect("it was there");
    server.until("the one before it", is_served(2)).await;
    assert_eq!(states(&server).await, available(&[2, 3]));
    assert_eq!(answer(&server, "chat").await, "3");

    // A version that is wrong takes nothing from the others.
    fs::create_dir(path.join("0/13")).expect("writable");
    fs::write(path.join("0/13/graph.pbtxt"), "nonsense").expect("writable");
    let refused = read(server.post("/v1/config/reload", "")).await;
    assert_eq!(refused.status, 412, "{}", refused.text);
    assert!(refused.text.contains("chat@13"), "{}", refused.text);
    assert_eq!(answer(&server, "chat").await, "3");
}

#[tokio::test]
async fn requests_are_divided_as_the_configuration_says_and_sessions_are_not() {
    let setup = versions(&json!({ "canary": { "3": 30 } }));
    let config = setup.path().join("config.json");
    let server = setup.start().await;
    assert_eq!(
        states(&server).await,
        available(&[2, 3]),
        "the newest, and that on trial"
    );
    let asked = async |header: &str, word: &str| {
        let body = json!({ "model": "chat" }).to_string();
        let request = server.post("/v3/chat/completions", body);
        read(request.header(header.to_owned(), word.to_owned()))
            .await
            .text
    };
    let mut counts = BTreeMap::new();
    for number in 0..300 {
        let word = format!("session {number}");
        let first = asked("x-session-id", &word).await;
        if number % 10 == 0 {
            assert_eq!(asked("x-session-id", &word).await, first);
            let word = format!("request-{number}");
            let by_id = asked("x-request-id", &word).await;
            assert_eq!(asked("x-request-id", &word).await, by_id);
        }
        *counts.entry(first).or_insert(0) += 1;
    }
    assert!((50..130).contains(&counts["3"]), "{counts:?}");
    assert_eq!(counts["2"] + counts["3"], 300, "{counts:?}");
    assert_eq!(answer(&server, "chat@2").await, "2");

    // Promotion is an edit of the weights.
    let text = fs::read_to_string(&config).expect("a file");
    fs::write(&config, text.replace("{\"3\":30}", "{\"3\":100}")).expect("writable");
    assert_eq!(read(server.post("/v1/config/reload", "")).await.status, 201);
    for number in 0..20 {
        assert_eq!(
            asked("x-session-id", &format!("session {number}")).await,
            "3"
        );
    }
}

#[tokio::test]
async fn runs_with_tensors_of_one_session_get_the_same_version() {
    const SAME: &str = r#"
        input_stream: "x"
        output_stream: "same"
        node { calculator: "PassThroughCalculator" input_stream: "x" output_stream: "same" }
    "#;
    let setup = Setup::new().graph("same", SAME);
    let setup = setup.that(&json!({ "canary": { "2": 50 } }));
    for version in ["1", "2"] {
        let folder = setup.path().join("0").join(version);
        fs::create_dir(&folder).expect("writable");
        fs::write(folder.join("graph.pbtxt"), SAME).expect("writable");
    }
    let server = setup.start().await;
    let body = json!({ "inputs": [
        { "name": "x", "datatype": "FP32", "shape": [1], "data": [1.0] },
    ] });
    let version_of = async |session: &str| {
        let request = server.post("/v2/models/same/infer", body.to_string());
        let reply = read(request.header("x-session-id", session.to_owned())).await;
        reply.json()["model_version"].as_str().map(str::to_owned)
    };
    let mut versions = BTreeSet::new();
    for number in 0..20 {
        let session = format!("session {number}");
        let first = version_of(&session).await.expect("a version");
        for _ in 0..3 {
            assert_eq!(version_of(&session).await.as_ref(), Some(&first));
        }
        versions.insert(first);
    }
    assert_eq!(versions.len(), 2, "sessions are divided");
}

#[tokio::test]
async fn the_others_answer_for_a_version_that_cannot() {
    let setup = versions(&json!({ "canary": { "3": 100 }, "optional": true }));
    fs::write(setup.path().join("0/3/fail"), "").expect("writable");
    let server = setup.start().await;
    assert_eq!(answer(&server, "chat").await, "2");
    let of_version = server.chat(&json!({ "model": "chat@3" })).await;
    assert_eq!(of_version.json()["error"]["code"], "graph_failed");
}
