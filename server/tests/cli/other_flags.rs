//! Flags of llama-server and vLLM that mean the same here.

use serde_json::json;

use crate::cli::support::{MODEL, Server, answer, graphmill, text};

/// The graph that is printed for a command line.
fn graph(flags: &[&str]) -> String {
    let output = graphmill(&[flags, &["--emit_graph"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn a_command_line_of_llama_server_makes_the_same_graph_as_one_of_this_program() {
    let theirs = graph(&[
        "-m",
        MODEL,
        "-c",
        "64",
        "-np",
        "2",
        "-b",
        "32",
        "-ub",
        "16",
        "-t",
        "1",
        "-tb",
        "1",
        "-fa",
        "off",
        "-ctk",
        "f16",
        "-ctv",
        "f16",
        "-n",
        "7",
        "--temp",
        "0.5",
        "--repeat-penalty",
        "1.1",
        "--jinja",
        "-cb",
    ]);
    let knobs = json!({
        "threads": 1, "batch_threads": 1, "ubatch": 16, "flash_attention": "off", "kv_type_k": "f16", "kv_type_v": "f16",
    });
    let ours = graph(&[
        "serve",
        MODEL,
        "--max_context",
        "64",
        "--max_num_seqs",
        "2",
        "--max_num_batched_tokens",
        "32",
        "--plugin_config",
        &knobs.to_string(),
        "--max_new_tokens",
        "7",
        "--temperature",
        "0.5",
        "--repetition_penalty",
        "1.1",
    ]);
    assert_eq!(theirs, ours);
    assert!(
        theirs.contains("max_context: 64") && theirs.contains("flash_attention"),
        "{theirs}"
    );
    let theirs = graph(&[
        "--model",
        MODEL,
        "--max-model-len",
        "64",
        "--max-num-seqs",
        "2",
    ]);
    let ours = graph(&["serve", MODEL, "--max_context", "64", "--max_num_seqs", "2"]);
    assert_eq!(theirs, ours);
}

#[test]
fn layers_are_on_a_gpu_where_there_is_one() {
    let usual = graph(&["serve", MODEL]);
    assert_eq!(graph(&["-m", MODEL, "-ngl", "0", "-c", "0"]), usual);
    for layers in ["all", "auto", "-1"] {
        let graph = graph(&["-m", MODEL, "-ngl", layers]);
        assert!(
            graph.contains("device: \"AUTO\"") && !graph.contains("gpu_layers"),
            "{graph}"
        );
    }
    let some = graph(&["-m", MODEL, "--n-gpu-layers", "5"]);
    assert!(
        some.contains("device: \"AUTO\"") && some.contains(r#"\"gpu_layers\":5"#),
        "{some}"
    );
    let named = graph(&["-m", MODEL, "-ngl", "5", "--target_device", "GPU"]);
    assert!(named.contains("device: \"GPU\""), "{named}");
}

#[test]
fn a_wrong_value_names_the_flag() {
    for (flags, named) in [
        (&["-ngl", "many"][..], "--n_gpu_layers"),
        (&["-fa", "perhaps"], "--flash_attn"),
        (&["-np", "-1"], "--max_num_seqs"),
        (&["--api-key", "one,two"], "--api_key"),
        (
            &["--api-key", "one", "--api-key-file", "keys.json"],
            "--api_key_file",
        ),
    ] {
        let refused = graphmill(&[&["serve", MODEL], flags].concat());
        let said = text(&refused.stderr);
        assert!(
            !refused.status.success() && said.contains(named),
            "{flags:?}: {said}"
        );
    }
}

#[test]
fn a_key_and_a_name_are_given_on_the_command_line() {
    let flags = [
        "-m",
        MODEL,
        "--served-model-name",
        "tiny",
        "--host",
        "127.0.0.1",
        "--api-key",
        "secret",
        "--no-webui",
        "-c",
        "64",
    ];
    let mut server = Server::start(&flags, |_| ());
    server.says("ready after");
    let body = json!({ "model": "tiny", "prompt": "Hi", "max_tokens": 1 });
    let refused = server.post("/v1/completions", &body);
    assert_eq!(refused["error"]["code"], "invalid_api_key", "{refused}");
    let request = crate::http::client().post(format!("{}/v1/completions", server.url));
    let answered = answer(request.bearer_auth("secret").json(&body));
    assert_eq!(
        (&answered["model"], answered["choices"].is_array()),
        (&json!("tiny"), true)
    );
}
