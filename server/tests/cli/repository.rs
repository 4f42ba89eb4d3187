//! `--list_models`, `--add_to_config`, `--remove_from_config`, and a whole repository that is served.

use std::fs;

use serde_json::Value;

use crate::cli::support::{DIGITS, MODEL, Server, command, graphmill, path, text};

#[test]
fn all_of_a_repository_is_served_or_one_by_its_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    let pass = r#"
        input_stream: "in"
        output_stream: "out"
        node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" }
    "#;
    fs::create_dir_all(root.join("org/chat")).expect("writable");
    fs::create_dir(root.join("same")).expect("writable");
    fs::copy(MODEL, root.join("org/chat/m.gguf")).expect("writable");
    fs::write(root.join("same/graph.pbtxt"), pass).expect("writable");
    // What lies in the current folder is not asked for.
    let here = tempfile::tempdir().expect("a folder");
    fs::write(here.path().join("config.json"), "{").expect("writable");
    let served = |flags: &[&str]| {
        let flags = [&["--model_repository_path", path(root)], flags].concat();
        let mut server = Server::start(&flags, |command| {
            command.current_dir(here.path());
        });
        server.says("ready after");
        let models = server.get("/v3/models")["data"].clone();
        let models = models.as_array().expect("a list").clone();
        models
            .iter()
            .map(|model| model["id"].as_str().expect("a name").to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(served(&[]), ["org/chat", "same"]);
    assert_eq!(served(&["--model_name", "same"]), ["same"]);
    // As Triton's command line has it.
    let of_triton = [
        "--load-model=same",
        "--model-control-mode=explicit",
        "--log-verbose=1",
    ];
    assert_eq!(served(&of_triton), ["same"]);
    for (root, said) in [
        (
            here.path().to_owned(),
            "no folder in it has a graph, a model or an archive",
        ),
        (root.join("nowhere"), "is not a folder"),
    ] {
        let flags = [
            "serve",
            "--rest_port",
            "0",
            "--model_repository_path",
            path(&root),
        ];
        let output = graphmill(&flags);
        assert_eq!(output.status.code(), Some(1));
        assert!(
            text(&output.stderr).contains(said),
            "{}",
            text(&output.stderr)
        );
    }
}

#[test]
fn a_folder_that_is_not_there_is_no_model_of_the_hub() {
    let folder = tempfile::tempdir().expect("a folder");
    let models = folder.path().join("models");
    fs::create_dir_all(models.join("chat")).expect("writable");
    fs::copy(MODEL, models.join("chat/m.gguf")).expect("writable");
    for (flags, said) in [
        (
            &["--model_repository_path", "models", "--model_name", "chta"][..],
            "`models` has no folder `chta`; did you mean `chat`? (it has `chat`)",
        ),
        (
            &[
                "--model_repository_path",
                "models",
                "--model_name",
                "chta",
                "--emit_graph",
            ],
            "`models` has no folder `chta`",
        ),
        (
            &["--model_repository_path", "models", "--models", "chat,chta"],
            "`models` has no folder `chta`",
        ),
        (
            &["models/chta"],
            "`models` has no `chta`; for the model on Hugging Face, write `hf.co/models/chta`",
        ),
    ] {
        let output = command(&[&["serve", "--rest_port", "0"], flags].concat())
            .current_dir(folder.path())
            .env("HF_HUB_OFFLINE", "1")
            .output()
            .expect("it runs");
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains(said), "{said} in {told}");
    }
}

#[test]
fn graphs_are_listed_added_and_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    for file in [
        "models/org/a/graph.pbtxt",
        "models/b/1/graph.pbtxt",
        "models/c/m.gguf",
        "models/d/x",
    ] {
        let file = root.join(file);
        fs::create_dir_all(file.parent().expect("a folder")).expect("writable");
        fs::write(file, "").expect("writable");
    }
    fs::copy(MODEL, root.join("models/c/m.gguf")).expect("writable");
    let models = root.join("models");
    for name in ["e", "f"] {
        fs::create_dir(models.join(name)).expect("writable");
    }
    fs::copy(DIGITS, models.join("e/model.onnx")).expect("writable");
    let archive = models.join("f/x.gmar");
    let packed = graphmill(&["pack", path(&models.join("c")), path(&archive)]);
    assert!(packed.status.success(), "{}", text(&packed.stderr));
    let listed = command(&["--list_models", "--model_repository_path", path(&models)])
        .env("XDG_CACHE_HOME", folder.path().join("cache"))
        .output()
        .expect("it runs");
    fs::remove_dir_all(folder.path().join("cache")).expect("it was unpacked");
    assert_eq!(
        text(&listed.stdout),
        "b\nc\ne\nf\norg/a\n",
        "{}",
        text(&listed.stderr)
    );

    let config = root.join("config.json");
    let edit = |flags: &[&str]| graphmill(&[&["--config_path", path(&config)], flags].concat());
    let added = edit(&[
        "--add_to_config",
        "--model_name",
        "org/a",
        "--model_repository_path",
        path(&models),
    ]);
    assert_eq!(added.status.code(), Some(0), "{}", text(&added.stderr));
    let c = root.join("models/c");
    let added = edit(&[
        "--add_to_config",
        "--model_name",
        "c",
        "--model_path",
        path(&c),
    ]);
    assert!(
        text(&added.stderr).contains("has no graph.pbtxt yet"),
        "{}",
        text(&added.stderr)
    );
    let read = || -> Value {
        serde_json::from_str(&fs::read_to_string(&config).expect("there")).expect("JSON")
    };
    assert_eq!(
        read()["model_config_list"][0]["config"]["base_path"],
        "models/org/a"
    );
    assert_eq!(read()["model_config_list"][1]["config"]["name"], "c");

    let again = edit(&[
        "--add_to_config",
        "--model_name",
        "c",
        "--model_path",
        path(&c),
    ]);
    assert_eq!(again.status.code(), Some(1));
    assert!(
        text(&again.stderr).contains("it already has a graph `c`"),
        "{}",
        text(&again.stderr)
    );
    assert_eq!(
        edit(&["--remove_from_config", "--model_name", "c"])
            .status
            .code(),
        Some(0)
    );
    let gone = edit(&["--remove_from_config", "--model_name", "c"]);
    assert!(
        text(&gone.stderr).contains("it has no graph `c`"),
        "{}",
        text(&gone.stderr)
    );
    assert_eq!(
        read()["model_config_list"].as_array().map(Vec::len),
        Some(1)
    );
    // Nothing is left beside it.
    let files = fs::read_dir(root).expect("readable").count();
    assert_eq!(files, 2);

    fs::write(&config, "{").expect("writable");
    let broken = edit(&["--remove_from_config", "--model_name", "c"]);
    assert!(
        text(&broken.stderr).contains("it is not a configuration"),
        "{}",
        text(&broken.stderr)
    );
    assert_eq!(fs::read_to_string(&config).expect("there"), "{");
}
