//! Diagnostics on standard error.

use std::{
    io::{self, ErrorKind, IsTerminal as _, Write as _},
    process::ExitCode,
};

use graphmill_grammar::{
    Diagnostic, SourceMap,
    render::{self, Color},
};

use crate::observe::log;

/// Shows diagnostics to a person.
pub(super) fn show(sources: &SourceMap, diagnostics: &[Diagnostic]) {
    let color = if std::io::stderr().is_terminal() {
        Color::Ansi
    } else {
        Color::Plain
    };
    if !diagnostics.is_empty() {
        log::print(&render::human(sources, diagnostics, color));
    }
}

/// Shows one line that says why the command ends.
pub(super) fn error(message: &str) {
    log::print(&format!("error: {message}"));
}

/// The code that a command ends with: why it could not do its work is shown.
pub(super) fn exit_code(ended: Result<ExitCode, String>) -> ExitCode {
    ended.unwrap_or_else(|message| {
        error(&message);
        ExitCode::FAILURE
    })
}

/// Writes what a command was asked for. The error says why that cannot be written; a reader that has
/// read enough, as `head` does, is none.
pub(super) fn print(text: &str) -> Result<ExitCode, String> {
    let mut out = io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(unwritable(&error)),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Says why nothing can be written to standard output.
pub(super) fn unwritable(error: &io::Error) -> String {
    format!("cannot write to standard output: {error}")
}

/// Shows one line that is worth knowing.
pub(super) fn note(message: &str) {
    log::print(&format!("note: {message}"));
}
