//! Repositories: folders of folders, each with a graph, a model or an archive.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use graphmill_engine::shortened;
use graphmill_grammar::{diag::Severity, suggest};

use super::{
    ModelFlags, ServeSource,
    files::{entries, graph_in, rank},
    one_graph, one_model, triton,
};
use crate::{
    config::{self, Config, ModelReader},
    telemetry::log::shown,
};

/// The contents of a repository.
#[derive(Debug, Default)]
pub(in crate::cli) struct Repository {
    /// All graphs and models that can be served, by the names of their folders.
    pub(in crate::cli) config: Config,
    /// Warnings about fields without effect in the files of models.
    pub(in crate::cli) notes: Vec<String>,
    /// Reasons for which folders with a graph or a model are left out.
    pub(in crate::cli) left_out: Vec<String>,
}

/// Lists all that can be served in a repository.
///
/// # Errors
/// If there is nothing to serve.
pub(in crate::cli) fn all_in(root: &Path) -> Result<Repository, String> {
    let mut all = Repository::default();
    let names = folders_in(root)?;
    for name in &names {
        match one_in(&root.join(name), name, None, &mut all.notes) {
            Ok(one) => all.config.graphs.extend(one.graphs),
            Err(why) => all.left_out.push(format!("`{name}` is left out: {why}")),
        }
    }
    if !all.config.graphs.is_empty() {
        all.left_out.extend(empty_in(root, &names)?);
        return Ok(all);
    }
    let shown = root.display();
    let why = if all.left_out.is_empty() {
        format!(
            "no folder in it has a graph, a model or an archive (`graphmill serve {shown}` \
             serves the folder itself)"
        )
    } else {
        all.left_out.join("; ")
    };
    Err(format!("there is nothing to serve in `{shown}`: {why}"))
}

/// Lists chosen folders of a repository: `name`, or `name=path` for a folder under another name.
///
/// # Errors
/// The first folder that cannot be served, with the reason.
pub(in crate::cli) fn named_in(root: &Path, names: &[&str]) -> Result<Repository, String> {
    let mut all = Repository::default();
    for given in names {
        let (name, path) = given.split_once('=').unwrap_or((given, given));
        let (name, path) = (name.trim(), path.trim());
        if let Some(why) = config::wrong_name(name) {
            return Err(format!("`--models {given}`: the name {why}"));
        }
        if all.config.graphs.iter().any(|graph| graph.name == name) {
            return Err(format!("`--models` names `{name}` twice"));
        }
        let one = folder_of(root, path).and_then(|path| one_in(&path, name, None, &mut all.notes));
        let one = one.map_err(|why| format!("`--models {given}`: {why}"))?;
        all.config.graphs.extend(one.graphs);
    }
    Ok(all)
}

/// Returns a reader of single models of a repository, for clients that load them. `chosen` are its
/// folders with other names, as for [`named_in`].
pub(in crate::cli) fn reader(root: &Path, chosen: &[String]) -> ModelReader {
    let root = root.to_owned();
    let named = chosen.iter().filter_map(|given| given.split_once('='));
    let named = named.map(|(name, path)| (name.trim().to_owned(), root.join(path.trim())));
    let named: BTreeMap<String, PathBuf> = named.collect();
    ModelReader::new(move |name, config| {
        let shown = shortened(name, SHOWN_BYTES);
        if let Some(why) = config::wrong_name(name) {
            return Err(format!("the name `{shown}` {why}"));
        }
        let folder = named.get(name).cloned();
        let folder = folder.unwrap_or_else(|| root.join(name));
        // An absolute path would lead out of the repository.
        if name.starts_with('/') || !folder.is_dir() {
            return Err(format!("the repository has no model `{shown}`"));
        }
        let mut notes = Vec::new();
        let one = one_in(&folder, name, config, &mut notes)?;
        for why in &notes {
            tracing::warn!("{why}");
        }
        Ok(one.graphs)
    })
}

/// Maximum number of folders that a message lists.
const LISTED: usize = 20;

/// Returns the path of a folder in a repository.
///
/// # Errors
/// If it does not exist; the message lists the folders that do.
pub(in crate::cli) fn folder_of(root: &Path, name: &str) -> Result<PathBuf, String> {
    let path = root.join(name);
    // An archive of TorchServe gets its own error later.
    if path.exists() || path.extension().is_some_and(|end| end == "mar") {
        return Ok(path);
    }
    let (all, shown) = (folders_in(root)?, root.display());
    let near = suggest::nearest(name, all.iter().map(String::as_str));
    let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
    let listed = match all.as_slice() {
        [] => "no folder with a graph or a model".to_owned(),
        names => {
            let first = &names[..names.len().min(LISTED)];
            let is_cut = first.len() < names.len();
            let more = if is_cut { ", ..." } else { "" };
            format!("`{}`{more}", first.join("`, `"))
        }
    };
    Err(format!(
        "`{shown}` has no folder `{name}`{near} (it has {listed})"
    ))
}

/// Returns the configuration of one folder of a repository. `config` is JSON that replaces its
/// `config.pbtxt`.
fn one_in(
    folder: &Path,
    name: &str,
    config: Option<&str>,
    notes: &mut Vec<String>,
) -> Result<Config, String> {
    // A `config.json` beside a graph counts only if the folder is served by itself.
    if let Some(file) = graph_in(folder) {
        return match config {
            None => one_graph(&file, folder, Some(name)),
            Some(_) => Err("it is a graph, which has no `config`".to_owned()),
        };
    }
    if config.is_some() || triton::is_model(folder) {
        let loaded = triton::load(folder, name, config);
        notes.extend(loaded.lines(Severity::Warning));
        let errors = loaded.lines(Severity::Error);
        if !errors.is_empty() {
            return Err(errors.join("; "));
        }
        return Ok(Config {
            graphs: loaded.graphs,
            ..Config::default()
        });
    }
    match ServeSource::from_path(folder)? {
        ServeSource::Graph { file, base } => one_graph(&file, &base, Some(name)),
        ServeSource::Model(model) => one_model(&model, Some(name), &ModelFlags::default()),
        ServeSource::Named(order) => Err(format!("`{}` is not a folder", order.name)),
        ServeSource::Configuration(file)
        | ServeSource::Models(file)
        | ServeSource::Repository(file) => Err(format!(
            "`{}` lists its own graphs: serve it with --config_path",
            file.display()
        )),
    }
}

/// Returns the folders of a repository that have a graph or a model, by their path in it.
fn folders_in(root: &Path) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    look(root, root, &mut found)?;
    found.sort();
    Ok(found)
}

/// Returns a warning for each folder of a repository in which nothing was `found`.
fn empty_in(root: &Path, found: &[String]) -> Result<Vec<String>, String> {
    let firsts = found.iter().filter_map(|name| name.split('/').next());
    let firsts: BTreeSet<&str> = firsts.collect();
    let mut empty = Vec::new();
    for path in entries(root)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() && !name.starts_with('.') && !firsts.contains(&*name) {
            empty.push(format!(
                "`{}` is left out: there is no graph in it, no model, no `{}` and no version with a \
                 `model.onnx`, such as `1/model.onnx`",
                shown(&name),
                triton::FILE
            ));
        }
    }
    Ok(empty)
}

/// Maximum number of bytes of a name in an error.
const SHOWN_BYTES: usize = 100;

/// Maximum depth of nested folders.
const DEPTH: usize = 8;

/// Collects the folders in `folder` that can be served, by their path in `root`.
fn look(root: &Path, folder: &Path, found: &mut Vec<String>) -> Result<(), String> {
    let inside = folder.strip_prefix(root).unwrap_or(Path::new(""));
    let (mut folders, mut is_served) = (Vec::new(), false);
    for path in entries(folder)? {
        if path.is_dir() {
            folders.push(path);
        } else {
            is_served |= rank(&path).is_some()
                || path.ends_with("graph.pbtxt")
                || path.ends_with(triton::FILE);
        }
    }
    is_served |= folder.join("1/graph.pbtxt").is_file() || triton::is_model(folder);
    if is_served && inside != Path::new("") {
        found.push(inside.display().to_string());
    } else if inside.components().count() < DEPTH {
        for folder in folders {
            look(root, &folder, found)?;
        }
    }
    Ok(())
}
