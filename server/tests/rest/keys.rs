//! Keys: who may do what.

use std::fs;

use graphmill_server::KeySource;
use serde_json::{Value, json};

use crate::rest::support::{CHAT, Reply, Setup, TestServer, engine_numbers, question, read};
use crate::serving::{Graphs, Process};

/// A server with these keys, whose model answers at once, or without end.
pub(crate) async fn server(keys: &Value) -> TestServer {
    server_of(CHAT, keys).await
}

/// The same with another graph at `chat`.
pub(crate) async fn server_of(graph: &str, keys: &Value) -> TestServer {
    let script = json!({ "name": "keyed", "step_micros": 1000, "replies": [
        { "when": "endless", "text": "on and on ", "then": "repeat" },
        { "text": "a word" },
    ] });
    let setup = Setup::new()
        .graph("chat", graph)
        .graph("other", CHAT)
        .script(&script);
    let file = setup.path().join("keys.json");
    fs::write(&file, json!({ "keys": keys }).to_string()).expect("writable");
    let setup = setup.with(move |options| options.keys = Some(KeySource::File(file)));
    setup.start().await
}

pub(crate) async fn get(server: &TestServer, key: &str, path: &str) -> Reply {
    let request = server.client.get(format!("{}{path}", server.url));
    read(request.header("authorization", format!("Bearer {key}"))).await
}

pub(crate) async fn post(server: &TestServer, key: &str, path: &str, body: &Value) -> Reply {
    let request = server.post(path, body.to_string());
    read(request.header("authorization", format!("Bearer {key}"))).await
}

pub(crate) async fn chat(server: &TestServer, key: &str, body: &Value) -> Reply {
    post(server, key, "/v3/chat/completions", body).await
}

pub(crate) fn code(reply: &Reply) -> (u16, String) {
    let json = reply.json();
    // Errors of KServe's protocol are strings, with the code beside them.
    let code = json["error"]["code"].as_str().or(json["code"].as_str());
    let code = code.map(str::to_owned);
    (reply.status, code.unwrap_or_default())
}

pub(crate) fn is(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

/// The value of a metric with these labels.
pub(crate) async fn metric(server: &TestServer, key: &str, name: &str) -> Option<f64> {
    let scraped = get(server, key, "/metrics").await.text;
    let line = scraped
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map(|value| value.parse().expect("a number"))
}

#[tokio::test]
async fn only_probes_and_pages_are_answered_without_a_key() {
    let server = server(&json!([{ "name": "a", "key": "right" }])).await;
    for path in [
        "/health",
        "/ping",
        "/v1/health",
        "/v2/health/live",
        "/v2/health/ready",
        "/",
        "/page/main.js",
        "/docs",
    ] {
        assert_eq!(server.get(path).await.status, 200, "{path}");
    }
    for path in [
        "/openapi.json",
        "/metrics",
        "/v3/status",
        "/v1/config",
        "/v3/models",
        "/v1/models/chat",
        "/v2/models/chat/ready",
        "/tokenizer_info",
        "/nothing",
    ] {
        let reply = server.get(path).await;
        assert_eq!(code(&reply), is(401, "invalid_api_key"), "{path}");
        assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
        assert!(reply.header("x-request-id").is_some());
    }
    for path in [
        "/v3/chat/completions",
        "/v3/anything",
        "/tokenize",
        "/v2/health/ready",
    ] {
        let reply = read(server.post(path, question("chat", "go").to_string())).await;
        assert_eq!(reply.status, 401, "{path}: {}", reply.text);
    }
    for header in [
        "Bearer wrong",
        "Bearer ",
        "Bearer",
        "Basic right",
        "right",
        "",
    ] {
        let request = server.post("/v3/chat/completions", question("chat", "go").to_string());
        let reply = read(request.header("authorization", header)).await;
        assert_eq!(code(&reply), is(401, "invalid_api_key"), "{header}");
        assert!(!reply.text.contains("right"), "{}", reply.text);
    }
    for (name, value) in [
        ("authorization", "Bearer right"),
        ("authorization", "bearer  right "),
        ("x-api-key", "right"),
    ] {
        let request = server.post("/v3/chat/completions", question("chat", "go").to_string());
        let reply = read(request.header(name, value)).await;
        assert_eq!(reply.status, 200, "{name}: {}", reply.text);
    }
}

#[tokio::test]
async fn a_refusal_has_the_form_of_the_dialect() {
    let server = server(&json!([
        { "name": "a", "key": "right", "models": ["other"], "requests_per_minute": 2 }
    ]))
    .await;
    let body = question("chat", "go");
    let reply = post(&server, "wrong", "/v1/messages", &body).await;
    let error = &reply.json()["error"];
    assert_eq!(
        (reply.status, &error["type"]),
        (401, &json!("authentication_error"))
    );
    for (status, kind) in [
        (404, "not_found_error"),
        (404, "not_found_error"),
        (429, "rate_limit_error"),
    ] {
        let reply = post(&server, "right", "/v1/messages", &body).await;
        assert_eq!(reply.json()["type"], "error", "{}", reply.text);
        let error = &reply.json()["error"];
        assert_eq!((reply.status, &error["type"]), (status, &json!(kind)));
    }
}

#[tokio::test]
async fn a_key_is_for_its_models_and_sees_no_others() {
    let server = server(&json!([
        { "name": "narrow", "key": "n", "models": ["oth*"] },
        { "name": "wide", "key": "w" },
    ]))
    .await;
    let reply = chat(&server, "n", &question("other", "go")).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    // What it may not use answers as what does not exist.
    let same = |hidden: Reply, absent: Reply| {
        assert_eq!(hidden.status, 404, "{}", hidden.text);
        assert_eq!(hidden.text.replace("chat", "none"), absent.text);
    };
    let hidden = chat(&server, "n", &question("chat", "go")).await;
    assert_eq!(code(&hidden), is(404, "model_not_found"));
    same(hidden, chat(&server, "n", &question("none", "go")).await);
    for path in [
        "/v3/models/NAME",
        "/tokenizer_info?model=NAME",
        "/v2/models/NAME",
        "/v2/models/NAME/ready",
    ] {
        let [hidden, absent] = ["chat", "none"].map(|name| path.replace("NAME", name));
        same(
            get(&server, "n", &hidden).await,
            get(&server, "n", &absent).await,
        );
    }
    let listed = |reply: Reply| -> Vec<Value> {
        let models = reply.json()["data"].as_array().expect("a list").clone();
        models
            .into_iter()
            .map(|model| model["id"].clone())
            .collect()
    };
    assert_eq!(listed(get(&server, "n", "/v3/models").await), ["other"]);
    assert_eq!(
        listed(get(&server, "w", "/v3/models").await),
        ["chat", "other"]
    );
    // What does not exist is not told with names that it may not know.
    let reply = chat(&server, "n", &question("chatt", "go")).await;
    assert_eq!(code(&reply), is(404, "model_not_found"));
    assert!(!reply.text.contains("`chat`"), "{}", reply.text);
    let document = get(&server, "n", "/openapi.json").await.text;
    assert!(!document.contains("\"chat\""));
    // Where a request names none, those that the key is for are what there is.
    let reply = post(&server, "n", "/v3/tokenize", &json!({ "text": "a" })).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
}

#[tokio::test]
async fn a_key_for_no_model_learns_of_none() {
    let server = server(&json!([{ "name": "nothing", "key": "n", "models": ["x"] }])).await;
    for reply in [
        get(&server, "n", "/tokenizer_info").await,
        post(&server, "n", "/v3/tokenize", &json!({ "text": "a" })).await,
    ] {
        assert_eq!(code(&reply), is(400, "missing_required_parameter"));
    }
}

#[tokio::test]
async fn scopes_say_what_a_key_is_for() {
    let server = server(&json!([
        { "name": "client", "key": "c" },
        { "name": "scraper", "key": "s", "scopes": ["metrics"] },
        { "name": "operator", "key": "o", "scopes": ["admin"] },
    ]))
    .await;
    for path in ["/metrics", "/v3/status", "/v1/config"] {
        assert_eq!(
            code(&get(&server, "c", path).await),
            is(403, "permission_denied"),
            "{path}"
        );
        for key in ["s", "o"] {
            assert_eq!(get(&server, key, path).await.status, 200, "{path}");
        }
    }
    // Paths and prompts are in the text of a graph.
    let text = "/v3/graphs/chat/file";
    let refused = get(&server, "s", text).await;
    assert_eq!(code(&refused), is(403, "permission_denied"));
    assert_eq!(get(&server, "o", text).await.status, 200);
    for (key, shows) in [("s", false), ("o", true)] {
        let graph = get(&server, key, "/v3/graphs/chat").await;
        assert_eq!(graph.text.contains("models_path"), shows, "{}", graph.text);
    }
    for key in ["s", "o"] {
        let reply = chat(&server, key, &question("chat", "go")).await;
        assert_eq!(code(&reply), is(403, "permission_denied"));
        assert_eq!(get(&server, key, "/v3/models").await.status, 403);
    }
    // Paths that do not exist are told to whoever has a key.
    assert_eq!(get(&server, "s", "/nothing").await.status, 404);
    let refused = "graphmill_key_refusals_total{key=\"client\",reason=\"scope\"}";
    assert_eq!(metric(&server, "s", refused).await, Some(3.0));
}

#[tokio::test]
async fn the_file_is_read_again_and_a_bad_edit_changes_nothing() {
    let mut graphs = Graphs::new();
    graphs.add("chat", CHAT);
    let script = json!({ "name": "m", "replies": [{ "text": "x" }] });
    fs::write(graphs.path().join("model.script.json"), script.to_string()).expect("writable");
    let file = graphs.path().join("keys.json");
    let write = |text: &str| {
        let new = file.with_extension("new");
        fs::write(&new, text).expect("writable");
        fs::rename(&new, &file).expect("writable");
    };
    write(r#"{"keys": [{"name": "a", "key": "one"}]}"#);
    let flags = ["--api_key_file", file.to_str().expect("text")];
    let mut server = Process::start(&graphs.config(), &flags);
    server.says("ready after");
    let url = format!("http://127.0.0.1:{}/v3/models", server.port());
    let status = async |key: &str| {
        let request = crate::http::client().get(&url).header("x-api-key", key);
        read(request).await.status
    };
    assert_eq!((status("one").await, status("two").await), (200, 401));
    write(r#"{"keys": [{"name": "a", "key": "two"}, {"name": "b", "key": "three"}]}"#);
    server.says("read the key file again: 2 keys");
    assert_eq!((status("one").await, status("two").await), (401, 200));
    write("{\"keys\": [\n  {\"name\": \"a\", \"key\": 4}]}");
    let said = server.says("the keys were not updated");
    assert!(said.contains("keys.json:2:"), "{said}");
    assert!(said.contains("`keys[0].key`"), "{said}");
    assert_eq!(status("two").await, 200);
    write("four\n");
    server.says("read the key file again: 1 keys");
    assert_eq!((status("two").await, status("four").await), (401, 200));
    let said = server.last_words();
    assert!(!said.contains("four") && !said.contains("three"), "{said}");
}

#[test]
fn a_server_with_bad_keys_does_not_start_and_says_why() {
    let graphs = Graphs::new();
    let file = graphs.path().join("keys.json");
    fs::write(&file, r#"{"keys": [{"name": "a", "key": "x", "rpm": 5}]}"#).expect("writable");
    for (flag, words) in [
        (file.to_str().expect("text"), "unknown field `rpm`"),
        ("missing.json", "cannot read the key file `missing.json`"),
    ] {
        let flags = ["--wait_for_models", "--api_key_file", flag];
        let mut server = Process::start(&graphs.config(), &flags);
        server.says(words);
        let status = server.child.wait().expect("it ends");
        assert_eq!(status.code(), Some(1));
    }
}

#[test]
fn the_variable_of_openvino_model_server_has_a_key() {
    let graphs = Graphs::new();
    for variable in ["API_KEY", "GRAPHMILL_API_KEY"] {
        let mut server = Process::start_as(&graphs.config(), &["--wait_for_models"], |command| {
            command.env(variable, "secret")
        });
        let said = server.says("requests need the key");
        assert!(
            said.contains(variable) && !said.contains("secret"),
            "{said}"
        );
    }
}

#[tokio::test]
async fn a_key_that_was_made_is_good_with_its_entry() {
    let made = std::process::Command::new(env!("CARGO_BIN_EXE_graphmill"))
        .args(["key", "someone"])
        .output()
        .expect("it runs");
    let said = String::from_utf8(made.stdout).expect("text");
    let (key, entry) = said.split_once('\n').expect("two lines");
    assert!(key.starts_with("gm-") && key.len() == 67, "{key}");
    let entry: Value = serde_json::from_str(entry).expect("JSON");
    let server = server(&json!([entry])).await;
    assert_eq!(get(&server, key, "/v3/models").await.status, 200);
    assert_eq!(get(&server, "gm-", "/v3/models").await.status, 401);
}

#[tokio::test]
async fn a_request_is_cancelled_by_its_id_and_its_key() {
    let server = server(&json!([
        { "name": "a", "key": "a", "scopes": ["infer", "metrics"] },
        { "name": "b", "key": "b" },
        { "name": "operator", "key": "o", "scopes": ["admin"] },
        { "name": "scraper", "key": "s", "scopes": ["metrics"] },
    ]))
    .await;
    let mut endless = question("chat", "endless");
    endless["stream"] = true.into();
    let request = server.post("/v3/chat/completions", endless.to_string());
    let mut response = request
        .header("x-api-key", "a")
        .send()
        .await
        .expect("an answer");
    let id = response.headers()["x-request-id"]
        .to_str()
        .expect("text")
        .to_owned();
    response.chunk().await.expect("events");
    let cancel = async |key: &str, path: &str| {
        let request = server.client.delete(format!("{}{path}", server.url));
        read(request.header("x-api-key", key)).await
    };
    let path = format!("/v3/requests/{id}");
    assert_eq!(code(&cancel("b", &path).await), is(404, "not_found"));
    assert_eq!(
        code(&cancel("a", "/v1/requests/unknown").await),
        is(404, "not_found")
    );
    assert_eq!(
        code(&cancel("wrong", &path).await),
        is(401, "invalid_api_key")
    );
    let reply = cancel("a", &path).await;
    assert_eq!((reply.status, reply.text.as_str()), (204, ""));
    let mut rest = String::new();
    while let Some(chunk) = response.chunk().await.expect("it ends well") {
        rest += &String::from_utf8_lossy(&chunk);
    }
    assert!(rest.contains("\"code\":\"cancelled\""), "{rest}");
    assert_eq!(code(&cancel("a", &path).await), is(404, "not_found"));
    // Its sequence ends within a step.
    while engine_numbers(&get(&server, "a", "/v3/status").await.json())[0] != 0 {}
    // An operator cancels the requests of any key; who only reads, of none.
    let request = server.post("/v3/chat/completions", endless.to_string());
    let request = request
        .header("x-api-key", "b")
        .header("x-request-id", "b-1");
    let mut response = request.send().await.expect("an answer");
    response.chunk().await.expect("events");
    let path = "/v3/requests/b-1";
    assert_eq!(code(&cancel("s", path).await), is(403, "permission_denied"));
    assert_eq!(cancel("a", path).await.status, 404);
    assert_eq!(cancel("o", path).await.status, 204);
    let rest = response.text().await.expect("it ends well");
    assert!(rest.contains("\"code\":\"cancelled\""), "{rest}");
    assert_eq!(code(&cancel("o", path).await), is(404, "not_found"));
}

#[tokio::test]
async fn without_keys_requests_are_cancelled_by_ids_that_nobody_can_guess() {
    let reply = json!({ "text": "on and on ", "then": "repeat" });
    let script = json!({ "name": "m", "step_micros": 1000, "replies": [reply] });
    let server = Setup::new()
        .graph("chat", CHAT)
        .script(&script)
        .start()
        .await;
    let cancel = async |id: &str| {
        let url = format!("{}/v3/requests/{id}", server.url);
        read(server.client.delete(url)).await.status
    };
    let ask = async |id: Option<&str>| {
        let mut body = question("chat", "go");
        body["stream"] = true.into();
        let request = server.post("/v3/chat/completions", body.to_string());
        let request = match id {
            Some(id) => request.header("x-request-id", id),
            None => request,
        };
        let mut answer = request.send().await.expect("an answer");
        answer.chunk().await.expect("events");
        answer
    };
    let named = ask(Some("mine")).await;
    assert_eq!(cancel("mine").await, 404, "somebody else could choose it");
    drop(named);
    let answer = ask(None).await;
    let id = answer.headers()["x-request-id"]
        .to_str()
        .expect("text")
        .to_owned();
    assert_eq!(cancel(&id).await, 204);
    let rest = answer.text().await.expect("it ends well");
    assert!(rest.contains("\"code\":\"cancelled\""), "{rest}");
    server.until_idle().await;
}
