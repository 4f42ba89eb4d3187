//! Flags of OpenVINO Model Server that edit or list instead of serving: list the models of a
//! folder, add a graph to a configuration, or remove one.

use std::path::Path;

use clap::Args;

use super::sources::Sources;
use crate::{
    cli::{heading, report, source},
    config::{self, edit},
};

#[derive(Debug, Args)]
#[command(rename_all = "snake_case", next_help_heading = heading::EDITING)]
pub(super) struct Editing {
    /// Prints the folders of `--model_repository_path` that `serve` would serve, one per line, and
    /// the ones left out on standard error.
    #[arg(long, requires = "model_repository_path", conflicts_with_all = ["add_to_config", "remove_from_config"])]
    list_models: bool,
    /// Adds a graph to the file `--config_path`.
    ///
    /// `--model_name` is its name. Its folder is `--model_path`, or the folder of that name in
    /// `--model_repository_path`.
    #[arg(long, requires = "model_name", conflicts_with = "remove_from_config")]
    add_to_config: bool,
    /// Removes the graph `--model_name` from the file `--config_path`.
    #[arg(long, requires = "model_name")]
    remove_from_config: bool,
}

impl Editing {
    /// Lists or edits as the flags demand; `None` if none is given.
    pub(super) fn run(&self, named: &Sources) -> Option<Result<(), String>> {
        let name = named.model_name.as_deref().unwrap_or_default();
        let file = named.config_to_edit();
        if self.list_models {
            let root = named.model_repository_path.as_deref();
            Some(list(root.unwrap_or(Path::new("."))))
        } else if self.add_to_config {
            Some(add(&file, name, named.folder().as_deref()))
        } else if self.remove_from_config {
            Some(edit::remove(&file, name))
        } else {
            None
        }
    }
}

fn list(root: &Path) -> Result<(), String> {
    let found = source::all_in(root)?;
    for graph in &found.config.graphs {
        report::print(&format!("{}\n", graph.name))?;
    }
    for why in &found.left_out {
        report::note(why);
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
    edit::add(file, name, folder)?;
    let has = |graph: &str| folder.join(graph).is_file();
    if !has("graph.pbtxt") && !has("1/graph.pbtxt") {
        let shown = folder.display();
        report::note(&format!(
            "`{shown}` has no graph.pbtxt yet: `graphmill serve {shown} --emit_graph > \
             {shown}/graph.pbtxt` writes one for its model"
        ));
    }
    Ok(())
}
