//! Version 1 of KServe's protocol: rows of tensors go in, and rows come out.

use serde_json::{Value, json};

use super::start;
use crate::rest::support::{CHAT, Reply, Setup, TestServer, read};

/// Numbers and texts that come back as they are.
const TWO: &str = r#"
    input_stream: "x"
    input_stream: "words"
    output_stream: "same_x"
    output_stream: "same_words"
    node {
      calculator: "PassThroughCalculator"
      input_stream: "x"
      input_stream: "words"
      output_stream: "same_x"
      output_stream: "same_words"
    }
    graph_options {
      [type.googleapis.com/graphmill.TensorOptions] {
        input { name: "x" datatype: FP32 shape: [-1, 2] }
        input { name: "words" datatype: BYTES shape: [-1] }
      }
    }
"#;

/// One of them.
const ONE: &str = r#"
    input_stream: "x"
    output_stream: "same"
    node { calculator: "PassThroughCalculator" input_stream: "x" output_stream: "same" }
    graph_options {
      [type.googleapis.com/graphmill.TensorOptions] {
        input { name: "x" datatype: FP32 shape: [-1, 2] }
      }
    }
"#;

async fn predict(server: &TestServer, name: &str, body: &Value) -> Reply {
    let path = format!("/v1/models/{name}:predict");
    read(server.post(&path, body.to_string())).await
}

#[tokio::test]
async fn rows_go_in_and_come_out() {
    let (server, _) = start(&[("org/two", TWO), ("one", ONE)]).await;
    let (first, second) = (
        json!({ "x": [1, 2], "words": "a" }),
        json!({ "x": [3, 4.5], "words": { "b64": "YsOk" } }),
    );
    for (name, body, answer) in [
        (
            "org/two",
            json!({ "signature_name": "serving_default", "instances": [first, second] }),
            json!({ "predictions": [
                { "same_x": [1.0, 2.0], "same_words": "a" },
                { "same_x": [3.0, 4.5], "same_words": "bä" },
            ] }),
        ),
        (
            "org/two/versions/1",
            json!({ "instances": [{ "x": [1, 2], "words": "a" }] }),
            json!({ "predictions": [{ "same_x": [1.0, 2.0], "same_words": "a" }] }),
        ),
        (
            "one",
            json!({ "instances": [[1, 2], [3, 4]] }),
            json!({ "predictions": [[1.0, 2.0], [3.0, 4.0]] }),
        ),
        (
            "one",
            json!({ "instances": [{ "x": [1, 2] }] }),
            json!({ "predictions": [[1.0, 2.0]] }),
        ),
    ] {
        let reply = predict(&server, name, &body).await;
        assert_eq!((reply.status, reply.json()), (200, answer), "{body}");
    }
    let model = server.get("/v1/models/one").await.json();
    assert_eq!(model["ready"], true, "{model}");
    server.until_idle().await;
}

#[tokio::test]
async fn what_is_wrong_with_rows_is_told() {
    let setup = Setup::new().graph("two", TWO).graph("one", ONE);
    let setup = setup.graph("chat", CHAT).graph("text", super::TEXT);
    let server = setup.script(&json!({})).start().await;
    for (name, body, status, said) in [
        (
            "one",
            json!({ "rows": [] }),
            400,
            "`rows`: expected only `instances`",
        ),
        ("one", json!({}), 400, "`instances`: expected an array"),
        (
            "one",
            json!({ "instances": [[1, 2]], "inputs": [[1, 2]] }),
            400,
            "only `instances`",
        ),
        (
            "one",
            json!({ "instances": { "x": 1 } }),
            400,
            "expected an array",
        ),
        ("one", json!({ "instances": [[1, 2], [3]] }), 400, "`x`"),
        ("one", json!({ "instances": [["a", "b"]] }), 400, "`x`"),
        (
            "one",
            json!({ "instances": [{ "y": [1, 2] }] }),
            400,
            "the input `x` is missing",
        ),
        (
            "one",
            json!({ "instances": [{ "x": [1, 2], "y": 1 }] }),
            400,
            "no input `y`",
        ),
        (
            "two",
            json!({ "instances": [[1, 2]] }),
            400,
            "`instances[0]`: expected an object",
        ),
        (
            "two",
            json!({ "instances": [{ "x": [1, 2], "words": { "b64": "?" } }] }),
            400,
            "not Base64",
        ),
        (
            "one",
            json!({ "signature_name": "other", "instances": [] }),
            400,
            "signature_name",
        ),
        (
            "two",
            json!({ "instances": [{ "x": [1, 2] }] }),
            400,
            "the input `words` is missing",
        ),
        ("nothing", json!({ "instances": [] }), 404, "does not exist"),
        ("chat", json!({ "instances": ["Hi"] }), 400, "chat"),
        (
            "one/versions/2",
            json!({ "instances": [[1, 2]] }),
            404,
            "version",
        ),
        ("text", json!({ "instances": ["a", "b"] }), 400, "text"),
    ] {
        let reply = predict(&server, name, &body).await;
        let error = reply.json()["error"].as_str().map(str::to_owned);
        let error = error.unwrap_or_else(|| panic!("{body}: {}", reply.text));
        assert!(
            reply.status == status && error.contains(said),
            "{body}: {} {error}",
            reply.status
        );
    }
    let reply = read(server.post("/v1/models/one", "{}")).await;
    assert_eq!(reply.status, 405, "{}", reply.text);
    server.until_idle().await;
}

#[tokio::test]
async fn outputs_that_are_not_in_rows_are_refused_as_rows() {
    let pair = r#"
        input_stream: "x"
        output_stream: "there"
        node {
          calculator: "PacketPresenceCalculator"
          input_stream: "PACKET:x"
          output_stream: "PRESENCE:there"
        }
        graph_options {
          [type.googleapis.com/graphmill.TensorOptions] {
            input { name: "x" datatype: FP32 shape: [-1] }
          }
        }
    "#;
    let (server, _) = start(&[("pair", pair)]).await;
    let reply = predict(&server, "pair", &json!({ "instances": [1, 2] })).await;
    assert_eq!(reply.status, 400, "{}", reply.text);
    let error = reply.json()["error"].to_string();
    assert!(
        error.contains("`outputs.there`: it does not have one row"),
        "{error}"
    );
    server.until_idle().await;
}
