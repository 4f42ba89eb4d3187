//! The log of a server: who reads it, or not, and what is in it.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
    process::{Child, ChildStderr, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use crate::rest::support::{CHAT, Setup, question, read, streamed};
use crate::serving::printed_url;

/// A server in a process of its own, that does not outlive its test.
pub(crate) struct Logging {
    child: Child,
    log: BufReader<ChildStderr>,
    /// What it said until it was ready.
    said: String,
    url: String,
    client: reqwest::Client,
}

impl Drop for Logging {
    fn drop(&mut self) {
        // Fails when it has ended.
        let _ = self.child.kill();
    }
}

impl Logging {
    pub(crate) fn start(config: &Path, flags: &[&str]) -> Self {
        let mut server = Self::begin(config, flags);
        while !server.said.contains("ready after") {
            let read = server.log.read_line(&mut server.said).expect("text");
            assert!(read > 0, "it ended:\n{}", server.said);
        }
        server
    }

    /// One that does not log that it is ready.
    async fn start_quiet(config: &Path, flags: &[&str]) -> Self {
        let server = Self::begin(config, flags);
        let ready = format!("{}/v2/health/ready", server.url);
        let is_ready = async || {
            let answer = server.client.get(&ready).send().await;
            answer.is_ok_and(|answer| answer.status().is_success())
        };
        while !is_ready().await {
            tokio::task::yield_now().await;
        }
        server
    }

    fn begin(config: &Path, flags: &[&str]) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_graphmill"))
            .args(["serve", "--rest_bind_address", "127.0.0.1"])
            .args(["--rest_port", "0", "--config_path"])
            .arg(config)
            .args(flags)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = child.expect("it runs");
        let url = printed_url(&mut child);
        let log = BufReader::new(child.stderr.take().expect("piped"));
        Self {
            child,
            log,
            said: String::new(),
            url,
            client: crate::http::client(),
        }
    }

    fn post(&self, path: &str, body: &Value) -> reqwest::RequestBuilder {
        self.client
            .post(format!("{}{path}", self.url))
            .header("content-type", "application/json")
            .body(body.to_string())
    }

    fn terminate(&self) {
        assert!(self.signal("-TERM").success());
    }

    fn signal(&self, signal: &str) -> ExitStatus {
        let killed = Command::new("kill")
            .args([signal, &self.child.id().to_string()])
            .status();
        killed.expect("kill runs")
    }

    /// All that it says until its end.
    pub(crate) fn all_it_says(mut self) -> String {
        self.terminate();
        let mut said = std::mem::take(&mut self.said);
        self.log.read_to_string(&mut said).expect("text");
        assert_eq!(self.child.wait().expect("it ends").code(), Some(0));
        said
    }
}

fn moody() -> Setup {
    let script = json!({ "name": "moody", "replies": [
        { "when": "panic", "then": "panic" },
        { "when": "midway", "text": "fi", "then": "panic" },
        { "text": "fine" },
    ] });
    Setup::new().graph("chat", CHAT).script(&script)
}

/// Waits until a session waits for a slot, in these words, and returns its id.
async fn until_queued(server: &Logging, place: &str) -> String {
    loop {
        let request = server.client.get(format!("{}/v3/sessions", server.url));
        let list = read(request).await.json();
        let sessions = list["sessions"].as_array().expect("a list");
        let waits = format!("tokens of engine `m`: {place} in its queue");
        let is_it = |session: &&Value| {
            let why = session["why"].as_str().expect("a sentence");
            why.ends_with(&waits)
        };
        if let Some(session) = sessions.iter().find(is_it) {
            return session["id"].as_str().expect("an id").to_owned();
        }
    }
}

#[tokio::test]
async fn waits_for_a_slot_are_logged_however_they_end() {
    let setup = Setup::new().graph("chat", &CHAT.replace("max_num_seqs: 4", "max_num_seqs: 2"));
    let go_on = setup.path().join("go_on");
    let setup = setup.script(&json!({
        "name": "m", "release": go_on, "step_micros": 1000, "context": 60_000, "cells": 200_000,
        "replies": [
            { "when": "hold", "text": "abc", "then": "hang" },
            { "text": "on and on ", "then": "repeat" },
        ],
    }));
    let server = Logging::start(&setup.config(), &["--log_format", "json"]);
    let ask = |client: &reqwest::Client, id: &str, text: &str| {
        let url = format!("{}/v3/chat/completions", server.url);
        let request = client.post(url).header("x-request-id", id);
        request.body(streamed("chat", text).to_string()).send()
    };
    // Clients without keys take turns by their addresses.
    let client = || crate::http::client();
    let other = reqwest::Client::builder().local_address(Some([127, 0, 0, 2].into()));
    let other = other.build().expect("a client");
    let mut open = Vec::new();
    for id in ["first", "second"] {
        let mut answer = ask(&client(), id, "go").await.expect("an answer");
        answer.chunk().await.expect("it goes on").expect("an event");
        open.push(tokio::spawn(async move {
            while let Ok(Some(_)) = answer.chunk().await {}
        }));
    }
    let hold = tokio::spawn(ask(&other, "hold", "hold"));
    let preempted = until_queued(&server, "preempted, 1st").await;
    let queued = tokio::spawn(ask(&client(), "queued", "go"));
    assert_eq!(until_queued(&server, "2nd").await, "queued");
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(5) {
        tokio::task::yield_now().await;
    }
    let waited = begun.elapsed().as_secs_f64() * 1e3;
    // All of the busy address leave.
    for open in open {
        open.abort();
    }
    queued.abort();
    let sessions = format!("{}/v3/sessions", server.url);
    while read(server.client.get(&sessions)).await.json()["total"] != 1 {}
    std::fs::write(&go_on, "").expect("writable");
    hold.await.expect("it runs").expect("an answer");

    let lines = objects(&server.all_it_says());
    let line = |id: &str| {
        let line = lines.iter().find(|line| line["request_id"] == id);
        line.unwrap_or_else(|| panic!("no line of `{id}`"))
    };
    for (id, begins) in [(preempted.as_str(), true), ("queued", false)] {
        let line = line(id);
        let queue = line["queue_ms"].as_f64();
        assert!(
            queue.is_some_and(|queue| queue >= waited - 0.1),
            "{waited} {line}"
        );
        assert_eq!(line["ttft_ms"].is_number(), begins, "{line}");
    }
}

/// The lines of a log, each of which has to be an object.
fn objects(log: &str) -> Vec<Value> {
    let lines = log.lines().map(|line| {
        let line: Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        for field in ["timestamp", "level", "message"] {
            assert!(line[field].is_string(), "{line}");
        }
        line
    });
    lines.collect()
}

#[tokio::test]
async fn a_log_that_nobody_reads_holds_nobody_up() {
    /// With lines of more than 500 bytes, more than the pipe and the buffers take.
    const REQUESTS: usize = 5_600;
    let setup = moody();
    let mut server = Logging::start(&setup.config(), &["--log_format", "json"]);
    let path = format!("{}/{}", server.url, "x".repeat(190));
    let id = "i".repeat(128);
    let mut asked = Vec::new();
    for _ in 0..8 {
        let (client, path, id) = (server.client.clone(), path.clone(), id.clone());
        asked.push(tokio::spawn(async move {
            for _ in 0..REQUESTS / 8 {
                let request = client.get(&path).header("x-request-id", &id);
                assert_eq!(read(request).await.status, 404);
            }
        }));
    }
    for asked in asked {
        asked.await.expect("all are answered");
    }
    let metrics = read(server.client.get(format!("{}/metrics", server.url))).await;
    let dropped = metrics.text.lines().find_map(|line| {
        line.strip_prefix("graphmill_log_lines_dropped_total ")?
            .parse::<u64>()
            .ok()
    });
    assert!(dropped.is_some_and(|dropped| dropped > 0), "{dropped:?}");

    // Whoever reads again learns how many are missing.
    let mut lines = String::new();
    while !lines.contains("log lines were lost") {
        let read = server.log.read_line(&mut lines).expect("text");
        assert!(read > 0, "it ended");
    }
    let lines = objects(&lines);
    let lost = lines.last().and_then(|line| line["lines"].as_u64());
    assert!(lost >= dropped, "{lost:?} of {dropped:?}");
    server.all_it_says();
}

#[tokio::test]
async fn a_server_whose_log_nobody_reads_stops_well() {
    let setup = moody();
    let mut server = Logging::start(&setup.config(), &[]);
    let path = format!("{}/{}", server.url, "x".repeat(190));
    for _ in 0..600 {
        read(server.client.get(&path)).await;
    }
    server.terminate();
    assert_eq!(server.child.wait().expect("it ends").code(), Some(0));
}

#[tokio::test]
async fn lines_say_what_happened_and_nothing_that_was_said() {
    let setup = moody();
    for format in ["text", "json"] {
        let flags = ["--log_format", format, "--log_level", "TRACE"];
        let server = Logging::start(&setup.config(), &flags);
        let secret = |request: reqwest::RequestBuilder, id: &str| {
            request
                .header("authorization", "Bearer sk-HUSH-1")
                .header("x-api-key", "HUSH-2")
                .header("cookie", "HUSH-3")
                .header("x-request-id", id)
        };
        let chat = "/v3/chat/completions?key=HUSH-4";
        let statuses = [
            (question("chat", "HUSH-5"), "good", 200),
            (streamed("chat", "HUSH-6"), "stream", 200),
            (question("chat", "panic HUSH-7"), "panics", 500),
            (streamed("chat", "midway HUSH-10"), "midway", 200),
            (question("HUSH\n\u{1b}[31m", "HUSH-8"), "unknown", 404),
            (
                json!({ "model": "chat", "messages": "HUSH-9" }),
                "wrong",
                400,
            ),
        ];
        for (body, id, status) in statuses {
            let reply = read(secret(server.post(chat, &body), id)).await;
            assert_eq!(reply.status, status, "{}", reply.text);
        }
        let reply = read(secret(
            server.post("/v1/messages?key=HUSH", &json!({})),
            "m",
        ))
        .await;
        assert_eq!(reply.status, 400);
        read(server.client.get(format!("{}/a%0Ab%1b[31m", server.url))).await;
        let log = server.all_it_says();
        assert!(!log.contains("HUSH"), "{log}");
        assert!(!log.contains('\u{1b}'), "{log}");
        assert!(log.contains("panic: scripted panic"), "{log}");
        for part in [
            "good",
            "stream",
            "panics",
            "unknown",
            "model_not_found",
            "node_failed",
        ] {
            assert!(log.contains(part), "{part}: {log}");
        }
        if format == "text" {
            continue;
        }
        let lines = objects(&log);
        let line = |id: &str| {
            let of_id = |line: &&Value| line["request_id"] == id;
            lines.iter().find(of_id).unwrap_or_else(|| panic!("{id}"))
        };
        for id in ["good", "stream"] {
            let line = line(id);
            assert_eq!(
                (&line["level"], &line["graph"], &line["status"]),
                (&json!("INFO"), &json!("chat"), &json!(200)),
                "{line}"
            );
            assert_eq!(line["message"], "POST /v3/chat/completions done");
            assert_eq!(
                line["generated_tokens"], 5,
                "four letters and the end: {line}"
            );
            assert!(line["prompt_tokens"].as_u64() > Some(0), "{line}");
            assert!(line["cached_tokens"].is_u64(), "{line}");
            let times = (line["ttft_ms"].as_f64(), line["total_ms"].as_f64());
            assert!(times.0.is_some() && times.0 <= times.1, "{line}");
        }
        assert_eq!(line("unknown")["error_code"], "model_not_found");
        assert_eq!(line("wrong")["status"], 400);
        assert!(line("wrong")["error_code"].is_string());
        assert_eq!(line("wrong")["param"], "messages");
        assert_eq!(
            line("wrong")["message"],
            "POST /v3/chat/completions refused: `messages` must be an array, not a string"
        );
        assert!(line("m")["error_code"].is_string());
        for (id, status) in [("panics", 500), ("midway", 200)] {
            let line = line(id);
            assert_eq!(
                (&line["level"], &line["status"], &line["error_code"]),
                (&json!("WARN"), &json!(status), &json!("node_failed")),
                "{line}"
            );
        }
    }
}

#[tokio::test]
async fn refusals_say_why_and_misspelled_fields_are_warned_of_once() {
    let server = Logging::start(&moody().config(), &["--log_format", "json"]);
    let id = |request: reqwest::RequestBuilder, id: &str| request.header("x-request-id", id);
    let chat = "/v3/chat/completions";
    for (body, name, status) in [
        (json!({ "model": "chatt", "messages": [] }), "name", 404),
        (json!({ "messages": [] }), "field", 400),
        (
            json!({ "model": "chat", "temprature": 1, "messages": [{ "role": "user", "content": "a" }] }),
            "typo",
            200,
        ),
        (
            json!({ "model": "chat", "temprature": 1, "messages": [{ "role": "user", "content": "a" }] }),
            "typo",
            200,
        ),
    ] {
        let reply = read(id(server.post(chat, &body), name)).await;
        assert_eq!(reply.status, status, "{}", reply.text);
    }
    let infer = server.post("/v2/models/chat/infer", &json!({}));
    assert_eq!(read(id(infer, "infer")).await.status, 400);
    // What an open page sends all the time.
    for path in [
        "/v3/models",
        "/v3/sessions",
        "/v3/status",
        "/v3/graphs",
        "/",
        "/metrics",
    ] {
        let reply = read(id(
            server.client.get(format!("{}{path}", server.url)),
            "look",
        ))
        .await;
        assert_eq!(reply.status, 200, "{path}");
    }
    let play = json!({ "graph": "node { calculator: \"NopeCalculator\" }", "test": "[[case]]\nname = \"a\"\n" });
    read(server.post("/v3/playground", &play)).await;
    let log = server.all_it_says();
    let lines = objects(&log);
    let message = |id: &str| {
        let line = lines.iter().find(|line| line["request_id"] == id);
        line.map(|line| line["message"].as_str().unwrap_or_default().to_owned())
    };
    for (id, part) in [
        (
            "name",
            "refused: the model `chatt` does not exist; did you mean `chat`?",
        ),
        ("field", "refused: `model` is missing"),
        ("infer", "refused: "),
    ] {
        let message = message(id).unwrap_or_else(|| panic!("{id} in {log}"));
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(message("look"), None, "{log}");
    let typo = lines.iter().filter(|line| {
        let text = line["message"].as_str().unwrap_or_default();
        text.contains("`temprature` is not a field") && text.contains("`temperature`?")
    });
    let levels: Vec<&Value> = typo.map(|line| &line["level"]).collect();
    assert_eq!(levels, [&json!("WARN")], "{log}");
    let tried = lines.iter().find(|line| line["audit"] == "try");
    assert_eq!(tried.map(|line| &line["outcome"]), Some(&json!("refused")));
    let stop = lines
        .iter()
        .find(|line| line["audit"] == "stop")
        .expect("it stopped");
    assert_eq!(stop["reason"], "SIGTERM");
    assert_eq!(stop["message"], "stop of server: done");
}

#[test]
fn what_an_engine_runs_with_is_in_fields() {
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../demos/tiny_chat/model.gguf");
    let graph = CHAT.replace("../model.script.json", model);
    let setup = Setup::new().graph("chat", &graph);
    let log = Logging::start(&setup.config(), &["--log_format", "json"]).all_it_says();
    for part in ["billion", "training context", "SSE3", "\\n"] {
        assert!(!log.contains(part), "{part} in {log}");
    }
    let lines = objects(&log);
    let engine = lines.iter().find(|line| line["message"] == "engine loaded");
    let engine = engine.unwrap_or_else(|| panic!("{log}"));
    assert_eq!(engine["architecture"], "llama", "{engine}");
    for field in [
        "parameters",
        "context_length",
        "max_num_seqs",
        "kv_cells",
        "threads",
    ] {
        assert!(engine[field].is_u64(), "{field} in {engine}");
    }
}

#[test]
fn a_model_that_cannot_be_loaded_is_told_of_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = folder.path().join("damaged.gguf");
    std::fs::write(&model, "GGUF").expect("writable");
    let graph = CHAT.replace("../model.script.json", model.to_str().expect("UTF-8"));
    let setup = Setup::new().graph("chat", &graph);
    let output = Command::new(env!("CARGO_BIN_EXE_graphmill"))
        .args(["serve", "--rest_port", "0", "--config_path"])
        .arg(setup.config())
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said.matches("the file ends where").count(), 1, "{said}");
    assert!(
        said.contains("nothing to serve: `chat` could not be loaded"),
        "{said}"
    );
}

#[tokio::test]
async fn who_changed_the_server_is_in_the_audit_log() {
    let setup = moody();
    let keys = setup.path().join("keys.json");
    let written = json!({ "keys": [
        { "name": "operator", "key": "HUSH-1", "scopes": ["admin"] },
        { "name": "team", "key": "HUSH-2" },
    ] });
    std::fs::write(&keys, written.to_string()).expect("writable");
    let config = setup.config();
    let keys = keys.to_str().expect("UTF-8");
    let flags = [
        "--log_format",
        "json",
        "--log_level",
        "ERROR",
        "--api_key_file",
        keys,
    ];
    let right = std::fs::read_to_string(&config).expect("readable");
    let mut server = Logging::start_quiet(&config, &flags).await;
    let reload = |path: &str, key: &str| {
        read(
            server
                .post(path, &json!({}))
                .header("x-api-key", key.to_owned()),
        )
    };
    let config_reload = "/v1/config/reload";
    assert_eq!(reload(config_reload, "HUSH-1").await.status, 200);
    assert_eq!(reload(config_reload, "HUSH-2").await.status, 403);
    let tap = format!("{}/v3/graphs/chat/tap?stream=HUSH", server.url);
    let tap = server.client.get(tap).header("x-api-key", "HUSH-2");
    assert_eq!(read(tap).await.status, 403);
    let load = "/v2/repository/models/chat/load";
    assert_eq!(reload(load, "HUSH-1").await.status, 200);
    let cancel = format!("{}/v3/requests/a%0Ab%3A%20done", server.url);
    let cancel = server.client.delete(cancel).header("x-api-key", "HUSH-1");
    assert_eq!(read(cancel).await.status, 404);
    std::fs::write(&config, "{").expect("writable");
    assert_eq!(reload(config_reload, "HUSH-1").await.status, 412);
    std::fs::write(&config, right).expect("writable");
    let signal = server.signal("-HUP");
    assert!(signal.success());
    let mut said = String::new();
    while !said.contains("SIGHUP") {
        let read = server.log.read_line(&mut said).expect("text");
        assert!(read > 0, "it ended:\n{said}");
    }
    server.said = said;
    let log = server.all_it_says();
    assert!(!log.contains("HUSH"), "{log}");
    // A name does not add a line to the text of another one.
    assert!(log.contains(r"cancel of a\\nb: done: failed"), "{log}");
    let lines = objects(&log).into_iter();
    let lines = lines.filter(|line| !line["audit"].is_null());
    let audited: Vec<Value> = lines
        .map(|line| {
            json!([
                line["audit"],
                line["actor"],
                line["subject"],
                line["outcome"]
            ])
        })
        .collect();
    assert_eq!(
        audited,
        [
            json!(["reload", "operator", "server", "done"]),
            json!(["administer", "team", config_reload, "refused"]),
            json!(["administer", "team", "/v3/graphs/chat/tap", "refused"]),
            json!(["reload", "operator", "server", "done"]),
            json!(["load", "operator", "chat", "done"]),
            json!(["cancel", "operator", "a\nb: done", "failed"]),
            json!(["reload", "operator", "server", "failed"]),
            json!(["reload", null, "server", "done"]),
            json!(["stop", null, "server", "done"]),
        ]
    );
}

#[tokio::test]
async fn how_much_is_logged_changes_while_the_server_runs() {
    let setup = moody();
    let server = Logging::start(&setup.config(), &[]);
    let set = async |settings: Value| {
        let reply = read(server.post("/v2/logging", &settings)).await;
        (reply.status, reply.json())
    };
    let probe = async |id: &str| {
        let probe = server
            .client
            .get(format!("{}/v2/health/live?{id}", server.url));
        let probe = probe.header("x-request-id", id);
        assert!(probe.send().await.expect("an answer").status().is_success());
    };
    probe("quiet").await;
    let (status, now) = set(json!({"log_verbose_level": 1, "log_info": true})).await;
    assert_eq!((status, &now["log_verbose_level"]), (200, &json!(1)));
    probe("debugged").await;
    let (status, now) = set(json!({"log_verbose_level": 0, "log_info": false})).await;
    assert_eq!(status, 200, "{now}");
    let expected = json!({
        "log_error": true, "log_warning": true, "log_info": false, "log_verbose_level": 0,
        "log_format": "default",
    });
    assert_eq!(now, expected);
    probe("quiet_again").await;
    for (settings, said) in [
        (json!({"log_verbose_level": 3}), "log_verbose_level"),
        (json!({"log_verbose_level": 1}), "log_info"),
        (json!({"log_info": 1}), "log_info"),
        (json!({"log_error": false}), "log_error"),
        (json!({"log_file": "/tmp/log"}), "log_file"),
        (json!({"log_format": "ISO8601"}), "log_format"),
        (json!({"log_level": "DEBUG"}), "log_level"),
    ] {
        let (status, answer) = set(settings).await;
        let error = answer["error"].as_str().unwrap_or_default();
        assert!(status >= 400 && error.contains(said), "{answer}");
    }
    let told = server.client.get(format!("{}/v2/logging", server.url));
    assert_eq!(read(told).await.json(), expected);
    let log = server.all_it_says();
    assert!(log.contains("debugged"), "{log}");
    assert!(!log.contains("quiet"), "{log}");
    assert!(log.contains("set of log level Warning: done"), "{log}");
}

#[test]
fn the_form_of_the_log_is_one_that_exists() {
    let output = Command::new(env!("CARGO_BIN_EXE_graphmill"))
        .args([
            "serve",
            "--config_path",
            "x",
            "--rest_port",
            "1",
            "--log_format",
            "xml",
        ])
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("expected text or json"), "{said}");
}

#[test]
fn what_is_wrong_with_the_configuration_is_said_in_the_form_of_the_log() {
    let setup = Setup::new();
    let config = setup.path().join("config.json");
    std::fs::write(&config, "{ \"modell_config_list\": 1 }").expect("writable");
    let output = Command::new(env!("CARGO_BIN_EXE_graphmill"))
        .args([
            "serve",
            "--rest_port",
            "1",
            "--log_format",
            "json",
            "--config_path",
        ])
        .arg(&config)
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let lines = objects(&String::from_utf8_lossy(&output.stderr));
    assert!(!lines.is_empty());
}

#[tokio::test]
async fn a_reader_that_was_cut_off_has_not_left() {
    let script = json!({ "name": "fast", "context": 60_000, "cells": 200_000, "replies": [
        { "text": "on and on ".repeat(100), "then": "repeat" },
    ] });
    let setup = Setup::new().graph("chat", CHAT).script(&script);
    let config = setup.config();
    let mut server = Logging::start(&config, &["--write_timeout_seconds", "1"]);
    let body = streamed("chat", "forever").to_string();
    // The smallest buffer there is, so that it fills.
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(1 << 10).expect("small");
    let address = server.url.trim_start_matches("http://").parse();
    let stream = socket.connect(address.expect("an address")).await;
    let mut stream = stream.expect("it listens");
    let head = format!(
        "POST /v3/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.expect("writable");
    let mut line = String::new();
    while !line.contains("/v3/chat/completions") {
        line.clear();
        let read = server.log.read_line(&mut line).expect("text");
        assert!(read > 0, "it ended");
    }
    let words = "cut off: the client did not read the answer in time";
    assert!(line.contains(words), "{line}");
    drop(stream);
}
