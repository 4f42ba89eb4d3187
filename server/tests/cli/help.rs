//! The help: groups, headings and examples.

use crate::cli::support::{command, graphmill, text};

fn help(arguments: &[&str]) -> String {
    text(&graphmill(arguments).stdout)
}

/// The lines of a help from a heading to the next empty line.
fn under<'a>(help: &'a str, heading: &str) -> Vec<&'a str> {
    let lines = help.lines().skip_while(|line| *line != heading);
    let lines: Vec<&str> = lines.skip(1).take_while(|line| !line.is_empty()).collect();
    assert!(!lines.is_empty(), "no `{heading}` in {help}");
    lines
}

#[test]
fn verbs_are_grouped_by_purpose_and_shown_in_examples() {
    let help = help(&["--help"]);
    for (heading, verb) in [
        ("Serve:", "serve "),
        ("Get models:", "pull "),
        ("Inspect:", "why "),
        ("Write graphs:", "check "),
        ("Set up:", "key "),
        ("Examples:", "graphmill serve model.gguf "),
    ] {
        let lines = under(&help, heading);
        let has_it = |line: &&&str| line.trim_start().starts_with(verb);
        assert!(lines.iter().any(|line| has_it(&line)), "{verb} in {help}");
    }
}

#[test]
fn flags_of_serve_have_headings_and_those_without_effect_a_list_of_their_own() {
    let help_of_serve = help(&["serve", "-h"]);
    for (heading, flag) in [
        ("Models:", "--model_repository_path "),
        ("Network:", "--rest_port "),
        ("Security:", "--tls_cert_file "),
        ("Limits:", "--max_body_bytes "),
        ("Observability:", "--log_level "),
        ("Lifecycle:", "--drain_delay_seconds "),
        ("Examples:", "graphmill serve model.gguf"),
    ] {
        let lines = under(&help_of_serve, heading);
        let has_it = |line: &&&str| line.trim_start().starts_with(flag);
        assert!(
            lines.iter().any(|line| has_it(&line)),
            "{flag} in {help_of_serve}"
        );
    }
    let unnamed = under(&help_of_serve, "Options:");
    assert!(unnamed.len() <= 2, "{unnamed:?}");
    for long in [&help_of_serve, &help(&["serve", "--help"])] {
        assert!(!long.contains("--grpc_workers"), "{long}");
    }
    for flag in ["--help_ovms", "--help-ovms"] {
        let listed = help(&["serve", flag]);
        assert!(listed.contains("--grpc_workers "), "{listed}");
        assert!(listed.lines().count() < 100, "{listed}");
    }
}

#[test]
fn a_key_that_cannot_be_written_is_an_error() {
    let full = std::fs::File::options().write(true).open("/dev/full");
    let mut key = command(&["key", "app"]);
    key.stdout(full.expect("a device"));
    let output = key.output().expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("the key cannot be written"), "{said}");
}
