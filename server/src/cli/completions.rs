//! `graphmill completions`: what a shell needs to complete command lines.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::Cli;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Shell.
    #[arg(value_enum)]
    shell: Shell,
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(
        arguments.shell,
        &mut Cli::command(),
        "graphmill",
        &mut script,
    );
    // Fails when the reader has read enough, as `head` does.
    let _ = io::stdout().write_all(&script);
    ExitCode::SUCCESS
}
