//! Lines that go into graphs and come out: where they are wrong, and where they cannot be sent or
//! written.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};

use serde_json::json;

use crate::cli::support::{command, graphmill, path, text};

fn pass(stream: &str) -> String {
    format!(
        "input_stream: \"{stream}\"\noutput_stream: \"out\"\nnode {{ calculator: \"PassThroughCalculator\" input_stream: \"{stream}\" output_stream: \"out\" }}\n"
    )
}

#[test]
fn a_line_that_cannot_be_sent_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let (graph, input) = (folder.path().join("g.pbtxt"), folder.path().join("in"));
    fs::write(&graph, pass("in")).expect("writable");
    let packet = |at: u32| format!("{{\"stream\": \"in\", \"timestamp\": {at}, \"value\": 1}}");
    for (second, said) in [
        (packet(4), "in:3: timestamps of stream `in` must ascend"),
        (
            format!("{{\"close\": \"in\"}}\n{}", packet(9)),
            "in:4: a packet was sent to the closed stream `in`",
        ),
        (
            format!(
                "{{\"stream\": \"in\", \"timestamp\": \"PostStream\", \"value\": 1}}\n{}",
                packet(9)
            ),
            "in:4: a packet was sent to the closed stream `in`",
        ),
        ("{\"close\": \"no\"}".to_owned(), "in:3: "),
    ] {
        fs::write(&input, format!("{}\n\n{second}\n", packet(5))).expect("writable");
        let output = graphmill(&["run", path(&graph), "--input", path(&input)]);
        assert_eq!(output.status.code(), Some(1), "{second}");
        let shown = text(&output.stderr);
        assert!(shown.contains(said), "{said} in {shown}");
    }
    let test = folder.path().join("g.test.toml");
    let case = "graph = \"g.pbtxt\"\n[[case]]\nname = \"late\"\ninput = [{ stream = \"in\", timestamp = 5, value = 1 }, { stream = \"in\", timestamp = 4, value = 1 }]";
    fs::write(&test, case).expect("writable");
    let output = graphmill(&["test", path(&test)]);
    let shown = text(&output.stdout);
    assert!(shown.contains("`input`, element 2: timestamps"), "{shown}");
}

#[test]
fn a_replay_tells_of_inputs_that_the_graph_does_not_have() {
    let folder = tempfile::tempdir().expect("a folder");
    let recording = folder.path().join("r.jsonl");
    let both = format!(
        "{}{}",
        pass("in"),
        pass("more").replace("\"out\"", "\"more_out\"")
    );
    let head =
        |text: &str| json!({ "graphmill_recording": 1, "graph": "g", "id": "r", "text": text });
    let packet =
        |stream: &str| json!({ "stream": stream, "timestamp": 0, "type": "int", "payload": 5 });
    let played = folder.path().join("played.pbtxt");
    fs::write(&played, pass("in")).expect("writable");
    let replay = |lines: String| {
        fs::write(&recording, lines).expect("writable");
        let base = path(folder.path());
        let flags = ["--base_path", base, "--graph", path(&played)];
        let output = graphmill(&[&["replay", path(&recording)][..], &flags].concat());
        (output.status.code(), text(&output.stderr))
    };
    let (status, said) = replay(format!("{}\n{}\n", head(&pass("other")), packet("other")));
    assert_eq!(status, Some(1), "{said}");
    let why = "nothing can be sent: recorded inputs that this graph does not have: `other`; its inputs: `in`";
    assert!(said.contains(why), "{said}");
    let packets = format!("{}\n{}\n{}", packet("in"), packet("out"), packet("more"));
    let (_, said) = replay(format!("{}\n{packets}\n", head(&both)));
    assert!(said.contains("does not have: `more`"), "{said}");
}

#[cfg(target_os = "linux")]
#[test]
fn what_cannot_be_written_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let (graph, input) = (folder.path().join("g.pbtxt"), folder.path().join("in"));
    fs::write(&graph, pass("in")).expect("writable");
    fs::write(&input, "{\"stream\": \"in\", \"value\": 1}\n").expect("writable");
    let (graph, input) = (path(&graph), path(&input));
    for arguments in [
        &["run", graph, "--input", input][..],
        &["explain", graph],
        &["check", graph, "--format", "json"],
        &["check", "--explain", "GM0301"],
        &["schema"],
        &["calculators"],
        &["describe", "PassThroughCalculator"],
        &["completions", "bash"],
    ] {
        let full = File::options().write(true).open("/dev/full");
        let output = command(arguments)
            .stdout(full.expect("Linux has it"))
            .output();
        let output = output.expect("it runs");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?} {said}");
        assert!(said.contains("cannot write to standard output"), "{said}");
    }
}

#[test]
fn an_interrupt_before_the_first_line_ends_a_run_as_one_after_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let graph = folder.path().join("g.pbtxt");
    // A warning, which is told before lines are read.
    let named = pass("in")
        .replace("node {", "node { name: \"x\"")
        .replace("\"out\"", "\"a\"");
    let again = "node { name: \"x\" calculator: \"PassThroughCalculator\" input_stream: \"a\" output_stream: \"b\" }\n";
    fs::write(&graph, named + again).expect("writable");
    let mut run = command(&["run", path(&graph), "--input", "-"]);
    run.stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = run.spawn().expect("it runs");
    let mut said = String::new();
    let mut lines = BufReader::new(child.stderr.take().expect("piped"));
    lines.read_line(&mut said).expect("text");
    assert!(said.starts_with("warning"), "{said}");
    let id = child.id().to_string();
    let killed = Command::new("kill").args(["-INT", &id]).status();
    assert!(killed.expect("kill runs").success());
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
}
