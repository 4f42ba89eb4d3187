//! `graphmill calculators`: what graphs can use, from the registry of this binary.

use std::{
    fmt::Write as _,
    io::{self, Write as _},
    process::ExitCode,
};

use clap::Args;
use graphmill_engine::Registry;
use serde_json::{Value, json};

use super::{Format, report};
use crate::catalog;

#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(super) struct Arguments {
    /// List only those with this text in their name, in any case.
    text: Option<String>,
    /// How to print: a line each, or all that `describe` says of each.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    let registry = Registry::global();
    let part = arguments.text.as_deref().unwrap_or_default().to_lowercase();
    let wanted = |name: &str| name.to_lowercase().contains(&part);
    let mut calculators = registry.describe();
    calculators.retain(|found| wanted(found.name));
    let mut subgraphs: Vec<_> = registry.subgraphs().collect();
    subgraphs.retain(|found| wanted(&found.name));
    if calculators.is_empty() && subgraphs.is_empty() {
        report::error(&format!("no calculator has `{part}` in its name"));
        return ExitCode::FAILURE;
    }
    let text = match arguments.format {
        Format::Json => {
            let subgraphs: Vec<Value> = subgraphs.into_iter().map(catalog::subgraph_json).collect();
            format!(
                "{:#}\n",
                json!({ "calculators": calculators, "subgraphs": subgraphs })
            )
        }
        Format::Text => {
            let calculators = calculators.iter().map(|found| (found.name, found.doc));
            let subgraphs = subgraphs.iter().map(|found| (&*found.name, &*found.doc));
            list(calculators.chain(subgraphs).collect())
        }
    };
    // Fails when the reader has read enough, as `head` does.
    let _ = io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

fn list(mut lines: Vec<(&str, &str)>) -> String {
    lines.sort_unstable();
    let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut out = String::new();
    for (name, doc) in lines {
        let first = catalog::summary(doc);
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{name:width$}  {first}");
    }
    out
}
