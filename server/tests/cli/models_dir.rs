//! A folder of models that come and go.

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::cli::support::{EMBED, MODEL, Server, graphmill, path, text};

#[cfg(feature = "vision")]
const EYES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../demos/tiny_vision");

/// The names of the models and the words for their states.
fn states(server: &Server) -> Vec<(String, String)> {
    let listed = server.get("/v1/models");
    let models = listed["data"].as_array().expect("a list").iter();
    let word = |value: &Value| value.as_str().expect("a word").to_owned();
    let state = |it: &Value| (word(&it["id"]), word(&it["status"]["value"]));
    models.map(state).collect()
}

fn of(states: &[(String, String)], name: &str) -> Option<String> {
    let found = states.iter().find(|(id, _)| id == name);
    found.map(|(_, state)| state.clone())
}

fn ask(server: &Server, model: &str) -> Value {
    let messages = json!([{ "role": "user", "content": "Hi" }]);
    let body = json!({ "model": model, "messages": messages, "max_tokens": 2 });
    server.post("/v1/chat/completions", &body)
}

#[test]
fn each_model_of_a_folder_is_a_graph_that_comes_and_goes() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    let copy = |from: &str, to: &Path| {
        fs::create_dir_all(to.parent().expect("a folder")).expect("writable");
        fs::copy(from, to).expect("writable");
    };
    copy(MODEL, &root.join("tiny.gguf"));
    copy(MODEL, &root.join("org/chat/m.gguf"));
    copy(EMBED, &root.join("embed.gguf"));
    let whole = fs::read(MODEL).expect("readable");
    fs::write(root.join("broken.gguf"), &whole[..whole.len() / 2]).expect("writable");
    fs::create_dir(root.join("wrong")).expect("writable");
    fs::write(root.join("wrong/graph.pbtxt"), "node {").expect("writable");
    let mut server = Server::start(&["--models_dir", path(root), "--models_max", "1"], |_| {});
    server.says("ready after");
    let before = states(&server);
    let names: Vec<&str> = before.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["broken", "embed", "org/chat", "tiny", "wrong"]);
    for name in ["embed", "org/chat", "tiny"] {
        assert_eq!(of(&before, name).as_deref(), Some("unloaded"), "{name}");
    }
    assert_eq!(of(&before, "wrong").as_deref(), Some("failed"));
    assert_eq!(ask(&server, "tiny")["model"], "tiny");
    assert_eq!(of(&states(&server), "tiny").as_deref(), Some("loaded"));
    assert_eq!(ask(&server, "org/chat")["model"], "org/chat");
    let now = states(&server);
    assert_eq!(
        of(&now, "tiny").as_deref(),
        Some("unloaded"),
        "one at a time"
    );
    let vectors = server.post(
        "/v1/embeddings",
        &json!({ "model": "embed", "input": "Hi" }),
    );
    assert!(vectors["data"][0]["embedding"].is_array(), "{vectors}");
    assert_eq!(ask(&server, "tiny")["model"], "tiny");
    assert_eq!(ask(&server, "broken")["error"]["code"], "graph_failed");
    let now = states(&server);
    assert_eq!(of(&now, "broken").as_deref(), Some("failed"));
    assert_eq!(of(&now, "tiny").as_deref(), Some("loaded"), "others stay");

    // A file that is complete elsewhere comes whole.
    copy(MODEL, &root.join("new.part"));
    fs::rename(root.join("new.part"), root.join("new.gguf")).expect("writable");
    let said = server.says("added `new`");
    assert!(!said.contains("changed `"), "{said}");
    let broken = server.get("/v1/models/broken");
    let status = &broken["status"];
    assert_eq!(status["value"], "failed", "{broken}");
    let reason = status["reason"].as_str().expect("a reason");
    assert!(reason.contains("broken.gguf"), "{reason}");
    assert_eq!(ask(&server, "new")["model"], "new");
    fs::remove_file(root.join("org/chat/m.gguf")).expect("it was there");
    fs::write(root.join("broken.gguf"), &whole).expect("writable");
    server.says("removed `org/chat`");
    assert_eq!(ask(&server, "org/chat")["error"]["code"], "model_not_found");
}

#[cfg(feature = "vision")]
#[test]
fn a_projector_that_comes_is_loaded_with_its_model_and_one_that_goes_is_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    let demo = Path::new(EYES);
    fs::create_dir(root.join("eyes")).expect("writable");
    let copy = |from: &str, to: &str| {
        fs::copy(demo.join(from), root.join("eyes/part")).expect("writable");
        fs::rename(root.join("eyes/part"), root.join("eyes").join(to)).expect("writable");
    };
    copy("model.gguf", "model.gguf");
    let mut server = Server::start(&["--models_dir", path(root)], |_| {});
    server.says("ready after");
    let reads = |server: &Server| {
        assert_eq!(ask(server, "eyes")["model"], "eyes");
        server.get("/v1/models/eyes")["input_modalities"].clone()
    };
    assert!(reads(&server).is_null());
    copy("mmproj.gguf", "mmproj-f16.gguf");
    server.says("changed `eyes`");
    assert_eq!(reads(&server), json!(["text", "image"]));
    let said = server.says("`eyes` is available");
    assert!(said.contains("projector beside the model"), "{said}");
    fs::remove_file(root.join("eyes/mmproj-f16.gguf")).expect("it was there");
    server.says("changed `eyes`");
    assert!(reads(&server).is_null());
}

#[test]
fn an_empty_folder_waits_for_models_and_what_does_not_fit_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    let mut server = Server::start(&["--models_dir", path(root)], |_| {});
    let said = server.says("not ready");
    assert!(said.contains("no model was found"), "{said}");
    fs::copy(MODEL, root.join("late.part")).expect("writable");
    fs::rename(root.join("late.part"), root.join("late.gguf")).expect("writable");
    server.says("added `late`");
    assert_eq!(ask(&server, "late")["model"], "late");
    for (flags, said) in [
        (&["--models_dir", "nowhere"][..], "cannot read the folder"),
        (
            &["--models_dir", path(root), "--config_path", "x.json"],
            "both name what to serve",
        ),
        (
            &["--models_dir", path(root), "--model_name", "x"],
            "is for one model",
        ),
        (
            &["--models_dir", path(root), "--max_context", "64"],
            "is for one model",
        ),
        (
            &["--models_dir", path(root), "--alias", "x"],
            "names one model or graph",
        ),
        (
            &[MODEL, "--alias", "model"],
            "an alias of `model` and the name of a graph",
        ),
        (&["--any_model", MODEL], "put the flag after the model"),
        (
            &[MODEL, "--any_model", "other"],
            "has no graph `other`, but `model`",
        ),
        (
            &[MODEL, "--allow_registration", "nowhere"],
            "`--allow_registration nowhere`: no such folder",
        ),
        (
            &[MODEL, "--metrics_address", "localhost"],
            "expected an address and a port",
        ),
    ] {
        let output = graphmill(&[&["serve", "--rest_port", "0"], flags].concat());
        assert_eq!(output.status.code(), Some(1), "{flags:?}");
        let told = text(&output.stderr);
        assert!(told.contains(said), "{flags:?}: {told}");
    }
}

#[test]
fn one_model_answers_to_aliases_and_to_any_name() {
    let flags = [MODEL, "--alias", "gpt-4o,gpt-4o-mini", "--any_model"];
    let mut server = Server::start(&flags, |_| {});
    server.says("ready after");
    assert_eq!(ask(&server, "gpt-4o-mini")["choices"][0]["index"], 0);
    assert_eq!(ask(&server, "lama-30b")["model"], "model");
    assert_eq!(server.get("/v1/models/gpt-4o")["id"], "model");
}
