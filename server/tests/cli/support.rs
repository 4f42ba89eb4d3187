//! The binary, and a server that it starts.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, ChildStdout, Command, Output, Stdio},
};

use serde_json::Value;

/// The model of the repository.
pub(crate) const MODEL: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../demos/tiny_chat/model.gguf");
pub(crate) const DIGITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../demos/digits/model.onnx");
pub(crate) const EMBED: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../demos/tiny_embed/embed.gguf"
);
pub(crate) const RERANK: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../demos/tiny_embed/rerank.gguf"
);

pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_graphmill"));
    command.args(arguments);
    command
}

pub(crate) fn graphmill(arguments: &[&str]) -> Output {
    command(arguments).output().expect("it runs")
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(crate) fn path(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// A server on a port that it chose, which ends with this value.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) url: String,
    pub(crate) log: BufReader<std::process::ChildStderr>,
    _output: BufReader<ChildStdout>,
}

impl Server {
    /// Starts `serve` with these arguments and waits until it listens.
    pub(crate) fn start(arguments: &[&str], change: impl FnOnce(&mut Command)) -> Self {
        let mut command = command(&["serve", "--rest_port", "0"]);
        command
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        change(&mut command);
        let mut child = command.spawn().expect("it runs");
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        let mut log = BufReader::new(child.stderr.take().expect("piped"));
        let mut url = String::new();
        output.read_line(&mut url).expect("readable");
        if url.is_empty() {
            let mut said = String::new();
            std::io::Read::read_to_string(&mut log, &mut said).expect("readable");
            panic!("it did not start: {said}");
        }
        Self {
            child,
            url: url.trim().to_owned(),
            log,
            _output: output,
        }
    }

    /// Reads the log up to a line that has these words.
    pub(crate) fn says(&mut self, words: &str) -> String {
        let mut said = String::new();
        loop {
            let mut line = String::new();
            let read = self.log.read_line(&mut line).expect("readable");
            assert!(read > 0, "it did not say `{words}`: {said}");
            said.push_str(&line);
            if line.contains(words) {
                return said;
            }
        }
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Value {
        let client = crate::http::client();
        let request = client.post(format!("{}{path}", self.url));
        let request = request.header("content-type", "application/json");
        answer(request.body(body.to_string()))
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        answer(crate::http::client().get(format!("{}{path}", self.url)))
    }

    pub(crate) fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args([signal, &id]).status();
        assert!(sent.expect("kill runs").success());
    }
}

pub(crate) fn answer(request: reqwest::RequestBuilder) -> Value {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let text = runtime.expect("a runtime").block_on(async {
        let response = request.send().await.expect("an answer");
        response.text().await.expect("a body")
    });
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fails when it has ended, which is what should be.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
