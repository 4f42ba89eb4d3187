//! Another configuration takes the place of the present one: what changes, what stays, and what a
//! mistake in it does.

use std::{
    fs, io::Write as _, net::TcpStream, os::unix::fs::symlink, path::Path, process::Command,
    time::Duration,
};

use futures_util::StreamExt as _;
use serde_json::{Value, json};

use crate::rest::support::{ACTOR, CHAT, Reply, Setup, TestServer, question, read, streamed};
use crate::serving::{Graphs, Process};

fn says(text: &str) -> Value {
    json!({ "name": "model", "replies": [{ "text": text }] })
}

/// Writes a file beside its place and renames it there, as programs do that replace files.
fn replace(path: &Path, text: &str) {
    let beside = path.with_extension("new");
    fs::write(&beside, text).expect("writable");
    fs::rename(beside, path).expect("writable");
}

fn configure(folder: &Path, graphs: &Value) {
    let config = json!({ "model_config_list": [], "mediapipe_config_list": graphs });
    replace(&folder.join("config.json"), &config.to_string());
}

async fn reload(server: &TestServer) -> Reply {
    read(server.post("/v1/config/reload", "")).await
}

async fn answer(server: &TestServer, model: &str) -> String {
    let reply = server.chat(&question(model, "Hi")).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let content = &reply.json()["choices"][0]["message"]["content"];
    content.as_str().expect("a text").to_owned()
}

#[tokio::test]
async fn graphs_come_and_go_with_the_configuration() {
    let setup = Setup::new().graph("chat", CHAT).script(&says("one"));
    let folder = setup.path().to_owned();
    let server = setup.start().await;
    assert_eq!(reload(&server).await.status, 200, "nothing has changed");

    configure(
        &folder,
        &json!([
            { "name": "chat", "base_path": "0" }, { "name": "other", "base_path": "0" },
        ]),
    );
    let reply = reload(&server).await;
    assert_eq!(reply.status, 201, "{}", reply.text);
    assert_eq!(
        reply.json()["other"]["model_version_status"][0]["state"],
        "AVAILABLE"
    );
    assert_eq!(answer(&server, "other").await, "one");
    let status = server.status().await;
    assert_eq!(
        status["engines"].as_array().map(Vec::len),
        Some(1),
        "{status:#}"
    );

    configure(&folder, &json!([{ "name": "other", "base_path": "0" }]));
    assert_eq!(reload(&server).await.status, 201);
    assert_eq!(server.chat(&question("chat", "Hi")).await.status, 404);
    assert_eq!(answer(&server, "other").await, "one");
    let models = server.get("/v3/models").await.json();
    assert_eq!(models["data"].as_array().map(Vec::len), Some(1));
    let document = server.get("/openapi.json").await.text;
    assert!(
        !document.contains("\"chat\""),
        "it names the graphs there are"
    );
}

#[tokio::test]
async fn files_that_have_no_end_are_refused_and_hold_up_no_reload() {
    let setup = Setup::new().graph("chat", CHAT).script(&says("one"));
    let folder = setup.path().to_owned();
    let server = setup.start().await;
    fs::create_dir(folder.join("new")).expect("writable");
    configure(
        &folder,
        &json!([
            { "name": "chat", "base_path": "0" }, { "name": "new", "base_path": "new" },
        ]),
    );
    let graph = folder.join("new/graph.pbtxt");
    let refused = async |why: &str| {
        let reply = reload(&server).await;
        assert_eq!(reply.status, 412, "{}", reply.text);
        assert!(reply.text.contains(why), "{}", reply.text);
    };
    let made = Command::new("mkfifo").arg(&graph).status();
    assert!(made.expect("mkfifo runs").success());
    refused("is neither a file nor a link to one").await;
    fs::remove_file(&graph).expect("it is there");
    symlink("/dev/zero", &graph).expect("writable");
    refused("is neither a file nor a link to one").await;
    fs::remove_file(&graph).expect("it is there");
    let large = fs::File::create(&graph).expect("writable");
    large.set_len(1 << 40).expect("sparse");
    refused("it has more than 64 MiB").await;
    fs::write(&graph, CHAT).expect("writable");
    assert_eq!(reload(&server).await.status, 201);
    assert_eq!(answer(&server, "new").await, "one");
}

#[tokio::test]
async fn a_mistake_leaves_everything_as_it_was_and_is_told() {
    let setup = Setup::new()
        .graph("chat", CHAT)
        .graph("actor", ACTOR)
        .script(&says("one"));
    let folder = setup.path().to_owned();
    let server = setup.start().await;
    let graph = folder.join("0/graph.pbtxt");
    let config = folder.join("config.json");
    let good = fs::read_to_string(&config).expect("a file");

    // The other graph is changed for the better, and is not taken either.
    replace(&graph, &CHAT.replace("max_num_seqs: 4", "max_num_seks: 4"));
    replace(
        &folder.join("1/graph.pbtxt"),
        &format!("# A comment.\n{ACTOR}"),
    );
    let reply = reload(&server).await;
    assert_eq!(reply.status, 412, "{}", reply.text);
    let told = reply.json();
    assert!(
        told["error"]
            .as_str()
            .is_some_and(|it| it.contains("graph `chat`")),
        "{told}"
    );
    assert!(
        told["diagnostics"][0]
            .as_str()
            .is_some_and(|it| it.contains("max_num_seks"))
    );
    assert_eq!(answer(&server, "chat").await, "one");

    replace(
        &config,
        "{\"mediapipe_config_list\": [{\"nam\": \"chat\"}]}",
    );
    let reply = reload(&server).await;
    assert_eq!(reply.status, 412, "{}", reply.text);
    assert!(reply.text.contains("did you mean `name`"), "{}", reply.text);
    fs::remove_file(&config).expect("a file");
    assert_eq!(reload(&server).await.status, 400);
    // A model that is not there is a mistake as well.
    replace(&config, &good);
    replace(&graph, &CHAT.replace("model.script", "no.script"));
    assert_eq!(reload(&server).await.status, 412);
    assert_eq!(answer(&server, "chat").await, "one");

    replace(&graph, CHAT);
    let reply = reload(&server).await;
    assert_eq!(reply.status, 201, "{}", reply.text);
    assert_eq!(answer(&server, "chat").await, "one");
}

#[tokio::test]
async fn a_stream_ends_on_the_model_that_it_began_on() {
    let setup = Setup::new().graph("chat", CHAT);
    let folder = setup.path().to_owned();
    let release = folder.join("release");
    let script = json!({ "name": "model", "release": release.to_str().expect("UTF-8"), "replies": [
        { "when": "hang", "text": "old and slow", "then": "hang" }, { "text": "old" },
    ] });
    let server = setup.script(&script).start().await;
    assert_eq!(answer(&server, "chat").await, "old");
    let request = server.post("/v3/chat/completions", streamed("chat", "hang").to_string());
    let mut stream = request.send().await.expect("an answer").bytes_stream();
    let first = stream.next().await.expect("an event").expect("bytes");

    replace(&folder.join("model.script.json"), &says("new").to_string());
    assert_eq!(reload(&server).await.status, 201);
    assert_eq!(answer(&server, "chat").await, "new");
    fs::write(release, "").expect("writable");
    let mut text = String::from_utf8(first.to_vec()).expect("UTF-8");
    while let Some(bytes) = stream.next().await {
        text.push_str(std::str::from_utf8(&bytes.expect("bytes")).expect("UTF-8"));
    }
    assert!(text.ends_with("data: [DONE]\n\n"), "{text}");
    server.until_idle().await;
}

#[tokio::test]
async fn a_model_is_loaded_once_whatever_changes_around_it() {
    let setup = Setup::new().graph("chat", CHAT).script(&says("one"));
    let folder = setup.path().to_owned();
    let server = setup.start().await;
    answer(&server, "chat").await;
    let steps = async || server.status().await["engines"][0]["steps"].as_u64();
    let before = steps().await;
    assert!(before > Some(0));
    for round in 0..20 {
        replace(
            &folder.join("0/graph.pbtxt"),
            &format!("# Round {round}.\n{CHAT}"),
        );
        assert_eq!(reload(&server).await.status, 201);
        assert!(steps().await >= before, "the engine is the same one");
    }
    let engines = server.status().await["engines"].as_array().map(Vec::len);
    assert_eq!(engines, Some(1));
    assert_eq!(reload(&server).await.status, 200);
}

#[tokio::test]
async fn files_that_are_replaced_are_noticed() {
    // Looks far less often than the test waits, so the system has to tell.
    let setup = Setup::new()
        .graph("chat", CHAT)
        .script(&says("one"))
        .with(|options| options.poll = Duration::from_mins(10));
    let script = setup.path().join("model.script.json");
    let server = setup.start().await;
    assert_eq!(answer(&server, "chat").await, "one");
    replace(&script, &says("two").to_string());
    let steps = |status: &Value| status["engines"][0]["steps"] == 0;
    server.until("the new model", steps).await;
    assert_eq!(answer(&server, "chat").await, "two");
}

#[tokio::test]
async fn files_of_which_the_system_tells_nothing_are_noticed_when_they_are_looked_at() {
    let setup = Setup::new()
        .graph("chat", CHAT)
        .script(&says("one"))
        .with(|options| options.poll = Duration::from_millis(20));
    let folder = setup.path().to_owned();
    // As Kubernetes mounts a ConfigMap: links to what lies in a folder that a link names.
    let versions = tempfile::tempdir().expect("a folder");
    let version = |name: &str, text: &str| {
        let folder = versions.path().join(name);
        fs::create_dir(&folder).expect("writable");
        fs::write(folder.join("model.script.json"), says(text).to_string()).expect("writable");
        folder
    };
    let (one, two) = (version("1", "one"), version("2", "two"));
    let data = versions.path().join("..data");
    symlink(&one, &data).expect("a link");
    let script = folder.join("model.script.json");
    fs::remove_file(&script).expect("a file");
    symlink(data.join("model.script.json"), &script).expect("a link");
    let server = setup.start().await;
    assert_eq!(answer(&server, "chat").await, "one");

    let next = versions.path().join("..data_tmp");
    symlink(&two, &next).expect("a link");
    fs::rename(next, &data).expect("a link");
    fs::remove_dir_all(one).expect("a folder");
    server
        .until("the new model", |status| status["engines"][0]["steps"] == 0)
        .await;
    assert_eq!(answer(&server, "chat").await, "two");
}

#[test]
fn sighup_reloads() {
    let mut graphs = Graphs::new();
    graphs.add("chat", CHAT);
    let script = graphs.path().join("model.script.json");
    fs::write(script, says("one").to_string()).expect("writable");
    let config = graphs.config();
    let mut server = Process::start(&config, &["--file_system_poll_wait_seconds", "0"]);
    server.says("ready after");
    server.signal("-HUP");
    server.says("no changes in the configuration");
    let right = fs::read_to_string(&config).expect("a file");
    fs::write(&config, "{").expect("writable");
    server.signal("-HUP");
    server.says("the old one is served");
    fs::write(&config, right).expect("writable");
    server.signal("-HUP");
    server.says("the configuration is valid again");
}

#[test]
fn a_reload_that_is_refused_is_logged_as_refused() {
    let mut graphs = Graphs::new();
    graphs.add("chat", CHAT);
    let script = graphs.path().join("model.script.json");
    fs::write(script, says("one").to_string()).expect("writable");
    let config = graphs.config();
    let mut server = Process::start(&config, &["--file_system_poll_wait_seconds", "0"]);
    let port = server.port();
    server.says("ready after");
    fs::write(&config, "{").expect("writable");
    let mut client = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    write!(
        client,
        "POST /v1/config/reload HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n"
    )
    .expect("writable");
    let line = server.says("POST /v1/config/reload");
    assert!(line.contains("/v1/config/reload refused: "), "{line}");
    assert!(line.contains("configuration_refused"), "{line}");
}

#[tokio::test]
async fn a_graph_that_fails_as_before_is_no_change() {
    let setup = Setup::new()
        .graph("good", ACTOR)
        .graph("bad", "input_stream: \"in\"");
    let server = setup.start().await;
    let reply = reload(&server).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
}
