//! `graphmill check`: what is wrong with graph files and configurations, without loading models.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use graphmill_engine::{Environment, Registry};
use graphmill_grammar::diag::has_errors;

use super::report;
use crate::{
    config,
    servable::{answers_http, compile},
};

#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(super) struct Arguments {
    /// Graph files, or a config.json with all of its graphs.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    let environment = Environment::new(Registry::global()).without_loading();
    let mut right = true;
    for file in &arguments.files {
        let is_config = file
            .extension()
            .is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
        right &= if is_config {
            config_is_right(file, &environment)
        } else {
            graph_is_right(file, folder_of(file), &environment)
        };
    }
    if right {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn folder_of(file: &Path) -> &Path {
    file.parent().unwrap_or(Path::new(""))
}

/// Shows what is wrong with a configuration and each of its graphs.
fn config_is_right(file: &Path, environment: &Environment) -> bool {
    let loaded = config::load(file);
    report::show(&loaded.sources, &loaded.diagnostics);
    let Some(config) = loaded.config else {
        return false;
    };
    let mut right = true;
    for graph in &config.graphs {
        if let Some(reason) = graph.refused_subconfig() {
            report::error(&format!("graph `{}`: {reason}", graph.name));
            right = false;
        }
        if !graph_is_right(&graph.file, &graph.base, environment) {
            report::error(&format!(
                "graph `{}` of `{}` is wrong",
                graph.name,
                file.display()
            ));
            right = false;
        }
    }
    right
}

/// Shows what is wrong with a graph file; paths in it are relative to `base`.
fn graph_is_right(file: &Path, base: &Path, environment: &Environment) -> bool {
    let compiled = match compile(file, base, environment) {
        Ok(compiled) => compiled,
        Err(reason) => {
            report::error(&reason);
            return false;
        }
    };
    report::show(&compiled.sources, &compiled.diagnostics);
    if let Some(plan) = &compiled.plan
        && let Err(reason) = answers_http(plan)
    {
        // A graph need not be for REST: a test or a program of one's own may run it.
        report::note(&format!("{}: {reason}", file.display()));
    }
    !has_errors(&compiled.diagnostics)
}
