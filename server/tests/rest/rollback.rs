//! The last good configuration is kept, and a server can start with it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::json;

use crate::serving::{CHAT, Graphs, Process};

fn setup() -> (Graphs, PathBuf, PathBuf) {
    let mut graphs = Graphs::new();
    let folder = graphs.add("chat", CHAT);
    let model = json!({ "name": "model", "replies": [{ "text": "fine" }] });
    fs::write(graphs.path().join("model.script.json"), model.to_string()).expect("writable");
    let config = graphs.config();
    (graphs, folder.join("graph.pbtxt"), config)
}

/// The file in which a configuration is kept.
fn kept(state: &Path) -> PathBuf {
    let mut files = fs::read_dir(state).expect("it was made");
    files.next().expect("a file").expect("readable").path()
}

/// What a server says that ends at once.
fn refusal(config: &Path, flags: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_graphmill"));
    command.args(["serve", "--rest_port", "0", "--config_path"]);
    let output = command.arg(config).args(flags).output().expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8(output.stderr).expect("UTF-8")
}

#[test]
fn a_server_starts_with_the_last_good_configuration_when_told_to() {
    let (graphs, graph, config) = setup();
    let state = graphs.path().join("state");
    let flags = ["--state_dir", state.to_str().expect("UTF-8")];
    let rollback = [&flags[..], &["--rollback"]].concat();
    let nothing = refusal(&config, &rollback);
    assert!(nothing.contains("no configuration of"), "{nothing}");

    let mut server = Process::start(&config, &flags);
    server.says("stored the configuration in");
    server.says("ready after");
    // A mistake is not kept.
    fs::write(&graph, "nonsense").expect("writable");
    server.says("the old one is served");
    drop(server);
    assert!(refusal(&config, &flags).contains("nothing to serve"));

    let mut server = Process::start(&config, &rollback);
    server.says("as it was at");
    server.says("ready after");
    // What is right again takes the place of what was kept.
    fs::write(&graph, format!("# Right.\n{CHAT}")).expect("writable");
    server.says("stored the configuration in");
    server.says("the configuration was reloaded");
    drop(server);
    let text = fs::read_to_string(kept(&state)).expect("a file");
    assert!(text.contains("# Right."), "{text}");
    let files = fs::read_dir(&state).expect("a folder").count();
    assert_eq!(files, 1, "nothing is left of writing");

    // A model is not kept, and told of.
    let model = graphs.path().join("model.script.json");
    fs::write(&model, json!({ "replies": [] }).to_string()).expect("writable");
    let mut server = Process::start(&config, &rollback);
    let warning = server.says("has changed since then");
    assert!(warning.contains("model.script.json"), "{warning}");
    server.says("ready after");
}

#[test]
fn a_kept_configuration_that_is_damaged_is_told() {
    let (graphs, _, config) = setup();
    let state = graphs.path().join("state");
    let flags = ["--state_dir", state.to_str().expect("UTF-8")];
    let rollback = [&flags[..], &["--rollback"]].concat();
    let mut server = Process::start(&config, &flags);
    server.says("ready after");
    drop(server);
    let file = kept(&state);
    let good = fs::read_to_string(&file).expect("a file");
    for (text, said) in [
        (&good[..good.len() / 2], "damaged"),
        ("", "damaged"),
        ("{\"format\": 1}", "line 1 column"),
        (&good.replace("\"format\": 1", "\"format\": 9"), "format 9"),
        (&good.replace("\"graphs\"", "\"graps\""), "graps"),
    ] {
        fs::write(&file, text).expect("writable");
        let refused = refusal(&config, &rollback);
        assert!(refused.contains(said), "{said} in {refused}");
        assert!(refused.contains("stored configuration"), "{refused}");
    }
    let no_folder = refusal(&config, &["--state_dir", "/proc/nowhere"]);
    assert!(no_folder.contains("--state_dir"), "{no_folder}");
    let graph = graphs.path().join("0/graph.pbtxt");
    let mut command = Command::new(env!("CARGO_BIN_EXE_graphmill"));
    command.args(["serve", "--rollback"]).arg(graph);
    let output = command.output().expect("it runs");
    let said = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(said.contains("--rollback"), "{said}");
    // Where nothing can be written, nothing is kept, and the server serves.
    let nowhere = |command: &mut Command| {
        command.env("XDG_STATE_HOME", "/proc/nowhere");
    };
    let mut server = Process::start_as(&config, &[], |command| {
        nowhere(command);
        command
    });
    server.says("ready after");
}
