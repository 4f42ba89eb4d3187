//! `graphmill check`: what is wrong with graph files and configurations, without loading models.
//! Whether these are there is looked at.

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use graphmill_engine::{Environment, Registry, codes::sides};
use graphmill_grammar::{Diagnostic, SourceMap, diag::has_errors, render};
use serde_json::{Value, json};

use super::{Format, registry, report};
use crate::{
    config::{self, diagnostics, subgraphs::Named},
    servable::{answers, compile},
};

#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(super) struct Arguments {
    /// Graph files, or a config.json with all of its graphs.
    #[arg(required_unless_present = "explain", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Explain a code such as GM0301, with an example, instead of checking files.
    #[arg(long, value_name = "CODE", conflicts_with_all = ["files", "format"])]
    explain: Option<String>,
    /// How to print: for people on standard error, or as one JSON object on standard output.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Does not look for models, adapters and templates: they are on another machine.
    #[arg(long)]
    skip_models: bool,
    #[command(flatten)]
    further: registry::Further,
}

/// Prints the reference of one code.
fn explain(written: &str) -> ExitCode {
    let Some(code) = diagnostics::find(written) else {
        report::error(&format!(
            "there is no code `{written}`: codes are written `GM0301`"
        ));
        return ExitCode::FAILURE;
    };
    // Fails when the reader has read enough, as `head` does.
    let _ = io::stdout().write_all(diagnostics::entry(code).as_bytes());
    ExitCode::SUCCESS
}

/// What files are checked against.
struct Bench {
    environment: Environment,
    named: Named,
}

/// What is known of one file.
#[derive(Default)]
struct Checked {
    file: String,
    /// The graph's name in the configuration that lists it.
    graph: Option<String>,
    sources: SourceMap,
    diagnostics: Vec<Diagnostic>,
    /// What is wrong with the file as a whole.
    error: Option<String>,
    /// What is worth knowing and not wrong.
    note: Option<String>,
}

impl Checked {
    fn of(file: &Path) -> Self {
        Self {
            file: file.display().to_string(),
            ..Self::default()
        }
    }

    fn is_right(&self) -> bool {
        self.error.is_none() && !has_errors(&self.diagnostics)
    }
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    if let Some(code) = &arguments.explain {
        return explain(code);
    }
    let named = match arguments.further.named() {
        Ok(named) => named,
        Err(reason) => {
            report::error(&reason);
            return ExitCode::FAILURE;
        }
    };
    let environment = Environment::new(Registry::global());
    let environment = if arguments.skip_models {
        environment.without_loading()
    } else {
        environment.looking_only()
    };
    let bench = Bench { environment, named };
    let mut all = Vec::new();
    for file in &arguments.files {
        let is_config = file
            .extension()
            .is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
        if is_config {
            all.extend(config_and_graphs(file, &bench));
        } else {
            let folder = file.parent().unwrap_or(Path::new(""));
            all.push(graph(file, folder, &bench));
        }
    }
    match arguments.format {
        Format::Text => all.iter().for_each(show),
        Format::Json => {
            let files: Vec<Value> = all.iter().map(as_json).collect();
            let ok = all.iter().all(Checked::is_right);
            let text = format!("{:#}\n", json!({ "ok": ok, "files": files }));
            // Fails when the reader has read enough, as `head` does.
            let _ = io::stdout().write_all(text.as_bytes());
        }
    }
    if all.iter().all(Checked::is_right) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// A configuration, and each of its graphs.
fn config_and_graphs(file: &Path, bench: &Bench) -> Vec<Checked> {
    let loaded = config::load(file);
    let mut all = vec![Checked {
        sources: loaded.sources,
        diagnostics: loaded.diagnostics,
        ..Checked::of(file)
    }];
    let Some(config) = loaded.config else {
        return all;
    };
    let registry = config.register(bench.environment.registry().clone());
    let bench = &Bench {
        environment: bench.environment.clone().with_registry(registry),
        named: bench.named.clone(),
    };
    for entry in &config.graphs {
        let mut checked = graph(&entry.file, &entry.base, bench);
        checked.graph = Some(entry.id());
        checked.error = checked.error.or_else(|| entry.refused_subconfig());
        all.push(checked);
    }
    all
}

/// A graph file; paths in it are relative to `base`.
fn graph(file: &Path, base: &Path, bench: &Bench) -> Checked {
    let compiled = match compile(file, base, &bench.environment, &bench.named) {
        Ok(compiled) => compiled,
        Err(reason) => {
            return Checked {
                error: Some(reason),
                ..Checked::of(file)
            };
        }
    };
    let on_another_machine = |diagnostic: Diagnostic| {
        if diagnostic.code == &sides::RESOURCE_FAILED {
            return diagnostic
                .hint("`graphmill check --skip_models` checks a graph without its models");
        }
        diagnostic
    };
    // A graph need not be for REST: a test or a program of one's own may run it.
    let no_http = compiled.plan.and_then(|plan| answers(&plan).err());
    Checked {
        sources: compiled.sources,
        diagnostics: compiled
            .diagnostics
            .into_iter()
            .map(on_another_machine)
            .collect(),
        note: no_http,
        ..Checked::of(file)
    }
}

fn show(checked: &Checked) {
    report::show(&checked.sources, &checked.diagnostics);
    let graph = checked.graph.as_ref();
    let of = graph.map_or(String::new(), |graph| format!("graph `{graph}`: "));
    if let Some(error) = &checked.error {
        report::error(&format!("{of}{error}"));
    }
    if let Some(note) = &checked.note {
        report::note(&format!("{}: {note}", checked.file));
    }
    if let (Some(summary), true) = (
        render::summary(&checked.diagnostics),
        has_errors(&checked.diagnostics),
    ) {
        report::error(&format!("{of}{summary} in `{}`", checked.file));
    }
}

fn as_json(checked: &Checked) -> Value {
    let diagnostics: Vec<_> = checked
        .diagnostics
        .iter()
        .map(|diagnostic| render::json(&checked.sources, diagnostic))
        .collect();
    json!({
        "file": checked.file,
        "graph": checked.graph,
        "ok": checked.is_right(),
        "error": checked.error,
        "note": checked.note,
        "diagnostics": diagnostics,
    })
}
