//! `graphmill diff`: compares two recordings of sessions.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use graphmill_engine::{Environment, Plan, Registry};

use super::{registry, report};
use crate::{
    offline::{difference, recording::Recording},
    servable::compile_text,
};

#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(super) struct DiffArguments {
    /// Recording to compare, as `graphmill record` writes it.
    #[arg(value_name = "FILE")]
    one: PathBuf,
    /// Recording to compare it with, of the same request or the same graph.
    #[arg(value_name = "OTHER")]
    other: PathBuf,
    #[command(flatten)]
    subgraphs: registry::SubgraphFlags,
}

pub(super) fn run(arguments: &DiffArguments) -> Result<ExitCode, String> {
    let one = Recording::read(&arguments.one)?;
    let other = Recording::read(&arguments.other)?;
    let named = arguments.subgraphs.named()?;
    // The plan only names the nodes. If the graph does not compile here, only streams are named.
    let environment = Environment::new(Registry::global()).without_loading();
    let (file, text) = (Path::new("recorded.pbtxt"), other.head.text.clone());
    let compiled = compile_text(file, text, Path::new(""), &environment, &named);
    let difference = difference::between(&one, &other, |stream| {
        producer(compiled.plan.as_deref()?, stream)
    });
    let Some(difference) = difference else {
        return Ok(ExitCode::SUCCESS);
    };
    report::print(&difference)?;
    Ok(ExitCode::FAILURE)
}

/// Returns the node that produces a stream.
pub(super) fn producer(plan: &Plan, stream: &str) -> Option<String> {
    let mut nodes = plan.explain().nodes.iter();
    let node = nodes.find(|node| node.outputs.iter().any(|port| port.name == stream))?;
    Some(node.name.clone())
}
