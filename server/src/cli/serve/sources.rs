//! Flags that name what is served.

use std::{
    fmt,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{ArgMatches, Args, parser::ValueSource};
use graphmill_engine::{Environment, Registry};
use graphmill_grammar::diag::has_errors;

use crate::{
    app::state::Options,
    cli::{
        heading, models, report,
        source::{self, ModelFlags, PendingModel, ServeSource},
    },
    config::{self, Config, GraphEntry, Lister, subgraphs::NamedSubgraphs},
    hub::Order,
    servable::compile_text,
};

#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(super) struct Sources {
    /// Model (`.gguf`, `.onnx`), graph (`.pbtxt`), config.json, archive (`.gmar`), folder with one of
    /// them, or model on Hugging Face (`org/repo`, `org/repo:Q4_K_M`) [default: the current folder].
    #[arg(value_name = "MODEL")]
    model: Option<PathBuf>,
    /// config.json that lists the graphs.
    #[arg(help_heading = heading::MODELS, long, value_name = "FILE")]
    config_path: Option<PathBuf>,
    /// Same as MODEL, as a flag.
    #[arg(help_heading = heading::MODELS, long, visible_aliases = ["model_id", "hf_repo"], alias = "model", value_name = "PATH")]
    model_path: Option<PathBuf>,
    /// Model on Hugging Face, downloaded into `--model_repository_path` if that is given.
    #[arg(help_heading = heading::MODELS, long, value_name = "NAME")]
    source_model: Option<PathBuf>,
    /// File to download from the repository, if the model's name does not select one.
    #[arg(help_heading = heading::MODELS, long, visible_alias = "hf_file", value_name = "FILE")]
    gguf_filename: Option<String>,
    /// Downloads files even if they already exist.
    #[arg(help_heading = heading::MODELS, long)]
    overwrite_models: bool,
    /// Downloads the model, prints its path, and exits.
    #[arg(help_heading = heading::MODELS, long)]
    pub(super) pull: bool,
    /// Model name in requests [default: the file name].
    #[arg(help_heading = heading::MODELS, long, visible_alias = "served_model_name", value_name = "NAME")]
    pub(super) model_name: Option<String>,
    /// Folder of subfolders, each with a graph, a model or an archive. Serves all that can be
    /// served, or only `--model_name`.
    #[arg(help_heading = heading::MODELS, long, visible_alias = "model_repository", alias = "model_store", value_name = "FOLDER")]
    pub(super) model_repository_path: Option<PathBuf>,
    /// Folder of models. Serves each model in it, and each folder in it with a model or a graph,
    /// under its own name. Models are loaded at their first request. Added and removed models are
    /// noticed while the server runs.
    #[arg(help_heading = heading::MODELS, long, value_name = "FOLDER")]
    models_dir: Option<PathBuf>,
    /// Additional names in requests for the model or graph, if only one is served; separated by
    /// commas.
    #[arg(help_heading = heading::MODELS, long, value_name = "NAME", value_delimiter = ',')]
    alias: Vec<String>,
    /// Answers requests that name no graph, or an unknown one, with the only graph that can answer,
    /// or with NAME if several can.
    ///
    /// The field `model` of answers has the name of that graph.
    #[arg(help_heading = heading::MODELS, long, value_name = "NAME", num_args = 0..=1, default_missing_value = "true")]
    any_model: Option<String>,
    /// Folders to serve in `--model_repository_path`, separated by commas. `NAME=PATH` serves a
    /// folder under another name; `all` serves all folders.
    #[arg(help_heading = heading::MODELS, long, alias = "load_model", value_name = "NAME", value_delimiter = ',', requires = "model_repository_path", conflicts_with = "model_name")]
    models: Vec<String>,
    /// `config.properties` of TorchServe. Same as giving it as MODEL.
    #[arg(help_heading = heading::MODELS, long, value_name = "FILE")]
    ts_config: Option<PathBuf>,
    /// Prints the graph generated for the model, and exits.
    #[arg(help_heading = heading::MODELS, long)]
    pub(super) emit_graph: bool,
}

impl Sources {
    /// Returns the configuration file to edit. Older command lines name it after `--add_to_config`.
    pub(super) fn config_to_edit(&self) -> PathBuf {
        let behind = self.model.as_ref().filter(|path| is_json(path));
        let named = self.config_path.as_ref().or(behind).cloned();
        named.unwrap_or_else(|| PathBuf::from("config.json"))
    }

    /// Returns the folder of a graph, from its path or from its name in a repository.
    pub(super) fn folder(&self) -> Option<PathBuf> {
        let named = self.model.as_ref().filter(|path| !is_json(path));
        let path = self.model_path.as_ref().or(named).cloned();
        let repository = self.model_repository_path.as_ref();
        path.or_else(|| Some(repository?.join(self.model_name.as_deref()?)))
    }

    /// Finds what to serve. The command line takes precedence over the environment.
    pub(super) fn resolve(&self, given: &ArgMatches) -> Result<ServeSource, String> {
        let all = [
            ("model", &self.model),
            ("model_path", &self.model_path),
            ("source_model", &self.source_model),
            ("config_path", &self.config_path),
            ("model_repository_path", &self.model_repository_path),
            ("models_dir", &self.models_dir),
        ];
        let from = |wanted: ValueSource| -> Vec<(&str, &Path)> {
            let all = all.into_iter();
            let named = all.filter(|(id, _)| given.value_source(id) == Some(wanted));
            named
                .filter_map(|(id, path)| Some((id, path.as_deref()?)))
                .collect()
        };
        let mut named = from(ValueSource::CommandLine);
        if named.is_empty() {
            named = from(ValueSource::EnvVariable);
        }
        if named.iter().any(|(id, _)| *id == "source_model") {
            named.retain(|(id, _)| *id != "model_repository_path");
        }
        let taken = self.any_model.as_deref();
        let mut source = match (named.as_slice(), taken.filter(|it| Path::new(it).is_file())) {
            ([], Some(model)) => Err(format!(
                "`--any_model {model}` names the graph that answers, not a model: put the flag after the model"
            )),
            ([], None) => ServeSource::from_path(Path::new(".")).map_err(|why| {
                format!("{why} (`graphmill serve MODEL` names a model, a graph or a folder)")
            }),
            ([("config_path", file)], _) => Ok(ServeSource::Configuration((*file).to_owned())),
            ([("models_dir", root)], _) => ServeSource::models(root),
            ([("model_repository_path", root)], _) => match &self.model_name {
                Some(name) if !source::triton::is_model(&root.join(name)) => {
                    ServeSource::from_path(&source::folder_of(root, name)?)
                }
                _ => ServeSource::repository(root),
            },
            ([("model", path)], _) => ServeSource::given(path),
            ([(_, path)], _) => ServeSource::from_path(path),
            ([(first, _), (second, _), ..], _) => {
                let flag = |id: &str| match id {
                    "model" => "MODEL".to_owned(),
                    flag => format!("--{flag}"),
                };
                Err(format!(
                    "{} and {} both name what to serve: use one of them",
                    flag(first),
                    flag(second)
                ))
            }
        }?;
        self.set_download(&mut source)?;
        Ok(source)
    }

    /// Applies the flags for downloads, and refuses them for anything else.
    fn set_download(&self, source: &mut ServeSource) -> Result<(), String> {
        let given = [
            ("gguf_filename", self.gguf_filename.is_some()),
            ("overwrite_models", self.overwrite_models),
            ("pull", self.pull),
        ];
        let ServeSource::Named(order) = source else {
            return match given.iter().find(|(_, given)| *given) {
                None => Ok(()),
                Some((flag, _)) => Err(format!(
                    "`--{flag}` is for a model on Hugging Face, such as org/repo, but {source} is a local path"
                )),
            };
        };
        order.name.wanted = self.gguf_filename.clone().or(order.name.wanted.take());
        order.again = self.overwrite_models;
        let root = self.model_repository_path.as_ref();
        let root = root.filter(|_| self.source_model.is_some());
        order.folder = root.map(|root| root.join(&order.name.repository));
        Ok(())
    }

    /// Downloads a model without serving it.
    pub(super) fn pulled(source: &ServeSource) -> Result<ExitCode, String> {
        match source {
            ServeSource::Named(order) => models::pulled(order),
            other => Err(format!("there is nothing to download for {other}")),
        }
    }

    /// Returns the configuration of a source; `None` if it has errors, which have been shown.
    pub(super) fn configuration(
        &self,
        source: &ServeSource,
        flags: &ModelFlags,
    ) -> Result<Option<Config>, String> {
        let name = self.model_name.as_deref();
        let is_single = matches!(
            source,
            ServeSource::Model(_) | ServeSource::Named(_) | ServeSource::Graph { .. }
        );
        if !self.alias.is_empty() && !is_single {
            return Err(format!(
                "`--alias` names one model or graph, and {source} has several: an entry of config.json has `aliases`"
            ));
        }
        let config = match source {
            ServeSource::Model(model) => source::one_model(model, name, flags)?,
            ServeSource::Named(order) => source::one_named(order, name, flags)?,
            ServeSource::Graph { file, base } => {
                refuse(flags.any()?, source)?;
                source::one_graph(file, base, name)?
            }
            ServeSource::Models(root) => {
                if let Some(flag) = name.map(|_| "model_name").or(flags.any()?) {
                    return Err(format!(
                        "`--{flag}` (or its variable) is for one model, but {source} has several: set options in a \
                         graph.pbtxt in the model's folder, which `serve MODEL --emit_graph` writes"
                    ));
                }
                source::models_in_folder(root)
            }
            ServeSource::Repository(root) => {
                refuse(flags.any()?, source)?;
                let names = self.models.iter().map(|name| name.trim());
                let names: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
                let mut found = match names.as_slice() {
                    [] | ["all" | "*"] => source::all_in(root)?,
                    names => source::named_in(root, names)?,
                };
                for why in found.left_out.iter().chain(&found.notes) {
                    tracing::warn!("{why}");
                }
                let is_wanted = |graph: &GraphEntry| name.is_none_or(|name| graph.name == name);
                found.config.graphs.retain(is_wanted);
                found.config
            }
            ServeSource::Configuration(file) => {
                refuse(name.map(|_| "model_name").or(flags.any()?), source)?;
                let loaded = config::load(file);
                report::show(&loaded.sources, &loaded.diagnostics);
                report::show(&loaded.sources, &loaded.lacking);
                return Ok(loaded.config);
            }
        };
        if is_single {
            self.with_aliases(config).map(Some)
        } else {
            Ok(Some(config))
        }
    }

    fn with_aliases(&self, mut config: Config) -> Result<Config, String> {
        for graph in &mut config.graphs {
            graph.aliases.clone_from(&self.alias);
        }
        match config::aliases::wrong(&config.graphs).into_iter().next() {
            Some((_, why)) => Err(format!("`--alias`: {why}")),
            None => Ok(config),
        }
    }

    /// Sets the options for listing models again and for requests with any name.
    pub(super) fn apply(&self, source: &ServeSource, options: &mut Options) -> Result<(), String> {
        if let Some(folder) = &options.registration {
            if !folder.is_dir() {
                let shown = folder.display();
                return Err(format!("`--allow_registration {shown}`: no such folder"));
            }
            if !matches!(source, ServeSource::Configuration(_)) {
                tracing::warn!(
                    "`--allow_registration` has no effect: graphs are registered by adding them to a \
                     config.json, but {source} is not one"
                );
            }
        }
        match source {
            ServeSource::Configuration(file) => options.config_path = Some(file.clone()),
            ServeSource::Models(root) => {
                let root = root.clone();
                options.lister = Some(Lister::new(move || source::models_in_folder(&root)));
                // The folder may be empty at first.
                options.wait_for_models = true;
            }
            ServeSource::Repository(root) => {
                options.model_reader = Some(source::reader(root, &self.models));
            }
            ServeSource::Graph { .. } | ServeSource::Model(_) | ServeSource::Named(_) => {}
        }
        match self.any_model.as_deref() {
            None | Some("false" | "0" | "no" | "off") => {}
            Some("true" | "1" | "yes" | "on") => options.any_model = true,
            Some(name) => {
                let graphs = &options.config.graphs;
                let is_it = |graph: &GraphEntry| {
                    graph.name == name || graph.aliases.iter().any(|alias| alias == name)
                };
                if options.lister.is_none() && !graphs.iter().any(is_it) {
                    let mut names: Vec<&str> = graphs.iter().map(|it| it.name.as_str()).collect();
                    names.sort_unstable();
                    names.dedup();
                    return Err(format!(
                        "`--any_model {name}` (or GRAPHMILL_ANY_MODEL): {source} has no graph `{name}`, but `{}`; \
                         `--any_model=true` selects the only one that can answer",
                        names.join("`, `")
                    ));
                }
                options.any_model = true;
                options.default_model = Some(name.to_owned());
            }
        }
        Ok(())
    }

    /// Returns the text of a model's graph; `None` if it has errors, which have been shown.
    pub(super) fn emitted(
        &self,
        source: &ServeSource,
        flags: &ModelFlags,
    ) -> Result<Option<String>, String> {
        let prepared =
            |wanted: PendingModel| models::shown_while(|| source::text_of_wanted(&wanted, flags));
        let (text, of) = match source {
            ServeSource::Repository(root) if self.model_name.is_some() => {
                let found = source::all_in(root)?;
                let name = self.model_name.as_deref();
                let mut graphs = found.config.graphs.into_iter().rev();
                let graph = graphs.find(|graph| Some(graph.name.as_str()) == name);
                let text = graph.and_then(|graph| graph.text);
                let text = text.ok_or_else(|| found.left_out.join("; "))?;
                (text.to_string(), root.join(name.unwrap_or_default()))
            }
            ServeSource::Model(model) => {
                (prepared(PendingModel::File(model.clone()))?, model.clone())
            }
            ServeSource::Named(order) => (
                prepared(PendingModel::Named(order.clone()))?,
                PathBuf::from(order.name.to_string()),
            ),
            other => {
                return Err(format!(
                    "`--emit_graph` is for models, and {other} has its own graph"
                ));
            }
        };
        let file = PathBuf::from(format!("graph of {}", of.display()));
        let base = of.parent().unwrap_or(Path::new(""));
        let environment = Environment::new(Registry::global()).looking_only();
        let named = NamedSubgraphs::default();
        let compiled = compile_text(&file, &*text, base, &environment, &named);
        report::show(&compiled.sources, &compiled.diagnostics);
        Ok((!has_errors(&compiled.diagnostics)).then_some(text))
    }
}

fn is_json(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "json")
}

impl fmt::Display for ServeSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(Order { name, .. }) => write!(f, "`{name}`"),
            Self::Configuration(path)
            | Self::Graph { file: path, .. }
            | Self::Model(path)
            | Self::Models(path)
            | Self::Repository(path) => write!(f, "`{}`", path.display()),
        }
    }
}

fn refuse(flag: Option<&str>, source: &ServeSource) -> Result<(), String> {
    let Some(flag) = flag else {
        return Ok(());
    };
    let why = match (flag, source) {
        ("model_name", _) => "names its graphs: change the name there",
        (_, ServeSource::Graph { .. }) => "is a graph: set the option there",
        _ => "has graphs: set the option in the file of a graph",
    };
    Err(format!(
        "`--{flag}` (or its variable) is for a model without its own graph, but {source} {why}"
    ))
}
