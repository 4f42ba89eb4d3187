//! Output of commands: diagnostics and messages on standard error, results on standard output.

use std::{
    io::{self, ErrorKind, IsTerminal as _, Write as _},
    process::ExitCode,
};

use graphmill_grammar::{
    Diagnostic, SourceMap,
    render::{self, Color},
};

use crate::telemetry::log;

/// Prints diagnostics in readable form, with excerpts of their files.
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

/// Prints the error that ends a command, in one line.
pub(super) fn error(message: &str) {
    log::print(&format!("error: {message}"));
}

/// Returns the exit status of a command, after printing its error if there is one.
pub(super) fn exit_code(ended: Result<ExitCode, String>) -> ExitCode {
    ended.unwrap_or_else(|message| {
        error(&message);
        ExitCode::FAILURE
    })
}

/// Returns the exit status of a check.
pub(super) fn passed(ok: bool) -> ExitCode {
    ExitCode::from(u8::from(!ok))
}

/// Prints the result of a command. It is not an error if the reader closes the pipe early, as
/// `head` does.
///
/// # Errors
/// A message if standard output cannot be written to.
pub(super) fn print(text: &str) -> Result<ExitCode, String> {
    let mut out = io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(unwritable(&error)),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Formats an error of writing to standard output.
pub(super) fn unwritable(error: &io::Error) -> String {
    format!("cannot write to standard output: {error}")
}

/// Prints a message that is not an error, in one line.
pub(super) fn note(message: &str) {
    log::print(&format!("note: {message}"));
}
