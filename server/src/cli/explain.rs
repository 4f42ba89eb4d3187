//! `graphmill explain`: prints a graph as it runs, with expanded subgraphs and the results of
//! compilation.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use graphmill_engine::{Environment, Registry};

use super::{registry, report, search};
use crate::{explain::ExplainFormat, servable::compile};

#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(super) struct ExplainArguments {
    /// Graph file to compile and print.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Output format: `text` for people, `json` for programs, or a diagram.
    #[arg(long, value_enum, default_value_t = ExplainFormat::Text)]
    format: ExplainFormat,
    #[command(flatten)]
    subgraphs: registry::SubgraphFlags,
}

/// Explains that a folder cannot be shown, and names its graph files.
fn is_folder(folder: &Path) -> String {
    const MOST: usize = 5;
    let files = search::in_folder(folder, ".pbtxt");
    let first = files.iter().take(MOST);
    let mut named: Vec<String> = first.map(|it| format!("`{}`", it.display())).collect();
    if files.len() > MOST {
        named.push(format!("{} more", files.len() - MOST));
    }
    let which = match named.as_slice() {
        [] => "it has no `*.pbtxt`".to_owned(),
        named => format!("name one of {}", named.join(", ")),
    };
    let folder = folder.display();
    format!("`{folder}` is a folder, expected a graph file: {which}")
}

pub(super) fn run(arguments: &ExplainArguments) -> Result<ExitCode, String> {
    if arguments.file.is_dir() {
        return Err(is_folder(&arguments.file));
    }
    let base = arguments.file.parent().unwrap_or(Path::new(""));
    let named = arguments.subgraphs.named()?;
    let environment = Environment::new(Registry::global()).without_loading();
    let compiled = compile(&arguments.file, base, &environment, &named)?;
    report::show(&compiled.sources, &compiled.diagnostics);
    let Some(plan) = compiled.plan else {
        return Ok(ExitCode::FAILURE);
    };
    report::print(&arguments.format.write(plan.explain()))
}
