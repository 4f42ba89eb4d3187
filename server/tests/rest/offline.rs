//! Graphs from the command line, without a server: `run`, `test`, `fmt`, and where subgraphs are
//! found.

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Output, Stdio},
};

fn graphmill(folder: &Path, arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_graphmill"))
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut stdin = child.stdin.take().expect("piped");
    // It may end before it has read everything.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    child.wait_with_output().expect("it ends")
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, text) in files {
        let file = folder.path().join(name);
        std::fs::create_dir_all(file.parent().expect("it has one")).expect("writable");
        std::fs::write(file, text).expect("writable");
    }
    folder
}

const GATE: &str = r#"input_stream: "in"
input_side_packet: "open"
output_stream: "out"
node {
  calculator: "GateCalculator"
  input_stream: "in"
  input_side_packet: "ALLOW:open"
  output_stream: "out"
}
"#;

const JOIN: &str = r#"input_stream: "a"
input_stream: "b"
output_stream: "out"
node { calculator: "PassThroughCalculator" input_stream: "a" input_stream: "b" output_stream: "out" output_stream: "other" }
"#;

/// A graph of a subgraph that lies in a file of its own, which has another in a folder of its own.
const NESTED: [(&str, &str); 3] = [
    (
        "graph.pbtxt",
        "input_stream: \"in\"\noutput_stream: \"out\"\nnode { calculator: \"Outer\" input_stream: \"in\" output_stream: \"out\" }\n",
    ),
    (
        "outer.pbtxt",
        "type: \"Outer\"\ninput_stream: \"a\"\noutput_stream: \"b\"\nnode { calculator: \"Inner\" input_stream: \"a\" output_stream: \"b\" }\n",
    ),
    (
        "subgraphs/inner.pbtxt",
        "type: \"Inner\"\ninput_stream: \"a\"\noutput_stream: \"b\"\nnode { calculator: \"PassThroughCalculator\" input_stream: \"a\" output_stream: \"b\" }\n",
    ),
];

#[test]
fn packets_go_in_and_come_out_as_lines() {
    let folder = folder(&[("gate.pbtxt", GATE)]);
    let lines = "{\"side\": \"open\", \"value\": true}\n\n{\"stream\": \"in\", \"value\": 5}\n{\"stream\": \"in\", \"timestamp\": 7, \"value\": [1.5]}\n{\"close\": \"in\"}\n";
    let output = graphmill(folder.path(), &["run", "gate.pbtxt", "--input", "-"], lines);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert_eq!(
        out(&output),
        "{\"stream\":\"out\",\"timestamp\":0,\"type\":\"int\",\"value\":5}\n{\"stream\":\"out\",\"timestamp\":7,\"type\":\"float_vector\",\"value\":[1.5]}\n"
    );
    let shut = graphmill(
        folder.path(),
        &["run", "gate.pbtxt", "--side", "open=false", "--input", "-"],
        "{\"stream\": \"in\", \"value\": 5}",
    );
    assert_eq!((shut.status.code(), out(&shut)), (Some(0), String::new()));
    let observed = graphmill(
        folder.path(),
        &[
            "run",
            "gate.pbtxt",
            "--side",
            "open=true",
            "--observe",
            "in",
            "--input",
            "-",
        ],
        "{\"stream\": \"in\", \"type\": \"uint\", \"value\": 5}",
    );
    assert!(
        out(&observed).contains("\"type\":\"uint\""),
        "{}",
        out(&observed)
    );
}

#[test]
fn what_is_wrong_with_a_run_is_said() {
    let folder = folder(&[("gate.pbtxt", GATE)]);
    for (arguments, lines, said) in [
        (
            &["--side", "none=1"][..],
            "",
            "`none` is not a side packet of the graph",
        ),
        (&["--side", "open=yes"], "", "type `bool`"),
        (&["--side", "open"], "", "expected `name=value`"),
        (&["--input", "none.jsonl"], "", "cannot read `none.jsonl`"),
        (
            &["--side", "open=true", "--input", "-"],
            "{\"stream\": \"out\", \"value\": 1}",
            "standard input:1: `out` is not an input stream of the graph, which has `in`",
        ),
        (
            &["--side", "open=true", "--input", "-"],
            "{\"stream\": \"in\"}\n",
            "expected `stream` and `value`",
        ),
        (
            &["--side", "open=true", "--input", "-"],
            "{\"stream\": \"in\", \"valu\": 1}\n",
            "unknown field `valu`",
        ),
        (
            &["--side", "open=true", "--observe", "none"],
            "",
            "no stream `none`",
        ),
        (
            &["--side", "open=true", "--input", "-"],
            "{\"stream\": \"in\", \"timestamp\": 5, \"value\": 1}\n{\"stream\": \"in\", \"timestamp\": 4, \"value\": 1}\n",
            "timestamp",
        ),
    ] {
        let output = graphmill(
            folder.path(),
            &[&["run", "gate.pbtxt"][..], arguments].concat(),
            lines,
        );
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(err(&output).contains(said), "{said} in {}", err(&output));
    }
}

#[test]
fn a_graph_that_cannot_go_on_says_why() {
    let full = JOIN.replace(
        "input_stream: \"b\"\n",
        "input_stream: \"b\"\nmax_queue_size: 2\n",
    );
    let folder = folder(&[
        ("join.pbtxt", JOIN),
        ("full.pbtxt", &full),
        ("open.test.toml", STUCK),
    ]);
    let packets: String = (0..9)
        .map(|_| "{\"stream\": \"a\", \"value\": 1}\n")
        .collect();
    let output = graphmill(
        folder.path(),
        &["run", "full.pbtxt", "--input", "-"],
        &packets,
    );
    assert!(
        matches!(output.status.code(), Some(0 | 1)),
        "it ends: {}",
        err(&output)
    );
    let tested = graphmill(folder.path(), &["test", "open.test.toml"], "");
    assert_eq!(tested.status.code(), Some(0), "{}", out(&tested));
}

#[test]
fn an_interrupt_ends_a_run_that_waits_for_input() {
    let folder = folder(&[("join.pbtxt", JOIN)]);
    let mut child = Command::new(env!("CARGO_BIN_EXE_graphmill"))
        .args(["run", "join.pbtxt", "--input", "-", "--why"])
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut stdin = child.stdin.take().expect("piped");
    stdin
        .write_all(b"{\"stream\": \"a\", \"value\": 1}\n")
        .expect("it reads");
    let mut said = String::new();
    let mut lines =
        std::io::BufRead::lines(std::io::BufReader::new(child.stderr.take().expect("piped")));
    while !said.contains("`b`") {
        said.push_str(&lines.next().expect("it tells why it waits").expect("text"));
    }
    assert!(said.contains("PassThroughCalculator"), "{said}");
    let killed = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(killed.expect("kill runs").success());
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
}

#[test]
fn subgraphs_are_found_beside_a_graph_and_explained_with_their_places() {
    let files = folder(&NESTED);
    let path = files.path();
    let output = graphmill(
        path,
        &["run", "graph.pbtxt", "--input", "-"],
        "{\"stream\": \"in\", \"value\": \"x\"}",
    );
    assert_eq!(
        out(&output),
        "{\"stream\":\"out\",\"timestamp\":0,\"type\":\"string\",\"value\":\"x\"}\n",
        "{}",
        err(&output)
    );
    let explained = graphmill(path, &["explain", "graph.pbtxt"], "");
    assert!(
        out(&explained).contains("in Outer > Inner, at subgraphs/inner.pbtxt:4:"),
        "{}",
        out(&explained)
    );

    std::fs::write(path.join("again.pbtxt"), "type: \"Inner\"").expect("writable");
    let unclear = graphmill(path, &["check", "graph.pbtxt"], "");
    assert_eq!(unclear.status.code(), Some(1));
    let said = err(&unclear);
    for part in [
        "GM0909",
        "both have the type `Inner`",
        "graph.pbtxt:3:20",
        "again.pbtxt:1:",
        "subgraphs/inner.pbtxt:1:",
    ] {
        assert!(said.contains(part), "{part} in {said}");
    }
    let named = [
        "check",
        "graph.pbtxt",
        "--subgraphs",
        "subgraphs/inner.pbtxt",
    ];
    let clear = graphmill(path, &named, "");
    assert_eq!(clear.status.code(), Some(0), "{}", err(&clear));

    let broken = NESTED.map(|(name, text)| (name, text.replace("PassThrough", "PasThrough")));
    let broken = folder(&broken.each_ref().map(|(name, text)| (*name, text.as_str())));
    let wrong = graphmill(
        broken.path(),
        &["check", "graph.pbtxt", "--format", "json"],
        "",
    );
    let report: serde_json::Value = serde_json::from_slice(&wrong.stdout).expect("JSON");
    assert_eq!(
        (wrong.status.code(), &report["ok"]),
        (Some(1), &serde_json::json!(false))
    );
    assert_eq!(
        report["files"][0]["diagnostics"][0]["place"]["file"],
        "subgraphs/inner.pbtxt"
    );

    let apart = folder(&[
        NESTED[0],
        ("far/outer.pbtxt", NESTED[1].1),
        ("far/inner.pbtxt", NESTED[2].1),
    ]);
    let found = graphmill(
        apart.path(),
        &["explain", "graph.pbtxt", "--subgraphs", "far"],
        "",
    );
    assert!(
        out(&found).contains("at far/inner.pbtxt:4:"),
        "{}",
        err(&found)
    );
    let nothing = graphmill(
        apart.path(),
        &["check", "graph.pbtxt", "--subgraphs", "graph.pbtxt"],
        "",
    );
    assert!(err(&nothing).contains("has no `type`"), "{}", err(&nothing));

    let itself = [(
        "graph.pbtxt",
        "type: \"Me\" input_stream: \"a\" output_stream: \"b\" node { calculator: \"Me\" input_stream: \"a\" output_stream: \"b\" }",
    )];
    let endless = graphmill(folder(&itself).path(), &["check", "graph.pbtxt"], "");
    assert!(err(&endless).contains("GM0803"), "{}", err(&endless));
}

#[test]
fn graphs_are_drawn() {
    let files = folder(&NESTED);
    for (format, part) in [
        ("dot", "label=\"Outer > Inner\""),
        ("mermaid", "subgraph s0 [\"Outer &gt; Inner\"]"),
        ("json", "\"place\": \"subgraphs/inner.pbtxt:4:"),
    ] {
        let drawn = graphmill(
            files.path(),
            &["explain", "--format", format, "graph.pbtxt"],
            "",
        );
        assert_eq!(drawn.status.code(), Some(0));
        assert!(out(&drawn).contains(part), "{}", out(&drawn));
    }
}

const STUCK: &str = r#"graph = "join.pbtxt"

[[case]]
name = "the second input is missing"
input = [{ stream = "a", timestamp = 3, value = 1 }]
stuck = "`b`"
"#;

const CASES: &str = r#"graph = "gate.pbtxt"

[[case]]
name = "open"
side = { open = true }
input = [{ stream = "in", value = 5 }]
expect.out = [{ timestamp = 0, value = 5 }] # all of it

[[case]]
name = "shut"
side.open = false
input = [{ stream = "in", value = 5 }]
expect.out = []

[[case]]
name = "packets that are not in order"
side.open = true
input = [{ stream = "in", timestamp = 5, value = 1 }, { stream = "in", timestamp = 4, value = 1 }]
error = "timestamp"
"#;

#[test]
fn tests_of_graphs_pass_fail_and_are_updated() {
    let files = folder(&[("gate.pbtxt", GATE), ("gate.test.toml", CASES)]);
    let path = files.path();
    let test = |arguments: &[&str]| graphmill(path, &[&["test"][..], arguments].concat(), "");
    let good = test(&["."]);
    assert_eq!(good.status.code(), Some(0), "{}{}", out(&good), err(&good));
    assert!(
        out(&good).ends_with("3 passed, 0 failed\n"),
        "{}",
        out(&good)
    );
    assert!(out(&test(&["gate.test.toml", "--only", "shu"])).ends_with("1 passed, 0 failed\n"));

    let wrong = CASES.replace("value = 5 }] #", "value = 6 }, { value = 7 }] #");
    std::fs::write(path.join("gate.test.toml"), wrong).expect("writable");
    let bad = test(&["gate.test.toml"]);
    assert_eq!(bad.status.code(), Some(1));
    for part in [
        "FAILED  gate.test.toml: open",
        "    - {\"timestamp\":0,\"value\":6}\n    - {\"value\":7}\n    + {\"timestamp\":0,\"type\":\"int\",\"value\":5}",
        "2 passed, 1 failed",
    ] {
        assert!(out(&bad).contains(part), "{part} in {}", out(&bad));
    }
    assert!(
        out(&test(&["gate.test.toml", "--update"])).ends_with("2 passed, 0 failed, 1 updated\n")
    );
    assert_eq!(test(&["gate.test.toml"]).status.code(), Some(0));
    let updated = std::fs::read_to_string(path.join("gate.test.toml")).expect("readable");
    assert!(
        updated.contains("side.open = false\n"),
        "what was not wrong stays as it was: {updated}"
    );

    for (text, said) in [
        (
            "graph = \"gate.pbtxt\"\n[[case]]\nnam = \"x\"",
            "unknown field `nam`",
        ),
        ("case = []", "a test file needs either `graph`"),
        (
            "graph = \"none.pbtxt\"\ncase = []",
            "cannot read `none.pbtxt`",
        ),
    ] {
        std::fs::write(path.join("gate.test.toml"), text).expect("writable");
        let output = test(&["gate.test.toml"]);
        assert_eq!(output.status.code(), Some(1));
        assert!(out(&output).contains(said), "{said} in {}", out(&output));
    }
}

/// The commands that the guide begins with, which test every graph that is shipped.
#[test]
fn the_commands_of_the_testing_guide_pass() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let guide = std::fs::read_to_string(root.join("docs/guide/testing-graphs.md"));
    let guide = guide.expect("the guide is there");
    let mut tested = Vec::new();
    for line in guide.lines() {
        let Some(command) = line.strip_prefix("graphmill test ") else {
            continue;
        };
        let path = command.split_whitespace().next().expect("a path");
        let output = graphmill(&root, &["test", path], "");
        let said = format!("{line}\n{}{}", out(&output), err(&output));
        assert_eq!(output.status.code(), Some(0), "{said}");
        tested.push(path.to_owned());
    }
    assert!(tested.iter().any(|path| path == "graphs"), "{tested:?}");
}

#[test]
fn files_are_formatted_in_place_and_from_standard_input() {
    let files = folder(&[
        ("a.pbtxt", "node:<calculator:'X'>"),
        ("wrong.pbtxt", "node {"),
    ]);
    let path = files.path();
    let checked = graphmill(path, &["fmt", "--check", "a.pbtxt"], "");
    assert_eq!(checked.status.code(), Some(1));
    assert!(
        err(&checked).contains("`a.pbtxt` is not formatted"),
        "{}",
        err(&checked)
    );
    assert_eq!(
        graphmill(path, &["fmt", "a.pbtxt"], "").status.code(),
        Some(0)
    );
    let text = std::fs::read_to_string(path.join("a.pbtxt")).expect("readable");
    assert_eq!(
        text,
        out(&graphmill(
            path,
            &["fmt", "--stdin"],
            "node:<calculator:'X'>"
        ))
    );
    assert_eq!(
        graphmill(path, &["fmt", "--check", "a.pbtxt"], "")
            .status
            .code(),
        Some(0)
    );
    let wrong = graphmill(path, &["fmt", "wrong.pbtxt"], "");
    assert_eq!(wrong.status.code(), Some(1));
    assert!(err(&wrong).contains("wrong.pbtxt:1:"), "{}", err(&wrong));
    assert_eq!(
        std::fs::read_to_string(path.join("wrong.pbtxt")).expect("readable"),
        "node {"
    );
}

#[test]
fn shells_get_completion_scripts() {
    for shell in ["bash", "zsh", "fish"] {
        let output = graphmill(Path::new("."), &["completions", shell], "");
        assert!(out(&output).contains("graphmill"), "{shell}");
    }
}
