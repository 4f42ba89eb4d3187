//! A server process with one graph for each model.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver},
    time::Duration,
};

use serde_json::{Value, json};

/// How long anything may take, on a machine that does other things too.
const PATIENCE: Duration = Duration::from_mins(5);

/// The graph of OpenVINO Model Server's demo, as small as can be.
const GRAPH: &str = r#"
    input_stream: "HTTP_REQUEST_PAYLOAD:input"
    output_stream: "HTTP_RESPONSE_PAYLOAD:output"
    node: {
      name: "LLMExecutor"
      calculator: "HttpLLMCalculator"
      input_stream: "LOOPBACK:loopback"
      input_stream: "HTTP_REQUEST_PAYLOAD:input"
      input_side_packet: "LLM_NODE_RESOURCES:llm"
      output_stream: "LOOPBACK:loopback"
      output_stream: "HTTP_RESPONSE_PAYLOAD:output"
      input_stream_info: { tag_index: 'LOOPBACK:0', back_edge: true }
      node_options: {
        [type.googleapis.com / mediapipe.LLMCalculatorOptions]: {
          models_path: "model.gguf"
          max_num_seqs: 1
          max_num_batched_tokens: 64
          OPTIONS
        }
      }
      input_stream_handler {
        input_stream_handler: "SyncSetInputStreamHandler",
        options { [mediapipe.SyncSetInputStreamHandlerOptions.ext] { sync_set { tag_index: "LOOPBACK:0" } } }
      }
    }
"#;

/// The model of this repository; `None`, with a line that says so, where it is not.
pub(crate) fn tiny_model() -> Option<Vec<u8>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../demos/tiny_chat/model.gguf");
    match fs::read(&path) {
        Ok(model) => Some(model),
        Err(error) => {
            eprintln!("skipped: no model at `{}`: {error}", path.display());
            None
        }
    }
}

/// Graphs that are to be served.
pub(crate) struct Graphs {
    folder: tempfile::TempDir,
    names: Vec<String>,
}

impl Graphs {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("a folder"),
            names: Vec::new(),
        }
    }

    /// Adds a graph, and tells where its model is to be.
    pub(crate) fn add(&mut self, name: &str, options: &str) -> PathBuf {
        let folder = self.folder.path().join(self.names.len().to_string());
        fs::create_dir(&folder).expect("writable");
        let graph = GRAPH.replace("OPTIONS", options);
        fs::write(folder.join("graph.pbtxt"), graph).expect("writable");
        self.names.push(name.to_owned());
        folder.join("model.gguf")
    }

    /// Serves them by a process of the server, and waits until each is loaded or has failed.
    pub(crate) fn serve(self, arguments: &[&str]) -> Served {
        let entries: Vec<Value> = (self.names.iter().enumerate())
            .map(|(index, name)| json!({ "name": name, "base_path": index.to_string() }))
            .collect();
        let config = self.folder.path().join("config.json");
        let listed = json!({ "model_config_list": [], "mediapipe_config_list": entries });
        fs::write(&config, listed.to_string()).expect("writable");
        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
        let port = port.expect("a port").port().to_string();
        let mut process = Command::new(env!("CARGO_BIN_EXE_graphmill"))
            .args([
                "serve",
                "--rest_bind_address",
                "127.0.0.1",
                "--rest_port",
                &port,
            ])
            .arg("--config_path")
            .arg(config)
            .args(arguments)
            .stderr(Stdio::piped())
            .spawn()
            .expect("it runs");
        let stderr = BufReader::new(process.stderr.take().expect("piped"));
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let mut served = Served {
            url: format!("http://127.0.0.1:{port}"),
            process,
            lines,
            said: Vec::new(),
            client: reqwest::Client::new(),
            folder: self.folder,
        };
        // `ready after 0.5 s`, or `not ready: ...`
        served.until_said("ready");
        served
    }
}

/// A server process, which ends with this value.
pub(crate) struct Served {
    url: String,
    process: Child,
    lines: Receiver<String>,
    said: Vec<String>,
    client: reqwest::Client,
    folder: tempfile::TempDir,
}

impl Served {
    /// Where the graph's model is.
    pub(crate) fn model(&self, index: usize) -> PathBuf {
        self.folder
            .path()
            .join(index.to_string())
            .join("model.gguf")
    }

    /// Waits for a line of the log that has these words.
    pub(crate) fn until_said(&mut self, words: &str) -> String {
        loop {
            let Ok(line) = self.lines.recv_timeout(PATIENCE) else {
                panic!("it did not say `{words}`: {}", self.last_words());
            };
            self.said.push(line.clone());
            if line.contains(words) {
                return line;
            }
        }
    }

    /// The end of the log, and whether the process lives.
    pub(crate) fn last_words(&mut self) -> String {
        self.said.extend(self.lines.try_iter());
        let last = self.said.len().saturating_sub(30);
        format!(
            "status {:?}, its log ends with\n{}",
            self.process.try_wait(),
            self.said[last..].join("\n")
        )
    }

    pub(crate) fn lives(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
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
        let id = self.process.id();
        fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}
