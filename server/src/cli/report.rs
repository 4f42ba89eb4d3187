//! Diagnostics on standard error.

use std::{io::IsTerminal as _, process::ExitCode};

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

/// Shows one line that is worth knowing.
pub(super) fn note(message: &str) {
    log::print(&format!("note: {message}"));
}
