//! Folders in the place of files: `test`, `fmt`, `explain`, and repositories to serve.

use std::fs;

use crate::cli::support::{MODEL, Server, graphmill, path, text};

const PASS: &str = r#"
input_stream: "in"
output_stream: "out"
node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" }
"#;

/// A folder with these files.
fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        let file = folder.path().join(name);
        fs::create_dir_all(file.parent().expect("a folder")).expect("writable");
        fs::write(file, text).expect("writable");
    }
    folder
}

#[test]
fn a_folder_without_tests_is_an_error_that_says_so() {
    let empty = folder(&[("a/graph.pbtxt", PASS), (".hidden/a.test.toml", "")]);
    let output = graphmill(&["test", path(empty.path())]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    let expected = format!(
        "no file `*.test.toml` in `{}` or its subfolders",
        empty.path().display()
    );
    assert!(said.contains(&expected), "{said}");

    let test = "graph = \"graph.pbtxt\"\n[[case]]\nname = \"passes\"\ninput = [{ stream = \"in\", value = 1 }]\nexpect.out = [{ value = 1 }]\n";
    let some = folder(&[("a/graph.pbtxt", PASS), ("a/graph.test.toml", test)]);
    let output = graphmill(&["test", path(some.path())]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    let output = graphmill(&["test", path(some.path()), "--only", "nothing"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("no case has `nothing` in its name"), "{said}");
}

#[test]
fn all_graphs_below_a_folder_are_formatted() {
    let ugly = "input_stream:'in' output_stream:'in'";
    let graphs = folder(&[
        ("a.pbtxt", ugly),
        ("b/c/graph.pbtxt", ugly),
        (".hidden/graph.pbtxt", ugly),
        ("b/notes.txt", ugly),
    ]);
    let root = graphs.path();
    let check = graphmill(&["fmt", "--check", path(root)]);
    assert_eq!(check.status.code(), Some(1));
    assert_eq!(text(&check.stderr).matches("is not formatted").count(), 2);
    let output = graphmill(&["fmt", path(root)]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let read = |file: &str| fs::read_to_string(root.join(file)).expect("readable");
    for file in ["a.pbtxt", "b/c/graph.pbtxt"] {
        assert!(read(file).starts_with("input_stream: \"in\"\n"), "{file}");
    }
    for file in [".hidden/graph.pbtxt", "b/notes.txt"] {
        assert_eq!(read(file), ugly, "{file}");
    }
    assert_eq!(
        graphmill(&["fmt", "--check", path(root)]).status.code(),
        Some(0)
    );
    let none = folder(&[]);
    let output = graphmill(&["fmt", path(none.path())]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("no file `*.pbtxt` in `"), "{said}");
}

#[test]
fn a_folder_is_not_explained_but_its_graphs_are_named() {
    let graphs = folder(&[("a/graph.pbtxt", PASS)]);
    let none = folder(&[]);
    for (root, said) in [
        (graphs.path(), "a/graph.pbtxt`"),
        (none.path(), "it has no `*.pbtxt`"),
    ] {
        let output = graphmill(&["explain", path(root)]);
        assert_eq!(output.status.code(), Some(1));
        let stderr = text(&output.stderr);
        assert!(
            stderr.contains("is a folder, expected a graph file: "),
            "{stderr}"
        );
        assert!(stderr.contains(said), "{stderr}");
    }
}

#[test]
fn a_repository_is_served_without_what_cannot_be() {
    let listing = r#"{ "model_config_list": [] }"#;
    let bad = [
        ("broken/m.gguf", "GGUF"),
        ("two/a.gguf", ""),
        ("two/b.gguf", ""),
    ];
    let good = [
        ("org/right/config.json", listing),
        ("org/right/graph.pbtxt", PASS),
    ];
    let mixed = folder(&[&bad[..], &good].concat());
    fs::create_dir(mixed.path().join("model")).expect("writable");
    fs::copy(MODEL, mixed.path().join("model/m.gguf")).expect("writable");
    let reasons = ["`broken` is left out: ", "`two` is left out: "];
    let flags = ["--model_repository_path", path(mixed.path())];
    let listed = graphmill(&[&["--list_models"], &flags[..]].concat());
    let said = text(&listed.stderr);
    assert_eq!(listed.status.code(), Some(0), "{said}");
    assert_eq!(text(&listed.stdout), "model\norg/right\n");
    let mut server = Server::start(&flags, |_| ());
    let log = server.says("ready after");
    for why in reasons {
        assert_eq!(said.matches(why).count(), 1, "{why}: {said}");
        assert_eq!(log.matches(why).count(), 1, "{why}: {log}");
    }
    let models = server.get("/v3/models")["data"].clone();
    let names: Vec<_> = models
        .as_array()
        .expect("a list")
        .iter()
        .map(|model| &model["id"])
        .collect();
    assert_eq!(names, ["model", "org/right"]);

    let nothing = folder(&bad);
    for command in [&["serve", "--rest_port", "0"][..], &["--list_models"]] {
        let flags = ["--model_repository_path", path(nothing.path())];
        let output = graphmill(&[command, &flags[..]].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("there is nothing to serve in"), "{said}");
        for why in reasons {
            assert_eq!(said.matches(why).count(), 1, "{why}: {said}");
        }
    }
}
