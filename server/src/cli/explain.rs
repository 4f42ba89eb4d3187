//! `graphmill explain`: prints a graph as it runs, with expanded subgraphs and the results of
//! compilation.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use graphmill_engine::{Environment, Registry};

use super::{below, registry, report};
use crate::{explain::ExplainFormat, servable::compile};

#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(super) struct Arguments {
    /// Graph file to compile and print.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Output format: `text` for people, `json` for programs, or a diagram.
    #[arg(long, value_enum, default_value_t = ExplainFormat::Text)]
    format: ExplainFormat,
    #[command(flatten)]
    further: registry::Further,
}

/// Explains that a folder cannot be shown, and names its graph files.
fn is_folder(folder: &Path) -> String {
    const MOST: usize = 5;
    let files = below::in_folder(folder, ".pbtxt");
    let mut named: Vec<String> = files
        .iter()
        .take(MOST)
        .map(|it| format!("`{}`", it.display()))
        .collect();
    if files.len() > MOST {
        named.push(format!("{} more", files.len() - MOST));
    }
    let which = match named.join(", ") {
        none if none.is_empty() => "it has no `*.pbtxt`".to_owned(),
        named => format!("name one of {named}"),
    };
    format!(
        "`{}` is a folder, expected a graph file: {which}",
        folder.display()
    )
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    if arguments.file.is_dir() {
        report::error(&is_folder(&arguments.file));
        return ExitCode::FAILURE;
    }
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
    report::exit_code(report::print(&text))
}
