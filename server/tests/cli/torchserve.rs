//! Configurations and command lines of TorchServe, and archives.

use std::{fs, path::Path};

use crate::cli::support::{MODEL, Server, graphmill, path, text};
use crate::serving::CHAT;

/// A store with two models, and the names of those that are served.
fn store() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["llama2-7b-chat", "other"] {
        let store = folder.path().join("model-store").join(name);
        fs::create_dir_all(&store).expect("writable");
        fs::copy(MODEL, store.join("model.gguf")).expect("writable");
    }
    folder
}

fn served(server: &Server) -> Vec<String> {
    let models = server.get("/v3/models")["data"].clone();
    let models = models.as_array().expect("a list").iter();
    models
        .map(|model| model["id"].as_str().expect("a name").to_owned())
        .collect()
}

#[test]
fn properties_say_what_is_served_and_what_has_no_effect() {
    let folder = store();
    let file = folder.path().join("config.properties");
    let properties = "enable_envvars_config=true\ninstall_py_dep_per_model=true\n\
        max_request_size=655350000\ndefault_response_timeout=600\nmodel_store=model-store\n\
        load_models=all\n";
    fs::write(&file, properties).expect("writable");
    let flags = [
        "--start",
        "--foreground",
        "--ncs",
        "--ts-config",
        "config.properties",
        "--model-store",
        "model-store",
        "--models",
        "llama2-7b-chat,second=other",
    ];
    let mut server = Server::start(&flags, |command| {
        command
            .current_dir(folder.path())
            .env("TS_MAX_REQUEST_SIZE", "1000");
    });
    let said = server.says("ready after");
    for why in [
        "`--ncs` has no effect",
        "`config.properties`: `install_py_dep_per_model` has no effect: no Python",
        "`config.properties`: `default_response_timeout` has no effect",
    ] {
        assert!(said.contains(why), "{why}: {said}");
    }
    assert!(!said.contains("enable_envvars_config"), "{said}");
    assert_eq!(served(&server), ["llama2-7b-chat", "second"]);
    let refused = server.post("/predictions/second", &"a".repeat(2000).into());
    assert_eq!(refused["code"], 413, "{refused}");
    drop(server);
    let mut server = Server::start(&["config.properties"], |command| {
        command.current_dir(folder.path());
    });
    server.says("ready after");
    assert_eq!(served(&server), ["llama2-7b-chat", "other"]);
}

#[test]
fn what_is_wrong_with_a_store_is_named() {
    let folder = store();
    let store = folder.path().join("model-store");
    fs::write(store.join("my_llm.mar"), "PK").expect("writable");
    let file = folder.path().join("config.properties");
    fs::write(&file, "inference_address=8080\n").expect("writable");
    let store = path(&store).to_owned();
    for (flags, why) in [
        (
            &["--model-store", &store, "--models", "my_llm=my_llm.mar"][..],
            "archives of TorchServe",
        ),
        (
            &["--model-store", &store, "--models", "nobody"],
            "has no folder `nobody`",
        ),
        (
            &["--model-store", &store, "--models", "other,other"],
            "twice",
        ),
        (&["--models", "other"], "--model_repository_path"),
        (&["--stop"], "SIGTERM"),
        (
            &["--ts_config", "no.properties"],
            "cannot read `no.properties`",
        ),
        (&["--ts_config", path(&file)], "expected an address"),
    ] {
        let output = graphmill(&[&["serve"], flags].concat());
        let said = text(&output.stderr);
        assert!(
            !output.status.success() && said.contains(why),
            "{flags:?}: {said}"
        );
    }
    let checked = graphmill(&["check", path(&file)]);
    let said = text(&checked.stderr);
    assert!(
        !checked.status.success() && said.contains("expected an address"),
        "{said}"
    );
    fs::write(&file, "grpc_inference_port=abc\njob_queue_size=3\n").expect("writable");
    let output = graphmill(&["serve", path(&file)]);
    let said = text(&output.stderr);
    for part in ["expected a whole number", "`grpc_inference_port` in `"] {
        assert!(said.contains(part), "{part} in {said}");
    }
    for (properties, succeeds, part) in [
        (
            "grpc_inference_port=abc",
            false,
            "expected a whole number; the value is from `grpc_inference_port` in `",
        ),
        ("model_store=nowhere", false, "`nowhere` is not a folder"),
        (
            &format!("model_store={store}\nload_models=nobody"),
            false,
            "has no folder `nobody`",
        ),
        (
            "job_queue_size=3",
            true,
            "config.properties: `job_queue_size` has no effect",
        ),
    ] {
        fs::write(&file, properties).expect("writable");
        let checked = graphmill(&["check", path(&file)]);
        let said = text(&checked.stderr);
        assert_eq!(checked.status.success(), succeeds, "{properties}: {said}");
        assert!(said.contains(part), "{part} in {said}");
    }
}

/// The folder of a graph on a scripted model.
fn scripted(root: &Path) -> std::path::PathBuf {
    let folder = root.join("packed");
    fs::create_dir(&folder).expect("writable");
    fs::write(
        folder.join("graph.pbtxt"),
        CHAT.replace("../model", "model"),
    )
    .expect("writable");
    fs::write(
        folder.join("model.script.json"),
        r#"{"replies": [{"text": "hello"}]}"#,
    )
    .expect("writable");
    fs::write(folder.join(".hidden"), "").expect("writable");
    folder
}

#[test]
fn an_archive_is_packed_checked_and_served() {
    let root = tempfile::tempdir().expect("a folder");
    let folder = scripted(root.path());
    let archive = root.path().join("x.gmar");
    let packed = graphmill(&["pack", path(&folder), path(&archive)]);
    assert!(packed.status.success(), "{}", text(&packed.stderr));
    assert!(
        text(&packed.stdout).contains("2 files"),
        "{}",
        text(&packed.stdout)
    );
    let again = root.path().join("y.gmar");
    graphmill(&["pack", path(&folder), path(&again)]);
    let bytes = |file: &Path| fs::read(file).expect("a file");
    assert!(bytes(&archive) == bytes(&again));
    fs::remove_dir_all(&folder).expect("removed");
    let checked = crate::cli::support::command(&["check", path(&archive)])
        .env("XDG_CACHE_HOME", root.path())
        .output()
        .expect("it runs");
    assert!(checked.status.success(), "{}", text(&checked.stderr));
    let mut server = Server::start(&[path(&archive)], |command| {
        command.env("XDG_CACHE_HOME", root.path());
    });
    server.says("ready after");
    assert_eq!(served(&server), ["packed"]);
    let question =
        serde_json::json!({ "model": "packed", "messages": [{ "role": "user", "content": "Hi" }] });
    let answer = server.post("/v3/chat/completions", &question);
    assert_eq!(
        answer["choices"][0]["message"]["content"], "hello",
        "{answer}"
    );
    let whole = bytes(&archive);
    let cut = root.path().join("cut.gmar");
    fs::write(&cut, &whole[..whole.len() / 2 + 100]).expect("writable");
    let damaged = crate::cli::support::command(&["check", path(&cut)])
        .env("XDG_CACHE_HOME", root.path())
        .output()
        .expect("it runs");
    let said = text(&damaged.stderr);
    assert!(
        !damaged.status.success() && said.contains("damaged"),
        "{said}"
    );
    let empty = root.path().join("empty");
    fs::create_dir(&empty).expect("writable");
    let refused = graphmill(&["pack", path(&empty)]);
    assert!(!refused.status.success());
    assert!(
        text(&refused.stderr).contains("nothing to serve"),
        "{}",
        text(&refused.stderr)
    );
}

#[test]
fn an_archive_of_a_model_has_the_name_that_it_was_packed_with() {
    let store = store();
    let folder = store.path().join("model-store/other");
    let archive = store.path().join("x.gmar");
    let pack =
        |flags: &[&str]| graphmill(&[&["pack", path(&folder), path(&archive)], flags].concat());
    for (flags, name) in [
        (&[][..], "other"),
        (&["--force", "--model_name", "mine"], "mine"),
    ] {
        let packed = pack(flags);
        assert!(packed.status.success(), "{}", text(&packed.stderr));
        let mut server = Server::start(&[path(&archive)], |command| {
            command.env("XDG_CACHE_HOME", store.path());
        });
        server.says("ready after");
        assert_eq!(served(&server), [name]);
    }
    let again = pack(&[]);
    let said = text(&again.stderr);
    assert!(
        !again.status.success() && said.contains("--force overwrites it"),
        "{said}"
    );
}
