//! `graphmill explain`: a graph as it runs, with its subgraphs expanded and what compilation
//! resolved.

mod diagrams;
mod drawing;
mod layout;
mod svg;
mod text;

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, ValueEnum};
use graphmill_engine::{Environment, Registry};

use super::{registry, report};
use crate::servable::compile;
use drawing::draw;

#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(super) struct Arguments {
    /// A graph file.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// How to print.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    #[command(flatten)]
    further: registry::Further,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Text,
    /// For programs: everything.
    Json,
    /// A diagram in the language of Graphviz.
    Dot,
    /// A diagram in the language of Mermaid.
    Mermaid,
    /// A picture.
    Svg,
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
    let explain = plan.explain();
    let text = match arguments.format {
        Format::Text => text::text(explain),
        Format::Json => format!("{:#}\n", serde_json::json!(explain)),
        Format::Dot => diagrams::dot(&draw(explain)),
        Format::Mermaid => diagrams::mermaid(&draw(explain)),
        Format::Svg => svg::svg(&draw(explain)),
    };
    // Fails when the reader has read enough, as `head` does.
    let _ = io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}
