//! A folder of models, for `--models_dir`. Each model gets a graph of its own.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fs,
    path::{Path, PathBuf},
};

use graphmill_llm::{ModelKind, is_adapter, kind_of};
use parking_lot::Mutex;

use super::{
    ModelFlags, OF_MODEL, archive, entry_of,
    files::{PROJECTOR, graph_in, has_ending, is_onnx},
    graph::text_with,
    is_model, one_graph, triton,
};
use crate::{
    config::{self, Config, GraphEntry, Serving},
    telemetry::log::shown,
};

/// Maximum depth of nested folders.
const DEPTH: usize = 8;

/// Value of the option `mmproj` for a model without a projector.
const NO_PROJECTOR: &str = "none";

/// Warnings of the last listing, which are not repeated.
static TOLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Lists the models and graphs in a folder as they are now. Each is loaded by its first request. A
/// mistake in one is logged once, and does not affect the others.
pub(in crate::cli) fn models_in_folder(root: &Path) -> Config {
    let mut found = FolderScan::default();
    found.look(root, "", DEPTH);
    let mut told = TOLD.lock();
    for warning in found.warnings.difference(&told) {
        tracing::warn!("{warning}");
    }
    *told = found.warnings;
    Config {
        graphs: found.graphs.into_values().collect(),
        places: found.places,
        ..Config::default()
    }
}

#[derive(Default)]
struct FolderScan {
    graphs: BTreeMap<String, GraphEntry>,
    /// Folders whose changes add or remove models.
    places: Vec<PathBuf>,
    /// Folders visited, because links can form cycles.
    seen: HashSet<PathBuf>,
    /// Files and folders that are left out, with the reason.
    warnings: BTreeSet<String>,
}

impl FolderScan {
    /// Searches a folder; `name` is its path in the root folder, or empty.
    fn look(&mut self, folder: &Path, name: &str, depth: usize) {
        let whole = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        if !self.seen.insert(whole) {
            return;
        }
        self.places.push(folder.to_owned());
        if !name.is_empty()
            && let Some(file) = graph_in(folder)
        {
            match one_graph(&file, folder, Some(name)) {
                Ok(config) => config.graphs.into_iter().for_each(|it| self.add(it)),
                Err(why) => self.left_out(folder, &why),
            }
            return;
        }
        if folder.join(triton::FILE).is_file() {
            let why = "models of Triton are served with --model_repository_path";
            return self.left_out(folder, why);
        }
        let mut paths: Vec<PathBuf> = match fs::read_dir(folder) {
            Ok(entries) => entries.filter_map(|it| Some(it.ok()?.path())).collect(),
            Err(error) => return self.left_out(folder, &error.to_string()),
        };
        paths.sort();
        let (folders, mut files): (Vec<_>, Vec<_>) = paths.into_iter().partition(|it| it.is_dir());
        for file in files.iter().filter(|it| has_ending(it, &[archive::ENDING])) {
            let why = "archives are served one by one: `graphmill serve FILE`";
            self.left_out(file, why);
        }
        files.retain(|it| is_model(it));
        self.places.extend(files.iter().cloned());
        let (adapters, files): (Vec<_>, Vec<_>) = files.into_iter().partition(|it| is_adapter(it));
        for file in &adapters {
            let why = "it is an adapter: name it in `lora_adapters` of a graph";
            self.left_out(file, why);
        }
        let is_projector = |file: &PathBuf| stem_of(file).starts_with(PROJECTOR);
        let (projectors, mut models): (Vec<_>, Vec<_>) = files.into_iter().partition(is_projector);
        let stems: HashSet<String> = models.iter().map(|it| stem_of(it)).collect();
        models.retain(|model| {
            let stem = stem_of(model);
            let (_, number, first) = part_of(&stem);
            if number != 1 && !stems.contains(&first) {
                self.left_out(model, &format!("its first part `{first}` is missing"));
            }
            number == 1
        });
        for model in &models {
            let stem = stem_of(model);
            let own = part_of(&stem).0;
            let name = match models.len() {
                1 if !name.is_empty() => name.to_owned(),
                _ => below(name, own),
            };
            let several = Some(&projectors).filter(|_| models.len() > 1);
            let projector = several.and_then(|projectors| projector_of(own, projectors));
            match entry(model, name, projector.as_deref()) {
                Ok(entry) => self.add(entry),
                Err(why) => self.left_out(model, &why),
            }
        }
        if depth > 0 && (models.is_empty() || name.is_empty()) {
            for folder in &folders {
                let own = folder.file_name().unwrap_or_default().to_string_lossy();
                if !own.starts_with('.') {
                    self.look(folder, &below(name, &own), depth - 1);
                }
            }
        }
    }

    fn add(&mut self, mut graph: GraphEntry) {
        graph.serving = Serving {
            optional: true,
            on_demand: true,
            independent: true,
            ..Serving::default()
        };
        let (name, file) = (graph.name.clone(), graph.file.clone());
        if let Some(why) = config::wrong_name(&name) {
            self.left_out(&file, &format!("its name {name:?} {why}"));
        } else if let Some(other) = self.graphs.get(&name) {
            let other = model_path(&other.file);
            self.left_out(&file, &format!("`{other}` has the same name `{name}`"));
        } else {
            self.graphs.insert(name, graph);
        }
    }

    /// Records a warning about something that is not served.
    fn left_out(&mut self, path: &Path, why: &str) {
        let path = model_path(path);
        let why = why.strip_prefix(&format!("`{path}`: ")).unwrap_or(why);
        let (path, why) = (shown(&path), shown(why));
        self.warnings.insert(format!("`{path}` is left out: {why}"));
    }
}

/// Returns the path of an entry's file; of the model if its graph is built in.
fn model_path(file: &Path) -> String {
    let path = file.display().to_string();
    path.strip_prefix(OF_MODEL).unwrap_or(&path).to_owned()
}

/// Joins the name of a folder and the name of an entry in it.
fn below(folder: &str, name: &str) -> String {
    if folder.is_empty() {
        name.to_owned()
    } else {
        format!("{folder}/{name}")
    }
}

/// Returns the entry of a model. If its kind cannot be read, it gets the graph for models that
/// generate, whose loading then reports the error.
fn entry(model: &Path, name: String, projector: Option<&str>) -> Result<GraphEntry, String> {
    let flags = ModelFlags::default();
    let text = if is_onnx(model) {
        super::text(model, &flags)?
    } else {
        let kind = kind_of(model).unwrap_or(ModelKind::Generates);
        text_with(model, kind, &flags, projector)?
    };
    Ok(entry_of(model, name, text))
}

fn stem_of(file: &Path) -> String {
    let stem = file.file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

/// Splits the name of a part of a model into the model's name, the part's number, and the name of
/// the first part: 2 of `large-00002-of-00003`.
fn part_of(stem: &str) -> (&str, u32, String) {
    let split = || {
        let (rest, count) = stem.rsplit_once("-of-")?;
        let (name, number) = rest.rsplit_once('-')?;
        count.parse::<u32>().ok()?;
        let first = format!("{name}-{:0width$}-of-{count}", 1, width = number.len());
        Some((name, number.parse().ok()?, first))
    };
    split().unwrap_or_else(|| (stem, 1, String::new()))
}

/// Returns the projector of one of several models in a folder. `mmproj-NAME-f16.gguf` belongs to
/// models whose names begin with `NAME`; the longest match counts. `none` if no projector fits, and
/// `None` if there are no projectors.
fn projector_of(model: &str, projectors: &[PathBuf]) -> Option<String> {
    let model = model.to_lowercase();
    let fits = |path: &PathBuf| {
        let stem = stem_of(path).to_lowercase();
        let name = stem[PROJECTOR.len()..].trim_start_matches(['-', '_', '.']);
        let name = name.rsplit_once('-').map_or(name, |(name, _)| name);
        (!name.is_empty() && model.starts_with(name)).then_some(name.len())
    };
    let fitting = projectors.iter().filter(|path| fits(path).is_some());
    let path = fitting.max_by_key(|path| fits(path));
    let path = path.and_then(|path| std::path::absolute(path).ok());
    let path = path.and_then(|path| Some(path.to_str()?.to_owned()));
    path.or_else(|| (!projectors.is_empty()).then(|| NO_PROJECTOR.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn each_model_of_a_folder_is_listed_once_with_what_belongs_to_it() {
        let folder = tempfile::tempdir().expect("a folder");
        for file in [
            "alone.gguf",
            "big-00001-of-00002.gguf",
            "big-00002-of-00002.gguf",
            "eye-4b-q4.gguf",
            "mmproj-eye-4b-f16.gguf",
            "notes.txt",
            "org/chat/m.gguf",
            "org/chat/mmproj.gguf",
            "two/x.gguf",
            "two/y.gguf",
            "graph/graph.pbtxt",
            "graph/unused.gguf",
            ".hidden/h.gguf",
            "rest-00002-of-00002.gguf",
            "packed.gmar",
            "triton/config.pbtxt",
            "triton/1/model.gguf",
        ] {
            let file = folder.path().join(file);
            fs::create_dir_all(file.parent().expect("a folder")).expect("writable");
            fs::write(file, "").expect("writable");
        }
        let link = |to: &Path, name: &str| {
            let link = folder.path().join(name);
            std::os::unix::fs::symlink(to, link).expect("writable");
        };
        link(folder.path(), "org/back");
        link(Path::new("/dev/zero"), "endless.onnx");
        let pipe = Command::new("mkfifo")
            .arg(folder.path().join("pipe.onnx"))
            .status();
        assert!(pipe.expect("mkfifo runs").success());
        let huge = fs::File::create(folder.path().join("huge.onnx")).expect("writable");
        huge.set_len(1 << 40).expect("a hole");
        let mut found = FolderScan::default();
        found.look(folder.path(), "", DEPTH);
        let left_out = [
            (
                "rest-00002",
                "its first part `rest-00001-of-00002` is missing",
            ),
            ("packed.gmar", "served one by one"),
            ("triton", "--model_repository_path"),
            ("huge.onnx", ""),
        ];
        for (file, why) in left_out {
            let mut warnings = found.warnings.iter();
            let told = warnings.find(|it| it.contains(file) && it.contains(why));
            let told = told.unwrap_or_else(|| panic!("{file}: {:?}", found.warnings));
            assert_eq!(told.matches(file).count(), 1, "{told}");
        }
        let config = models_in_folder(folder.path());
        let names: Vec<&str> = config.graphs.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "alone",
                "big",
                "eye-4b-q4",
                "graph",
                "org/chat",
                "two/x",
                "two/y"
            ]
        );
        let projector = |name: &str| {
            let graph = config.graphs.iter().find(|it| it.name == name);
            let text = graph.and_then(|it| it.text.clone()).expect("a text");
            let option = text.lines().find(|line| line.contains("mmproj:"));
            option.map(|option| option.trim().to_owned())
        };
        assert_eq!(projector("alone").as_deref(), Some("mmproj: \"none\""));
        let of_eye = projector("eye-4b-q4").expect("it has one");
        assert!(of_eye.ends_with("mmproj-eye-4b-f16.gguf\""), "{of_eye}");
        assert_eq!(projector("org/chat"), None, "the engine finds it");
    }
}
