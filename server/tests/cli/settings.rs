//! Flags of OpenVINO Model Server, variables of the environment, and the file of the log.

use std::{fs, process::Command};

use serde_json::json;

use crate::cli::support::{Server, command, graphmill, path, text};
use crate::serving::{CHAT, Graphs};

fn scripted() -> Graphs {
    let mut graphs = Graphs::new();
    graphs.add("chat", CHAT);
    fs::write(graphs.path().join("model.script.json"), "{}").expect("writable");
    graphs
}

#[test]
fn flags_without_effect_are_warned_of_and_unknown_ones_are_errors() {
    let graphs = scripted();
    let config = graphs.config();
    let flags = [
        "--config_path",
        path(&config),
        "--rest-workers",
        "8",
        "--metrics_enable",
        "--grpc_workers",
        "1",
        // As command lines of LightLLM have them.
        "--tp",
        "1",
        "--max_total_token_num",
        "120000",
    ];
    let mut server = Server::start(&flags, |_| ());
    let said = server.says("ready after");
    for flag in [
        "rest_workers",
        "metrics_enable",
        "grpc_workers",
        "tp",
        "max_total_token_num",
    ] {
        assert_eq!(
            said.matches(&format!("`--{flag}` has no effect:")).count(),
            1,
            "{said}"
        );
    }
    let flags = [
        "serve",
        "--session-len",
        "64",
        "--cache-max-entry-count",
        "0.5",
    ];
    let refused = graphmill(&flags);
    assert!(!refused.status.success());
    let why = text(&refused.stderr);
    let named = "`--cache_max_entry_count` is not available";
    assert!(why.contains(named) && why.contains("--cache_size"), "{why}");
    let output = graphmill(&["serve", "--rest_wokers", "8"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("--rest_workers"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn the_environment_gives_flags_and_the_command_line_counts_more() {
    let graphs = scripted();
    let config = graphs.config();
    let mut server = Server::start(&["--log_level", "INFO"], |command| {
        command
            .env_remove("GRAPHMILL_SHARED") // names the reference files of other tests
            .env("GRAPHMILL_CONFIG_PATH", &config)
            .env("GRAPHMILL_LOG_LEVEL", "ERROR")
            .env("GRAPHMILL_WAIT_FOR_MODELS", "1")
            .env("GRAPHMILL_REST_BIND_ADDRESS", "127.0.0.1,127.0.0.2")
            .env("GRAPHMILL_REST_PROT", "1")
            .env("GRAPHMILL_PORT", "tcp://10.0.0.1:8000")
            .env("GRAPHMILL_PORT_8000_TCP_PORT", "8000")
            .env("GRAPHMILL_SERVICE_PORT", "8000")
            .env("GRAPHMILL_MANAGEMENT_PORT", "tcp://10.0.0.1:9000")
            .env("GRAPHMILL_FLAGS", "--port 1")
            .env("GRAPHMILL_EMIT_GRAPH", "1")
            .env("MODEL_PATH", "model.gguf")
            .env("GRAPHMILL_LOG_PATH", "");
    });
    let said = server.says("ready after");
    for why in [
        "`GRAPHMILL_REST_PROT` has no effect: did you mean `GRAPHMILL_REST_PORT`?",
        "`GRAPHMILL_EMIT_GRAPH` has no effect: `--emit_graph` is read only from the command line",
        "`MODEL_PATH` has no effect: did you mean `GRAPHMILL_MODEL_PATH`?",
    ] {
        assert!(said.contains(why), "{why} in {said}");
    }
    // Neither what Kubernetes says of services, nor what the packaged service passes on.
    assert_eq!(said.matches("has no effect").count(), 3, "{said}");
    assert!(said.contains(" and http://127.0.0.2:"), "{said}");
    assert!(!said.contains("gRPC"), "{said}");

    let wrong = command(&["serve", path(&config)])
        .env("GRAPHMILL_REST_PORT", "x")
        .output();
    let wrong = wrong.expect("it runs");
    assert_eq!(wrong.status.code(), Some(2));
    assert!(
        text(&wrong.stderr).contains("--rest_port"),
        "{}",
        text(&wrong.stderr)
    );
    // A configuration on the command line counts more than a model in the environment.
    let mut server = Server::start(&["--config_path", path(&config)], |command| {
        command.env("GRAPHMILL_MODEL_PATH", "missing.gguf");
    });
    let said = server.says("ready after");
    let why = "`GRAPHMILL_MODEL_PATH` has no effect: the command line names what to serve";
    assert!(said.contains(why), "{said}");
    // So does a model, than a configuration.
    let missing = command(&["serve", "missing.gguf"])
        .env("GRAPHMILL_CONFIG_PATH", &config)
        .output();
    assert!(text(&missing.expect("it runs").stderr).contains("cannot find `missing.gguf`"));
}

#[test]
fn the_log_goes_to_a_file_that_is_opened_again() {
    let graphs = scripted();
    let config = graphs.config();
    let (log, moved) = (graphs.path().join("log"), graphs.path().join("log.1"));
    let server = Server::start(
        &["--config_path", path(&config), "--log_path", path(&log)],
        |_| (),
    );
    let until = |words: &str| {
        let found = || fs::read_to_string(&log).is_ok_and(|text| text.contains(words));
        let deadline = std::time::Instant::now() + std::time::Duration::from_mins(1);
        while !found() {
            assert!(
                std::time::Instant::now() < deadline,
                "{words} in {:?}",
                fs::read_to_string(&log)
            );
            std::thread::yield_now();
        }
    };
    until("ready after");
    fs::rename(&log, &moved).expect("movable");
    server.signal("-USR1");
    until("reopened the log file");
    assert!(
        !fs::read_to_string(&log)
            .expect("there")
            .contains("ready after")
    );
    let nowhere = graphs.path().join("nowhere/log");
    let output = graphmill(&["--config_path", path(&config), "--log_path", path(&nowhere)]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("cannot write the log"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn what_has_no_end_is_not_read() {
    let graphs = scripted();
    let config = graphs.config();
    let pipe = graphs.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo runs").success());
    let (config, pipe) = (path(&config), path(&pipe));
    for flags in [
        &["--config_path", pipe][..],
        &["--config_path", config, "--api_key_file", pipe],
        &[
            "--config_path",
            config,
            "--tls_cert_file",
            pipe,
            "--tls_key_file",
            pipe,
        ],
    ] {
        let output = graphmill(&[&["serve", "--rest_port", "0"], flags].concat());
        assert!(!output.status.success(), "{flags:?}");
        let said = text(&output.stderr);
        assert!(
            said.contains("is neither a file nor a link to one"),
            "{said}"
        );
    }
}

#[test]
fn the_log_says_where_a_socket_is() {
    let graphs = scripted();
    let socket = graphs.path().join("graphmill.sock");
    let (config, at) = (graphs.config(), path(&socket));
    let mut server = Server::start(
        &["--config_path", path(&config), "--unix_socket", at],
        |_| {},
    );
    let said = server.says("listening on");
    assert!(said.contains(&format!(", `{at}` for REST")), "{said}");
}

#[test]
fn a_misspelled_variable_is_told_of_where_there_is_nothing_to_serve() {
    let empty = tempfile::tempdir().expect("a folder");
    let output = command(&["serve"])
        .current_dir(empty.path())
        .env("GRAPHMILL_MODLE_PATH", "model.gguf")
        .output();
    let said = text(&output.expect("it runs").stderr);
    assert!(
        said.contains("did you mean `GRAPHMILL_MODEL_PATH`?"),
        "{said}"
    );
    assert!(said.contains("there is nothing to serve in"), "{said}");
}

#[test]
fn a_checkpoint_in_another_format_is_told_of() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in [
        ("config.json", "{\"model_type\": \"llama\"}"),
        ("model.safetensors", ""),
    ] {
        std::fs::write(folder.path().join(name), text).expect("writable");
    }
    let output = graphmill(&["serve", path(folder.path())]);
    let said = text(&output.stderr);
    assert!(
        said.contains("model.safetensors` is a model in another format"),
        "{said}"
    );
    assert_eq!(output.status.code(), Some(1), "{said}");
}

#[test]
fn variables_without_a_prefix_count_where_one_says_what_is_served() {
    let graphs = scripted();
    let script = graphs.path().join("model.script.json");
    let bare = [
        ("MODEL_PATH", path(&script)),
        ("MODEL_NAME", "llama"),
        ("DEVICE_MAP", "auto"),
        ("DTYPE", "bfloat16"),
        ("QUANTIZATION", "None"),
        ("MAX_INPUT_TOKENS", "300"),
        ("MAX_NEW_TOKENS", "3"),
    ];
    let mut server = Server::start(&[], |command| {
        command.envs(bare).env("GRAPHMILL_MAX_NEW_TOKENS", "2");
    });
    let said = server.says("ready after");
    assert!(said.contains("`--dtype` has no effect"), "{said}");
    assert_eq!(said.matches("has no effect").count(), 1, "{said}");
    let ask = |prompt: &str| {
        server.post(
            "/v3/completions",
            &json!({ "model": "llama", "prompt": prompt }),
        )
    };
    assert_eq!(ask("a")["usage"]["completion_tokens"], 2);
    let refused = ask(&"word ".repeat(400));
    assert_eq!(
        refused["error"]["code"], "context_length_exceeded",
        "{refused}"
    );
    let message = refused["error"]["message"].as_str().unwrap_or_default();
    assert!(
        message.contains("the graph takes at most 300 (max_input_tokens)"),
        "{message}"
    );
    // A model on the command line leaves them to other programs.
    let mut server = Server::start(&[path(&script)], |command| {
        command.envs(bare);
    });
    server.says("did you mean `GRAPHMILL_MODEL_PATH`?");
    server.says("ready after");
    assert_eq!(server.get("/v3/models")["data"][0]["id"], "model.script");
}
