//! `graphmill pull`, `list` and `rm`: models in Hugging Face's cache.

use std::{fmt::Write as _, iter, path::PathBuf, process::ExitCode};

use clap::Args;

use super::{ReportFormat, progress, report};
use crate::{
    hub::{self, Cache, CachedFile, FetchedModel, ModelName, Order, bytes},
    telemetry::log::{self, Level, shown},
};

#[derive(Debug, Args)]
#[command(rename_all = "snake_case", after_help = VARIABLES)]
pub(super) struct Pull {
    /// Repository with GGUF files, as `org/repo`, `org/repo:Q8_0` or `org/repo:file.gguf`. If the
    /// name selects no file, `Q4_K_M` or the only model is downloaded.
    #[arg(value_name = "NAME")]
    name: ModelName,
    /// Folder for the files [default: Hugging Face's cache].
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Downloads files even if they already exist.
    #[arg(long)]
    overwrite: bool,
}

const VARIABLES: &str = "Variables: HF_TOKEN (for gated and private models), HF_ENDPOINT, \
                         HF_HOME, HF_HUB_CACHE, HF_HUB_OFFLINE, HTTPS_PROXY.";

#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(super) struct List {
    /// Output format: `text` for people, `json` for programs.
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    format: ReportFormat,
}

#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(super) struct Remove {
    /// Repository, as `org/repo`, or some of its files, as `org/repo:Q8_0` or `org/repo:file.gguf`.
    #[arg(value_name = "NAME")]
    name: ModelName,
}

pub(super) fn pull(arguments: &Pull) -> Result<ExitCode, String> {
    let order = Order {
        name: arguments.name.clone(),
        folder: arguments.folder.clone(),
        again: arguments.overwrite,
    };
    pulled(&order)
}

/// Downloads a model, shows the progress, and prints the paths of its files.
pub(super) fn pulled(order: &Order) -> Result<ExitCode, String> {
    log::start(Level::Warning, log::LogFormat::Text, None)?;
    let FetchedModel { model, projector } = shown_while(|| hub::fetch(order))?;
    let line = |path: PathBuf| format!("{}\n", path.display());
    let lines: String = iter::once(model).chain(projector).map(line).collect();
    report::print(&lines)
}

/// Shows the progress of a download during `work`.
pub(super) fn shown_while<T>(work: impl FnOnce() -> T) -> T {
    progress::shown_while(hub::progress::line, work)
}

pub(super) fn list(arguments: &List) -> Result<ExitCode, String> {
    let files = Cache::from_environment()?.list()?;
    report::print(&match arguments.format {
        ReportFormat::Text => table(&files),
        ReportFormat::Json => format!("{}\n", serde_json::json!(files)),
    })
}

fn table(files: &[CachedFile]) -> String {
    let names = files
        .iter()
        .map(|file| shown(&format!("{}:{}", file.repository, file.file)));
    let names: Vec<String> = names.collect();
    let width = names.iter().map(String::len).max().unwrap_or_default();
    let mut table = String::new();
    for (name, file) in names.iter().zip(files) {
        // Writing to a string cannot fail.
        let _ = writeln!(table, "{name:width$}  {:>7}", bytes(file.bytes));
    }
    table
}

pub(super) fn remove(arguments: &Remove) -> Result<ExitCode, String> {
    let name = &arguments.name;
    let freed = Cache::from_environment()?.remove(name)?;
    report::note(&format!("removed `{name}`: {} freed", bytes(freed)));
    Ok(ExitCode::SUCCESS)
}
