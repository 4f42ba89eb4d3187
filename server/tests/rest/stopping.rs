//! The process ends, whatever it does when it is told to.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use serde_json::json;

use crate::rest::support::{CHAT, Setup, streamed};
use crate::serving::{Process, own_address};

/// Far more than the time that an end may take, on a machine that does other things too.
const PATIENCE: Duration = Duration::from_mins(1);

impl Process {
    pub(crate) fn signal(&self, name: &str) {
        let process = self.child.id().to_string();
        let sent = Command::new("kill").args([name, &process]).status();
        assert!(sent.expect("kill runs").success());
    }

    fn ends(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status;
            }
            assert!(Instant::now() < deadline, "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Sends bytes on a connection of their own.
    fn send(&mut self, bytes: &str) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port())).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.write_all(bytes.as_bytes()).expect("writable");
        stream
    }

    fn post(&mut self, body: &str) -> TcpStream {
        let length = body.len();
        self.send(&format!(
            "POST /v3/chat/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        ))
    }

    fn get(&mut self, path: &str) -> String {
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        rest(self.send(&request))
    }
}

fn rest(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("it closes");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reads until something of this has come.
fn until(stream: &mut TcpStream, wanted: &str) {
    let mut said = String::new();
    let mut buffer = [0; 4096];
    while !said.contains(wanted) {
        let count = stream.read(&mut buffer).expect("readable");
        assert!(count > 0, "it ended: {said}");
        said += &String::from_utf8_lossy(&buffer[..count]);
    }
}

/// A server whose model generates without end, a step a millisecond.
fn endless() -> Setup {
    let script = json!({ "name": "endless", "step_micros": 1000, "replies": [{ "text": "on and on ", "then": "repeat" }] });
    Setup::new().graph("chat", CHAT).script(&script)
}

/// A server one of whose steps takes an hour.
fn wedged() -> Setup {
    let script = json!({ "name": "wedged", "step_micros": 3_600_000_000_u64, "replies": [{ "text": "never" }] });
    Setup::new().graph("chat", CHAT).script(&script)
}

const GRACE: &[&str] = &["--shutdown_grace_seconds", "0"];

#[test]
fn while_a_stream_runs_it_is_cut_with_an_error() {
    let setup = endless();
    let mut server = Process::start(&setup.config(), GRACE);
    server.says("ready after");
    let mut stream = server.post(&streamed("chat", "go").to_string());
    until(&mut stream, "\"content\":\"o");
    server.signal("-TERM");
    let end = rest(stream);
    assert!(
        end.contains("\"draining\"") && !end.contains("[DONE]"),
        "{end}"
    );
    assert_eq!(server.ends().code(), Some(0));
}

#[test]
fn while_clients_do_nothing_of_use() {
    let setup = endless();
    let mut server = Process::start(&setup.config(), GRACE);
    server.says("ready after");
    let body = streamed("chat", "go").to_string();
    let _held = [
        server.send(""),
        server.send("GET /v2/hea"),
        server.send(
            "POST /v3/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{",
        ),
        // Reads nothing of its answer.
        server.post(&body),
        server.send("GET /v2/health/live HTTP/1.1\r\nhost: localhost\r\n\r\n"),
        server.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    ];
    let mut stream = server.post(&body);
    until(&mut stream, "\"content\":\"o");
    server.signal("-INT");
    assert_eq!(server.ends().code(), Some(0));
}

#[test]
fn while_a_body_is_half_sent_its_client_is_told() {
    let setup = endless();
    let mut server = Process::start(&setup.config(), GRACE);
    server.says("ready after");
    let half = server.send(
        "POST /v3/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n{\"model\":",
    );
    server.get("/v2/health/live");
    server.signal("-TERM");
    let answer = rest(half);
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(answer.contains("draining"), "{answer}");
    assert_eq!(server.ends().code(), Some(0));
}

#[test]
fn while_a_step_never_ends() {
    let setup = wedged();
    let mut server = Process::start(&setup.config(), GRACE);
    server.says("ready after");
    let stream = server.post(&streamed("chat", "go").to_string());
    server.signal("-TERM");
    assert_eq!(server.ends().code(), Some(0));
    drop(stream);
}

#[test]
fn it_serves_for_the_delay_and_is_not_ready() {
    let setup = endless();
    let (host, port) = own_address();
    let delay = ["--drain_delay_seconds", "3600"];
    let management = [
        "--management_bind_address",
        &host,
        "--management_port",
        &port,
    ];
    let mut server = Process::start(&setup.config(), &[&delay[..], &management, GRACE].concat());
    server.says("ready after");
    server.signal("-HUP");
    server.says("no changes in the configuration");
    server.signal("-TERM");
    server.says("stopping");
    let deadline = Instant::now() + PATIENCE;
    while !server.get("/v2/health/ready").starts_with("HTTP/1.1 503") {
        assert!(Instant::now() < deadline);
    }
    assert!(server.get("/v2/health/live").starts_with("HTTP/1.1 200"));
    let mut stream = server.post(&streamed("chat", "go").to_string());
    until(&mut stream, "\"content\":\"o");
    // A second signal does not wait.
    server.signal("-TERM");
    assert_eq!(server.ends().code(), Some(128 + 15));
}

#[test]
fn while_a_model_is_waited_for_and_before_there_is_a_configuration() {
    let setup = Setup::new().graph("chat", &CHAT.replace("model.script.json", "model.gguf"));
    let config = setup.config();
    let pipe = |name: &str| {
        let path = setup.path().join(name);
        let made = Command::new("mkfifo").arg(&path).status();
        assert!(made.expect("mkfifo runs").success());
        path
    };
    pipe("model.gguf");
    let mut server = Process::start(&config, &[&["--wait_for_models"], GRACE].concat());
    server.says("listening on");
    server.signal("-TERM");
    let status = server.ends();
    assert!(status.code() == Some(0), "{status}");
    // Nobody writes the configuration.
    let mut server = Process::start(&pipe("config"), GRACE);
    server.signal("-TERM");
    server.ends();
}

/// A server with models to load for as long as a test takes.
fn loading() -> Setup {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../demos/tiny_chat/model.gguf");
    let mut setup = Setup::new();
    for number in 0..40 {
        let model = format!("model-{number}.gguf");
        std::fs::copy(&file, setup.path().join(&model)).expect("writable");
        let graph = CHAT.replace("model.script.json", &model);
        setup = setup.graph(&format!("chat-{number}"), &graph);
    }
    setup
}

/// The first process that a server tries a model in.
#[cfg(target_os = "linux")]
fn trial_of(server: &Process) -> String {
    let tasks = format!("/proc/{}/task", server.child.id());
    let deadline = Instant::now() + PATIENCE;
    loop {
        let tasks = std::fs::read_dir(&tasks).expect("it runs").flatten();
        // A thread that has ended meanwhile has no children.
        let children =
            tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
        let children: String = children.collect();
        if let Some(child) = children.split_whitespace().next() {
            return child.to_owned();
        }
        assert!(Instant::now() < deadline, "it tries no model");
    }
}

#[test]
fn while_models_are_loaded() {
    let setup = loading();
    let mut server = Process::start(&setup.config(), &[]);
    server.says("listening on");
    server.signal("-TERM");
    assert_eq!(server.ends().code(), Some(0));
}

#[cfg(target_os = "linux")]
#[test]
fn a_signal_to_the_group_does_not_end_the_trial_of_a_model() {
    let setup = loading();
    let mut server = Process::start_as(&setup.config(), GRACE, |command| command.process_group(0));
    server.says("listening on");
    trial_of(&server);
    let group = format!("-{}", server.child.id());
    let sent = Command::new("kill").args(["-INT", "--", &group]).status();
    assert!(sent.expect("kill runs").success());
    assert_eq!(server.ends().code(), Some(0));
    let said: Vec<String> = server.lines.iter().collect();
    let blamed = |line: &&String| line.contains("cannot load model");
    assert_eq!(said.iter().find(blamed), None);
}

#[cfg(target_os = "linux")]
#[test]
fn the_trial_of_a_model_ends_with_the_server() {
    let setup = loading();
    let mut server = Process::start(&setup.config(), GRACE);
    server.says("listening on");
    let trial = trial_of(&server);
    server.signal("-KILL");
    server.ends();
    let deadline = Instant::now() + PATIENCE;
    let process = format!("/proc/{trial}/exe");
    while std::fs::read_link(&process).is_ok_and(|exe| exe.ends_with("graphmill")) {
        assert!(Instant::now() < deadline, "it goes on");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_run_that_hangs_can_be_interrupted() {
    let setup = Setup::new();
    let graph = setup.path().join("graph.pbtxt");
    let text = "input_stream: \"in\" output_stream: \"out\" node { calculator: \"PassThroughCalculator\" input_stream: \"in\" output_stream: \"out\" }";
    std::fs::write(&graph, text).expect("writable");
    let mut child = Command::new(env!("CARGO_BIN_EXE_graphmill"))
        .args(["run", "--input", "-"])
        .arg(&graph)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut input = child.stdin.take().expect("piped");
    let output = BufReader::new(child.stdout.take().expect("piped"));
    input
        .write_all(b"{\"stream\": \"in\", \"timestamp\": 0, \"value\": 1}\n")
        .expect("it reads");
    // What comes out shows that it runs.
    assert!(output.lines().next().is_some());
    let sent = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(sent.expect("kill runs").success());
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child") {
            break status;
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            panic!("it does not end");
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    assert_eq!(status.code(), Some(130));
    drop(input);
}
