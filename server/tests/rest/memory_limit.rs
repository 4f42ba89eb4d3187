//! A server whose address space is limited: what would abort it is refused, and it lives.

use std::{
    io::Write as _,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use flate2::{Compression, write::GzEncoder};
use futures_util::{StreamExt as _, future::join_all, stream};
use reqwest::Body;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::rest::support::{CHAT, Setup, question, read};
use crate::serving::printed_url;

/// Address space of the server in KiB, of which it has taken half when it is ready.
const LIMIT_KIB: u32 = 400_000;
/// Of this it has left less than what sixteen bodies of 4 MiB take.
const TIGHT_KIB: u32 = 280_000;
/// How long the server may take to have room again.
const PATIENCE: Duration = Duration::from_secs(15);

struct Limited {
    server: Child,
    url: String,
    client: reqwest::Client,
    _setup: Setup,
}

impl Drop for Limited {
    fn drop(&mut self) {
        // Fails when it has ended, which the test has said by then.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

impl Limited {
    /// A server that can have so much address space.
    async fn start(limit_kib: u32) -> Self {
        let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../demos/tiny_chat/model.gguf");
        let graph = CHAT.replace("../model.script.json", &model.display().to_string());
        let setup = Setup::new().graph("chat", &graph);
        let mut server = Command::new("sh")
            .args(["-c", &format!("ulimit -v {limit_kib}; exec \"$0\" \"$@\"")])
            .arg(env!("CARGO_BIN_EXE_graphmill"))
            .args(["serve", "--config_path"])
            .arg(setup.config())
            .args(["--rest_port", "0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let url = printed_url(&mut server);
        let mut limited = Self {
            server,
            url,
            client: crate::http::client(),
            _setup: setup,
        };
        let deadline = Instant::now() + Duration::from_mins(1);
        while !limited.is_ready().await {
            assert!(
                limited.lives() && Instant::now() < deadline,
                "it does not load"
            );
            tokio::task::yield_now().await;
        }
        limited
    }

    async fn is_ready(&self) -> bool {
        let ready = self.client.get(format!("{}/v2/health/ready", self.url));
        ready
            .send()
            .await
            .is_ok_and(|answer| answer.status() == 200)
    }

    fn lives(&mut self) -> bool {
        self.server.try_wait().expect("a child").is_none()
    }

    /// The status and the error's code of the answer to each body; sixteen are on their way at
    /// once.
    async fn ask(&self, path: &str, bodies: Vec<String>) -> Vec<(u16, Option<String>)> {
        let mut answers = Vec::new();
        for some in bodies.chunks(16) {
            let bodies = some.iter().map(|body| Body::from(body.clone()));
            answers.extend(self.ask_at_once(path, "identity", bodies).await);
        }
        answers
    }

    async fn ask_at_once(
        &self,
        path: &str,
        encoding: &str,
        bodies: impl IntoIterator<Item = Body>,
    ) -> Vec<(u16, Option<String>)> {
        let requests = bodies.into_iter().map(|body| {
            let request = self.client.post(format!("{}{path}", self.url));
            let request = request.header("content-encoding", encoding);
            read(request.body(body))
        });
        let replies = join_all(requests).await;
        let answers = replies.iter().map(|reply| {
            let code = reply.json()["error"]["code"].as_str().map(str::to_owned);
            (reply.status, code)
        });
        answers.collect()
    }
}

/// Bodies that are on their way together: the end of each is sent when all the others have been
/// sent up to theirs, or were refused.
fn held_open(bodies: Vec<String>) -> Vec<Body> {
    let (on_the_way, _) = watch::channel(());
    let pending: Vec<_> = bodies.iter().map(|_| on_the_way.subscribe()).collect();
    let bodies = bodies.into_iter().zip(pending);
    let bodies = bodies.map(|(mut body, is_pending)| {
        let end = body.split_off(body.len() - 1);
        let all = on_the_way.clone();
        let begin = stream::once(async move { Ok::<_, std::convert::Infallible>(body) });
        let end = stream::once(async move {
            drop(is_pending);
            all.closed().await;
            Ok(end)
        });
        Body::wrap_stream(begin.chain(end))
    });
    bodies.collect()
}

fn completion(extra: &Value) -> String {
    let mut body = json!({ "model": "chat", "prompt": "x", "max_tokens": 2 });
    let fields = body.as_object_mut().expect("an object");
    fields.extend(extra.as_object().expect("an object").clone());
    body.to_string()
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_memory_refuses_requests_and_lives() {
    let mut server = Limited::start(LIMIT_KIB).await;
    let schemas = (0..24).map(|i| {
        let property = |k| {
            (
                format!("p{i}_{k}"),
                json!({ "type": "string", "maxLength": 100 + k }),
            )
        };
        let properties: serde_json::Map<_, _> = (0..40).map(property).collect();
        completion(&json!({ "guided_json": { "type": "object", "properties": properties } }))
    });
    let choices = (0..16).map(|i| {
        let choices: Vec<String> = (0..20_000).map(|k| format!("{i}-{k}")).collect();
        completion(&json!({ "guided_choice": choices }))
    });
    let salts = (0..32).map(|i| {
        let salt = format!("{i}").repeat(100);
        completion(&json!({ "cache_salt": salt, "prompt": format!("{i} ").repeat(150) }))
    });
    let long = (0..16).map(|i| completion(&json!({ "prompt": format!("{i} ").repeat(500_000) })));
    let mut refused = 0;
    for bodies in [
        schemas.collect::<Vec<_>>(),
        choices.collect(),
        salts.collect(),
        long.collect(),
    ] {
        for (status, code) in server.ask("/v3/completions", bodies).await {
            match (status, code.as_deref()) {
                (200, None) | (400, Some("context_length_exceeded" | "invalid_constraint")) => {}
                (503, Some("insufficient_memory")) | (429 | 413, Some(_)) => refused += 1,
                other => panic!("{other:?}"),
            }
        }
        assert!(server.lives());
    }
    assert!(refused > 0, "nothing was too much");
    // What the last answers took is given back a moment later.
    let deadline = Instant::now() + PATIENCE;
    let hello = || vec![question("chat", "Hello!").to_string()];
    while server.ask("/v3/chat/completions", hello()).await != [(200, None)] {
        assert!(Instant::now() < deadline, "it never serves again");
    }
    assert!(server.lives());
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_that_find_no_memory_are_refused_before_it_is_taken() {
    let mut server = Limited::start(TIGHT_KIB).await;
    let deep = "[".repeat(4 << 20);
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(deep.as_bytes()).expect("no disk is full");
    let compressed = encoder.finish().expect("no disk is full");
    let plain = || held_open(vec![deep.clone(); 16]);
    let small = || (0..32).map(|_| Body::from(compressed.clone())).collect();
    let mut refused = 0;
    for (encoding, bodies) in [
        ("identity", plain()),
        ("gzip", small()),
        ("identity", plain()),
        ("gzip", small()),
    ] {
        let path = "/v3/chat/completions";
        for (status, code) in server.ask_at_once(path, encoding, bodies).await {
            match (status, code.as_deref()) {
                (400, Some("invalid_json")) => {}
                (503, Some("insufficient_memory" | "bodies_full")) => refused += 1,
                other => panic!("{other:?}"),
            }
        }
        assert!(server.lives());
    }
    assert!(refused > 0, "nothing was too much");
}
