//! `graphmill explain`: a graph as it runs, with its subgraphs expanded and what compilation resolved.

use std::{
    fmt::Write as _,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use graphmill_engine::{
    Environment, Registry,
    plan::{Explain, ExplainNode},
};

use super::{calculators::Format, report};
use crate::servable::compile;

#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(super) struct Arguments {
    /// A graph file.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// How to print.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    let base = arguments.file.parent().unwrap_or(Path::new(""));
    let environment = Environment::new(Registry::global()).without_loading();
    let compiled = match compile(&arguments.file, base, &environment) {
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
    let text = match arguments.format {
        Format::Json => format!("{:#}\n", serde_json::json!(plan.explain())),
        Format::Text => as_text(plan.explain()),
    };
    // Fails when the reader has read enough, as `head` does.
    let _ = io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

fn as_text(explain: &Explain) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(out, "takes in  {}", explain.inputs.join(", "));
    let _ = writeln!(out, "gives out {}", explain.outputs.join(", "));
    for node in &explain.nodes {
        out.push('\n');
        describe(&mut out, node);
    }
    out
}

fn describe(out: &mut String, node: &ExplainNode) {
    let within = match node.within.as_slice() {
        [] => String::new(),
        within => format!(", in {}", within.join(" > ")),
    };
    let _ = writeln!(out, "{} ({}){within}", node.name, node.calculator);
    let _ = writeln!(out, "  called: {}; runs: {}", node.policy, node.runs);
    for (kind, ports) in [
        ("in", &node.inputs),
        ("out", &node.outputs),
        ("side in", &node.side_inputs),
        ("side out", &node.side_outputs),
    ] {
        for port in ports {
            let back = if port.back_edge { ", back edge" } else { "" };
            let tag = if port.port.is_empty() { "" } else { ":" };
            let _ = writeln!(
                out,
                "  {kind:8} {}{tag}{}: {}{back}",
                port.port, port.name, port.ty
            );
        }
    }
}
