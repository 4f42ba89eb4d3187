//! Graphs to serve, and a process of the server that serves them.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        atomic::{AtomicU16, Ordering},
        mpsc::{self, Receiver},
    },
    time::Duration,
};

use serde_json::{Value, json};

/// The chat graph as OpenVINO Model Server publishes it, with another model.
pub(crate) const CHAT: &str = r#"
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
          models_path: "../model.script.json",
          max_num_seqs: 4
        }
      }
      input_stream_handler {
        input_stream_handler: "SyncSetInputStreamHandler",
        options { [mediapipe.SyncSetInputStreamHandlerOptions.ext] { sync_set { tag_index: "LOOPBACK:0" } } }
      }
    }
"#;

/// How long a process may say nothing, on a machine that does other things too.
const PATIENCE: Duration = Duration::from_mins(5);

/// Graphs in a folder.
pub(crate) struct Graphs {
    folder: tempfile::TempDir,
    /// What the configuration says of each.
    pub(crate) entries: Vec<Value>,
    /// What the configuration says besides.
    pub(crate) more: Vec<(&'static str, Value)>,
}

impl Graphs {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("a temporary folder"),
            entries: Vec::new(),
            more: Vec::new(),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Adds a graph, and tells its folder.
    pub(crate) fn add(&mut self, name: &str, text: &str) -> PathBuf {
        let base = self.entries.len().to_string();
        let folder = self.path().join(&base);
        fs::create_dir(&folder).expect("writable");
        fs::write(folder.join("graph.pbtxt"), text).expect("writable");
        self.entries
            .push(json!({ "name": name, "base_path": base }));
        folder
    }

    /// Writes the configuration.
    pub(crate) fn config(&self) -> PathBuf {
        let path = self.path().join("config.json");
        let mut config = json!({ "model_config_list": [], "mediapipe_config_list": self.entries });
        for (key, value) in &self.more {
            config[*key] = value.clone();
        }
        fs::write(&path, config.to_string()).expect("writable");
        path
    }
}

/// An address and a port that nobody else takes, for what has no port 0: the address belongs to this
/// process alone.
pub(crate) fn own_address() -> (String, String) {
    static PORTS: AtomicU16 = AtomicU16::new(10_000);
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    let port = PORTS.fetch_add(1, Ordering::Relaxed);
    (format!("127.{high}.{middle}.{low}"), port.to_string())
}

/// Where a server listens that was started with port 0 and whose output is piped.
pub(crate) fn printed_url(server: &mut Child) -> String {
    let mut output = BufReader::new(server.stdout.take().expect("piped"));
    let mut url = String::new();
    output.read_line(&mut url).expect("text");
    assert!(url.starts_with("http"), "it does not listen: `{url}`");
    url.trim_end().to_owned()
}

/// A server process, which ends with this value.
pub(crate) struct Process {
    pub(crate) child: Child,
    /// What it says from now on.
    pub(crate) lines: Receiver<String>,
    said: Vec<String>,
}

impl Process {
    pub(crate) fn start(config: &Path, flags: &[&str]) -> Self {
        Self::start_as(config, flags, |command| command)
    }

    /// As [`Process::start`], with a change of the command.
    pub(crate) fn start_as(
        config: &Path,
        flags: &[&str],
        change: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_graphmill"));
        command
            .args(["--rest_bind_address", "127.0.0.1", "--rest_port", "0"])
            .arg("--config_path")
            .arg(config)
            .args(flags)
            // Keys of whoever runs the tests are not for this server.
            .env_remove("API_KEY")
            .env_remove("GRAPHMILL_API_KEY")
            // Nor is what they keep for this server.
            .env_remove("STATE_DIRECTORY")
            .env("XDG_STATE_HOME", config.with_file_name("state"))
            // It prints its address, which the log has too.
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = change(&mut command).spawn().expect("it runs");
        let log = BufReader::new(child.stderr.take().expect("piped"));
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in log.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self {
            child,
            lines,
            said: Vec::new(),
        }
    }

    /// The port of REST, which the system chose, once it listens there.
    pub(crate) fn port(&mut self) -> u16 {
        const WORDS: &str = "listening on ";
        let line = self.said.iter().find(|line| line.contains(WORDS)).cloned();
        // The first such line is of REST.
        let line = line.unwrap_or_else(|| self.says(WORDS));
        let url = line.split(" for REST").next().unwrap_or_default();
        let port = url.rsplit(':').next().and_then(|port| port.parse().ok());
        port.unwrap_or_else(|| panic!("no port in `{line}`"))
    }

    /// Waits for a line of the log that has these words.
    pub(crate) fn says(&mut self, words: &str) -> String {
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
            self.child.try_wait(),
            self.said[last..].join("\n")
        )
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails when it has ended, which is what should be.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
