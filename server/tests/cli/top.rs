//! `graphmill top`.

use serde_json::json;

use crate::cli::support::{MODEL, Server, graphmill, text};

#[test]
fn a_table_shows_engines_and_graphs() {
    let mut server = Server::start(&[MODEL], |_| ());
    server.says("ready after");
    let question = json!({ "model": "model", "messages": [{ "role": "user", "content": "Hi" }] });
    server.post("/v3/chat/completions", &question);
    server.post("/v3/chat/completions", &json!({ "model": "model" }));
    let output = graphmill(&["top", &server.url, "--once"]);
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(!shown.contains('\x1b'), "{shown}");
    let row = |after: &str| -> Vec<String> {
        let mut lines = shown.lines().skip_while(|line| !line.starts_with(after));
        let row = lines.nth(1);
        let row = row.unwrap_or_else(|| panic!("{after} in {shown}"));
        row.split_whitespace().map(str::to_owned).collect()
    };
    let engine = row("ENGINE");
    assert!(engine.contains(&"RUNNING".to_owned()), "{shown}");
    // The time to the first token is known, as there was one.
    assert!(engine.contains(&"ms".to_owned()), "{shown}");
    let graph = row("GRAPH");
    assert_eq!(&graph[..3], ["model", "AVAILABLE", "0"], "{shown}");
    assert_eq!(graph[4], "1", "{shown}");
    // The list of sessions was read; there are none now.
    assert!(!shown.contains("no sessions are shown"), "{shown}");

    let output = graphmill(&["top", "http://127.0.0.1:1", "--once"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("cannot reach http://127.0.0.1:1"),
        "{}",
        text(&output.stderr)
    );
}
