//! Runs of graphs and questions about them over REST.

use serde_json::{Value, json};

use super::{MIRROR, PRESENCE, REPEAT, TEXT, setup, start};
use crate::rest::support::{ACTOR, Reply, TestServer, read};

async fn infer(server: &TestServer, graph: &str, body: &Value) -> Reply {
    let path = format!("/v2/models/{graph}/infer");
    read(server.post(&path, body.to_string())).await
}

/// A body of JSON and what is behind it.
async fn binary(server: &TestServer, graph: &str, json: &Value, behind: &[u8]) -> (Reply, Vec<u8>) {
    let json = json.to_string();
    let mut body = json.clone().into_bytes();
    body.extend_from_slice(behind);
    let response = server
        .client
        .post(format!("{}/v2/models/{graph}/infer", server.url))
        .header("inference-header-content-length", json.len())
        .body(body)
        .send()
        .await
        .expect("an answer");
    parts(response).await
}

/// The JSON of an answer, and what is behind it.
async fn parts(response: reqwest::Response) -> (Reply, Vec<u8>) {
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let bytes = response.bytes().await.expect("a body");
    let length = headers
        .get("inference-header-content-length")
        .map_or(bytes.len(), |it| {
            it.to_str().expect("text").parse().expect("a number")
        });
    let text = String::from_utf8(bytes[..length].to_vec()).expect("text");
    let reply = Reply {
        status,
        headers,
        text,
    };
    (reply, bytes[length..].to_vec())
}

fn mirrored() -> Value {
    json!({ "id": "7", "inputs": [
        { "name": "x", "datatype": "FP32", "shape": [2, 2], "data": [[1, 2.5], [3, 4]] },
        { "name": "y", "datatype": "BYTES", "shape": [2], "data": ["a", "é"] },
    ] })
}

#[tokio::test]
async fn numbers_of_json_are_read_to_the_last_bit() {
    let (server, _client) = start(&[("mirror", MIRROR)]).await;
    let mut bits = 0x2545_f491_4f6c_dd1d_u64;
    let mut number = || {
        bits = bits.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        // One with an exponent that people use.
        f64::from_bits((bits >> 12) | ((1000 + (bits & 63)) << 52))
    };
    let numbers: Vec<f64> = std::iter::repeat_with(&mut number).take(1_000).collect();
    let body = json!({ "inputs": [
        { "name": "x", "datatype": "FP32", "shape": [1, 2], "data": [0, 0] },
        { "name": "y", "datatype": "FP64", "shape": [1_000], "data": numbers },
    ], "outputs": [{ "name": "same_y", "parameters": { "binary_data": true } }] });
    let (reply, raw) = binary(&server, "mirror", &body, &[]).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let written: Vec<u8> = numbers.iter().flat_map(|it| it.to_le_bytes()).collect();
    assert!(raw == written, "each comes back as it was");
}

#[tokio::test]
async fn content_types_of_clients_are_taken() {
    let (server, _client) = start(&[("mirror", MIRROR)]).await;
    let mut asked = mirrored();
    asked["parameters"] = json!({ "content_type": "np" });
    asked["inputs"][0]["parameters"] = json!({ "content_type": "np" });
    asked["outputs"] = json!([{ "name": "same_x", "parameters": { "content_type": "np" } }]);
    let reply = infer(&server, "mirror", &asked).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    assert_eq!(
        reply.json()["outputs"][0]["data"],
        json!([1.0, 2.5, 3.0, 4.0])
    );
}

#[tokio::test]
async fn an_answer_of_tensors_tells_what_it_took() {
    let (server, _client) = start(&[("mirror", MIRROR)]).await;
    let plain = infer(&server, "mirror", &mirrored()).await;
    let header = plain.header("server-timing").expect("times");
    assert!(header.starts_with("total;dur="), "{header}");
    assert!(plain.json().get("timings").is_none());
    let in_binary = json!({ "inputs": mirrored()["inputs"], "outputs": [
        { "name": "same_x", "parameters": { "binary_data": true } },
    ] });
    let path = "mirror/infer?timings=1";
    let post = server.post(&format!("/v2/models/{path}"), in_binary.to_string());
    let (reply, behind) = parts(post.send().await.expect("an answer")).await;
    assert_eq!(behind.len(), 16, "two rows of two numbers");
    let timings = &reply.json()["timings"];
    assert!(timings["total_ms"].as_f64().expect("a number") > 0.0);
    let nodes = timings["nodes"].as_array().expect("nodes");
    assert_eq!(nodes.len(), 1, "{timings}");
    assert_eq!(nodes[0]["name"], "PassThroughCalculator");
    assert!(nodes[0]["calls"].as_u64() > Some(0));
    // What the nodes of a sequence did is not what one of its requests took.
    let mut part = mirrored();
    part["parameters"] = json!({ "sequence_id": 5, "sequence_start": true });
    let post = server.post(&format!("/v2/models/{path}"), part.to_string());
    let timings = &read(post).await.json()["timings"];
    assert!(timings["total_ms"].is_number() && timings.get("nodes").is_none());
}

#[tokio::test]
async fn tensors_are_json_or_behind_it() {
    let (server, _client) = start(&[("a/mirror", MIRROR)]).await;
    let reply = infer(&server, "a/mirror/versions/1", &mirrored()).await;
    let answer = reply.json();
    assert_eq!(
        (reply.status, &answer["model_name"], &answer["id"]),
        (200, &json!("a/mirror"), &json!("7"))
    );
    let output = |answer: &Value, name: &str| {
        let outputs = answer["outputs"].as_array().expect("outputs");
        outputs
            .iter()
            .find(|it| it["name"] == name)
            .expect("an output")
            .clone()
    };
    assert_eq!(
        output(&answer, "same_x"),
        json!({ "name": "same_x", "datatype": "FP32", "shape": [2, 2], "data": [1.0, 2.5, 3.0, 4.0] })
    );
    assert_eq!(output(&answer, "same_y")["data"], json!(["a", "é"]));

    let x = [1.0_f32, 2.0].map(f32::to_le_bytes).concat();
    let y = [0, 1, 2];
    let behind = [&x[..], &y].concat();
    let body = json!({ "inputs": [
        { "name": "x", "datatype": "FP32", "shape": [1, 2], "parameters": { "binary_data_size": 8 } },
        { "name": "y", "datatype": "UINT8", "shape": [3], "parameters": { "binary_data_size": 3 } },
    ], "outputs": [
        { "name": "same_y", "parameters": { "binary_data": true } },
        { "name": "same_x" },
    ] });
    let (reply, raw) = binary(&server, "a/mirror", &body, &behind).await;
    let answer = reply.json();
    assert_eq!((reply.status, &raw[..]), (200, &y[..]));
    assert_eq!(answer["outputs"][0]["parameters"]["binary_data_size"], 3);
    assert_eq!(answer["outputs"][1]["data"], json!([1.0, 2.0]));
    let mut all = body;
    all["parameters"] = json!({ "binary_data_output": true });
    all.as_object_mut().expect("an object").remove("outputs");
    let (reply, raw) = binary(&server, "a/mirror", &all, &behind).await;
    assert_eq!((reply.status, raw.len()), (200, 11));

    let stats = server.get("/v2/models/a%2Fmirror/stats").await.json();
    let counts = &stats["model_stats"][0]["inference_stats"];
    assert_eq!(
        (&counts["success"]["count"], &counts["fail"]["count"]),
        (&json!(3), &json!(0)),
        "answers with tensors behind the JSON are whole: {stats}"
    );
}

#[tokio::test]
async fn what_is_wrong_with_a_request_is_named() {
    let (server, _client) = start(&[("mirror", MIRROR), ("text", TEXT), ("actor", ACTOR)]).await;
    let with_x = |x: Value| {
        let mut body = mirrored();
        for (name, value) in x.as_object().expect("an object") {
            body["inputs"][0][name] = value.clone();
        }
        body
    };
    let mut unknown = mirrored();
    unknown["model"] = json!("x");
    let mut parameter = mirrored();
    parameter["parameters"] = json!({ "a": [1] });
    for (graph, body, status, why) in [
        (
            "nothing",
            mirrored(),
            404,
            "the model `nothing` does not exist",
        ),
        ("mirror/versions/2", mirrored(), 404, "no version `2`"),
        (
            "mirror",
            json!({ "model_name": "other", "inputs": [] }),
            400,
            "the path names the graph `mirror`",
        ),
        ("mirror", json!([]), 400, "not an inference request"),
        ("mirror", json!({}), 400, "`inputs` is missing"),
        ("mirror", unknown, 400, "unknown field `model`"),
        (
            "mirror",
            parameter,
            400,
            "`parameters.a`: a parameter that is no boolean, number or string",
        ),
        (
            "mirror",
            json!({ "inputs": 7 }),
            400,
            "`inputs`: invalid type: integer `7`",
        ),
        (
            "mirror",
            json!({ "inputs": [7] }),
            400,
            "`inputs[0]`: invalid type: integer `7`, expected an object",
        ),
        (
            "mirror",
            with_x(json!({ "shape": [2, "2"] })),
            400,
            "`inputs[0].shape[1]`: invalid type: string \"2\"",
        ),
        (
            "mirror",
            with_x(json!({ "parameters": { "a": null } })),
            400,
            "`inputs[0].parameters.a`: unknown parameter",
        ),
        (
            "mirror",
            with_x(json!({ "datatype": "FP8" })),
            400,
            "`inputs[0].datatype`",
        ),
        (
            "mirror",
            with_x(json!({ "shape": [-1] })),
            400,
            "`inputs[0].shape`",
        ),
        (
            "mirror",
            with_x(json!({ "shape": [3, 2] })),
            400,
            "`inputs[0].data`: an array has 2 elements",
        ),
        (
            "mirror",
            with_x(json!({ "data": [1] })),
            400,
            "has 4 elements, but there are 1",
        ),
        (
            "mirror",
            with_x(json!({ "data": null })),
            400,
            "neither `data` nor `parameters.binary_data_size`",
        ),
        (
            "mirror",
            with_x(json!({ "parameters": { "binary_data_size": 4 } })),
            400,
            "there are both",
        ),
        (
            "mirror",
            with_x(json!({ "parameters": { "shared_memory_region": "a" } })),
            501,
            "shared memory is not supported",
        ),
        (
            "mirror",
            with_x(json!({ "parameters": { "content_type": "base64" } })),
            400,
            "`inputs[0].parameters.content_type`: expected `np` or `str`",
        ),
        (
            "mirror",
            with_x(json!({ "name": "y" })),
            400,
            "`inputs.y`: the input is given twice",
        ),
        ("actor", mirrored(), 400, "takes HTTP requests, not tensors"),
    ] {
        let reply = infer(&server, graph, &body).await;
        let error = reply.json()["error"].as_str().map(str::to_owned);
        let error = error.unwrap_or_else(|| panic!("{reply:?}"));
        assert!(
            reply.status == status && error.contains(why),
            "{} {error}",
            reply.status
        );
        assert!(reply.json()["code"].is_string(), "{}", reply.text);
    }
    let sized = |bytes: i64| {
        json!({ "inputs": [
        { "name": "text", "datatype": "BYTES", "shape": [1], "parameters": { "binary_data_size": bytes } },
    ] })
    };
    for (body, behind, why) in [
        (
            sized(9),
            &[1, 0, 0, 0, 65][..],
            "has 9 bytes, but 5 are left",
        ),
        (
            sized(4),
            &[0, 0, 0, 0, 1],
            "1 bytes after the last tensor of its inputs",
        ),
        (sized(-1), &[], "a number of bytes"),
        (sized(5), &[2, 0, 0, 0, 65], "ends behind the data"),
    ] {
        let (reply, _) = binary(&server, "text", &body, behind).await;
        assert!(reply.status == 400 && reply.text.contains(why), "{reply:?}");
    }
    for length in ["x", "-1", "0", "999999"] {
        let request = server
            .post("/v2/models/text/infer", "{}")
            .header("inference-header-content-length", length);
        let reply = read(request).await;
        assert_eq!(reply.status, 400, "{length}: {reply:?}");
    }
}

#[tokio::test]
async fn a_text_graph_is_driven_by_bytes() {
    let (server, _client) = start(&[("text", TEXT), ("repeat", REPEAT)]).await;
    let body = json!({ "inputs": [{ "name": "text", "datatype": "BYTES", "shape": [1], "data": ["hello"] }] });
    let reply = infer(&server, "text", &body).await.json();
    assert_eq!(reply["outputs"][0]["data"], json!(["hello"]));
    let body = json!({ "parameters": { "times": 1 }, "inputs": [
        { "name": "x", "datatype": "INT64", "shape": [1], "data": [i64::MIN] },
    ] });
    let reply = infer(&server, "repeat", &body).await.json();
    assert_eq!(reply["outputs"][0]["data"], json!([i64::MIN]));
    // Such a graph is no chat.
    let chat = server
        .chat(&json!({ "model": "text", "messages": [] }))
        .await;
    assert_eq!(chat.status, 400, "{chat:?}");
    assert!(chat.text.contains("/v2/models/text/infer"), "{chat:?}");
}

#[tokio::test]
async fn whoever_asks_what_a_graph_takes_has_it_loaded() {
    for path in ["", "/config", "/versions/1"] {
        let setup = setup(&[("mirror", MIRROR)]).that(&json!({ "load": "on_demand" }));
        let server = setup.start().await;
        let state = async || server.status().await["graphs"][0]["state"].clone();
        for looks in ["ready", "stats"] {
            let path = format!("/v2/models/mirror/{looks}");
            assert_eq!(server.get(&path).await.status, 200, "{path}");
        }
        assert_eq!(state().await, "START");
        let told = server.get(&format!("/v2/models/mirror{path}")).await;
        assert!(told.text.contains("FP32"), "{path}: {}", told.text);
        assert_eq!(state().await, "AVAILABLE");
    }
}

#[tokio::test]
async fn metadata_and_statistics_are_told() {
    let (server, _client) = start(&[("mirror", MIRROR), ("actor", ACTOR)]).await;
    let about = server.get("/v2").await.json();
    assert_eq!(about["name"], "Graphmill");
    let metadata = server.get("/v2/models/mirror/versions/1").await.json();
    assert_eq!(metadata["versions"], json!(["1"]));
    let inputs = metadata["inputs"].as_array().expect("inputs");
    assert!(
        inputs.contains(&json!({ "name": "x", "datatype": "FP32", "shape": [-1, 2] })),
        "{metadata}"
    );
    assert!(
        inputs.contains(&json!({ "name": "y", "datatype": "INVALID", "shape": [] })),
        "{metadata}"
    );
    let config = server.get("/v2/models/mirror/config").await.json();
    assert_eq!(config["backend"], "graphmill");
    // No tensor enters a graph that takes HTTP requests.
    for (path, fields) in [
        ("/v2/models/actor", ["inputs", "outputs"]),
        ("/v2/models/actor/config", ["input", "output"]),
    ] {
        let told = server.get(path).await.json();
        assert_eq!(fields.map(|field| &told[field]), [&json!([]); 2], "{told}");
    }
    for path in ["/v2/models/mirror", "/v2/models/mirror/stats"] {
        let refused = server.post(path, "{}".to_owned());
        let refused = refused.send().await.unwrap();
        assert_eq!(refused.status(), 405, "{path}");
        assert_eq!(refused.headers()["allow"], "GET,HEAD");
    }
    infer(&server, "mirror", &mirrored()).await;
    infer(&server, "mirror", &json!({ "inputs": [] })).await;
    server
        .chat(&json!({ "model": "actor", "actions": [{ "body": "x" }] }))
        .await;
    for path in [
        "/v2/models/mirror/stats",
        "/v2/models/mirror/versions/1/stats",
        "/v2/models/stats",
    ] {
        let stats = server.get(path).await.json();
        let all = stats["model_stats"].as_array().expect("a list");
        let mirror = all
            .iter()
            .find(|it| it["name"] == "mirror")
            .expect("mirror");
        let counts = &mirror["inference_stats"];
        assert_eq!(
            (&counts["success"]["count"], &counts["fail"]["count"]),
            (&json!(1), &json!(1)),
            "{stats}"
        );
        for part in ["compute_input", "compute_infer", "compute_output"] {
            assert_eq!(counts[part]["count"], 1, "{part}: {stats}");
        }
    }
    let all = server.get("/v2/models/stats").await.json();
    let counted = |name: &str| {
        let all = all["model_stats"].as_array().expect("a list");
        all.iter().find(|it| it["name"] == name).expect("it")["inference_count"].clone()
    };
    assert_eq!(counted("actor"), 1);
}

#[tokio::test]
async fn outputs_are_told_by_the_types_of_the_ports_that_write_them() {
    let (server, _client) = start(&[("presence", PRESENCE)]).await;
    let metadata = server.get("/v2/models/presence").await.json();
    assert_eq!(
        metadata["outputs"],
        json!([{ "name": "there", "datatype": "BOOL", "shape": [1] }])
    );
    let config = server.get("/v2/models/presence/config").await.json();
    assert_eq!(config["output"][0]["data_type"], "TYPE_BOOL", "{config}");
}

#[tokio::test]
async fn a_graph_that_declares_a_batch_limits_its_rows() {
    let graph = |shape: &str| {
        format!(
            r#"
            input_stream: "a"
            output_stream: "b"
            node {{
              calculator: "PassThroughCalculator"
              input_stream: "a"
              output_stream: "b"
            }}
            graph_options {{ [type.googleapis.com/graphmill.TensorOptions] {{
              max_batch_size: 2
              input {{ name: "a" datatype: UINT8 shape: [-1, 2] }}
              output {{ name: "b" datatype: UINT8 shape: {shape} }}
            }} }}
            "#
        )
    };
    let (server, _client) = start(&[("rows", &graph("[-1, 2]")), ("none", &graph("[2, 2]"))]).await;
    let config = server.get("/v2/models/rows/config").await.json();
    assert_eq!(config["max_batch_size"], 2, "{config}");
    assert_eq!(config["input"][0]["dims"], json!([2]), "{config}");
    let ask = async |rows: usize| {
        let input = json!({ "name": "a", "datatype": "UINT8", "shape": [rows, 2], "data": vec![1; rows * 2] });
        infer(&server, "rows", &json!({ "inputs": [input] })).await
    };
    assert_eq!(ask(2).await.status, 200);
    let refused = ask(3).await;
    assert_eq!(refused.status, 400, "{refused:?}");
    let said = refused.json()["error"].to_string();
    assert!(
        said.contains("3 rows") && said.contains("at most 2"),
        "{said}"
    );
    let said = server.get("/v2/models/none/ready").await.text;
    assert!(
        said.contains("declares no shape of `b` that begins with -1"),
        "{said}"
    );
}

#[tokio::test]
async fn a_graph_keeps_answers_for_requests_with_the_same_inputs() {
    const TWO: &str = r#"
        input_stream: "a"
        input_stream: "b"
        output_stream: "first"
        node {
          calculator: "PassThroughCalculator"
          input_stream: "a"
          output_stream: "first"
        }
        graph_options { [type.googleapis.com/graphmill.TensorOptions] { response_cache { } } }
    "#;
    let setup = super::setup(&[("two", TWO)]);
    let file = setup.path().join("0/graph.pbtxt");
    let server = setup.start().await;
    let input = |name: &str, number: u8| json!({ "name": name, "datatype": "UINT8", "shape": [1], "data": [number] });
    let ask = async |a: u8, more: Value| {
        let mut body = json!({ "inputs": [input("a", a), input("b", 9)] });
        for (name, value) in more.as_object().expect("an object") {
            body[name] = value.clone();
        }
        let reply = infer(&server, "two", &body).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()
    };
    let counts = async || {
        let stats = server.get("/v2/models/two/stats").await.json();
        let stats = stats["model_stats"][0].clone();
        let count = |name: &str| stats["inference_stats"][name]["count"].clone();
        json!([
            stats["inference_count"],
            stats["execution_count"],
            count("cache_hit"),
            count("cache_miss")
        ])
    };
    let first = ask(1, json!({ "id": "1" })).await;
    assert_eq!(first["outputs"][0]["data"], json!([1]));
    let again = ask(1, json!({ "id": "2", "parameters": { "timeout": 9_000_000 }, "outputs": [{ "name": "first" }] })).await;
    assert_eq!(again["outputs"], first["outputs"]);
    assert_eq!(again["id"], "2");
    let other = ask(2, json!({})).await;
    assert_eq!(other["outputs"][0]["data"], json!([2]));
    assert_eq!(counts().await, json!([3, 2, 1, 2]));
    // What is refused without the cache is refused with it.
    let mut wrong =
        json!({ "inputs": [input("a", 1), input("b", 9)], "outputs": [{ "name": "second" }] });
    assert_eq!(infer(&server, "two", &wrong).await.status, 400);
    wrong["outputs"] = json!([]);
    wrong["parameters"] = json!({ "unknown": 1 });
    assert_eq!(infer(&server, "two", &wrong).await.status, 400);
    let metrics = server.get("/metrics").await.text;
    for sample in [
        "hits_total{graph=\"two\"} 1",
        "misses_total{graph=\"two\"} 2",
    ] {
        assert!(
            metrics.contains(&format!("graphmill_response_cache_{sample}")),
            "{metrics}"
        );
    }
    // The graph that takes its place has answers of its own.
    std::fs::write(
        &file,
        TWO.replacen(
            "input_stream: \"a\"\n          output",
            "input_stream: \"b\"\n          output",
            1,
        ),
    )
    .expect("writable");
    assert_eq!(
        read(server.post("/v2/repository/models/two/load", ""))
            .await
            .status,
        200
    );
    assert_eq!(ask(1, json!({})).await["outputs"][0]["data"], json!([9]));
}

#[tokio::test]
async fn a_cache_without_room_is_refused_at_its_place() {
    let text = TEXT.to_owned()
        + r"graph_options { [type.googleapis.com/graphmill.TensorOptions] { response_cache { max_bytes: 0 } } }";
    let (server, _client) = start(&[("text", &text)]).await;
    let reply = server.get("/v2/models/text/ready").await;
    assert!(
        reply.status == 503 && reply.text.contains("max_bytes"),
        "{reply:?}"
    );
}
