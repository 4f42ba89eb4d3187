//! `graphmill calculators`: lists the calculators in the registry of this binary.

use std::{fmt::Write as _, process::ExitCode};

use clap::Args;
use graphmill_calculators::GROUPS;
use graphmill_engine::Registry;
use serde_json::{Value, json};

use super::{ReportFormat, report};
use crate::catalog;

#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(super) struct CalculatorsArguments {
    /// Text to search for in names and descriptions, in any case.
    text: Option<String>,
    /// Output format: `text` prints one line each, `json` prints all details.
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    format: ReportFormat,
}

pub(super) fn run(arguments: &CalculatorsArguments) -> Result<ExitCode, String> {
    let registry = Registry::global();
    let part = arguments.text.as_deref().unwrap_or_default().to_lowercase();
    let has_it = |text: &str| text.to_lowercase().contains(&part);
    let wanted = |name: &str, doc: &str| has_it(name) || has_it(catalog::summary(doc));
    let mut calculators = registry.describe();
    calculators.retain(|found| wanted(found.name, found.doc));
    let mut subgraphs: Vec<_> = registry.subgraphs().collect();
    subgraphs.retain(|found| wanted(&found.name, &found.doc));
    if calculators.is_empty() && subgraphs.is_empty() {
        return Err(format!(
            "no calculator has `{part}` in its name or description"
        ));
    }
    let text = match arguments.format {
        ReportFormat::Json => {
            let subgraphs: Vec<Value> = subgraphs.into_iter().map(catalog::subgraph_json).collect();
            format!(
                "{:#}\n",
                json!({ "calculators": calculators, "subgraphs": subgraphs })
            )
        }
        ReportFormat::Text => {
            let known = GROUPS.iter().map(|(_, group)| *group);
            let mut groups: Vec<(&str, Vec<(&str, &str)>)> =
                known.map(|group| (group, Vec::new())).collect();
            for found in &calculators {
                let (group, line) = (catalog::group(found), (found.name, found.doc));
                match groups.iter_mut().find(|(name, _)| *name == group) {
                    Some((_, lines)) => lines.push(line),
                    None => groups.push((group, vec![line])),
                }
            }
            let subgraphs = subgraphs.iter().map(|found| (&*found.name, &*found.doc));
            groups.push(("Subgraphs", subgraphs.collect()));
            listed(&groups)
        }
    };
    report::print(&text)
}

/// Formats a line for each calculator, under a heading for each group.
fn listed(groups: &[(&str, Vec<(&str, &str)>)]) -> String {
    let names = groups.iter().flat_map(|(_, lines)| lines);
    let width = names.map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut blocks = Vec::new();
    for (group, lines) in groups.iter().filter(|(_, lines)| !lines.is_empty()) {
        let mut block = format!("{group}\n");
        for (name, doc) in lines {
            // Writing to a string cannot fail.
            let _ = writeln!(block, "  {name:width$}  {}", catalog::summary(doc));
        }
        blocks.push(block);
    }
    blocks.join("\n")
}
