//! `graphmill serve MODEL`.

use serde_json::json;

use crate::cli::support::{EMBED, MODEL, RERANK, Server, command, graphmill, path, text};

#[test]
fn a_model_answers_chats_and_completions_under_its_name() {
    let mut server = Server::start(&[MODEL, "--max_num_seqs", "4"], |_| ());
    server.says("ready after");
    let chat = server.post(
        "/v3/chat/completions",
        &json!({ "model": "model", "temperature": 0, "messages": [{ "role": "user", "content": "Say this is a test" }] }),
    );
    let said = chat["choices"][0]["message"]["content"].as_str();
    assert!(
        said.is_some_and(|said| said.to_lowercase().contains("test")),
        "{chat}"
    );
    let continued = server.post(
        "/v3/completions",
        &json!({ "model": "model", "prompt": "What", "max_tokens": 3 }),
    );
    assert_eq!(continued["usage"]["completion_tokens"], 3, "{continued}");
    let status = server.get("/v3/status");
    assert_eq!(status["graphs"][0]["name"], "model");
    assert_eq!(
        status["engines"][0]["effective"]["max_num_seqs"], 4,
        "{status}"
    );
}

#[test]
fn models_that_embed_and_rank_get_the_graphs_for_that() {
    let mut server = Server::start(
        &["--model_path", EMBED, "--model_name", "org/vectors"],
        |_| (),
    );
    server.says("ready after");
    let answer = server.post(
        "/v3/embeddings",
        &json!({ "model": "org/vectors", "input": "a cat" }),
    );
    assert!(answer["data"][0]["embedding"].is_array(), "{answer}");
    let mut server = Server::start(&[RERANK], |_| ());
    server.says("ready after");
    let body = json!({ "model": "rerank", "query": "cats", "documents": ["a cat", "a house"] });
    let answer = server.post("/v3/rerank", &body);
    assert_eq!(
        answer["results"].as_array().map(Vec::len),
        Some(2),
        "{answer}"
    );
}

#[test]
fn the_current_folder_is_served_where_nothing_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = folder.path().join("mine.script.json");
    std::fs::write(&model, "{}").expect("writable");
    let graph = graphmill(&["serve", path(&model), "--emit_graph"]);
    std::fs::create_dir(folder.path().join("chat")).expect("writable");
    std::fs::write(folder.path().join("chat/graph.pbtxt"), &graph.stdout).expect("writable");
    let config = r#"{ "model_config_list": [{ "config": { "name": "chat" } }] }"#;
    std::fs::write(folder.path().join("config.json"), config).expect("writable");
    let mut server = Server::start(&[], |command| {
        command.current_dir(folder.path());
    });
    server.says("ready after");
    assert_eq!(server.get("/v3/models")["data"][0]["id"], "chat");
    // The folder of one graph, by itself.
    let chat = folder.path().join("chat");
    let mut server = Server::start(&[path(&chat), "--model_name", "one"], |_| ());
    server.says("ready after");
    assert_eq!(server.get("/v3/models")["data"][0]["id"], "one");
}

#[test]
fn the_graph_of_a_model_is_printed_and_is_right() {
    let folder = tempfile::tempdir().expect("a folder");
    for (model, flags, has) in [
        (
            MODEL,
            &[
                "--cache-size",
                "1",
                "--target_device",
                "CPU",
                "--tool_parser",
                "hermes",
                "--enable_prefix_caching",
                "false",
                "--kv_cache_precision",
                "f16",
            ][..],
            &[
                "cache_size: 1",
                "device: \"CPU\"",
                "tool_parser: \"hermes\"",
                "enable_prefix_caching: false",
                r#"plugin_config: "{\"KV_CACHE_PRECISION\":\"f16\"}""#,
            ][..],
        ),
        (
            MODEL,
            &["--draft_source_model", MODEL],
            &["draft_models_path: \"/"],
        ),
        (
            MODEL,
            &[
                "--device_map",
                "cuda:1",
                "--max_input_tokens",
                "9",
                "--enable-prompt-embeds",
                "--temperature",
                "0.5",
                "--top_k",
                "-1",
                "--max_new_tokens",
                "7",
            ],
            &[
                "device: \"GPU.1\"",
                "max_input_tokens: 9",
                "prompt_embeds: true",
                "graphmill.OpenAIRequestCalculatorOptions] {\n      temperature: 0.5\n      top_k: -1\n      max_tokens: 7\n",
            ],
        ),
        (
            EMBED,
            &["--target_device", "CPU"],
            &["EmbeddingsCalculatorOV", "target_device: \"CPU\""],
        ),
        (RERANK, &[], &["RerankCalculatorOV"]),
        (
            MODEL,
            &["--task", "embeddings"],
            &["EmbeddingsCalculatorOV"],
        ),
    ] {
        let output = graphmill(&[&["serve", model, "--emit_graph"], flags].concat());
        let graph = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        for part in has {
            assert!(graph.contains(part), "{part} in {graph}");
        }
        let file = folder.path().join("graph.pbtxt");
        std::fs::write(&file, &graph).expect("writable");
        for verb in [&["check"][..], &["fmt", "--check"]] {
            let output = graphmill(&[verb, &[path(&file)]].concat());
            let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
            assert_eq!(output.status.code(), Some(0), "{verb:?} {graph}\n{said}");
        }
    }
}

#[test]
fn a_graph_that_would_not_be_loaded_is_not_printed() {
    for (flags, said) in [
        (
            ["--max_num_seqs", "0"],
            "0 is out of range for `max_num_seqs`",
        ),
        (
            ["--max_num_batched_tokens", "1"],
            "1 is out of range for `max_num_batched_tokens`",
        ),
        (["--tool_parser", "foo"], "`foo` is not a format"),
        (["--plugin_config", r#"{"threds": 1}"#], "threds"),
        (["--target_device", "NPU"], "unknown device `NPU`"),
        (["--pipeline_type", "FOO"], "FOO"),
        (["--kv_cache_precision", "u9"], "u9"),
    ] {
        let output = graphmill(&[&["serve", MODEL, "--emit_graph"][..], &flags].concat());
        let shown = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{flags:?} {shown}");
        assert_eq!(text(&output.stdout), "", "{flags:?}");
        assert!(shown.contains(said), "{said} in {shown}");
    }
}

#[test]
fn a_graph_file_gives_its_graph_a_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let home = folder.path().join("home");
    std::fs::create_dir(&home).expect("writable");
    let pass = r#"
        input_stream: "in"
        output_stream: "out"
        node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" }
    "#;
    for (file, name) in [("same.pbtxt", "same"), ("graph.pbtxt", "home")] {
        std::fs::write(home.join(file), pass).expect("writable");
        for file in [file, path(&home.join(file))] {
            let mut server = Server::start(&[file], |command| {
                command.current_dir(&home);
            });
            server.says("ready after");
            assert_eq!(server.get("/v3/models")["data"][0]["id"], name, "{file}");
        }
    }
}

#[test]
fn what_cannot_be_served_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let damaged = folder.path().join("damaged.gguf");
    std::fs::write(&damaged, "GGUF").expect("writable");
    let config = folder.path().join("config.json");
    std::fs::write(&config, r#"{ "model_config_list": [] }"#).expect("writable");
    let (damaged, config) = (path(&damaged), path(&config));
    for (arguments, said) in [
        (
            &["missing.gguf"][..],
            "cannot find `missing.gguf` (relative to `",
        ),
        (
            &["Qwen/Qwen3-0.6B"],
            "`Qwen/Qwen3-0.6B` is not in the cache, and HF_HUB_OFFLINE forbids",
        ),
        (&[damaged], "the file ends where"),
        (&[MODEL, "--max_num_seqs", "0"], "max_num_seqs"),
        (
            &[MODEL, "--plugin_config", "[]"],
            "`--plugin_config`: expected a JSON object",
        ),
        (
            &[MODEL, "--draft_source_model", "no.gguf"],
            "`--draft_source_model no.gguf`",
        ),
        (&[MODEL, "--model_name", "a/../b"], "has a segment"),
        (
            &[MODEL, "--weight-format", "int8"],
            "models are not converted: choose weights with `--quantization 4bit`",
        ),
        (
            &[EMBED, "--temperature", "1"],
            "`--temperature` is for models that generate",
        ),
        (
            &[EMBED, "--max_num_seqs", "4"],
            "`--max_num_seqs` is for models that generate",
        ),
        (
            &[config, "--max_num_seqs", "4"],
            "`--max_num_seqs` (or its variable) is for a model",
        ),
        (
            &[config, "--enable_prompt_embeds"],
            "has graphs: set the option in the file of a graph",
        ),
        (&[config, "--emit_graph"], "has its own graph"),
        (&[MODEL, "--config_path", config], "both name what to serve"),
        (
            &[MODEL, "--source_model", "a/b"],
            "MODEL and --source_model both name what to serve",
        ),
    ] {
        let mut serve = command(&[&["serve", "--rest_port", "0"], arguments].concat());
        let output = serve.env("HF_HUB_OFFLINE", "1").output().expect("it runs");
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(
            text(&output.stderr).contains(said),
            "{said} in {}",
            text(&output.stderr)
        );
    }
}
