//! A server to talk to, and what tests ask of it.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use graphmill_engine::Registry;
use graphmill_server::{Options, Server, config};
use serde_json::{Value, json};

pub(crate) use crate::serving::CHAT;
use crate::serving::Graphs;

/// A graph of the one node in [`crate::rest::actor`].
pub(crate) const ACTOR: &str = r#"
    input_stream: "HTTP_REQUEST_PAYLOAD:input"
    output_stream: "HTTP_RESPONSE_PAYLOAD:output"
    node {
      name: "Actor"
      calculator: "ActorCalculator"
      input_stream: "HTTP_REQUEST_PAYLOAD:input"
      output_stream: "HTTP_RESPONSE_PAYLOAD:output"
    }
"#;

/// How long anything that a test waits for may take, on a machine that does other things too.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a test changes in the options of its server.
type Change = Box<dyn FnOnce(&mut Options)>;

/// Graphs and a script in a folder, to be served.
pub(crate) struct Setup {
    graphs: Graphs,
    keep_alive: Option<Duration>,
    grace: Option<Duration>,
    bodies: Option<(usize, usize)>,
    changes: Vec<Change>,
}

impl Setup {
    pub(crate) fn new() -> Self {
        Self {
            graphs: Graphs::new(),
            keep_alive: None,
            grace: None,
            bodies: None,
            changes: Vec::new(),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.graphs.path()
    }

    /// Adds a graph.
    pub(crate) fn graph(mut self, name: &str, text: &str) -> Self {
        self.graphs.add(name, text);
        self
    }

    /// Says more of the graph that was added last, as `config.json` does.
    pub(crate) fn that(mut self, more: &Value) -> Self {
        let last = self.graphs.entries.last_mut().expect("a graph");
        for (key, value) in more.as_object().expect("an object") {
            last[key] = value.clone();
        }
        self
    }

    /// Says something in the configuration that is not about one graph.
    pub(crate) fn says(mut self, key: &'static str, value: Value) -> Self {
        self.graphs.more.push((key, value));
        self
    }

    /// Writes the script of the model that [`CHAT`] runs.
    pub(crate) fn script(self, script: &Value) -> Self {
        std::fs::write(self.path().join("model.script.json"), script.to_string())
            .expect("writable");
        self
    }

    /// Breaks silence after this long.
    pub(crate) fn keep_alive(mut self, interval: Duration) -> Self {
        self.keep_alive = Some(interval);
        self
    }

    /// Lets requests run on for this long when the server stops.
    pub(crate) fn grace(mut self, grace: Duration) -> Self {
        self.grace = Some(grace);
        self
    }

    /// Limits each body and all of them to so many bytes.
    pub(crate) fn bodies(mut self, each: usize, all: usize) -> Self {
        self.bodies = Some((each, all));
        self
    }

    /// Changes other options.
    pub(crate) fn with(mut self, change: impl FnOnce(&mut Options) + 'static) -> Self {
        self.changes.push(Box::new(change));
        self
    }

    /// Writes the configuration.
    pub(crate) fn config(&self) -> PathBuf {
        self.graphs.config()
    }

    /// Starts the server, without waiting for the graphs.
    pub(crate) fn start_loading(self) -> TestServer {
        let path = self.config();
        let loaded = config::load(&path);
        let mut options = Options::new(
            loaded.config.expect("a good configuration"),
            SocketAddr::from(([127, 0, 0, 1], 0)),
        );
        options.config_path = Some(path);
        // Tests reload when they mean to.
        options.poll = Duration::ZERO;
        options.keep_alive = self.keep_alive.unwrap_or(options.keep_alive);
        options.grace = self.grace.unwrap_or(options.grace);
        if let Some((each, all)) = self.bodies {
            options.max_body_bytes = each;
            options.max_bodies_bytes = all;
        }
        for change in self.changes {
            change(&mut options);
        }
        let server = Server::start(options, Registry::global()).expect("it starts");
        let url = format!("http://{}", server.addresses()[0]);
        TestServer {
            url,
            server,
            client: crate::http::client(),
            _graphs: self.graphs,
        }
    }

    /// Starts the server and waits until each graph is loaded or has failed.
    pub(crate) async fn start(self) -> TestServer {
        let mut server = self.start_loading();
        server.server.loaded().await;
        server
    }
}

/// A running server.
pub(crate) struct TestServer {
    pub(crate) url: String,
    pub(crate) server: Server,
    pub(crate) client: reqwest::Client,
    _graphs: Graphs,
}

/// An answer that was read to its end.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) text: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .get(name)
            .map(|value| value.to_str().expect("text"))
    }

    /// The JSON of each event; the last has to be `[DONE]`.
    pub(crate) fn events(&self) -> Vec<Value> {
        let mut events: Vec<&str> = self.text.split_terminator("\n\n").collect();
        assert_eq!(events.pop(), Some("data: [DONE]"), "{}", self.text);
        let data = events
            .iter()
            .map(|event| event.strip_prefix("data: ").expect("a data line"));
        data.map(|data| serde_json::from_str(data).expect("JSON"))
            .collect()
    }
}

impl TestServer {
    pub(crate) async fn get(&self, path: &str) -> Reply {
        read(self.client.get(format!("{}{path}", self.url))).await
    }

    pub(crate) fn post(
        &self,
        path: &str,
        body: impl Into<reqwest::Body>,
    ) -> reqwest::RequestBuilder {
        self.client
            .post(format!("{}{path}", self.url))
            .header("content-type", "application/json")
            .body(body)
    }

    /// POSTs a body to the chat endpoint.
    pub(crate) async fn chat(&self, body: &Value) -> Reply {
        read(self.post("/v3/chat/completions", body.to_string())).await
    }

    /// Has the actor play.
    pub(crate) async fn act(&self, actions: Value) -> Reply {
        self.chat(&json!({ "model": "actor", "actions": actions }))
            .await
    }

    /// The status object.
    pub(crate) async fn status(&self) -> Value {
        self.get("/v3/status").await.json()
    }

    /// Polls the status until it is as wanted.
    pub(crate) async fn until(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let status = self.status().await;
            if wanted(&status) {
                return status;
            }
            assert!(
                Instant::now() < deadline,
                "{what}: not in {PATIENCE:?}; the status is {status:#}"
            );
            tokio::task::yield_now().await;
        }
    }

    /// Waits until no session is open, no sequence exists and no KV cell is used.
    pub(crate) async fn until_idle(&self) {
        self.until("idle", |status| {
            sessions(status) == 0 && engine_numbers(status) == [0, 0, 0]
        })
        .await;
    }
}

pub(crate) async fn read(request: reqwest::RequestBuilder) -> Reply {
    let answer = tokio::time::timeout(PATIENCE, async {
        let response = request.send().await.expect("an answer");
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Reply {
            status,
            headers,
            text: response.text().await.expect("a body"),
        }
    });
    answer.await.expect("an answer in time")
}

/// A chat request of one user message.
pub(crate) fn question(model: &str, text: &str) -> Value {
    json!({ "model": model, "temperature": 0, "messages": [{ "role": "user", "content": text }] })
}

/// The same, streaming.
pub(crate) fn streamed(model: &str, text: &str) -> Value {
    let mut body = question(model, text);
    body["stream"] = true.into();
    body
}

/// The open sessions of all graphs.
pub(crate) fn sessions(status: &Value) -> u64 {
    let graphs = status["graphs"].as_array().expect("graphs");
    graphs
        .iter()
        .map(|graph| graph["open_sessions"].as_u64().expect("a number"))
        .sum()
}

/// Running and waiting sequences and used cells of the one engine; zeros where there is none.
pub(crate) fn engine_numbers(status: &Value) -> [u64; 3] {
    let Some(engine) = status["engines"].get(0) else {
        return [0; 3];
    };
    ["sequences_running", "sequences_waiting", "kv_cells_used"]
        .map(|key| engine[key].as_u64().expect("a number"))
}
