//! The repository, settings, and what is not supported.

use graphmill_server::inference::{
    RepositoryIndexRequest, RepositoryIndexResponse, RepositoryModelLoadRequest,
    RepositoryModelLoadResponse, RepositoryModelUnloadRequest, RepositoryModelUnloadResponse,
};
use serde_json::json;
use tonic::Code;

use super::{
    REPEAT, TEXT,
    client::{refused, request},
    setup, start,
};
use crate::rest::support::read;

#[tokio::test]
async fn the_repository_is_the_configuration() {
    let (server, client) = start(&[("text", TEXT), ("broken", "node {")]).await;
    let index = read(server.post("/v2/repository/index", "")).await.json();
    assert_eq!(
        index[1],
        json!({ "name": "text", "version": "1", "state": "READY", "reason": "" })
    );
    assert_eq!(index[0]["state"], "UNAVAILABLE");
    assert_ne!(index[0]["reason"], "");
    let list = read(server.post("/v2/repository/index", "[true]")).await;
    assert_eq!(list.status, 400, "{}", list.text);
    let ready = read(server.post("/v2/repository/index", r#"{"ready": true}"#))
        .await
        .json();
    assert_eq!(ready.as_array().map(Vec::len), Some(1));
    let all: RepositoryIndexResponse = client
        .call("RepositoryIndex", RepositoryIndexRequest::default())
        .await
        .unwrap();
    assert_eq!(all.models.len(), 2);
}

#[tokio::test]
async fn a_graph_is_loaded_as_its_file_is_now() {
    let setup = setup(&[("repeat", REPEAT)]);
    let file = setup.path().join("0/graph.pbtxt");
    let server = setup.start().await;
    let client = super::Client::connect(&server).await;
    let load = async |name: &str| {
        let asked = RepositoryModelLoadRequest {
            model_name: name.to_owned(),
            ..Default::default()
        };
        client
            .call::<_, RepositoryModelLoadResponse>("RepositoryModelLoad", asked)
            .await
    };
    std::fs::write(&file, TEXT).expect("writable");
    load("repeat").await.unwrap();
    let metadata = server.get("/v2/models/repeat").await.json();
    assert_eq!(metadata["inputs"][0]["name"], "text");
    assert_eq!(refused(load("nothing").await).0, Code::NotFound);
    std::fs::write(&file, "node {").expect("writable");
    let reply = read(server.post("/v2/repository/models/repeat/load", "{}")).await;
    assert!(
        reply.status == 400 && reply.json()["error"].is_string(),
        "{reply:?}"
    );
    // The old one is served.
    assert_eq!(server.get("/v2/models/repeat/ready").await.status, 200);
    let override_ = read(server.post(
        "/v2/repository/models/repeat/load",
        r#"{"parameters": {"config": "{}"}}"#,
    ));
    let reply = override_.await;
    assert!(
        reply.status == 501 && reply.text.contains("parameters.config"),
        "{reply:?}"
    );
}

#[tokio::test]
async fn what_is_not_supported_is_said_by_name() {
    let (server, client) = start(&[("text", TEXT)]).await;
    for path in [
        "/v2/systemsharedmemory/region/a/register",
        "/v2/cudasharedmemory/unregister",
        "/v2/logging",
        "/v2/trace/setting",
        "/v2/models/text/trace/setting",
    ] {
        let settings = if path.ends_with("/trace/setting") {
            r#"{"trace_mode": "opentelemetry", "trace_rate": null, "trace_level": ["TIMESTAMPS"]}"#
        } else {
            r#"{"log_info": false}"#
        };
        let reply = read(server.post(path, settings)).await;
        assert!(
            reply.status == 501 && reply.json()["error"].is_string(),
            "{path}: {reply:?}"
        );
    }
    assert_eq!(
        server.get("/v2/systemsharedmemory/status").await.status,
        501
    );
    assert!(server.get("/v2/logging").await.json()["log_verbose_level"].is_number());
    let traces = server.get("/v2/trace/setting").await.json();
    assert_eq!(traces["trace_level"], json!(["OFF"]));
    // What is as it is is no change.
    let same = read(server.post("/v2/models/text/trace/setting", traces.to_string())).await;
    assert_eq!((same.status, same.json()), (200, traces));
    let memory = client.call::<_, RepositoryIndexResponse>("SystemSharedMemoryStatus", request(""));
    let (code, message) = refused(memory.await);
    assert!(
        code == Code::Unimplemented && message.contains("shared memory"),
        "{message}"
    );
}

#[tokio::test]
async fn a_graph_that_is_unloaded_stays_out_until_it_is_loaded_by_its_name() {
    let setup = setup(&[("text", TEXT), ("repeat", REPEAT)]);
    let file = setup.path().join("0/graph.pbtxt");
    let server = setup.start().await;
    let client = super::Client::connect(&server).await;
    let name = || "text".to_owned();
    let unload = async || {
        let asked = RepositoryModelUnloadRequest {
            model_name: name(),
            ..Default::default()
        };
        client
            .call::<_, RepositoryModelUnloadResponse>("RepositoryModelUnload", asked)
            .await
    };
    let load = async || {
        let asked = RepositoryModelLoadRequest {
            model_name: name(),
            ..Default::default()
        };
        client
            .call::<_, RepositoryModelLoadResponse>("RepositoryModelLoad", asked)
            .await
    };
    let sleeps = read(server.post("/models/unload", r#"{"model": "text"}"#)).await;
    assert_eq!(sleeps.status, 200);
    unload().await.unwrap();
    unload().await.unwrap();
    let index = async || read(server.post("/v2/repository/index", "")).await.json();
    let text = json!({
        "name": "text", "version": "1", "state": "UNAVAILABLE", "reason": "unloaded by an operator",
    });
    assert_eq!(index().await[1], text);
    assert_eq!(server.get("/v2/models/text/ready").await.status, 503);
    // The other graph answers.
    assert_eq!(server.get("/v2/health/ready").await.status, 200);
    let body =
        r#"{"inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "data": ["a"]}]}"#;
    let infer = async || read(server.post("/v2/models/text/infer", body)).await;
    let reply = infer().await;
    assert!(
        reply.status == 503 && reply.json()["code"] == "unloaded",
        "{reply:?}"
    );
    // So does who wakes others up.
    for path in ["/sleep", "/wake_up"] {
        assert_eq!(read(server.post(path, "")).await.status, 200, "{path}");
    }
    assert_eq!(index().await[1], text);
    assert_eq!(index().await[0]["state"], "READY");
    // A reload leaves it out, even where its file has changed.
    std::fs::write(&file, format!("# Changed.\n{TEXT}")).expect("writable");
    let reloaded = read(server.post("/v1/config/reload", "")).await;
    assert!(reloaded.status < 300, "{reloaded:?}");
    assert_eq!(index().await[1], text);
    load().await.unwrap();
    assert_eq!(index().await[1]["state"], "READY");
    assert_eq!(infer().await.status, 200);
    // llama-server's path lets the next request load it.
    let unloaded = read(server.post("/models/unload", r#"{"model": "text"}"#)).await;
    assert_eq!(unloaded.status, 200);
    assert_eq!(infer().await.status, 200);
}

#[tokio::test]
async fn a_declaration_of_an_unknown_stream_is_no_graph() {
    let text = TEXT.to_owned()
        + r#"graph_options { [type.googleapis.com/graphmill.TensorOptions] {
            input { name: "texts" datatype: BYTES shape: [1] } } }"#;
    let (server, _client) = start(&[("text", &text)]).await;
    let reply = server.get("/v2/models/text/ready").await;
    assert!(
        reply.text.contains("no input stream of that name"),
        "{reply:?}"
    );
}
