//! TorchServe's API.

use serde_json::json;

use crate::rest::support::{CHAT, Setup, TestServer, read};

fn mirror(input: &str, options: &str) -> String {
    format!(
        r#"
        input_stream: "{input}x"
        output_stream: "{input}y"
        node {{ calculator: "PassThroughCalculator" input_stream: "x" output_stream: "y" }}
        {options}
        "#
    )
}

async fn server() -> TestServer {
    let declared = |datatype: &str, shape: &str| {
        format!(
            r#"graph_options {{ [type.googleapis.com/graphmill.TensorOptions] {{
                 input {{ name: "x" datatype: {datatype} shape: {shape} }}
               }} }}"#
        )
    };
    let two = r#"
        input_stream: "x"
        input_stream: "y"
        output_stream: "same_x"
        output_stream: "same_y"
        node {
          calculator: "PassThroughCalculator"
          input_stream: "x"
          input_stream: "y"
          output_stream: "same_x"
          output_stream: "same_y"
        }
    "#;
    Setup::new()
        .graph("text", &mirror("TEXT:", ""))
        .graph("bytes", &mirror("", ""))
        .graph("org/numbers", &mirror("", &declared("FP32", "[-1, 2]")))
        .graph("two", two)
        .graph("chat", CHAT)
        .script(&json!({ "replies": [{ "text": "hello" }] }))
        .start()
        .await
}

#[tokio::test]
async fn a_body_goes_in_and_another_comes_out() {
    let server = server().await;
    let picture: &[u8] = b"\x89PNG\r\n\xff";
    let numbers: Vec<u8> = [1f32, 2.0, 3.0, 4.0]
        .iter()
        .flat_map(|it| it.to_le_bytes())
        .collect();
    for (path, content_type, body, answer_type, answer) in [
        (
            "text",
            "text/plain",
            &b"hi"[..],
            "text/plain; charset=utf-8",
            &b"hi"[..],
        ),
        (
            "text",
            "application/json",
            br#""hi \"you\"""#,
            "text/plain; charset=utf-8",
            br#"hi "you""#,
        ),
        ("text/1.0", "", b"hi", "text/plain; charset=utf-8", b"hi"),
        (
            "bytes",
            "image/png",
            picture,
            "application/octet-stream",
            picture,
        ),
        (
            "org/numbers",
            "application/json",
            b"[[1, 2], [3, 4.5]]",
            "application/json",
            b"[[1.0,2.0],[3.0,4.5]]",
        ),
        (
            "org/numbers/1",
            "application/octet-stream",
            &numbers,
            "application/json",
            b"[[1.0,2.0],[3.0,4.0]]",
        ),
    ] {
        let url = format!("{}/predictions/{path}", server.url);
        let request = server.client.post(url).body(body.to_vec());
        let request = match content_type {
            "" => request,
            content_type => request.header("content-type", content_type),
        };
        let reply = request.send().await.expect("an answer");
        let headers = reply.headers().clone();
        let status = reply.status();
        let found = reply.bytes().await.expect("a body");
        assert_eq!(
            (status.as_u16(), &found[..]),
            (200, answer),
            "{path} {content_type}: {found:?}"
        );
        assert_eq!(headers["content-type"], answer_type);
        assert_eq!(headers["pragma"], "no-cache");
        assert!(headers.contains_key("x-request-id"));
    }
}

#[tokio::test]
async fn failures_are_told_as_torchserve_tells_them() {
    let server = server().await;
    for (method, path, body, status, kind, why) in [
        (
            "POST",
            "/predictions/nobody",
            "a",
            404,
            "ModelNotFoundException",
            "nobody",
        ),
        (
            "POST",
            "/predictions/text/7",
            "a",
            404,
            "ModelNotFoundException",
            "version",
        ),
        (
            "GET",
            "/predictions/text",
            "",
            405,
            "MethodNotAllowedException",
            "GET",
        ),
        (
            "POST",
            "/predictions/two",
            "[1]",
            400,
            "BadRequestException",
            "several inputs",
        ),
        (
            "POST",
            "/predictions/chat",
            "[1]",
            400,
            "BadRequestException",
            "HTTP requests",
        ),
        (
            "POST",
            "/predictions/bytes",
            "[1]",
            400,
            "BadRequestException",
            "TensorOptions",
        ),
        (
            "POST",
            "/predictions/org/numbers",
            "[1, 2]",
            400,
            "BadRequestException",
            "the graph declares [-1, 2]",
        ),
        (
            "POST",
            "/predictions/org/numbers",
            "[[1], [2, 3]]",
            400,
            "BadRequestException",
            "body",
        ),
        (
            "POST",
            "/predictions/org/numbers",
            "{",
            400,
            "BadRequestException",
            "JSON",
        ),
        (
            "POST",
            "/predictions/text",
            r#"{"a": [1]}"#,
            400,
            "BadRequestException",
            "expected a JSON string",
        ),
        (
            "POST",
            "/models?url=a.mar",
            "",
            501,
            "NotImplementedException",
            "adding them to the configuration",
        ),
        (
            "DELETE",
            "/models/text",
            "",
            501,
            "NotImplementedException",
            "taking them out",
        ),
        (
            "DELETE",
            "/models/text/1.0",
            "",
            501,
            "NotImplementedException",
            "taking them out",
        ),
        (
            "PUT",
            "/models/text?min_worker=3",
            "",
            501,
            "NotImplementedException",
            "no workers",
        ),
        (
            "GET",
            "/models/nobody",
            "",
            404,
            "ModelNotFoundException",
            "nobody",
        ),
        (
            "GET",
            "/models?limit=0",
            "",
            400,
            "BadRequestException",
            "at least 1",
        ),
        (
            "GET",
            "/models?limit=many",
            "",
            400,
            "BadRequestException",
            "whole number",
        ),
    ] {
        let method = method.parse().expect("a method");
        let request = server
            .client
            .request(method, format!("{}{path}", server.url));
        let request = request.header("content-type", "application/json");
        let reply = read(request.body(body)).await;
        let error = reply.json();
        assert_eq!(
            (reply.status, &error["code"], &error["type"]),
            (status, &json!(status), &json!(kind)),
            "{path}: {reply:?}"
        );
        assert!(
            error["message"].as_str().is_some_and(|it| it.contains(why)),
            "{path}: {reply:?}"
        );
    }
    let multipart = server
        .post("/predictions/text", "a")
        .header("content-type", "multipart/form-data; boundary=x");
    let reply = read(multipart).await;
    assert_eq!(reply.status, 400, "{reply:?}");
}

#[tokio::test]
async fn models_are_listed_in_pages_and_described() {
    let server = server().await;
    let ping = server.get("/ping").await;
    assert_eq!(
        (ping.status, &ping.json()["status"]),
        (200, &json!("Healthy"))
    );
    let all = server.get("/models").await.json();
    assert_eq!(all["models"].as_array().map(Vec::len), Some(5), "{all}");
    let mut names = Vec::new();
    let mut path = "/models?limit=2".to_owned();
    loop {
        let page = server.get(&path).await.json();
        for model in page["models"].as_array().expect("models") {
            names.push(model["modelName"].as_str().expect("a name").to_owned());
        }
        match page["nextPageToken"].as_str() {
            Some(token) => path = format!("/models?limit=2&next_page_token={token}"),
            None => break,
        }
    }
    names.sort();
    assert_eq!(names, ["bytes", "chat", "org/numbers", "text", "two"]);
    for path in ["/models/org/numbers", "/models/org/numbers/1.0"] {
        let described = server.get(path).await.json();
        assert_eq!(described[0]["modelName"], "org/numbers", "{described}");
        assert_eq!(described[0]["modelVersion"], "1");
        assert_eq!(described[0]["workers"][0]["status"], "READY");
    }
}
