//! `graphmill diff`: what two recordings of a session differ in.

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
pub(super) struct Arguments {
    /// Recording.
    #[arg(value_name = "FILE")]
    one: PathBuf,
    /// Recording to compare it with, of the same request or of the same graph.
    #[arg(value_name = "OTHER")]
    other: PathBuf,
    #[command(flatten)]
    further: registry::Further,
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    report::exit_code(compare(arguments).map(|difference| match difference {
        None => ExitCode::SUCCESS,
        Some(difference) => {
            print(&difference);
            ExitCode::FAILURE
        }
    }))
}

fn compare(arguments: &Arguments) -> Result<Option<String>, String> {
    let one = Recording::read(&arguments.one)?;
    let other = Recording::read(&arguments.other)?;
    let named = arguments.further.named()?;
    // Only to name the nodes: of a graph that does not compile here, streams are told alone.
    let environment = Environment::new(Registry::global()).without_loading();
    let (file, text) = (Path::new("recorded.pbtxt"), other.head.text.clone());
    let compiled = compile_text(file, text, Path::new(""), &environment, &named);
    Ok(difference::between(&one, &other, |stream| {
        producer(compiled.plan.as_deref()?, stream)
    }))
}

/// The node that puts out a stream.
pub(super) fn producer(plan: &Plan, stream: &str) -> Option<String> {
    let mut nodes = plan.explain().nodes.iter();
    let node = nodes.find(|node| node.outputs.iter().any(|port| port.name == stream))?;
    Some(node.name.clone())
}

/// Prints what differs.
pub(super) fn print(difference: &str) {
    if let Err(why) = report::print(difference) {
        report::error(&why);
    }
}
