//! TorchServe's API.

use std::{io::Write as _, net::TcpStream};

use reqwest::Method;
use serde_json::{Value, json};

use crate::rest::support::{CHAT, Reply, Setup, TestServer, read};

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
            "expected a JSON string",
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
            "expected one of the fields `text`, `prompt`, `data`, `body`",
        ),
        (
            "POST",
            "/predictions/text",
            r#"{"text": [[1]]}"#,
            400,
            "BadRequestException",
            "`text`",
        ),
        (
            "POST",
            "/predictions/chat",
            r#"{"text": "a", "data": "b"}"#,
            400,
            "BadRequestException",
            "the input is `text` already",
        ),
        (
            "POST",
            "/predictions/chat",
            r#"{"text": "a", "max_new_tokens": "many"}"#,
            400,
            "BadRequestException",
            "max_tokens",
        ),
        (
            "POST",
            "/predictions/chat",
            r#"{"inputs_embeds": [[0.5]]}"#,
            400,
            "BadRequestException",
            "`prompt_embeds: true`",
        ),
        (
            "POST",
            "/predictions/chat",
            r#"{"text": "a", "num_beams": 4}"#,
            400,
            "BadRequestException",
            "num_beams",
        ),
        (
            "POST",
            "/predictions/text",
            r#"{"text": "a", "max_new_tokens": 4}"#,
            400,
            "BadRequestException",
            "no side packet for the parameter `max_tokens`",
        ),
        (
            "POST",
            "/models?url=a.mar",
            "",
            501,
            "NotImplementedException",
            "adding them to the config.json",
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
            "only graphs that batch",
        ),
        (
            "PUT",
            "/models/text?min_workers=1",
            "",
            400,
            "BadRequestException",
            "min_workers",
        ),
        (
            "PUT",
            "/models/text/2/set-default",
            "",
            404,
            "ModelNotFoundException",
            "version",
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
    for (content_type, body) in [
        ("multipart/form-data; boundary=x", "a"),
        ("application/x-www-form-urlencoded", "a"),
        ("application/x-www-form-urlencoded", "text=a&prompt=b"),
        ("application/x-www-form-urlencoded", "text=a&text=b"),
    ] {
        let reply = predict(&server, "text", content_type, body).await;
        assert_eq!(reply.status, 400, "{body}: {reply:?}");
    }
}

fn request(
    server: &TestServer,
    path: &str,
    content_type: &str,
    body: &str,
) -> reqwest::RequestBuilder {
    let request = server
        .client
        .post(format!("{}/predictions/{path}", server.url));
    let request = request.header("content-type", content_type);
    request.body(body.to_owned())
}

async fn predict(server: &TestServer, path: &str, content_type: &str, body: &str) -> Reply {
    read(request(server, path, content_type, body)).await
}

/// A graph of text tensors on the scripted model, whose text can come in pieces.
fn texts() -> String {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let text = std::fs::read_to_string(format!("{root}/graphs/text/graph.pbtxt"));
    let text = text.expect("a graph");
    text.replace("../../demos/tiny_chat", "../model.script.json")
}

/// A server whose model says `hello`, and goes on with the letters behind a prompt that is no chat.
pub(crate) async fn writer(token: Option<&'static str>) -> TestServer {
    let setup = Setup::new().graph("chat", CHAT).graph("texts", &texts());
    let setup = setup.graph("numbers", &mirror("", NUMBERS));
    let setup = setup.script(&json!({ "replies": [{ "text": "hello" }] }));
    let token = token.map(str::to_owned);
    let setup = setup.with(|options| {
        options.end_of_stream_token = token;
        options.grpc = vec![([127, 0, 0, 1], 0).into()];
        options.grpc_management = vec![([127, 0, 0, 1], 0).into()];
    });
    setup.start().await
}

const NUMBERS: &str = r#"graph_options { [type.googleapis.com/graphmill.TensorOptions] {
    input { name: "x" datatype: FP32 shape: [-1, 2] }
} }"#;

const FORM: &str = "application/x-www-form-urlencoded";
const JSON: &str = "application/json";

#[tokio::test]
async fn forms_and_objects_have_parameters_beside_the_text() {
    let server = writer(None).await;
    let multipart = "--x\r\ncontent-disposition: form-data; name=\"data\"\r\n\r\nHi\r\n\
        --x\r\ncontent-disposition: form-data; name=\"max_new_tokens\"\r\n\r\n3\r\n--x--\r\n";
    let file = "--x\r\ncontent-disposition: form-data; name=\"data\"; filename=\"a.json\"\r\n\
        content-type: application/json\r\n\r\n[[1, 2]]\r\n--x--\r\n";
    let multipart_type = "multipart/form-data; boundary=x";
    for (path, content_type, body, answer) in [
        (
            "chat",
            FORM,
            "text=Hi&max_new_tokens=3&do_sample=False&num_beams=1",
            "jkl",
        ),
        (
            "chat/1.0",
            FORM,
            "prompt=Hi&max_tokens=3&stop=l&stop=z",
            "jk",
        ),
        (
            "chat",
            JSON,
            r#"{"text": "Hi", "max_new_tokens": 3, "temperature": 0.5, "seed": null}"#,
            "jkl",
        ),
        (
            "chat",
            JSON,
            r#"{"data": "Hi", "max_new_tokens": 2, "return_full_text": true}"#,
            "Hijk",
        ),
        ("chat", multipart_type, multipart, "jkl"),
        (
            "texts",
            FORM,
            "text=Hi&max_new_tokens=4&stream=true",
            "hell",
        ),
        ("numbers", JSON, r#"{"data": [[1, 2]]}"#, "[[1.0,2.0]]"),
        ("numbers", FORM, "x=[[1, 2]]", "[[1.0,2.0]]"),
        ("numbers", multipart_type, file, "[[1.0,2.0]]"),
    ] {
        let reply = predict(&server, path, content_type, body).await;
        assert_eq!(
            (reply.status, &*reply.text),
            (200, answer),
            "{path} {body}: {reply:?}"
        );
    }
    for (content_type, body) in [(JSON, r#""Hi""#), ("text/plain", "Hi"), ("", "Hi")] {
        let reply = predict(&server, "chat", content_type, body).await;
        let text = reply.text.get(..5);
        assert_eq!(
            (reply.status, text),
            (200, Some("jklmn")),
            "{body}: {reply:?}"
        );
    }
    let reply = predict(&server, "texts", FORM, "text=Hi&max_new_tokens=4").await;
    assert_eq!(
        reply.json(),
        json!({ "text": ["hell"], "finish_reason": ["length"] })
    );
    let reply = predict(&server, "chat", FORM, "text=Hi&max_new_tokens=1&typo=1").await;
    assert_eq!(reply.header("x-ignored-fields"), Some("typo"), "{reply:?}");
    server.until_idle().await;
}

#[tokio::test]
async fn texts_end_with_the_token_and_come_in_pieces() {
    let server = writer(Some("<|endoftext|>")).await;
    for (path, body, is_whole, answer) in [
        (
            "chat",
            "text=Hi&max_new_tokens=3",
            false,
            "jkl<|endoftext|>",
        ),
        (
            "chat",
            "text=Hi&max_new_tokens=3&stream=False",
            true,
            "jkl<|endoftext|>",
        ),
        ("texts", "text=Hi", false, "hello<|endoftext|>"),
        ("texts", "text=Hi&stream=false", true, "hello<|endoftext|>"),
        ("numbers", "data=[[1,2]]", true, "[[1.0,2.0]]"),
    ] {
        let reply = predict(&server, path, FORM, body).await;
        assert_eq!(
            (reply.status, &*reply.text),
            (200, answer),
            "{path} {body}: {reply:?}"
        );
        assert_eq!(
            reply.header("content-length").is_some(),
            is_whole,
            "{reply:?}"
        );
    }
    // What fails before the first piece has its status.
    let reply = predict(&server, "chat", FORM, "text=Hi&max_new_tokens=0").await;
    assert_eq!(reply.status, 400, "{reply:?}");
    // A client that leaves ends the text.
    let body = "text=endless&ignore_eos=true";
    let endless = request(&server, "chat", FORM, body).send().await;
    let mut endless = endless.expect("an answer");
    assert!(endless.chunk().await.expect("a chunk").is_some());
    drop(endless);
    server.until_idle().await;
}

#[tokio::test]
async fn an_answer_that_is_too_long_is_refused() {
    let setup = Setup::new().graph("numbers", &mirror("", NUMBERS));
    let setup = setup.graph("chat", CHAT);
    let setup = setup.script(&json!({ "replies": [{ "text": "hello" }] }));
    let setup = setup.with(|options| options.max_response_bytes = Some(12));
    let server = setup.start().await;
    let reply = predict(&server, "numbers", JSON, "[[1, 2]]").await;
    assert_eq!((reply.status, &*reply.text), (200, "[[1.0,2.0]]"));
    let reply = predict(&server, "numbers", JSON, "[[1, 2], [3, 4]]").await;
    assert_eq!(reply.status, 500, "{reply:?}");
    assert!(reply.text.contains("longer than 12 bytes"), "{reply:?}");
    let body = "text=Hi&max_new_tokens=20&ignore_eos=true";
    let reply = predict(&server, "chat", FORM, body).await;
    assert_eq!(reply.status, 500, "{reply:?}");
    let body = format!("{body}&stream=true");
    assert_eq!(predict(&server, "chat", FORM, &body).await.status, 200);
    server.until_idle().await;
}

#[tokio::test]
async fn models_are_listed_in_pages_and_described() {
    let server = server().await;
    let ping = server.get("/ping").await;
    assert_eq!(
        (ping.status, &ping.json()["status"]),
        (200, &json!("Healthy"))
    );
    let path = "/api-description";
    for (method, path) in [
        (Method::GET, path),
        (Method::OPTIONS, path),
        (Method::OPTIONS, "/"),
    ] {
        let url = format!("{}{path}", server.url);
        let described = read(server.client.request(method, url)).await.json();
        assert!(described["paths"].is_object(), "{described}");
    }
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
    for path in [
        "/models/org/numbers",
        "/models/org/numbers/1.0",
        "/models/org/numbers/all",
    ] {
        let described = server.get(path).await.json();
        assert_eq!(described[0]["modelName"], "org/numbers", "{described}");
        assert_eq!(described[0]["modelVersion"], "1");
        assert_eq!(described[0]["workers"][0]["status"], "READY");
    }
    for (path, said) in [
        ("text?min_worker=1&synchronous=true", "one worker"),
        (
            "org/numbers/1.0/set-default",
            "the version 1 of `org/numbers` is the default",
        ),
    ] {
        let reply = read(server.client.put(format!("{}/models/{path}", server.url))).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        assert!(reply.text.contains(said), "{reply:?}");
    }
}

#[tokio::test]
async fn folders_are_registered_and_unregistered() {
    let setup = Setup::new().graph("text", &mirror("TEXT:", ""));
    let store = setup.path().join("store");
    let graph = |name: &str, text: &str| {
        std::fs::create_dir_all(store.join(name)).expect("writable");
        std::fs::write(store.join(name).join("graph.pbtxt"), text).expect("writable");
    };
    graph("more", &mirror("TEXT:", ""));
    graph("wrong", "node {");
    let config = setup.config();
    let before = std::fs::read_to_string(&config).expect("a file");
    let setup = setup.with(move |options| options.registration = Some(store));
    let server = setup.start().await;
    let register = async |query: &str| {
        let url = format!("{}/models?{query}", server.url);
        read(server.client.post(url)).await
    };
    for (query, why) in [
        ("", "`url` is missing"),
        ("url=.", "folders in --allow_registration"),
        ("url=..", "folders in --allow_registration"),
        ("url=https://host/a", "no such folder"),
        ("url=https://host/a.mar", "archives of TorchServe"),
        (
            "url=wrong",
            "the configuration is not changed: graph `wrong`",
        ),
        ("url=more&model_name=text", "it already has a graph `text`"),
        ("url=more&model_name=..", "model_name"),
        ("url=more&handler=text", "handler"),
        ("url=more&initial_workers=4", "only graphs that batch"),
    ] {
        let reply = register(query).await;
        let status = if query.contains("workers") { 501 } else { 400 };
        assert_eq!(reply.status, status, "{query}: {reply:?}");
        assert!(reply.text.contains(why), "{query}: {reply:?}");
        let now = std::fs::read_to_string(&config).expect("a file");
        assert_eq!(now, before, "{query}");
    }
    // Those whose clients leave at once are undone all the same, before the next one.
    let address = server.url.strip_prefix("http://").expect("an address");
    for _ in 0..3 {
        let mut leaving = TcpStream::connect(address).expect("connects");
        let head =
            "POST /models?url=wrong HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n";
        leaving.write_all(head.as_bytes()).expect("sent");
    }
    let reply = register("url=more&model_name=org/new&initial_workers=1&synchronous=true").await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let now = std::fs::read_to_string(&config).expect("a file");
    assert!(now.contains("org/new"), "{now}");
    let reply = predict(&server, "org/new", "text/plain", "hi").await;
    assert_eq!((reply.status, &*reply.text), (200, "hi"), "{reply:?}");
    let delete = async |name: &str| {
        let url = format!("{}/models/{name}", server.url);
        read(server.client.delete(url)).await.status
    };
    assert_eq!(
        [delete("nobody").await, delete("org/new/1.0").await],
        [404, 200]
    );
    let reply = predict(&server, "org/new", "text/plain", "hi").await;
    assert_eq!(reply.status, 404, "{reply:?}");
}

/// Gives rows back as they are, batched with those of others.
const BATCHED: &str = r#"
    input_stream: "x"
    output_stream: "y"
    node {
      calculator: "DynamicBatchCalculator"
      input_stream: "x"
      output_stream: "y"
      node_options {
        [type.googleapis.com/graphmill.DynamicBatchCalculatorOptions] {
          input { name: "x" datatype: INT64 shape: [-1, 2] }
          model { calculator: "PassThroughCalculator" }
          max_batch_size: 4
          max_queue_delay_microseconds: 1500
        }
      }
    }
"#;

#[tokio::test]
async fn threads_of_a_graph_that_batches_are_scaled() {
    let server = Setup::new().graph("rows", BATCHED).start().await;
    let put = async |query: &str| {
        let url = format!("{}/models/rows?{query}", server.url);
        let reply = read(server.client.put(url)).await;
        (reply.status, reply.text)
    };
    let workers = async || {
        let described = server.get("/models/rows").await.json()[0].clone();
        let count = described["workers"].as_array().map(Vec::len);
        assert_eq!(
            described["minWorkers"].as_u64().map(|it| it as usize),
            count
        );
        assert_eq!(
            (&described["batchSize"], &described["maxBatchDelay"]),
            (&json!(4), &json!(2))
        );
        count
    };
    assert_eq!(workers().await, Some(1));
    for (query, threads) in [
        ("min_worker=3&synchronous=true", 3),
        // As many as there are, where that is enough and not too many.
        ("min_worker=2&max_worker=4", 3),
        ("max_worker=2&min_worker=1", 2),
        ("min_worker=1&max_worker=1&timeout=5", 1),
    ] {
        let (status, said) = put(query).await;
        assert!(
            status == 200 && said.contains(&format!("{threads} threads")),
            "{query}: {said}"
        );
        assert_eq!(workers().await, Some(threads), "{query}");
    }
    for (query, field) in [
        ("min_worker=0", "min_worker"),
        ("min_worker=257", "min_worker"),
        ("min_worker=3&max_worker=2", "max_worker"),
        ("min_worker=1&max_worker=-1", "max_worker"),
    ] {
        let (status, said) = put(query).await;
        assert!(status == 400 && said.contains(field), "{query}: {said}");
    }
    assert_eq!(workers().await, Some(1));
}

#[tokio::test]
async fn a_version_becomes_the_default_and_others_are_unregistered() {
    let setup = Setup::new().graph("text", &mirror("TEXT:", ""));
    let store = setup.path().join("store");
    for version in ["1", "2", "3"] {
        std::fs::create_dir_all(store.join("more").join(version)).expect("writable");
        let file = store.join("more").join(version).join("graph.pbtxt");
        std::fs::write(file, mirror("TEXT:", "")).expect("writable");
    }
    let (config, more) = (setup.config(), store.join("more"));
    let setup = setup.with(move |options| options.registration = Some(store));
    let server = setup.start().await;
    let mut listed: Value =
        serde_json::from_str(&std::fs::read_to_string(&config).expect("a file")).expect("JSON");
    let list = listed.as_object_mut().expect("an object");
    let list = list
        .values_mut()
        .find_map(Value::as_array_mut)
        .expect("a list");
    list.push(json!({ "config": {
        "name": "more", "base_path": more, "model_version_policy": { "all": {} },
    } }));
    std::fs::write(&config, listed.to_string()).expect("writable");
    assert!(read(server.post("/v1/config/reload", "")).await.status < 300);
    let default = async || server.get("/models/more").await.json()[0]["modelVersion"].clone();
    assert_eq!(default().await, "3");
    let put =
        async |path: &str| read(server.client.put(format!("{}/models/{path}", server.url))).await;
    let reply = put("more/2.0/set-default").await;
    assert!(
        reply.status == 200 && reply.text.contains("version 2"),
        "{reply:?}"
    );
    assert_eq!(default().await, "2");
    // KServe's protocol follows, and a reload leaves it.
    let run = json!({"inputs": [{"name": "x", "datatype": "BYTES", "shape": [1], "data": ["a"]}]});
    let run = read(server.post("/v2/models/more/infer", run.to_string())).await;
    assert_eq!(run.json()["model_version"], "2", "{}", run.text);
    assert!(read(server.post("/v1/config/reload", "")).await.status < 300);
    assert_eq!(default().await, "2");
    assert_eq!(put("more/9.0/set-default").await.status, 404);
    let delete = async |path: &str| {
        read(
            server
                .client
                .delete(format!("{}/models/{path}", server.url)),
        )
        .await
    };
    let reply = delete("more/2.0").await;
    assert!(
        reply.status == 403 && reply.text.contains("default version"),
        "{reply:?}"
    );
    let reply = delete("more/3.0").await;
    assert!(
        reply.status == 200 && reply.text.contains("version 3"),
        "{reply:?}"
    );
    assert_eq!(server.get("/models/more/3.0").await.status, 404);
    assert_eq!(default().await, "2");
    let written = std::fs::read_to_string(&config).expect("a file");
    assert!(
        written.contains(r#"{"specific":{"versions":[1,2]}}"#),
        "{written}"
    );
    assert_eq!(put("more/1.0/set-default").await.status, 200);
    assert_eq!(delete("more/2.0").await.status, 200);
    assert_eq!(default().await, "1");
    assert_eq!(delete("more").await.status, 200);
    assert_eq!(server.get("/models/more").await.status, 404);
}
