//! `graphmill check`: checks graph files and configurations, and folders of them, without loading
//! models. It checks that the models exist.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use graphmill_engine::{Environment, Registry, codes::sides};
use graphmill_grammar::{Diagnostic, SourceMap, diag::has_errors, render};
use serde_json::{Value, json};

use super::{
    ReportFormat, archive, registry, report,
    serve::properties,
    source::{self, ModelFlags, ServeSource, has_ending, triton},
};
use crate::{
    config::{self, GraphEntry, diagnostics, subgraphs::NamedSubgraphs},
    servable::{CompileResult, answers, compile, compile_text},
};

#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(super) struct CheckArguments {
    /// Graph files, models, archives, a config.json with all of its graphs, a config.properties, or
    /// folders of them.
    #[arg(default_value = ".", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Explains a code such as GM0301, with an example, instead of checking files.
    #[arg(long, value_name = "CODE", conflicts_with_all = ["files", "format"])]
    explain: Option<String>,
    /// Output format: text on standard error, or one JSON object on standard output.
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    format: ReportFormat,
    /// Skips the check that models, adapters and templates exist, for machines without them.
    #[arg(long)]
    skip_models: bool,
    #[command(flatten)]
    subgraphs: registry::SubgraphFlags,
}

/// Prints the explanation of one code.
fn explain(written: &str) -> Result<ExitCode, String> {
    let code = diagnostics::find(written)
        .ok_or_else(|| format!("unknown code `{written}`: expected one such as `GM0301`"))?;
    report::print(&diagnostics::entry(code))
}

/// The environment that files are checked in.
struct Bench {
    environment: Environment,
    named: NamedSubgraphs,
}

/// The result of checking one file.
#[derive(Default)]
struct FileReport {
    file: String,
    /// Name of the graph in the configuration that lists it.
    graph: Option<String>,
    sources: SourceMap,
    diagnostics: Vec<Diagnostic>,
    /// Error of the file as a whole, such as that it cannot be read.
    error: Option<String>,
    /// Information that is not an error.
    note: Option<String>,
    /// True for a folder that has nothing to check.
    is_empty: bool,
}

impl FileReport {
    fn new(file: &Path) -> Self {
        Self {
            file: file.display().to_string(),
            ..Self::default()
        }
    }

    fn failed(file: &Path, why: String) -> Self {
        Self {
            error: Some(why),
            ..Self::new(file)
        }
    }

    fn is_right(&self) -> bool {
        self.error.is_none() && !has_errors(&self.diagnostics)
    }
}

pub(super) fn run(arguments: &CheckArguments) -> Result<ExitCode, String> {
    if let Some(code) = &arguments.explain {
        return explain(code);
    }
    let named = arguments.subgraphs.named()?;
    let environment = Environment::new(Registry::global());
    let environment = if arguments.skip_models {
        environment.without_loading()
    } else {
        environment.looking_only()
    };
    let bench = Bench { environment, named };
    let mut all = Vec::new();
    for path in &arguments.files {
        if path.is_dir() {
            all.extend(folder(path, &bench));
        } else {
            all.extend(file(path, &bench));
        }
    }
    let ok = all.iter().all(FileReport::is_right);
    match arguments.format {
        ReportFormat::Text => all.iter().for_each(show),
        ReportFormat::Json => {
            let files: Vec<Value> = all.iter().map(as_json).collect();
            report::print(&format!("{:#}\n", json!({ "ok": ok, "files": files })))?;
        }
    }
    Ok(report::passed(ok))
}

/// Checks the graphs that `serve` would serve from a folder. If there are none, checks its
/// subfolders and other graph files.
fn folder(path: &Path, bench: &Bench) -> Vec<FileReport> {
    let why = match ServeSource::from_path(path) {
        Ok(found) => return check_source(&found, bench),
        Err(why) => why,
    };
    let mut all = Vec::new();
    for entry in entries(path) {
        // Links could form cycles.
        if entry.is_dir() && !entry.is_symlink() {
            let inside = folder(&entry, bench).into_iter();
            all.extend(inside.filter(|checked| !checked.is_empty));
        } else if has_ending(&entry, &["pbtxt"]) {
            all.extend(file(&entry, bench));
        }
    }
    if all.is_empty() {
        all.push(FileReport {
            is_empty: true,
            ..FileReport::failed(path, why)
        });
    }
    all
}

/// Lists a folder sorted by name, without hidden files. One that cannot be read is empty.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut paths = source::entries(folder).unwrap_or_default();
    let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_owned();
    paths.retain(|path| !name(path).to_string_lossy().starts_with('.'));
    paths
}

fn file(path: &Path, bench: &Bench) -> Vec<FileReport> {
    if source::is_model(path) {
        vec![model(path, bench)]
    } else if has_ending(path, &["properties"]) {
        vec![properties_file(path)]
    } else if has_ending(path, &["json"]) {
        config_and_graphs(path, bench)
    } else if path.file_name().is_some_and(|name| name == triton::FILE) {
        triton_model(path, bench)
    } else if has_ending(path, &[archive::ENDING, "mar"]) {
        match ServeSource::from_path(path) {
            Ok(source) => check_source(&source, bench),
            Err(why) => vec![FileReport::failed(path, why)],
        }
    } else {
        vec![graph(path, path.parent().unwrap_or(Path::new("")), bench)]
    }
}

fn check_source(source: &ServeSource, bench: &Bench) -> Vec<FileReport> {
    match source {
        ServeSource::Configuration(file) => config_and_graphs(file, bench),
        ServeSource::Graph { file, base } => vec![graph(file, base, bench)],
        ServeSource::Model(file) => vec![model(file, bench)],
        ServeSource::Models(root) | ServeSource::Repository(root) => folder(root, bench),
        // Models on Hugging Face are not checked, as they may not be on this machine.
        ServeSource::Named(_) => Vec::new(),
    }
}

/// Checks a model, and the built-in graph that suits it.
fn model(file: &Path, bench: &Bench) -> FileReport {
    match source::one_model(file, None, &ModelFlags::default()) {
        Ok(config) => match config.graphs.first() {
            Some(entry) => built_in(file, entry, bench),
            None => FileReport::new(file),
        },
        Err(why) => FileReport::failed(file, why),
    }
}

/// Checks a graph that was generated for the model in `file`.
fn built_in(file: &Path, entry: &GraphEntry, bench: &Bench) -> FileReport {
    let text = entry.text.as_deref().unwrap_or_default();
    let (environment, named) = (&bench.environment, &bench.named);
    let compiled = compile_text(&entry.file, text, &entry.base, environment, named);
    compiled_graph(file, compiled)
}

/// Checks a `config.properties` of TorchServe.
fn properties_file(file: &Path) -> FileReport {
    match properties::check(file) {
        Ok(warnings) => FileReport {
            note: (!warnings.is_empty()).then(|| warnings.join("; ")),
            ..FileReport::new(file)
        },
        Err(why) => FileReport::failed(file, why),
    }
}

/// Checks a model of Triton's repository, and the graph of each of its versions.
fn triton_model(file: &Path, bench: &Bench) -> Vec<FileReport> {
    let whole = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let folder = whole.parent().unwrap_or(Path::new(""));
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let loaded = triton::load(folder, &name, None);
    let mut all = vec![FileReport {
        sources: loaded.sources,
        diagnostics: loaded.diagnostics,
        ..FileReport::new(file)
    }];
    for entry in loaded.graphs {
        all.push(FileReport {
            graph: Some(entry.id()),
            ..built_in(file, &entry, bench)
        });
    }
    all
}

/// Checks a configuration and each of its graphs, also if the configuration has errors.
fn config_and_graphs(file: &Path, bench: &Bench) -> Vec<FileReport> {
    let mut loaded = config::load(file);
    loaded.diagnostics.append(&mut loaded.lacking);
    let mut all = vec![FileReport {
        sources: loaded.sources,
        diagnostics: loaded.diagnostics,
        ..FileReport::new(file)
    }];
    let config = loaded.listed;
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

/// Checks a graph file. Paths in it are relative to `base`.
fn graph(file: &Path, base: &Path, bench: &Bench) -> FileReport {
    match compile(file, base, &bench.environment, &bench.named) {
        Ok(compiled) => compiled_graph(file, compiled),
        Err(why) => FileReport::failed(file, why),
    }
}

fn compiled_graph(file: &Path, compiled: CompileResult) -> FileReport {
    let on_another_machine = |diagnostic: Diagnostic| match diagnostic.code {
        code if code == &sides::RESOURCE_FAILED => {
            diagnostic.hint("`graphmill check --skip_models` checks a graph without its models")
        }
        _ => diagnostic,
    };
    // A graph without HTTP is valid: a test or another program may run it.
    let no_http = compiled.plan.and_then(|plan| answers(&plan).err());
    FileReport {
        sources: compiled.sources,
        diagnostics: compiled
            .diagnostics
            .into_iter()
            .map(on_another_machine)
            .collect(),
        note: no_http,
        ..FileReport::new(file)
    }
}

fn show(checked: &FileReport) {
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

fn as_json(checked: &FileReport) -> Value {
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
