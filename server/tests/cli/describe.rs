//! The node that `graphmill describe` shows, put into a graph.

use std::fs;

use crate::cli::support::{graphmill, path, text};

/// The names that `graphmill calculators` lists: those of two spaces and a description.
fn calculators() -> Vec<String> {
    let listed = text(&graphmill(&["calculators"]).stdout);
    let names = listed.lines().filter_map(|line| {
        let name = line.strip_prefix("  ")?.split(' ').next()?;
        (!name.is_empty()).then(|| name.to_owned())
    });
    names.collect()
}

/// What a node takes, as inputs of the graph around it.
fn outside(node: &str) -> String {
    let mut ports = String::new();
    for line in node.lines() {
        for kind in ["input_stream", "input_side_packet"] {
            let written = line.trim().strip_prefix(kind);
            if let Some(written) = written.and_then(|rest| rest.strip_prefix(": \"")) {
                let name = written.trim_end_matches('"').rsplit(':').next();
                ports.extend([kind, ": \"", name.expect("a name"), "\"\n"]);
            }
        }
    }
    ports
}

#[test]
fn each_node_is_accepted_or_says_what_is_to_be_filled_in() {
    let names = calculators();
    assert!(names.len() > 100, "{names:?}");
    let folder = tempfile::tempdir().expect("a folder");
    let mut nodes = Vec::new();
    for name in names {
        let described = text(&graphmill(&["describe", &name]).stdout);
        // Subgraphs show what they expand to.
        let Some((_, node)) = described.split_once("In a graph\n") else {
            continue;
        };
        let file = folder.path().join(format!("{name}.pbtxt"));
        fs::write(file, outside(node) + node).expect("writable");
        nodes.push((name, node.to_owned()));
    }
    let flags = [
        "check",
        "--skip_models",
        "--format",
        "json",
        path(folder.path()),
    ];
    let checked: serde_json::Value =
        serde_json::from_slice(&graphmill(&flags).stdout).expect("JSON");
    let (mut right, mut to_fill_in) = (0, 0);
    for (name, node) in nodes {
        let file = format!("/{name}.pbtxt");
        let files = checked["files"].as_array().expect("a list");
        let is_this =
            |it: &&serde_json::Value| it["file"].as_str().is_some_and(|it| it.ends_with(&file));
        let checked = files.iter().find(is_this).expect("it was checked");
        let diagnostics = checked["diagnostics"].as_array().expect("a list");
        let errors = diagnostics.iter().filter(|it| it["severity"] == "error");
        let errors: Vec<&str> = errors.filter_map(|it| it["message"].as_str()).collect();
        for error in &errors {
            let line = format!("# to fill in: {error}\n");
            assert!(node.contains(&line), "{name}: {error}\n{node}");
        }
        assert_eq!(
            node.matches("# to fill in: ").count(),
            errors.len(),
            "{node}"
        );
        assert!(
            !errors.iter().any(|error| error.contains("unexpected")),
            "{name}: {errors:?}"
        );
        *(if errors.is_empty() {
            &mut right
        } else {
            &mut to_fill_in
        }) += 1;
        if name.starts_with("BeginLoop") || name.starts_with("EndLoop") {
            assert!(errors.is_empty(), "{name}: {errors:?}");
        }
    }
    assert!(
        right > 2 * to_fill_in,
        "{right} are right, {to_fill_in} are not"
    );
}
