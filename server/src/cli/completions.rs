//! `graphmill completions`: prints a shell's completion script.

use std::process::ExitCode;

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::{Cli, report};

#[derive(Debug, Args)]
pub(super) struct CompletionsArguments {
    /// Shell that reads the completion script.
    #[arg(value_enum)]
    shell: Shell,
}

pub(super) fn run(arguments: &CompletionsArguments) -> Result<ExitCode, String> {
    let mut script = Vec::new();
    clap_complete::generate(
        arguments.shell,
        &mut Cli::command(),
        "graphmill",
        &mut script,
    );
    report::print(&String::from_utf8_lossy(&script))
}
