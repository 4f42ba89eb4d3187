//! `graphmill check` of folders and of configurations that are wrong.

use std::fs;

use crate::cli::support::{MODEL, command, graphmill, path, text};

const PASS: &str = r#"
    input_stream: "in"
    output_stream: "out"
    node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" }
"#;

#[test]
fn folders_are_checked_as_they_are_served_and_else_all_that_is_in_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    for (file, graph) in [
        ("right/graph.pbtxt", PASS),
        (
            "wrong/inside/graph.pbtxt",
            "node { calculator: \"NopeCalculator\" }",
        ),
        ("loose/mine.pbtxt", PASS),
        (".hidden/graph.pbtxt", "node {"),
    ] {
        let file = root.join(file);
        fs::create_dir_all(file.parent().expect("a folder")).expect("writable");
        fs::write(file, graph).expect("writable");
    }
    for (checked, status) in [
        ("right", 0),
        ("loose", 0),
        ("wrong", 1),
        ("", 1),
        (".hidden/..", 1),
    ] {
        let output = graphmill(&["check", path(&root.join(checked))]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{checked}: {said}");
        assert!(!said.contains(".hidden/graph"), "{said}");
    }
    let json = graphmill(&["check", "--format", "json", path(root)]).stdout;
    let json: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
    let files = json["files"].as_array().expect("a list");
    assert_eq!(files.len(), 3, "{json}");

    // The current folder where none is named.
    let here = command(&["check"]).current_dir(root.join("right")).output();
    assert_eq!(here.expect("it runs").status.code(), Some(0));
    let here = command(&["check"]).current_dir(root.join("wrong")).output();
    let said = text(&here.expect("it runs").stderr);
    assert!(
        said.contains("unknown calculator `NopeCalculator`")
            && said.contains("`graphmill calculators` lists those that there are"),
        "{said}"
    );
    let empty = root.join("empty");
    fs::create_dir(&empty).expect("writable");
    let output = graphmill(&["check", path(&empty)]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("there is nothing to serve in"), "{said}");

    let output = graphmill(&["check", MODEL]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let damaged = root.join("damaged.gguf");
    fs::write(&damaged, "GGUF").expect("writable");
    let output = graphmill(&["check", path(&damaged)]);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn what_options_cannot_say_together_is_refused_at_their_line_in_the_graph() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("graph.pbtxt");
    let emitted = text(&graphmill(&["serve", MODEL, "--emit_graph"]).stdout);
    assert!(emitted.contains("HttpLLMCalculator"), "{emitted}");
    for (options, why) in [
        (
            "lora_adapters { name: \"a:b\" path: \"x.gguf\" }",
            "without colons, not `a:b`",
        ),
        (
            "lora_adapters { name: \"a\" path: \"x.gguf\" } lora_adapters { name: \"a\" path: \"y.gguf\" }",
            "two adapters with the name `a`",
        ),
    ] {
        let graph = emitted.replacen("models_path:", &format!("{options} models_path:"), 1);
        fs::write(&file, &graph).expect("writable");
        let output = graphmill(&["check", "--skip_models", path(&file)]);
        let said = text(&output.stderr);
        let mut lines = graph.lines();
        let line = lines
            .position(|line| line.contains(options))
            .expect("a line")
            + 1;
        assert_eq!(output.status.code(), Some(1), "{options}: {said}");
        assert!(said.contains(why), "{options}: {said}");
        let place = format!("{}:{line}:", path(&file));
        assert!(said.contains(&place), "{options}: {said}");
    }
}

#[test]
fn a_chat_template_of_the_graph_that_cannot_be_used_is_refused_at_its_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    let long = format!("Hi\n\n{{{{ 1{} }}}}", "+1".repeat(100_000));
    for (template, line) in [("Hi\n{% if %}", 2), (&long, 3)] {
        fs::write(root.join("mine.jinja"), template).expect("writable");
        let graph = graphmill(&["serve", MODEL, "--emit_graph"]);
        let graph = text(&graph.stdout);
        let graph = graph.replacen(
            "models_path:",
            "chat_template_file: \"mine.jinja\" models_path:",
            1,
        );
        fs::write(root.join("graph.pbtxt"), graph).expect("writable");
        let at = format!("mine.jinja:{line}`");
        for command in [&["check"][..], &["serve", "--rest_port", "0"]] {
            let output = graphmill(&[command, &[path(root)]].concat());
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{said}");
            assert!(said.contains(&at), "{at} in {said}");
        }
        let output = graphmill(&["check", "--skip_models", path(root)]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }
}

#[test]
fn folders_are_looked_at_beside_wrong_keys() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("config.json");
    let text_of = r#"{ "mediapipe_config_list": [{ "name": "a", "base_paht": "x" }, { "name": "b", "base_path": "nowhere" }] }"#;
    fs::write(&config, text_of).expect("writable");
    let output = graphmill(&["check", path(&config)]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    for part in [
        "did you mean `base_path`?",
        "nowhere/graph.pbtxt",
        "`b` has no graph: there is no `",
        "config.json:1:92",
    ] {
        assert!(said.contains(part), "{part} in {said}");
    }
}

#[test]
fn a_model_that_is_cut_off_is_wrong() {
    let folder = tempfile::tempdir().expect("a folder");
    let whole = fs::read(MODEL).expect("the model");
    let cut = folder.path().join("cut.gguf");
    for length in [whole.len() / 2, whole.len() - 1_000] {
        fs::write(&cut, &whole[..length]).expect("writable");
        let output = graphmill(&["check", path(&cut)]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("it is truncated: its"), "{said}");
    }
    fs::write(&cut, &whole).expect("writable");
    let output = graphmill(&["check", path(&cut)]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn a_negative_number_is_out_of_range_and_no_flag() {
    let refused = |flag: &str, value: &str, variable: Option<&str>| {
        let mut command = command(&["serve", MODEL]);
        match variable {
            Some(variable) => command.env(variable, value),
            None => command.args([flag, value]),
        };
        let output = command.output().expect("it runs");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        said
    };
    let said = refused("--cache_size", "-1", None);
    assert!(
        said.contains("-1 is not between 0 and 4294967295"),
        "{said}"
    );
    for (flag, value, told) in [
        ("--models_max", "3.5", "expected a whole number"),
        ("--temperature", "warm", "expected a number"),
    ] {
        let said = refused(flag, value, None);
        assert!(said.contains(told) && !said.contains("variable"), "{said}");
        let variable = format!("GRAPHMILL_{}", flag[2..].to_uppercase());
        let said = refused(flag, value, Some(&variable));
        let place = format!("the value is from the variable `{variable}`");
        assert!(said.contains(told) && said.contains(&place), "{said}");
    }
}

/// Two nodes whose options cannot be read: the side packet that these define is missing for no
/// reason of its own.
const WRONG_OPTIONS: &str = r#"
input_stream: "HTTP_REQUEST_PAYLOAD:in"
input_side_packet: "route"
output_stream: "HTTP_RESPONSE_PAYLOAD:out"
node {
  calculator: "SwitchContainer"
  input_side_packet: "SELECT:route"
  input_stream: "HTTP_REQUEST_PAYLOAD:in"
  output_stream: "HTTP_RESPONSE_PAYLOAD:out"
  node_options { [type.googleapis.com/mediapipe.SwitchContainerOptions] {
    contained_node { calculator: "HttpLLMCalculator" options { [type.googleapis.com/mediapipe.LLMCalculatorOptions] { models_path: "x.gguf" } } }
    contained_node { calculator: "HttpLLMCalculator" node_options { [type.googleapis.com/mediapipe.LLMCalculatorOptions] { models_path: "y.gguf" max_num_seks: 3 } } }
  } }
}
"#;

#[test]
fn consequences_of_wrong_options_are_not_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let graph = folder.path().join("graph.pbtxt");
    fs::write(&graph, WRONG_OPTIONS).expect("writable");
    let output = graphmill(&["check", path(&graph)]);
    let said = text(&output.stderr);
    let errors: Vec<&str> = said
        .lines()
        .filter(|line| line.starts_with("error["))
        .collect();
    assert_eq!(errors.len(), 2, "{said}");
    assert!(said.contains("no field `max_num_seks`"), "{said}");
}
