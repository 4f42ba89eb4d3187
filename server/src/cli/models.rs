//! `graphmill pull`, `list` and `rm`: models in Hugging Face's cache.

use std::{
    fmt::Write as _,
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use clap::Args;

use super::{Format, progress, report};
use crate::{
    hub::{self, Cache, CachedFile, FetchedModel, ModelName, Order, bytes},
    observe::log::{self, Level, shown},
};

#[derive(Debug, Args)]
#[command(rename_all = "snake_case", after_help = VARIABLES)]
pub(super) struct Pull {
    /// Repository with GGUF files, as `org/repo`, `org/repo:Q8_0` or `org/repo:file.gguf`. Without
    /// a choice, `Q4_K_M` or the only model is downloaded.
    #[arg(value_name = "NAME")]
    name: ModelName,
    /// Folder for the files [default: Hugging Face's cache].
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Downloads files again that already exist.
    #[arg(long)]
    overwrite: bool,
}

const VARIABLES: &str = "Variables: HF_TOKEN (for gated and private models), HF_ENDPOINT, \
                         HF_HOME, HF_HUB_CACHE, HF_HUB_OFFLINE, HTTPS_PROXY.";

#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(super) struct List {
    /// Output format: `text` for people, `json` for programs.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(super) struct Remove {
    /// Repository, as `org/repo`, or some of its files, as `org/repo:Q8_0` or `org/repo:file.gguf`.
    #[arg(value_name = "NAME")]
    name: ModelName,
}

pub(super) fn pull(arguments: &Pull) -> ExitCode {
    let order = Order {
        name: arguments.name.clone(),
        folder: arguments.folder.clone(),
        again: arguments.overwrite,
    };
    report::exit_code(pulled(&order))
}

/// Downloads a model and prints its path.
pub(super) fn pulled(order: &Order) -> Result<ExitCode, String> {
    let FetchedModel { model, projector } = fetched(order)?;
    let paths = [Some(model), projector].into_iter().flatten();
    for path in paths {
        print(&format!(
            "{}
",
            path.display()
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Downloads a model, and shows the progress.
fn fetched(order: &Order) -> Result<FetchedModel, String> {
    log::start(Level::Warning, log::LogFormat::Text, None)?;
    shown_while(|| hub::fetch(order))
}

/// Shows the progress of a download during `work`.
pub(super) fn shown_while<T>(work: impl FnOnce() -> T) -> T {
    let part = || Some((hub::progress::line()?, hub::progress::stage()?.1));
    progress::shown_while(part, work)
}

pub(super) fn list(arguments: &List) -> ExitCode {
    let files = Cache::from_environment().and_then(|cache| cache.list());
    report::exit_code(files.map(|files| {
        print(&match arguments.format {
            Format::Text => table(&files),
            Format::Json => format!("{}\n", serde_json::json!(files)),
        });
        ExitCode::SUCCESS
    }))
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

pub(super) fn remove(arguments: &Remove) -> ExitCode {
    let name = &arguments.name;
    let removed = Cache::from_environment().and_then(|cache| cache.remove(name));
    report::exit_code(removed.map(|freed| {
        report::note(&format!("removed `{name}`: {} freed", bytes(freed)));
        ExitCode::SUCCESS
    }))
}

fn print(text: &str) {
    // Fails if the reader closes its end early, as `head` does.
    let _ = io::stdout().write_all(text.as_bytes());
}
