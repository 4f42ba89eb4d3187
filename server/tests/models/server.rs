//! A server process with one graph for each model.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::{Value, json};

use crate::serving::{self, CHAT, Process};

/// How long anything may take, on a machine that does other things too.
const PATIENCE: Duration = Duration::from_mins(5);

/// The model of this repository.
pub(crate) fn tiny_model() -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../demos/tiny_chat/model.gguf");
    fs::read(&path).unwrap_or_else(|error| panic!("`{}`: {error}", path.display()))
}

/// Graphs that are to be served.
pub(crate) struct Graphs(serving::Graphs);

impl Graphs {
    pub(crate) fn new() -> Self {
        Self(serving::Graphs::new())
    }

    /// Adds a graph, and tells where its model is to be.
    pub(crate) fn add(&mut self, name: &str, options: &str) -> PathBuf {
        let few = format!("max_num_seqs: 1 max_num_batched_tokens: 64 {options}");
        let graph = CHAT.replace("../model.script.json", "model.gguf");
        let folder = self.0.add(name, &graph.replace("max_num_seqs: 4", &few));
        folder.join("model.gguf")
    }

    /// Serves them by a process of the server, and waits until each is loaded or has failed.
    pub(crate) fn serve(self, arguments: &[&str]) -> Served {
        let mut process = Process::start(&self.0.config(), arguments);
        // `ready after 0.5 s`, or `not ready: ...`
        process.says("ready");
        Served {
            url: format!("http://127.0.0.1:{}", process.port()),
            process,
            client: crate::http::client(),
            graphs: self.0,
        }
    }
}

/// A server process and a client.
pub(crate) struct Served {
    url: String,
    process: Process,
    client: reqwest::Client,
    graphs: serving::Graphs,
}

impl Served {
    /// Where the graph's model is.
    pub(crate) fn model(&self, index: usize) -> PathBuf {
        self.graphs
            .path()
            .join(index.to_string())
            .join("model.gguf")
    }

    /// Waits for a line of the log that has these words.
    pub(crate) fn until_said(&mut self, words: &str) -> String {
        self.process.says(words)
    }

    /// The end of the log, and whether the process lives.
    pub(crate) fn last_words(&mut self) -> String {
        self.process.last_words()
    }

    pub(crate) fn lives(&mut self) -> bool {
        matches!(self.process.child.try_wait(), Ok(None))
    }

    pub(crate) async fn get(&mut self, path: &str) -> String {
        let request = self
            .client
            .get(format!("{}{path}", self.url))
            .timeout(PATIENCE);
        let response = request.send().await;
        match response {
            Ok(response) => response.text().await.expect("a body"),
            Err(error) => panic!("no answer: {error}; {}", self.last_words()),
        }
    }

    /// Why each graph is not served, by name; `None` for one that is.
    pub(crate) async fn failures(&mut self) -> Vec<(String, Option<String>)> {
        let status: Value = serde_json::from_str(&self.get("/v3/status").await).expect("JSON");
        let graphs = status["graphs"].as_array().expect("graphs");
        graphs
            .iter()
            .map(|graph| {
                let name = graph["name"].as_str().expect("a name").to_owned();
                let served = graph["state"] == "AVAILABLE";
                let reason = graph["reason"].as_str().unwrap_or("no reason");
                (name, (!served).then(|| reason.to_owned()))
            })
            .collect()
    }

    /// Asks a graph for a few tokens; tells the status and the body.
    pub(crate) async fn ask(&mut self, graph: &str) -> (u16, String) {
        let body = json!({ "model": graph, "prompt": "What is a side packet?", "max_tokens": 3, "temperature": 0 });
        self.post("/v3/completions", &body).await
    }

    pub(crate) async fn post(&mut self, path: &str, body: &Value) -> (u16, String) {
        let request = self
            .client
            .post(format!("{}{path}", self.url))
            .header("content-type", "application/json")
            .body(body.to_string())
            .timeout(PATIENCE);
        match request.send().await {
            Ok(response) => {
                let status = response.status().as_u16();
                (status, response.text().await.expect("a body"))
            }
            Err(error) => panic!("no answer: {error}; {}", self.last_words()),
        }
    }

    /// Processes of which this one is the parent.
    #[cfg(target_os = "linux")]
    pub(crate) fn children(&self) -> String {
        let id = self.process.child.id();
        fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default()
    }
}
