//! Diagnostics on standard error.

use std::io::IsTerminal as _;

use graphmill_grammar::{
    Diagnostic, SourceMap,
    render::{self, Color},
};

/// Shows diagnostics to a person.
#[expect(
    clippy::print_stderr,
    reason = "this is the command line's output, not the server's log"
)]
pub(super) fn show(sources: &SourceMap, diagnostics: &[Diagnostic]) {
    let color = if std::io::stderr().is_terminal() {
        Color::Ansi
    } else {
        Color::Plain
    };
    if !diagnostics.is_empty() {
        eprintln!("{}", render::human(sources, diagnostics, color));
    }
}

/// Shows one line that says why the command ends.
#[expect(
    clippy::print_stderr,
    reason = "this is the command line's output, not the server's log"
)]
pub(super) fn error(message: &str) {
    eprintln!("error: {message}");
}

/// Shows one line that is worth knowing.
#[expect(
    clippy::print_stderr,
    reason = "this is the command line's output, not the server's log"
)]
pub(super) fn note(message: &str) {
    eprintln!("note: {message}");
}
