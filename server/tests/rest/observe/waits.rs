//! What sessions wait for outside of their graphs, asked while they do.

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, mpsc},
};

use graphmill_calculators::{
    llm::{LanguageModel, MediaLimits, ModelSpec},
    payload::{HttpRequestPayload, JsonBody},
};
use graphmill_engine::{Environment, Files, Registry, Resource as _, testing::Harness};
use graphmill_llm::{LlmEngineSpec, VisionSpec};
use graphmill_testkit::projector::{Kind, MODEL_WIDTH, make};
use serde_json::{Value, json};
use tokio::{
    io::AsyncWriteExt as _,
    net::{TcpSocket, TcpStream},
    task::JoinHandle,
};

use super::PATIENCE;
use crate::rest::{
    images,
    support::{ACTOR, CHAT, Setup, TestServer},
};

/// The line of a session in the list of them.
async fn listed(server: &TestServer, id: &str) -> Option<Value> {
    let list = server.get("/v3/sessions").await.json();
    let sessions = list["sessions"].as_array().expect("a list");
    let session = sessions.iter().find(|session| session["id"] == id);
    session.cloned()
}

fn why(session: &Value) -> &str {
    session["why"].as_str().expect("a sentence")
}

/// Waits until the line of a session is as wanted. Nothing that it says on the way is that it waits
/// for itself.
async fn until_listed(server: &TestServer, id: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let mut last = None;
    let asked = async {
        loop {
            last = listed(server, id).await;
            if let Some(session) = &last {
                assert!(!why(session).contains("waits for itself"), "{session}");
                if wanted(session) {
                    return session.clone();
                }
            }
            tokio::task::yield_now().await;
        }
    };
    let found = tokio::time::timeout(PATIENCE, asked).await;
    found.unwrap_or_else(|_| panic!("`{id}` is {last:?}"))
}

/// Waits until a session says what is wanted, and gives that back.
async fn until(server: &TestServer, id: &str, wanted: impl Fn(&str) -> bool) -> String {
    let session = until_listed(server, id, |session| wanted(why(session))).await;
    why(&session).to_owned()
}

async fn until_waits(server: &TestServer, id: &str, what: &str) {
    until(server, id, |said| {
        said.ends_with(&format!(" waits for {what}"))
    })
    .await;
}

/// A request on its way, until the value is dropped.
struct Asked(JoinHandle<()>);

impl Drop for Asked {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn send(server: &TestServer, path: &str, id: &str, body: &Value) -> Asked {
    let request = server.post(path, body.to_string());
    let request = request.header("x-request-id", id.to_owned());
    Asked(tokio::spawn(async move {
        let mut answer = request.send().await.expect("an answer");
        let status = answer.status();
        assert!(status == 200, "{:?}", answer.text().await);
        while let Ok(Some(_)) = answer.chunk().await {}
    }))
}

fn ask(server: &TestServer, id: &str, more: &Value) -> Asked {
    let mut body = json!({
        "model": "chat", "stream": true, "max_tokens": 1_200,
        "messages": [{ "role": "user", "content": "Hi" }],
    });
    let fields = body.as_object_mut().expect("an object");
    fields.extend(more.as_object().expect("an object").clone());
    send(server, "/v3/chat/completions", id, &body)
}

/// Starts a server whose model `m` does not end its fourth step before the file that is returned is
/// there.
async fn hanging(setup: Setup) -> (TestServer, PathBuf) {
    let go_on = setup.path().join("go_on");
    let script =
        json!({ "name": "m", "release": go_on, "replies": [{ "text": "abc", "then": "hang" }] });
    (setup.script(&script).start().await, go_on)
}

/// The wait of a request in that step.
const HANGS: &str = "tokens of engine `m`: slot 0, 3 of 1,200 tokens";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_tell_the_tokens_that_they_wait_for_and_their_place_in_the_queue() {
    let open = include_str!("../../../../graphs/chat/graph.pbtxt");
    let open = open
        .replace("../../demos/tiny_chat", "../model.script.json")
        .replace("max_num_seqs: 64", "max_num_seqs: 1");
    let in_one = CHAT.replace("max_num_seqs: 4", "max_num_seqs: 1");
    for graph in [open, in_one] {
        let (server, go_on) = hanging(Setup::new().graph("chat", &graph)).await;
        let _first = ask(&server, "first", &json!({}));
        until_waits(&server, "first", HANGS).await;
        let _second = ask(&server, "second", &json!({}));
        until_waits(&server, "second", "tokens of engine `m`: 1st in its queue").await;
        let _third = ask(&server, "third", &json!({}));
        let queued = "waits for tokens of engine `m`: 2nd in its queue";
        until_waits(&server, "third", queued.trim_start_matches("waits for ")).await;
        let _several = ask(&server, "several", &json!({ "n": 6 }));
        let places = "tokens of engine `m`: 3rd in its queue; and 5 more";
        until_waits(&server, "several", places).await;

        // Other nodes of the graph may still wait for a thread.
        let roots = async || {
            let why = server.get("/v3/sessions/third/why").await.json();
            let text = why["text"].as_str().expect("text");
            assert!(text.contains(queued), "{why}");
            let waits = why["waits"].as_array().expect("a list");
            let roots = waits.iter().filter(|wait| wait["root"] == true);
            roots.map(|wait| wait["reason"].clone()).collect::<Vec<_>>()
        };
        let settled = async {
            while roots().await != [queued] {
                tokio::task::yield_now().await;
            }
        };
        let settled = tokio::time::timeout(PATIENCE, settled).await;
        assert!(settled.is_ok(), "{:?}", roots().await);
        std::fs::write(&go_on, "").expect("writable");
    }
}

/// The numbers in a text.
fn numbers(text: &str) -> Vec<u32> {
    let text = text.replace(',', "");
    let numbers = text.split(|c: char| !c.is_ascii_digit());
    numbers.filter_map(|number| number.parse().ok()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_model_is_waited_for_token_by_token() {
    let setup = Setup::new().graph("chat", &images::graph("max_num_seqs: 1"));
    let server = setup.start().await;
    let engine = server.status().await["engines"][0]["model"].clone();
    let prefix = format!(
        "waits for tokens of engine `{}`: slot 0, ",
        engine.as_str().expect("a name")
    );
    let endless = json!({ "ignore_eos": true });
    let first = ask(&server, "first", &endless);
    let second = ask(&server, "second", &endless);
    // Which of them is first is not certain. It ends when it has been seen.
    let seen = async |id: &'static str, _asked: Asked| {
        let said = until(&server, id, |said| {
            said.contains(&prefix) && !said.contains("prompt")
        });
        let said = said.await;
        let (_, numbers_of) = said.split_once(&prefix).expect("it waits for tokens");
        let [generated, limit] = numbers(numbers_of)[..] else {
            panic!("{said}");
        };
        assert!(generated <= 1_200 && limit == 1_200, "{said}");
    };
    tokio::join!(seen("first", first), seen("second", second));
}

/// A client that asks the graph `actor` for a long answer, and reads nothing of it.
async fn read_nothing(server: &TestServer, id: &str) -> TcpStream {
    // More than the buffers between server and client take.
    let event = json!({ "event": "x".repeat(100_000) });
    let body = json!({ "model": "actor", "actions": vec![event; 200] }).to_string();
    let address: SocketAddr = server.url["http://".len()..].parse().expect("an address");
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4_096).expect("a small buffer");
    let mut client: TcpStream = socket.connect(address).await.expect("a connection");
    let head = format!(
        "POST /v3/chat/completions HTTP/1.1\r\nhost: {address}\r\nx-request-id: {id}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    client.write_all(head.as_bytes()).await.expect("sent");
    client.write_all(body.as_bytes()).await.expect("sent");
    client
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_stalled_if_nothing_is_at_work_for_it() {
    let graph = CHAT.replace("max_num_seqs: 4", "max_num_seqs: 1");
    let setup = Setup::new()
        .graph("chat", &graph)
        .graph("actor", ACTOR)
        .bodies(64 << 20, 256 << 20);
    let (server, go_on) = hanging(setup).await;
    // All of these make no progress for longer than the client that reads nothing.
    let _first = ask(&server, "generates", &json!({}));
    until_waits(&server, "generates", HANGS).await;
    let _second = ask(&server, "queued", &json!({}));
    until_waits(&server, "queued", "tokens of engine `m`: 1st in its queue").await;
    let hangs = json!({ "model": "actor", "actions": [{ "hang": true }] });
    let _third = send(&server, "/v3/chat/completions", "held", &hangs);
    until(&server, "held", |_| true).await;

    let _client = read_nothing(&server, "unread").await;
    let stalled = until_listed(&server, "unread", |session| session["stalled"] == true).await;
    assert!(why(&stalled).contains("reads too slowly"), "{stalled}");
    for id in ["generates", "queued", "held"] {
        let session = listed(&server, id).await.expect("it goes on");
        assert_eq!(session["stalled"], false, "{session}");
    }
    std::fs::write(&go_on, "").expect("writable");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_read_is_what_its_session_waits_for() {
    let setup = Setup::new()
        .graph("actor", ACTOR)
        .bodies(64 << 20, 256 << 20);
    let server = setup.start().await;
    let _client = read_nothing(&server, "slow").await;
    let reader = "the reader of output `output`, which reads too slowly: 16 packets wait for it";
    until_waits(&server, "slow", reader).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_says_what_its_batch_collects() {
    let graph = r#"
        input_stream: "x"
        output_stream: "y"
        node {
          calculator: "DynamicBatchCalculator"
          input_stream: "x"
          output_stream: "y"
          node_options {
            [type.googleapis.com/graphmill.DynamicBatchCalculatorOptions] {
              model { calculator: "PassThroughCalculator" }
              input { name: "x" datatype: INT64 shape: [-1] }
              max_batch_size: 8 max_queue_delay_microseconds: 3600000000
            }
          }
        }"#;
    let server = Setup::new().graph("rows", graph).start().await;
    let ask = |id: &str, rows: usize| {
        let x = json!({ "name": "x", "datatype": "INT64", "shape": [rows], "data": vec![1; rows] });
        send(
            &server,
            "/v2/models/rows/infer",
            id,
            &json!({ "inputs": [x] }),
        )
    };
    let _first = ask("first", 3);
    let collects = |rows: usize| {
        format!("a batch of `PassThroughCalculator`, which collects: {rows} of 8 rows")
    };
    until_waits(&server, "first", &collects(3)).await;
    let _second = ask("second", 2);
    until_waits(&server, "second", &collects(5)).await;
    until_waits(&server, "first", &collects(5)).await;
}

#[test]
fn images_are_waited_for_at_their_encoder() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut engine = LlmEngineSpec::new(images::model());
    let projector = make(folder.path(), Kind::Square, MODEL_WIDTH, 4.0);
    engine.vision = Some(VisionSpec::new(projector));
    let spec = ModelSpec {
        engine,
        chat_template: None,
        tool_parser: String::new(),
        reasoning_parser: String::new(),
        generation_config: None,
        guided_tool_calls: false,
        finds_projector: false,
        needs_projector: false,
        image_cache_size: 0,
        media: MediaLimits::default(),
        max_input_tokens: 0,
    };
    let model = LanguageModel::load(&spec, &Files::default()).expect("it loads");
    let model = Arc::new(model);
    // Keeps the encoder's thread.
    let (go_on, waits) = mpsc::channel::<()>();
    let engine = model.engine();
    let vision = engine.vision().expect("it reads images");
    let blocks = vision.encode(Vec::new(), move |_| _ = waits.recv());
    let _blocks = blocks.expect("room in the queue");

    let environment = Environment::new(Registry::global()).with_resource("llm", Arc::clone(&model));
    let graph = include_str!("../../../../graphs/chat/graph.pbtxt");
    let mut harness = Harness::new(graph, environment);
    let request = images::chat("chat", &[images::url(&images::png(32, 32, 1))]);
    let payload = HttpRequestPayload {
        body: request.to_string().into(),
        json: JsonBody::from_value(&request).ok().map(Arc::new),
        ..HttpRequestPayload::new("/v3/chat/completions", None)
    };
    harness.push("http_request", 0, payload);
    harness.close("http_request");
    let name = &engine.info().model;
    let expected = format!(
        "`llm` waits for images and sounds from the encoder of engine `{name}`, requests in its queue: 1"
    );
    harness.block_until(|session| {
        let why = session.why();
        why.roots().any(|root| root.to_string() == expected)
    });
    drop(go_on);
    harness.block_until(Harness::ended);
}

#[tokio::test]
async fn the_sessions_of_a_graph_are_counted_where_they_are_listed() {
    let server = Setup::new()
        .graph("one", ACTOR)
        .graph("other", ACTOR)
        .start()
        .await;
    let hang = |graph: &str| json!({ "model": graph, "actions": [{ "hang": true }] });
    let path = "/v3/chat/completions";
    let _asked = [("a", "one"), ("b", "one"), ("c", "other")]
        .map(|(id, graph)| send(&server, path, id, &hang(graph)));
    for id in ["a", "b", "c"] {
        until(&server, id, |_| true).await;
    }
    let list = server.get("/v3/sessions?graph=one").await.json();
    let mut ids: Vec<&str> = list["sessions"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|session| session["id"].as_str().expect("an id"))
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, ["a", "b"]);
    assert_eq!(list["total"], 2);
    assert_eq!(server.get("/v3/sessions").await.json()["total"], 3);
    assert_eq!(server.get("/v3/sessions?graph=none").await.status, 404);
    let wrong = server.get("/v3/sessions?model=one").await;
    assert_eq!(wrong.status, 400);
}
