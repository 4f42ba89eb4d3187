//! The binary: what it says and how it exits.

use std::{
    net::TcpListener,
    path::Path,
    process::{Command, Output},
};

use crate::rest::support::{CHAT, Setup};
use crate::serving::{Process, own_address};

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
        (
            r#"{"mediapipe_config_list":[["chat","/x","graph.pbtxt",""]]}"#,
            "`mediapipe_config_list[0]`: invalid type: array, expected an object",
        ),
        (
            r#"{"mediapipe_config_list": [{"name": "../chat"}]}"#,
            "`mediapipe_config_list[0].name` has a segment `.` or `..`",
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
        &["serve", "--rest_prt", "8000"][..],
        &["serve", "--config_path", "c", "--rest_port", "65536"],
        &[
            "serve",
            "--config_path",
            "c",
            "--allowed_origins",
            "https://chat.*.com",
        ],
        &["srve"],
    ] {
        let output = graphmill(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(!output.stderr.is_empty());
    }
}

#[test]
fn two_listeners_at_one_port_are_named() {
    let setup = Setup::new();
    let config = setup.path().join("config.json");
    std::fs::write(&config, r#"{"model_config_list": []}"#).expect("writable");
    let config = config.to_str().expect("UTF-8");
    for flag in ["--port", "--management_port"] {
        let output = graphmill(&[
            "serve",
            "--wait_for_models",
            "--config_path",
            config,
            "--rest_port",
            "9",
            flag,
            "9",
        ]);
        assert_eq!(output.status.code(), Some(1));
        let said = text(&output.stderr);
        let expected = format!("`--rest_port` and `{flag}` both listen at 127.0.0.1:9");
        assert!(said.contains(&expected), "{said}");
    }
}

#[test]
fn a_port_that_is_taken_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let config = Setup::new()
        .graph("chat", CHAT)
        .script(&serde_json::json!({}));
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
        text(&output.stderr).contains(&format!("cannot listen on 127.0.0.1:{port}"))
            && text(&output.stderr).contains("any free one with `--rest_port 0`"),
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

#[test]
fn a_port_of_grpc_alone_is_told_apart_from_that_of_rest() {
    let setup = Setup::new();
    let config = setup.path().join("config.json");
    std::fs::write(&config, r#"{"model_config_list": []}"#).expect("writable");
    let config = config.to_str().expect("UTF-8");
    // No machine has this address, so nothing is served.
    let flags = ["--rest_bind_address", "192.0.2.1", "--port", "9"];
    let serve = ["serve", "--wait_for_models", "--config_path", config];
    for (rest_port, is_told) in [(&[][..], true), (&["--rest_port", "8000"][..], false)] {
        let output = graphmill(&[&serve[..], &flags, rest_port].concat());
        assert_eq!(output.status.code(), Some(1));
        let said = text(&output.stderr);
        let hint =
            "`--port` is the port of gRPC; REST is at 8000, and `--rest_port` chooses another";
        assert_eq!(said.contains(hint), is_told, "{said}");
    }
}

/// A server that is ready, with gRPC beside REST.
fn started(config: &Path, environment: &[(&str, &str)]) -> Process {
    let (address, port) = own_address();
    let grpc = ["--grpc_bind_address", &address, "--port", &port];
    let mut server = Process::start_as(config, &grpc, |command| {
        command.envs(environment.iter().copied())
    });
    server.says("ready after");
    server
}

#[test]
fn a_signal_stops_the_server_well() {
    let setup = Setup::new()
        .graph("chat", CHAT)
        .script(&serde_json::json!({}));
    let config = setup.config();
    for signal in ["-INT", "-TERM"] {
        let mut server = started(&config, &[]);
        let said = server.last_words();
        let listening = said.lines().find(|line| line.contains("listening on"));
        let listening = listening.expect("it says where it listens");
        assert!(
            listening.contains(" for REST, ") && listening.ends_with(" for gRPC"),
            "{said}"
        );
        assert!(said.contains("graph `chat` is available"), "{said}");
        // Its port was given.
        assert!(!said.contains("chooses another"), "{said}");
        server.signal(signal);
        assert_eq!(server.child.wait().expect("it ends").code(), Some(0));
    }
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
    let said = started(&setup.graph("chat", &graph).config(), &[]).last_words();
    for knob in ["gpu_layers", "tensor_split"] {
        let warning = format!("`{knob}` has no effect: no GPU takes part");
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
        let server = started(&config, environment);
        let path = format!("/proc/{}/environ", server.child.id());
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
            list.lines().any(|line| line.trim_start().starts_with(name)),
            "{name} in {list}"
        );
    }
    for group in ["Core: any graph", "Text", "HTTP", "Subgraphs"] {
        assert!(list.lines().any(|line| line == group), "{group} in {list}");
    }
    let some = text(&graphmill(&["calculators", "chattemplate"]).stdout);
    assert_eq!(some.lines().count(), 2, "{some}");
    assert!(
        some.starts_with("Text\n  ChatTemplateCalculator  "),
        "{some}"
    );
    let some = text(&graphmill(&["calculators", "hashing their words"]).stdout);
    assert!(some.contains("TextFeaturesCalculator"), "{some}");
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
    let described = text(&graphmill(&["describe", "OpenAIRequestCalculator"]).stdout);
    let options = "[type.googleapis.com/graphmill.OpenAIRequestCalculatorOptions]";
    assert!(described.contains(options), "{described}");
    let json = graphmill(&["describe", "LLMCalculator", "--format", "json"]).stdout;
    let json: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
    assert_eq!(json["name"], "LLMCalculator");
    assert!(json["options"]["properties"]["models_path"].is_object());
    let subgraph = text(&graphmill(&["describe", "HttpLLMCalculator"]).stdout);
    assert!(subgraph.contains("Expands to"), "{subgraph}");

    let output = graphmill(&["describe", "llm"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("`LLMCalculator`"));
    // Where one alone can be meant, it is described.
    for (written, meant) in [
        ("chattemplate", "ChatTemplateCalculator"),
        ("PasThrough", "PassThroughCalculator"),
    ] {
        let output = graphmill(&["describe", written]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert!(said.contains(&format!("this is `{meant}`")), "{said}");
        assert!(text(&output.stdout).starts_with(meant));
    }
}

#[test]
fn what_is_no_graph_to_describe_is_told_from_an_unknown_calculator() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path().to_str().expect("UTF-8");
    let missing = format!("{folder}/missing");
    for (name, said) in [
        ("nope.json", "`nope.json` does not exist"),
        ("nope.pbtxt", "nope.pbtxt"),
        (&missing, "missing` does not exist"),
        (folder, "is a directory"),
        ("/dev/null", "`/dev/null` is not a graph file"),
        (
            "NopeCalculator",
            "no calculator is called `NopeCalculator`; `graphmill calculators` lists them; your own nodes",
        ),
    ] {
        let output = graphmill(&["describe", name]);
        assert_eq!(output.status.code(), Some(1), "{name}");
        let why = text(&output.stderr);
        assert!(why.contains(said), "{name}: {why}");
        let is_file = !name.contains("Calculator");
        assert!(!is_file || !why.contains("no calculator"), "{name}: {why}");
    }
}

#[test]
fn a_server_that_has_nothing_to_serve_says_so_and_ends() {
    let empty = Setup::new();
    let broken = CHAT.replace("HttpLLMCalculator", "HttpLMCalculator");
    let missing = Setup::new().graph("chat", CHAT).graph("broken", &broken);
    for (setup, said) in [
        (&empty, "lists no graph".to_owned()),
        (&missing, "nothing to serve".to_owned()),
        (
            &missing,
            format!("{}/0/graph.pbtxt:15:24", missing.path().display()),
        ),
        (&missing, "did you mean `HttpLLMCalculator`?".to_owned()),
    ] {
        let config = setup.config();
        let config = config.to_str().expect("UTF-8");
        let arguments = [
            "serve",
            "--rest_bind_address",
            "127.0.0.1",
            "--rest_port",
            "0",
        ];
        let output = graphmill(&[&arguments[..], &["--config_path", config]].concat());
        assert_eq!(output.status.code(), Some(1));
        let stderr = text(&output.stderr);
        assert!(stderr.contains(&said), "{said} in {stderr}");
        let reason = "unknown calculator `HttpLMCalculator`";
        assert!(stderr.matches(reason).count() <= 1, "{stderr}");
    }
}

#[test]
fn a_server_serves_what_it_can() {
    let missing = CHAT.replace("model.script.json", "other.script.json");
    let setup = Setup::new()
        .graph("chat", CHAT)
        .graph("missing", &missing)
        .that(&serde_json::json!({ "optional": true }))
        .script(&serde_json::json!({}));
    let said = started(&setup.config(), &[]).last_words();
    assert!(said.contains("graph `missing` is not served"), "{said}");
}

#[test]
fn a_server_that_waits_for_models_serves_them_once_they_are_there() {
    let setup = Setup::new().graph("chat", CHAT);
    let mut server = Process::start(&setup.config(), &["--wait_for_models"]);
    let said = server.says("waits for a file");
    assert!(said.contains("model.script.json` does not exist"), "{said}");
    let setup = setup.script(&serde_json::json!({}));
    server.says("graph `chat` is available");
    drop(setup);
}

#[test]
fn check_finds_models_that_are_missing() {
    let embeddings = |calculator: &str, side: &str| {
        format!(
            r#"input_stream: "REQUEST_PAYLOAD:input"
output_stream: "RESPONSE_PAYLOAD:output"
node {{
  calculator: "{calculator}"
  input_side_packet: "{side}:servable"
  input_stream: "REQUEST_PAYLOAD:input"
  output_stream: "RESPONSE_PAYLOAD:output"
  node_options: {{
    [type.googleapis.com / mediapipe.{calculator}Options]: {{
      models_path: "./nowhere"
    }}
  }}
}}
"#
        )
    };
    let llm = |options: &str| CHAT.replace("models_path: \"../model.script.json\"", options);
    let there = "models_path: \"../model.script.json\"";
    let tiny = concat!(env!("CARGO_MANIFEST_DIR"), "/../demos/tiny_chat");
    let place = |graph: &str, value: &str| {
        let (line, text) = graph
            .lines()
            .enumerate()
            .find(|(_, text)| text.contains(value))
            .expect("it is written");
        format!(
            "{}:{}",
            line + 1,
            text.find(value).expect("it is there") + 1
        )
    };
    for (graph, marked) in [
        (
            llm("models_path: \"../missing.gguf\""),
            "\"../missing.gguf\"",
        ),
        (
            llm(&format!("{there} draft_models_path: \"draft\"")),
            "\"draft\"",
        ),
        (
            llm(&format!("{there} chat_template_file: \"t.jinja\"")),
            "\"t.jinja\"",
        ),
        (
            llm(&format!(
                "models_path: \"{tiny}/model.gguf\" lora_adapters {{ path: \"{tiny}/adapters/ahoy.gguf\" }} lora_adapters {{ path: \"b.gguf\" }}"
            )),
            "\"b.gguf\"",
        ),
        (
            embeddings("EmbeddingsCalculatorOV", "EMBEDDINGS_NODE_RESOURCES"),
            "\"./nowhere\"",
        ),
        (
            embeddings("RerankCalculatorOV", "RERANK_NODE_RESOURCES"),
            "\"./nowhere\"",
        ),
    ] {
        let setup = Setup::new()
            .graph("g", &graph)
            .script(&serde_json::json!({}));
        let file = setup.path().join("0/graph.pbtxt");
        let file = file.to_str().expect("UTF-8");
        let output = graphmill(&["check", file]);
        let said = text(&output.stderr);
        let place = format!("{file}:{}", place(&graph, marked));
        assert_eq!(output.status.code(), Some(1), "{marked}: {said}");
        assert!(
            said.contains(&place) && said.contains("GM0505"),
            "{place} in {said}"
        );
        assert!(
            said.contains("`graphmill check --skip_models` checks"),
            "{said}"
        );
        let skipped = graphmill(&["check", "--skip_models", file]);
        assert_eq!(skipped.status.code(), Some(0), "{}", text(&skipped.stderr));
    }
}

#[test]
fn a_missing_model_is_marked_where_its_path_is_written() {
    // Beside another mistake, and where the path comes from the options of a subgraph.
    let outer = r#"input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"
node {
  calculator: "MyChat"
  input_stream: "HTTP_REQUEST_PAYLOAD:input"
  output_stream: "HTTP_RESPONSE_PAYLOAD:output"
  node_options { [type.googleapis.com/x.MyOptions] { where: "./none" } }
}
"#;
    let mut inner = CHAT.replace("models_path: \"../model.script.json\",", "");
    inner = inner.replace(
        "calculator: \"HttpLLMCalculator\"",
        "calculator: \"HttpLLMCalculator\" option_value: \"models_path:options/where\"",
    );
    let inner = format!(
        "type: \"MyChat\" graph_options {{ [type.googleapis.com/x.MyOptions] {{}} }}\n{inner}"
    );
    let setup = Setup::new().graph("g", outer);
    std::fs::write(setup.path().join("0/inner.pbtxt"), &inner).expect("writable");
    let file = setup.path().join("0/graph.pbtxt");
    let file = file.to_str().expect("UTF-8");
    let said = text(&graphmill(&["check", file]).stderr);
    assert!(said.contains(&format!("{file}:7:61")), "{said}");
    std::fs::write(
        file,
        outer.replace("output_stream: \"HTTP_RES", "output_strem: \"HTTP_RES"),
    )
    .expect("writable");
    let said = text(&graphmill(&["check", file]).stderr);
    assert!(
        said.contains("GM0505") && said.contains("output_strem"),
        "{said}"
    );
}

#[test]
fn check_tells_good_files_from_bad_ones() {
    let bad = CHAT.replace("HttpLLMCalculator", "HttpLMCalculator");
    let setup = Setup::new()
        .graph("good", CHAT)
        .graph("bad", &bad)
        .script(&serde_json::json!({}));
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
fn files_may_begin_with_a_byte_order_mark() {
    let setup = Setup::new()
        .graph("chat", CHAT)
        .script(&serde_json::json!({}));
    let config = setup.config();
    for file in [&config, &setup.path().join("0/graph.pbtxt")] {
        let text = std::fs::read_to_string(file).expect("it was written");
        std::fs::write(file, format!("\u{feff}{text}")).expect("it can be written");
    }
    let checked = graphmill(&["check", config.to_str().expect("UTF-8")]);
    assert_eq!(checked.status.code(), Some(0), "{}", text(&checked.stderr));
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
