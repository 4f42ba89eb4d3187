//! The binary: what it says and how it exits.

use std::{
    io::{BufRead as _, BufReader},
    net::TcpListener,
    path::Path,
    process::{Child, Command, Output, Stdio},
};

use crate::support::{CHAT, Setup};

fn graphmill(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_graphmill"))
        .args(arguments)
        .output()
        .expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn serve(config: &Path) -> Output {
    graphmill(&[
        "serve",
        "--config_path",
        config.to_str().expect("UTF-8"),
        "--rest_port",
        "1",
    ])
}

#[test]
fn a_configuration_that_is_wrong_is_fatal() {
    let setup = Setup::new();
    let file = setup.path().join("config.json");
    for (content, said) in [
        ("{\n  \"model_config_list\": [],\n}", "config.json:3:1"),
        (
            "{\n  \"mediapipe_config_lst\": []\n}",
            "did you mean `mediapipe_config_list`?",
        ),
        (
            "{\"mediapipe_config_list\": [{\"base_path\": \"a\"}]}",
            "missing field `name`",
        ),
    ] {
        std::fs::write(&file, content).expect("writable");
        let output = serve(&file);
        assert_eq!(output.status.code(), Some(1));
        assert!(
            text(&output.stderr).contains(said),
            "{}",
            text(&output.stderr)
        );
    }
    let output = serve(&setup.path().join("missing.json"));
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("missing.json"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn a_command_line_that_is_wrong_is_a_usage_error() {
    for arguments in [
        &["serve"][..],
        &["serve", "--config_path", "c", "--rest_port", "0"],
        &["serve", "--rest_prt", "8000"],
        &["srve"],
    ] {
        let output = graphmill(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(!output.stderr.is_empty());
    }
}

#[test]
fn a_port_that_is_taken_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let config = Setup::new();
    let path = config.config();
    let arguments = [
        "serve",
        "--rest-bind-address",
        "127.0.0.1",
        "--rest-port",
        &port,
        "--config-path",
    ];
    let output = graphmill(&[&arguments[..], &[path.to_str().expect("UTF-8")]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains(&format!("cannot listen on 127.0.0.1:{port}")),
        "{}",
        text(&output.stderr)
    );
}

/// The calculators of a shipped graph, in the order in which packets pass them.
fn explained(graph: &str) -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../graphs")
        .join(graph)
        .join("graph.pbtxt");
    let output = graphmill(&["explain", "--format", "json", file.to_str().expect("UTF-8")]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let graph: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let nodes = graph["nodes"].as_array().expect("nodes");
    nodes
        .iter()
        .map(|node| node["calculator"].as_str().expect("a name").to_owned())
        .collect()
}

#[test]
fn the_embedded_graph_expands_to_the_nodes_of_the_open_one() {
    let open = explained("chat");
    assert_eq!(open.len(), 12);
    assert_eq!(explained("ovms_llm"), open);
}

#[test]
fn check_reports_what_is_wrong_with_names_and_options_together() {
    let setup = Setup::new();
    let file = setup.path().join("graph.pbtxt");
    let graph =
        "input_stream: \"Wrong\"\nnode { calculator: \"LLMCalculater\" }\nmax_queue_sise: 3\n";
    std::fs::write(&file, graph).expect("writable");
    let output = graphmill(&["check", file.to_str().expect("UTF-8")]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    for part in [
        "graph.pbtxt:1:16",
        "did you mean `LLMCalculator`?",
        "did you mean `max_queue_size`?",
    ] {
        assert!(said.contains(part), "{said}");
    }
}

/// A server that does not outlive its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Fails when it has ended, which is what should be.
        let _ = self.0.kill();
    }
}

/// A server that is ready, and what it said until then.
///
/// Its log has to be kept while it runs: it cannot write to a pipe that nobody reads.
fn started(config: &Path, environment: &[(&str, &str)]) -> (Running, String, impl Sized + use<>) {
    started_until("ready after", config, environment)
}

/// A server that has said this.
fn started_until(
    wanted: &str,
    config: &Path,
    environment: &[(&str, &str)],
) -> (Running, String, impl Sized + use<>) {
    // A free port may be taken by another program before the server has it; then the server says so and the test fails.
    let port = TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("a port")
        .port();
    let server = Command::new(env!("CARGO_BIN_EXE_graphmill"))
        .envs(environment.iter().copied())
        .args([
            "--rest_port",
            &port.to_string(),
            "--port",
            "9000",
            "--rest_bind_address",
            "127.0.0.1",
            "--config_path",
        ])
        .arg(config)
        .stderr(Stdio::piped())
        .spawn();
    let mut server = Running(server.expect("it runs"));
    let mut log = BufReader::new(server.0.stderr.take().expect("piped")).lines();
    let mut said = String::new();
    while !said.contains(wanted) {
        let line = log
            .next()
            .unwrap_or_else(|| panic!("it ended:\n{said}"))
            .expect("text");
        said.push_str(&line);
        said.push('\n');
        assert!(!said.contains("not ready"), "{said}");
    }
    (server, said, log)
}

#[test]
fn a_signal_stops_the_server_well() {
    let setup = Setup::new()
        .graph("chat", CHAT)
        .script(&serde_json::json!({}));
    let config = setup.config();
    for signal in ["-INT", "-TERM"] {
        let (mut server, said, _log) = started(&config, &[]);
        assert!(
            said.contains("gRPC is not built") && said.contains("graph `chat` is available"),
            "{said}"
        );
        let killed = Command::new("kill")
            .args([signal, &server.0.id().to_string()])
            .status()
            .expect("kill runs");
        assert!(killed.success());
        assert_eq!(server.0.wait().expect("it ends").code(), Some(0));
    }
}

#[test]
fn a_signal_while_models_are_loaded_stops_the_server_well() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../demos/tiny_chat/model.gguf");
    let mut setup = Setup::new();
    // Each a model of its own, so that there are always some to load.
    for number in 0..40 {
        let model = format!("model-{number}.gguf");
        std::fs::copy(&file, setup.path().join(&model)).expect("writable");
        let graph = CHAT.replace("model.script.json", &model);
        setup = setup.graph(&format!("chat-{number}"), &graph);
    }
    let (mut server, ..) = started_until("listening on", &setup.config(), &[]);
    let killed = Command::new("kill")
        .args(["-TERM", &server.0.id().to_string()])
        .status()
        .expect("kill runs");
    assert!(killed.success());
    assert_eq!(server.0.wait().expect("it ends").code(), Some(0));
}

/// Builds for GPUs may have one.
#[cfg(not(any(feature = "cuda", feature = "vulkan", feature = "metal")))]
#[test]
fn knobs_for_gpus_where_there_is_none_are_warned_of() {
    let setup = Setup::new();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../demos/tiny_chat/model.gguf");
    std::fs::copy(&file, setup.path().join("model.gguf")).expect("writable");
    let graph = CHAT.replace(
        "model.script.json\"",
        "model.gguf\" plugin_config: '{\"gpu_layers\": 20, \"tensor_split\": [3, 1]}'",
    );
    let (_server, said, _log) = started(&setup.graph("chat", &graph).config(), &[]);
    for knob in ["gpu_layers", "tensor_split"] {
        let warning = format!("`{knob}` does nothing: no GPU takes part");
        assert!(said.contains(&warning), "{said}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn how_long_threads_spin_is_limited_unless_the_environment_says() {
    let setup = Setup::new()
        .graph("chat", CHAT)
        .script(&serde_json::json!({}));
    let config = setup.config();
    let limit = |environment: &[(&str, &str)]| {
        let (server, _, _log) = started(&config, environment);
        let path = format!("/proc/{}/environ", server.0.id());
        let environment = text(&std::fs::read(path).expect("readable"));
        environment
            .split('\0')
            .find_map(|variable| variable.strip_prefix("GOMP_SPINCOUNT="))
            .map(str::to_owned)
    };
    let chosen: u64 = limit(&[])
        .expect("a limit")
        .parse()
        .expect("a number of turns");
    assert!((1..300_000).contains(&chosen), "{chosen}");
    assert_eq!(limit(&[("GOMP_SPINCOUNT", "7")]).as_deref(), Some("7"));
    assert_eq!(limit(&[("OMP_WAIT_POLICY", "passive")]), None);
}

#[test]
fn calculators_are_listed_and_described() {
    let output = graphmill(&["calculators"]);
    let list = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0));
    for name in [
        "LLMCalculator ",
        "ChatTemplateCalculator ",
        "HttpLLMCalculator ",
    ] {
        assert!(
            list.lines().any(|line| line.starts_with(name)),
            "{name} in {list}"
        );
    }
    let some = text(&graphmill(&["calculators", "chat"]).stdout);
    assert_eq!(some.lines().count(), 1, "{some}");
    assert_eq!(
        graphmill(&["calculators", "nonesuch"]).status.code(),
        Some(1)
    );

    let described = text(&graphmill(&["describe", "LLMCalculator"]).stdout);
    for part in [
        "Input streams",
        "TOKENS",
        "LOOPBACK",
        "Output streams",
        "Options",
        "models_path: string",
        "calculator: \"LLMCalculator\"",
        "Called by the",
    ] {
        assert!(described.contains(part), "{part} in {described}");
    }
    let json = graphmill(&["describe", "LLMCalculator", "--format", "json"]).stdout;
    let json: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
    assert_eq!(json["name"], "LLMCalculator");
    assert!(json["options"]["properties"]["models_path"].is_object());
    let subgraph = text(&graphmill(&["describe", "HttpLLMCalculator"]).stdout);
    assert!(subgraph.contains("Expands to"), "{subgraph}");

    let output = graphmill(&["describe", "LLMCalculater"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("did you mean `LLMCalculator`?"));
}

#[test]
fn check_tells_good_files_from_bad_ones() {
    let setup = Setup::new().graph("good", CHAT).graph(
        "bad",
        &CHAT.replace("HttpLLMCalculator", "HttpLMCalculator"),
    );
    let config = setup.config();
    let check = |path: &Path| graphmill(&["check", path.to_str().expect("UTF-8")]);
    let good = check(&setup.path().join("0/graph.pbtxt"));
    assert_eq!(good.status.code(), Some(0), "{}", text(&good.stderr));
    for bad in [config, setup.path().join("1/graph.pbtxt")] {
        let output = check(&bad);
        assert_eq!(output.status.code(), Some(1));
        let said = text(&output.stderr);
        assert!(
            said.contains("1/graph.pbtxt:6:19") && said.contains("HttpLLMCalculator"),
            "{said}"
        );
    }
    assert_eq!(
        check(&setup.path().join("missing.pbtxt")).status.code(),
        Some(1)
    );
}

#[test]
fn explain_expands_the_published_node() {
    let setup = Setup::new().graph("chat", CHAT);
    let file = setup.path().join("0/graph.pbtxt");
    let output = graphmill(&["explain", file.to_str().expect("UTF-8")]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    for calculator in [
        "OpenAIRequestCalculator",
        "ChatTemplateCalculator",
        "TokenizerCalculator",
        "LLMCalculator",
        "DetokenizerCalculator",
        "StopStringCalculator",
        "OpenAIResponseCalculator",
    ] {
        assert_eq!(
            shown.matches(&format!("({calculator})")).count(),
            1,
            "{shown}"
        );
    }
    assert!(
        shown
            .lines()
            .any(|line| line.contains("LOOPBACK") && line.ends_with("back edge")),
        "{shown}"
    );
}
