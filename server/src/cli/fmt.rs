//! `graphmill fmt`: formats graph files.

use std::{
    io::{self, Read as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use graphmill_grammar::{SourceMap, fmt};

use super::{report, search};

/// File extension of graph files.
const ENDING: &str = ".pbtxt";

#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(super) struct FmtArguments {
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

pub(super) fn run(arguments: &FmtArguments) -> Result<ExitCode, String> {
    if arguments.stdin {
        return standard_input(arguments.check).map(report::passed);
    }
    let mut right = true;
    for file in search::files(&arguments.files, ENDING)? {
        right &= rewritten(&file, arguments.check).unwrap_or_else(|why| {
            report::error(&why);
            false
        });
    }
    Ok(report::passed(right))
}

/// Formats a file. Returns false if it cannot be parsed. With `check`, a file that is not formatted
/// is an error.
fn rewritten(file: &Path, check: bool) -> Result<bool, String> {
    let name = file.display().to_string();
    let text = graphmill_engine::read_regular(file)
        .map_err(|error| format!("cannot read `{name}`: {error}"))?;
    match formatted(&name, &text) {
        None => Ok(false),
        Some(formatted) if formatted.as_bytes() == text => Ok(true),
        Some(_) if check => Err(format!("`{name}` is not formatted")),
        Some(formatted) => {
            let written = std::fs::write(file, formatted);
            written.map_err(|error| format!("cannot write `{name}`: {error}"))?;
            Ok(true)
        }
    }
}

/// Formats standard input, as [`rewritten`] formats a file.
fn standard_input(check: bool) -> Result<bool, String> {
    let mut text = Vec::new();
    io::stdin()
        .read_to_end(&mut text)
        .map_err(|error| format!("cannot read standard input: {error}"))?;
    match formatted("standard input", &text) {
        None => Ok(false),
        Some(formatted) if !check => report::print(&formatted).map(|_| true),
        Some(formatted) if formatted.as_bytes() == text => Ok(true),
        Some(_) => Err("standard input is not formatted".to_owned()),
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
