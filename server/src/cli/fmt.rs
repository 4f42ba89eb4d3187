//! `graphmill fmt`: formats graph files.

use std::{
    io::{self, Read as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use graphmill_grammar::{SourceMap, fmt};

use super::{below, report};

/// File extension of graph files.
const ENDING: &str = ".pbtxt";

#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(super) struct Arguments {
    /// Graph files to rewrite, or folders to search for files named `*.pbtxt`.
    #[arg(required_unless_present = "stdin", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Only lists the files that are not formatted: exit status 1 if there are any.
    #[arg(long)]
    check: bool,
    /// Formats standard input to standard output.
    #[arg(long, conflicts_with = "files")]
    stdin: bool,
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    let mut right = true;
    if arguments.stdin {
        right &= standard_input(arguments.check);
    }
    match below::files(&arguments.files, ENDING) {
        Ok(files) => {
            for file in &files {
                right &= rewritten(file, arguments.check);
            }
        }
        Err(nothing) => right &= failed(&nothing),
    }
    if right {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Formats a file. Returns false if that fails or, with `check`, if the file is not formatted.
fn rewritten(file: &Path, check: bool) -> bool {
    let name = file.display().to_string();
    let text = match graphmill_engine::read_regular(file) {
        Ok(text) => text,
        Err(error) => return failed(&format!("cannot read `{name}`: {error}")),
    };
    match formatted(&name, &text) {
        None => false,
        Some(formatted) if formatted.as_bytes() == text => true,
        Some(_) if check => failed(&format!("`{name}` is not formatted")),
        Some(formatted) => match std::fs::write(file, formatted) {
            Ok(()) => true,
            Err(error) => failed(&format!("cannot write `{name}`: {error}")),
        },
    }
}

fn standard_input(check: bool) -> bool {
    let mut text = Vec::new();
    if let Err(error) = io::stdin().read_to_end(&mut text) {
        return failed(&format!("cannot read standard input: {error}"));
    }
    match formatted("standard input", &text) {
        None => false,
        Some(formatted) if check => {
            formatted.as_bytes() == text || failed("standard input is not formatted")
        }
        Some(formatted) => {
            let printed = report::print(&formatted);
            printed.map_or_else(|why| failed(&why), |_| true)
        }
    }
}

/// Formats a text. If it cannot be parsed, prints the diagnostics and returns `None`.
fn formatted(name: &str, text: &[u8]) -> Option<String> {
    let mut sources = SourceMap::new();
    let formatted = fmt::format(&mut sources, name, text);
    formatted
        .map_err(|diagnostics| report::show(&sources, &diagnostics))
        .ok()
}

fn failed(message: &str) -> bool {
    report::error(message);
    false
}
