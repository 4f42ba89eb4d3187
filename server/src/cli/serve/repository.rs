//! What OpenVINO Model Server's command line does to a configuration instead of serving it: listing
//! what a folder has, adding a graph, removing one.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use clap::Args;

use super::edit;
use crate::{cli::report, config};

#[derive(Debug, Args)]
#[command(rename_all = "snake_case", next_help_heading = "Instead of serving")]
pub(super) struct Editing {
    /// Lists what can be served in `--model_repository_path`, a name a line: folders with a graph or
    /// a model.
    #[arg(long, requires = "model_repository_path", conflicts_with_all = ["add_to_config", "remove_from_config"])]
    list_models: bool,
    /// Adds the graph `--model_name` in the folder `--model_path`, or in the folder of that name in
    /// `--model_repository_path`, to the file `--config_path`.
    #[arg(long, requires = "model_name", conflicts_with = "remove_from_config")]
    add_to_config: bool,
    /// Removes the graph `--model_name` from the file `--config_path`.
    #[arg(long, requires = "model_name")]
    remove_from_config: bool,
    /// A folder of folders, each with a graph or a model. Where `--model_path` is not given,
    /// `--model_name` is looked for in it.
    #[arg(long, value_name = "FOLDER")]
    pub(super) model_repository_path: Option<PathBuf>,
}

/// What a command line says of a graph in a configuration.
pub(super) struct Named<'a> {
    pub(super) config: &'a Path,
    pub(super) name: Option<&'a str>,
    pub(super) folder: Option<PathBuf>,
}

impl Editing {
    /// Does what the flags say, if they say anything.
    pub(super) fn run(&self, named: &Named<'_>) -> Option<Result<(), String>> {
        let name = named.name.unwrap_or_default();
        if self.list_models {
            Some(self.list())
        } else if self.add_to_config {
            Some(add(named.config, name, named.folder.as_deref()))
        } else if self.remove_from_config {
            Some(remove(named.config, name))
        } else {
            None
        }
    }

    fn list(&self) -> Result<(), String> {
        let root = self
            .model_repository_path
            .as_deref()
            .unwrap_or(Path::new("."));
        let mut found = Vec::new();
        look(root, root, &mut found)?;
        found.sort();
        for name in found {
            // Fails when the reader has read enough, as `head` does.
            let _ = writeln!(io::stdout(), "{name}");
        }
        Ok(())
    }
}

/// Folders in folders, as far as models are kept.
const DEPTH: usize = 8;

/// Collects the folders in `folder` that can be served, by their path in `root`.
fn look(root: &Path, folder: &Path, found: &mut Vec<String>) -> Result<(), String> {
    let unreadable = |error| format!("cannot read `{}`: {error}", folder.display());
    let inside = folder.strip_prefix(root).unwrap_or(Path::new(""));
    let (mut folders, mut is_served) = (Vec::new(), false);
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let is_model = path.extension().is_some_and(|end| end == "gguf");
        if path.is_dir() {
            folders.push(path);
        } else if is_model || path.file_name().is_some_and(|name| name == "graph.pbtxt") {
            is_served = true;
        }
    }
    is_served |= folder.join("1/graph.pbtxt").is_file();
    if is_served && inside != Path::new("") {
        found.push(inside.display().to_string());
    } else if inside.components().count() < DEPTH {
        for folder in folders {
            look(root, &folder, found)?;
        }
    }
    Ok(())
}

fn add(file: &Path, name: &str, folder: Option<&Path>) -> Result<(), String> {
    let folder = folder.ok_or(
        "`--add_to_config` needs the graph's folder: --model_path, or --model_repository_path",
    )?;
    if let Some(why) = config::wrong_name(name) {
        return Err(format!("`--model_name {name}` {why}"));
    }
    if !folder.is_dir() {
        return Err(format!("`{}` is no folder", folder.display()));
    }
    let base = relative(folder, file)?;
    edit::change(file, |text| edit::added(text, name, &base))?;
    if !["graph.pbtxt", "1/graph.pbtxt"]
        .iter()
        .any(|graph| folder.join(graph).is_file())
    {
        let shown = folder.display();
        report::note(&format!(
            "`{shown}` has no graph.pbtxt yet: `graphmill serve {shown} --emit_graph > \
             {shown}/graph.pbtxt` writes one for its model"
        ));
    }
    Ok(())
}

fn remove(file: &Path, name: &str) -> Result<(), String> {
    edit::change(file, |text| edit::removed(text, name))
}

/// How a configuration names a folder: relative to its own where it is inside of that.
fn relative(folder: &Path, config: &Path) -> Result<String, String> {
    let whole = |path: &Path| {
        path.canonicalize()
            .map_err(|error| format!("cannot find `{}`: {error}", path.display()))
    };
    let home = match config.parent() {
        Some(parent) if parent != Path::new("") => whole(parent)?,
        _ => whole(Path::new("."))?,
    };
    let folder = whole(folder)?;
    let path = match folder.strip_prefix(&home) {
        Ok(inside) if inside == Path::new("") => PathBuf::from("."),
        Ok(inside) => inside.to_owned(),
        Err(_) => folder,
    };
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| format!("the path `{}` is not UTF-8", path.display()))
}
