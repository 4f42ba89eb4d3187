//! `docs/reference/cli.md`, made from what the binary says of itself.

use std::{fmt::Write as _, process::Command};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/cli.md");

const HEAD: &str = "# Command line

Flags can be written with dashes or underscores: `--rest-port` and `--rest_port` are the same. A command line that begins with a flag means `serve`, as OpenVINO Model Server's.
Diagnostics go to standard error, results to standard output; nothing is colored that does not go to a terminal.

The exit status is 0 where all is well, 1 where something is wrong with the files or the run, 2 where the command line is wrong, and 130 for a `run` or a `chat` that was interrupted.

This page is made from `graphmill --help`: `UPDATE=1 cargo test --release --workspace --test suite reference` writes it.
";

fn help(arguments: &[&str]) -> String {
    run(&[arguments, &["--help"]].concat())
}

fn run(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_graphmill"))
        .args(arguments)
        .output()
        .expect("it runs");
    let help = String::from_utf8(output.stdout).expect("text");
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    lines.join("\n").trim().to_owned()
}

#[test]
fn the_reference_page_is_current() {
    let overview = help(&[]);
    let groups = overview.lines().take_while(|line| *line != "Options:");
    let verbs = groups.filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next());
    let mut page = HEAD.to_owned();
    for verb in verbs {
        // Writing to a string cannot fail.
        let _ = write!(page, "\n## {verb}\n\n```\n{}\n```\n", help(&[verb]));
        if verb == "serve" {
            let ignored = run(&["serve", "--help_ovms"]);
            let _ = write!(page, "\n```\n{ignored}\n```\n");
        }
    }
    assert!(page.contains("## completions"), "{overview}");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(PAGE, &page).expect("writable");
    }
    let written = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert_eq!(
        written, page,
        "`UPDATE=1 cargo test --release --workspace --test suite reference` writes the page"
    );
}
