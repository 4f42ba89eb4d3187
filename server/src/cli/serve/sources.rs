//! The flags that say what is served.

use std::path::{Path, PathBuf};

use clap::{ArgMatches, Args, parser::ValueSource};
use graphmill_engine::{Environment, Registry};
use graphmill_grammar::diag::has_errors;

use crate::{
    cli::{
        heading, report,
        source::{self, ModelFlags, Source},
    },
    config::{self, Config, subgraphs::Named},
    servable::compile_text,
};

#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(super) struct Sources {
    /// Model (`.gguf`), graph (`.pbtxt`), config.json, or folder with one of them [default: the
    /// current folder].
    #[arg(value_name = "MODEL")]
    model: Option<PathBuf>,
    /// config.json that lists the graphs.
    #[arg(help_heading = heading::MODELS, long, value_name = "FILE")]
    config_path: Option<PathBuf>,
    /// The same as MODEL.
    #[arg(help_heading = heading::MODELS, long, value_name = "PATH")]
    model_path: Option<PathBuf>,
    /// Model name in requests [default: the file name].
    #[arg(help_heading = heading::MODELS, long, value_name = "NAME")]
    pub(super) model_name: Option<String>,
    /// Folder of folders, each with a graph or a model. Serves all of them that can be served, or only
    /// `--model_name`.
    #[arg(help_heading = heading::MODELS, long, value_name = "FOLDER")]
    pub(super) model_repository_path: Option<PathBuf>,
    /// Prints the graph that the model would be served on, and exits.
    #[arg(help_heading = heading::MODELS, long)]
    pub(super) emit_graph: bool,
}

impl Sources {
    /// The configuration that is changed, instead of served. Older command lines have it behind
    /// `--add_to_config`.
    pub(super) fn edited(&self) -> PathBuf {
        let behind = self.model.as_ref().filter(|path| is_json(path));
        let named = self.config_path.as_ref().or(behind).cloned();
        named.unwrap_or_else(|| PathBuf::from("config.json"))
    }

    /// The folder of a graph, by its path or by its name in a repository.
    pub(super) fn folder(&self) -> Option<PathBuf> {
        let named = self.model.as_ref().filter(|path| !is_json(path));
        let path = self.model_path.as_ref().or(named).cloned();
        let repository = self.model_repository_path.as_ref();
        path.or_else(|| Some(repository?.join(self.model_name.as_deref()?)))
    }

    /// Finds what to serve. What the command line names counts more than what the environment does.
    pub(super) fn resolve(&self, given: &ArgMatches) -> Result<Source, String> {
        let all = [
            ("MODEL", "model", &self.model),
            ("--model_path", "model_path", &self.model_path),
            ("--config_path", "config_path", &self.config_path),
            (
                "--model_repository_path",
                "model_repository_path",
                &self.model_repository_path,
            ),
        ];
        let from = |wanted: ValueSource| -> Vec<(&str, &str, &Path)> {
            let named = all
                .iter()
                .filter(|(_, id, _)| given.value_source(id) == Some(wanted));
            named
                .filter_map(|(flag, id, path)| Some((*flag, *id, path.as_deref()?)))
                .collect()
        };
        let mut named = from(ValueSource::CommandLine);
        if named.is_empty() {
            named = from(ValueSource::EnvVariable);
        }
        match named.as_slice() {
            [] => Source::of(Path::new(".")).map_err(|why| {
                format!("{why} (`graphmill serve MODEL` names a model, a graph or a folder)")
            }),
            [(_, "config_path", file)] => Ok(Source::Configuration((*file).to_owned())),
            [(_, "model_repository_path", root)] => match &self.model_name {
                Some(name) => Source::of(&root.join(name)),
                None => Source::repository(root),
            },
            [(_, _, path)] => Source::of(path),
            [(first, ..), (second, ..), ..] => Err(format!(
                "{first} and {second} both say what to serve: use one of them"
            )),
        }
    }

    /// What is to be served of a source; nothing where diagnostics have said why not.
    pub(super) fn configuration(
        &self,
        source: &Source,
        flags: &ModelFlags,
    ) -> Result<Option<Config>, String> {
        let name = self.model_name.as_deref();
        match source {
            Source::Model(model) => source::one_model(model, name, flags).map(Some),
            Source::Graph { file, base } => {
                refuse(flags.any()?, source)?;
                source::one_graph(file, base, name).map(Some)
            }
            Source::Repository(root) => {
                refuse(flags.any()?, source)?;
                let found = source::all_in(root)?;
                for why in &found.left_out {
                    tracing::warn!("{why}");
                }
                Ok(Some(found.config))
            }
            Source::Configuration(file) => {
                refuse(name.map(|_| "model_name").or(flags.any()?), source)?;
                let loaded = config::load(file);
                report::show(&loaded.sources, &loaded.diagnostics);
                Ok(loaded.config)
            }
        }
    }

    /// The graph of a model; nothing where diagnostics have said why it would not be loaded.
    pub(super) fn emitted(source: &Source, flags: &ModelFlags) -> Result<Option<String>, String> {
        let Source::Model(model) = source else {
            return Err(format!(
                "`--emit_graph` is for models, and {} has its own graph",
                shown(source)
            ));
        };
        let text = source::text(model, source::kind(model, flags)?, flags)?;
        let file = PathBuf::from(format!("graph of {}", model.display()));
        let base = model.parent().unwrap_or(Path::new(""));
        let environment = Environment::new(Registry::global()).looking_only();
        let compiled = compile_text(&file, &*text, base, &environment, &Named::default());
        report::show(&compiled.sources, &compiled.diagnostics);
        Ok((!has_errors(&compiled.diagnostics)).then_some(text))
    }
}

fn is_json(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "json")
}

/// A source as it is told of.
pub(super) fn shown(source: &Source) -> String {
    let (Source::Configuration(path)
    | Source::Graph { file: path, .. }
    | Source::Model(path)
    | Source::Repository(path)) = source;
    format!("`{}`", path.display())
}

fn refuse(flag: Option<&str>, source: &Source) -> Result<(), String> {
    match flag {
        None => Ok(()),
        Some(flag) => Err(format!(
            "`--{flag}` (or its variable) is for a model that gets its graph here, and {} has its \
             own: change it there",
            shown(source)
        )),
    }
}
