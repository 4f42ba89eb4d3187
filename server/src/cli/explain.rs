//! `graphmill explain`: a graph as it runs, with its subgraphs expanded and what compilation
//! resolved.

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use graphmill_engine::{Environment, Registry};

use super::{registry, report};
use crate::{explain::Format, servable::compile};

#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(super) struct Arguments {
    /// Graph file.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    #[command(flatten)]
    further: registry::Further,
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    let base = arguments.file.parent().unwrap_or(Path::new(""));
    let compiled = arguments.further.named().and_then(|named| {
        let environment = Environment::new(Registry::global()).without_loading();
        compile(&arguments.file, base, &environment, &named)
    });
    let compiled = match compiled {
        Ok(compiled) => compiled,
        Err(reason) => {
            report::error(&reason);
            return ExitCode::FAILURE;
        }
    };
    report::show(&compiled.sources, &compiled.diagnostics);
    let Some(plan) = compiled.plan else {
        return ExitCode::FAILURE;
    };
    let text = arguments.format.write(plan.explain());
    // Fails when the reader has read enough, as `head` does.
    let _ = io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}
