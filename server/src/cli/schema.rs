//! `graphmill schema`: what an editor needs to know of a `config.json`.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use crate::config;

pub(super) fn run() -> ExitCode {
    // Fails when the reader has read enough, as `head` does.
    let _ = writeln!(io::stdout(), "{:#}", config::json_schema());
    ExitCode::SUCCESS
}
