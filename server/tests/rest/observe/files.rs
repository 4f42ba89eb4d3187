//! Texts of served graphs, and others in their place.

use std::fs;

use serde_json::json;

use super::CHAIN;
use crate::rest::support::{Reply, Setup, TestServer, read};

async fn save(server: &TestServer, graph: &str, text: impl Into<reqwest::Body>) -> Reply {
    let url = format!("{}/v3/graphs/{graph}/file", server.url);
    read(server.client.put(url).body(text)).await
}

#[tokio::test]
async fn the_text_of_a_graph_is_told_and_written_only_where_that_is_allowed() {
    let server = Setup::new().graph("chain", CHAIN).start().await;
    let text = server.get("/v3/graphs/chain/file").await;
    assert_eq!((text.status, text.text.as_str()), (200, CHAIN));
    assert_eq!(
        text.header("content-type"),
        Some("text/plain; charset=utf-8")
    );
    assert_eq!(server.get("/v3/graphs/chian/file").await.status, 404);

    let refused = save(&server, "chain", "# nothing").await;
    assert_eq!(refused.status, 403, "{}", refused.text);
    assert!(
        refused.text.contains("--allow_graph_edits"),
        "{}",
        refused.text
    );
    let file = server.get("/v3/graphs/chain").await.json();
    let file = file["file"].as_str().expect("a file");
    assert_eq!(fs::read_to_string(file).expect("readable"), CHAIN);
}

#[tokio::test]
async fn a_text_that_compiles_takes_the_place_of_the_file_and_is_served_after_a_reload() {
    let setup = Setup::new().graph("chain", CHAIN);
    let server = setup.with(|it| it.graph_edits = true).start().await;
    let file = server.get("/v3/graphs/chain").await.json();
    let file = std::path::PathBuf::from(file["file"].as_str().expect("a file"));

    let misspelt = CHAIN.replacen("PassThroughCalculator", "PassThroughCalculater", 1);
    let wrong = save(&server, "chain", misspelt).await;
    assert_eq!(wrong.status, 400, "{}", wrong.text);
    let found = &wrong.json()["diagnostics"][0];
    assert_eq!(found["line"], 10, "{found}");
    let error = &wrong.json()["error"];
    assert!(
        error["message"]
            .as_str()
            .expect("a text")
            .contains("PassThroughCalculater"),
        "{error}"
    );
    let no_http = "input_stream: \"in\"\nnode { calculator: \"PassThroughCalculator\" input_stream: \"in\" output_stream: \"out\" }";
    assert_eq!(save(&server, "chain", no_http).await.status, 400);
    assert_eq!(save(&server, "chain", vec![0xff_u8]).await.status, 400);
    for empty in ["", " \n"] {
        let refused = save(&server, "chain", empty).await;
        let error = &refused.json()["error"];
        assert_eq!(refused.status, 400, "{error}");
        assert_eq!(error["code"], "missing_required_parameter", "{error}");
        assert_eq!(
            error["message"],
            "the body is empty: send the text of the graph"
        );
    }
    let long = "#".repeat((1 << 20) + 1);
    assert_eq!(save(&server, "chain", long).await.status, 400);
    assert_eq!(save(&server, "chian", CHAIN).await.status, 404);
    assert_eq!(fs::read_to_string(&file).expect("readable"), CHAIN);

    let renamed = CHAIN.replace("\"third\"", "\"last\"");
    let saved = save(&server, "chain", renamed.clone()).await;
    assert_eq!(saved.status, 200, "{}", saved.text);
    assert_eq!(saved.json()["diagnostics"], json!([]));
    assert_eq!(fs::read_to_string(&file).expect("readable"), renamed);
    let folder = fs::read_dir(file.parent().expect("a folder")).expect("readable");
    assert_eq!(folder.count(), 1, "nothing is left beside it");

    let reloaded = read(server.post("/v1/config/reload", "")).await;
    assert_eq!(reloaded.status, 201, "{}", reloaded.text);
    assert_eq!(server.get("/v3/graphs/chain/file").await.text, renamed);
    let plan = server.get("/v3/graphs/chain").await.json();
    assert_eq!(plan["plan"]["nodes"][3]["name"], "last");
}
