//! Memory of a server at rest: it holds what was used, not all that may be used.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::json;

use crate::serving::printed_url;

/// Bytes of memory of such a server, mapped files aside. Its KV cache may take eight times as much.
const MOST: u64 = 32 << 20;
/// Bytes that an engine of the model may leave behind when another replaces it.
const ENGINE: u64 = 16 << 20;
const PATIENCE: Duration = Duration::from_mins(2);

/// A server of a model, without flags, as most users start it.
struct Server {
    process: Child,
    url: String,
    client: reqwest::Client,
    folder: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fails when it has ended, which the test has said by then.
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

fn model() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../demos/tiny_chat/model.gguf")
}

impl Server {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("tiny.gguf");
        fs::copy(model(), &file).expect("writable");
        let mut process = Command::new(env!("CARGO_BIN_EXE_graphmill"))
            .args(["serve", "--rest_port", "0"])
            .arg(&file)
            .env("XDG_STATE_HOME", folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it runs");
        let url = printed_url(&mut process);
        Self {
            process,
            url,
            client: crate::http::client(),
            folder,
        }
    }

    /// Whether its engine gave up the threads that compute, which it does when it has been idle and
    /// has nothing more to tidy up.
    fn rests(&self) -> bool {
        let tasks = format!("/proc/{}/task", self.process.id());
        let tasks = fs::read_dir(tasks).expect("it runs").flatten();
        let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
        names.filter(|name| name.starts_with("engine ")).count() == 1
    }

    /// Bytes of memory that is mapped from no file, once the engine rests.
    async fn resident(&self) -> u64 {
        let deadline = Instant::now() + PATIENCE;
        while !self.rests() {
            assert!(Instant::now() < deadline, "the engine does not rest");
            tokio::task::yield_now().await;
        }
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id()));
        let status = status.expect("it runs");
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("RssAnon:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
        kib.and_then(|kib| kib.parse::<u64>().ok()).expect("KiB") * 1024
    }

    async fn until_ready(&self) {
        let deadline = Instant::now() + PATIENCE;
        let ready = || {
            self.client
                .get(format!("{}/v2/health/ready", self.url))
                .send()
        };
        while !ready()
            .await
            .is_ok_and(|answer| answer.status().is_success())
        {
            assert!(Instant::now() < deadline, "it does not load");
        }
    }

    async fn chat(&self) {
        let messages = json!([{ "role": "user", "content": "Tell me a story" }]);
        let body = json!({ "model": "tiny", "messages": messages, "max_tokens": 64 });
        let request = self
            .client
            .post(format!("{}/v3/chat/completions", self.url));
        let answer = request
            .body(body.to_string())
            .send()
            .await
            .expect("an answer");
        assert_eq!(
            answer.status(),
            200,
            "{}",
            answer.text().await.unwrap_or_default()
        );
    }

    /// Replaces the model's file by a copy and loads that.
    async fn reload(&self) {
        let copy = self.folder.path().join("copy");
        fs::copy(model(), &copy).expect("writable");
        fs::rename(copy, self.folder.path().join("tiny.gguf")).expect("writable");
        let reload = self.client.post(format!("{}/v1/config/reload", self.url));
        let answer = reload.send().await.expect("an answer");
        // The server may have seen the new file by itself.
        let status = answer.status();
        assert!(status.is_success(), "{status}");
    }
}

#[tokio::test]
async fn a_server_holds_what_was_used() {
    let server = Server::start();
    server.until_ready().await;
    let ready = server.resident().await;
    assert!(ready <= MOST, "{ready} bytes when it is ready");
    for _ in 0..10 {
        server.chat().await;
    }
    let used = server.resident().await;
    assert!(used <= MOST, "{used} bytes after ten chats");
    for _ in 0..20 {
        server.reload().await;
        server.chat().await;
    }
    let reloaded = server.resident().await;
    assert!(
        reloaded <= MOST + ENGINE,
        "{reloaded} bytes after twenty reloads"
    );
}
