//! The last configuration in which all graphs loaded. It is saved in a file with the texts of its
//! graphs and subgraphs, so that a server can start with it after the files were broken. Models are
//! not saved; their stamps show if they have changed.

use std::{
    fs, io,
    path::{self, Path, PathBuf},
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use chrono::{SecondsFormat, Utc};
use graphmill_engine::{Subgraph, read_regular, read_text};
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

use super::Servables;
use crate::{
    config::{self, Canary, Config, GraphEntry, Observation, Redaction, Serving},
    replace::replace,
};

/// Version of the file's format; others are not read.
const FORMAT: u32 = 1;

/// Store of the last good configuration of a `config.json`.
#[derive(Clone, Debug)]
pub(crate) struct Keeper {
    file: PathBuf,
    source: PathBuf,
}

/// A stored configuration, and what has changed since then.
pub(crate) struct LastGood {
    pub(crate) config: Config,
    /// Description of its file and its time.
    pub(crate) told: String,
    /// Files that have changed or disappeared since then.
    pub(crate) changed: Vec<PathBuf>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedConfig {
    format: u32,
    /// Time when it was stored, for people.
    time: String,
    source: PathBuf,
    /// Text of the configuration, for people.
    config: Option<String>,
    graphs: Vec<SavedGraph>,
    subgraphs: Vec<SavedSubgraph>,
    canaries: Vec<Canary>,
    places: Vec<PathBuf>,
    /// Absent in files of older versions.
    #[serde(default)]
    observation: SavedObservation,
    models: Vec<ModelStamp>,
}

/// The stored setting for payloads and their redaction.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedObservation {
    hides_payloads: bool,
    redact: Vec<String>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedGraph {
    name: String,
    /// Absent in files of older versions.
    #[serde(default)]
    aliases: Vec<String>,
    version: Option<u64>,
    base: PathBuf,
    file: PathBuf,
    subconfig: PathBuf,
    serving: Serving,
    text: Option<Arc<str>>,
    beside: Vec<SavedSubgraph>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedSubgraph {
    file: String,
    text: String,
}

/// The properties that distinguish versions of a file.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelStamp {
    file: PathBuf,
    bytes: u64,
    /// Time of the last change, since 1970.
    modified: Duration,
}

impl Keeper {
    /// Creates the store of the configuration `source` in a folder, which is created if missing.
    pub(crate) fn new(folder: &Path, source: &Path) -> io::Result<Self> {
        let source = path::absolute(source)?;
        fs::create_dir_all(folder)?;
        let digest = digest(&SHA256, source.as_os_str().as_encoded_bytes());
        let first: &[u8; 8] = digest.as_ref().first_chunk().expect("it has 32 bytes");
        let name = source.file_stem().unwrap_or_default().to_string_lossy();
        let file = folder.join(format!("{name}-{:016x}.json", u64::from_be_bytes(*first)));
        Ok(Self { file, source })
    }

    /// Stores the served configuration, if all of its graphs are loaded.
    pub(super) fn keep(&self, servables: &Servables) {
        let mut required = servables.iter().filter(|servable| !servable.is_optional());
        if required.any(|servable| servable.state_name().is_failed()) {
            return;
        }
        let file = self.file.display();
        match self.write(servables) {
            Ok(true) => tracing::info!("stored the configuration in `{file}`"),
            Ok(false) => {}
            Err(error) => tracing::warn!("cannot store the configuration in `{file}`: {error}"),
        }
    }

    /// Writes the file. Returns false if nothing has changed.
    fn write(&self, servables: &Servables) -> io::Result<bool> {
        let mut kept = SavedConfig::new(servables, &self.source)?;
        if let Ok(before) = self.read() {
            kept.time.clone_from(&before.time);
            if kept == before {
                return Ok(false);
            }
        }
        kept.time = Utc::now().to_rfc3339_opts(SecondsFormat::Secs, true);
        let mut text = serde_json::to_vec_pretty(&kept)?;
        text.push(b'\n');
        replace(&self.file, &text, 0o600)?;
        Ok(true)
    }

    fn read(&self) -> Result<SavedConfig, String> {
        let file = self.file.display();
        let text = read_regular(&self.file).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => format!(
                "no configuration of `{}` is stored: `{file}` does not exist",
                self.source.display()
            ),
            _ => format!("cannot read the stored configuration `{file}`: {error}"),
        })?;
        let kept: SavedConfig = serde_json::from_slice(&text)
            .map_err(|error| format!("the stored configuration `{file}` is damaged: {error}"))?;
        if kept.format != FORMAT {
            let why = format!("has the format {}: expected {FORMAT}", kept.format);
            return Err(format!("the stored configuration `{file}` {why}"));
        }
        Ok(kept)
    }

    /// Returns the stored configuration. The error is the reason why there is none.
    pub(crate) fn find(&self) -> Result<LastGood, String> {
        let kept = self.read()?;
        let is_same = |stamp: &&ModelStamp| ModelStamp::read(&stamp.file).as_ref() == Some(*stamp);
        let changed = kept.models.iter().filter(|stamp| !is_same(stamp));
        Ok(LastGood {
            changed: changed.map(|stamp| stamp.file.clone()).collect(),
            told: format!("as it was at {} (`{}`)", kept.time, self.file.display()),
            config: kept.config().map_err(|what| {
                let file = self.file.display();
                format!("the stored configuration `{file}` is damaged: {what}")
            })?,
        })
    }
}

impl SavedConfig {
    fn new(servables: &Servables, source: &Path) -> io::Result<Self> {
        let config = &servables.config;
        let mut graphs = Vec::new();
        for entry in &config.graphs {
            let entry = servables.servable(entry).sources().entry(entry);
            graphs.push(SavedGraph::new(entry)?);
        }
        let files = servables.seen();
        let is_model = |it: &&Path| *it != source && it.extension().is_none_or(|it| it != "pbtxt");
        let models = files.paths().filter(is_model);
        let models = models.filter_map(|path| ModelStamp::read(&path::absolute(path).ok()?));
        let places = config.places.iter().map(path::absolute);
        let is_served = |text: &String| {
            let now = config::parse(source, text).config;
            let ids =
                |config: &Config| config.graphs.iter().map(GraphEntry::id).collect::<Vec<_>>();
            now.is_some_and(|now| ids(&now) == ids(config))
        };
        Ok(Self {
            format: FORMAT,
            time: String::new(),
            source: source.to_owned(),
            config: read_text(source).ok().filter(is_served),
            graphs,
            subgraphs: config.subgraphs.iter().map(SavedSubgraph::new).collect(),
            canaries: config.canaries.clone(),
            places: places.collect::<io::Result<_>>()?,
            observation: SavedObservation {
                hides_payloads: !config.observation.payloads,
                redact: config.observation.redact.patterns().to_vec(),
            },
            models: models.collect(),
        })
    }

    fn config(self) -> Result<Config, String> {
        let graphs = self.graphs.into_iter().map(SavedGraph::entry);
        Ok(Config {
            graphs: graphs.collect::<Result<_, _>>()?,
            subgraphs: subgraphs(self.subgraphs)?,
            canaries: self.canaries,
            places: self.places,
            observation: Observation {
                payloads: !self.observation.hides_payloads,
                redact: Redaction::new(&self.observation.redact)?,
            },
        })
    }
}

impl SavedGraph {
    fn new(entry: GraphEntry) -> io::Result<Self> {
        let beside = entry.beside.iter().flat_map(|all| all.iter());
        Ok(Self {
            name: entry.name,
            aliases: entry.aliases,
            version: entry.version,
            base: path::absolute(entry.base)?,
            file: path::absolute(entry.file)?,
            subconfig: path::absolute(entry.subconfig)?,
            serving: entry.serving,
            text: entry.text,
            beside: beside.map(SavedSubgraph::new).collect(),
        })
    }

    fn entry(self) -> Result<GraphEntry, String> {
        Ok(GraphEntry {
            aliases: self.aliases,
            version: self.version,
            subconfig: self.subconfig,
            serving: self.serving,
            text: self.text,
            beside: Some(subgraphs(self.beside)?.into()),
            ..GraphEntry::new(self.name, self.base, self.file)
        })
    }
}

impl SavedSubgraph {
    fn new(subgraph: &Subgraph) -> Self {
        Self {
            file: subgraph.file.to_string(),
            text: subgraph.text.to_string(),
        }
    }
}

fn subgraphs(kept: Vec<SavedSubgraph>) -> Result<Vec<Subgraph>, String> {
    let subgraph = |kept: SavedSubgraph| {
        let SavedSubgraph { file, text } = kept;
        Subgraph::typed(file.clone(), text).ok_or_else(|| format!("`{file}` has no `type` in it"))
    };
    kept.into_iter().map(subgraph).collect()
}

impl ModelStamp {
    /// Reads the properties of an existing file.
    fn read(file: &Path) -> Option<Self> {
        let metadata = fs::metadata(file).ok().filter(fs::Metadata::is_file)?;
        let modified = metadata.modified().unwrap_or(UNIX_EPOCH);
        Some(Self {
            file: file.to_owned(),
            bytes: metadata.len(),
            modified: modified.duration_since(UNIX_EPOCH).unwrap_or_default(),
        })
    }
}
