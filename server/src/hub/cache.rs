//! Hugging Face's cache of models on this machine, in the layout that its own programs use:
//! `models--org--repo/{blobs,refs,snapshots}`.

use std::{
    collections::HashSet,
    env, fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use graphmill_engine::read_text;

use super::{
    ModelName,
    choice::{RepositoryFile, Sum, choose, has_model, is_projector, projector},
};

/// The cache, as the path of its folder.
#[derive(Clone, Debug)]
pub(crate) struct Cache(PathBuf);

/// Variables that name the folder, most specific first, each with the path below it.
const FOLDERS: [(&str, &str); 5] = [
    ("HF_HUB_CACHE", ""),
    ("HUGGINGFACE_HUB_CACHE", ""),
    ("HF_HOME", "hub"),
    ("XDG_CACHE_HOME", "huggingface/hub"),
    ("HOME", ".cache/huggingface/hub"),
];

/// Prefix of the names of model folders.
const PREFIX: &str = "models--";

/// Returns the value of a variable that is not empty.
pub(super) fn given(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// The paths of a file and its download.
pub(super) struct DownloadPaths {
    /// Path of the complete file.
    pub(super) end: PathBuf,
    /// Path of the part that was downloaded, until the file is complete.
    pub(super) partial: PathBuf,
    /// Lock file, held by the process that downloads the file.
    pub(super) lock: PathBuf,
    /// Path of the symbolic link in the snapshot, and its target; `None` outside of the cache.
    pub(super) link: Option<(PathBuf, PathBuf)>,
}

/// A model file in the cache.
#[derive(Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct CachedFile {
    pub(crate) repository: String,
    /// Path of the file in the repository.
    pub(crate) file: String,
    pub(crate) bytes: u64,
    /// Path of the file on this machine, which `serve` accepts.
    pub(crate) path: PathBuf,
}

impl Cache {
    /// Returns the cache that the environment names.
    pub(crate) fn from_environment() -> Result<Self, String> {
        let named = FOLDERS.iter().find_map(|(variable, below)| {
            let folder = PathBuf::from(given(variable)?);
            Some(Self(folder.join(below)))
        });
        let none = "there is no cache folder: set HF_HUB_CACHE, HF_HOME or HOME";
        named.ok_or_else(|| none.to_owned())
    }

    /// Returns the folder of access tokens.
    pub(super) fn home(&self) -> PathBuf {
        let named = given("HF_HOME").map(PathBuf::from);
        let usual = || Some(PathBuf::from(given("HOME")?).join(".cache/huggingface"));
        named.or_else(usual).unwrap_or_else(|| self.0.clone())
    }

    /// Returns the folder of a repository.
    pub(crate) fn folder(&self, repository: &str) -> PathBuf {
        let name = repository.replace('/', "--");
        self.0.join(format!("{PREFIX}{name}"))
    }

    fn snapshot(&self, repository: &str, commit: &str) -> PathBuf {
        self.folder(repository).join("snapshots").join(commit)
    }

    /// Returns the paths for a file of a commit.
    pub(super) fn place(
        &self,
        repository: &str,
        commit: &str,
        path: &str,
        sum: &Sum,
    ) -> DownloadPaths {
        let folder = self.folder(repository);
        let (Sum::Sha256(digits) | Sum::GitBlob(digits)) = sum;
        let up = "../".repeat(path.split('/').count() + 1);
        let locks = self.0.join(".locks");
        let locks = locks.join(folder.file_name().unwrap_or_default());
        DownloadPaths {
            end: folder.join("blobs").join(digits),
            partial: folder.join("blobs").join(format!("{digits}.incomplete")),
            lock: locks.join(format!("{digits}.lock")),
            link: Some((
                self.snapshot(repository, commit).join(path),
                PathBuf::from(format!("{up}blobs/{digits}")),
            )),
        }
    }

    /// Stores the commit of `main`.
    pub(super) fn remember(&self, repository: &str, commit: &str) -> io::Result<()> {
        let refs = self.folder(repository).join("refs");
        fs::create_dir_all(&refs)?;
        let new = refs.join(format!("main.{}", std::process::id()));
        fs::write(&new, commit)?;
        fs::rename(new, refs.join("main"))
    }

    /// Returns the snapshots on this machine with their files. The snapshot of `main` comes first.
    pub(super) fn snapshots(&self, repository: &str) -> Vec<(PathBuf, Vec<RepositoryFile>)> {
        let folder = self.folder(repository);
        let main = read_text(&folder.join("refs/main")).unwrap_or_default();
        let mut snapshots = folders_in(&folder.join("snapshots")).unwrap_or_default();
        snapshots.sort_by_key(|snapshot| !snapshot.ends_with(main.trim()));
        let files = |snapshot: PathBuf| {
            let files = repository_files(&snapshot);
            (snapshot, files)
        };
        snapshots.into_iter().map(files).collect()
    }

    /// Lists the model files in all repositories and snapshots.
    pub(crate) fn list(&self) -> Result<Vec<CachedFile>, String> {
        let mut found = Vec::new();
        for folder in folders_in(&self.0).map_err(|error| self.unreadable(&error))? {
            let name = folder.file_name().unwrap_or_default().to_string_lossy();
            let Some(name) = name.strip_prefix(PREFIX) else {
                continue;
            };
            let repository = name.replacen("--", "/", 1);
            for snapshot in folders_in(&folder.join("snapshots")).unwrap_or_default() {
                for (file, bytes) in files_in(&snapshot) {
                    if file.to_ascii_lowercase().ends_with(".gguf") {
                        found.push(CachedFile {
                            repository: repository.clone(),
                            path: snapshot.join(&file),
                            file,
                            bytes,
                        });
                    }
                }
            }
        }
        found.sort_by(|a, b| (&a.repository, &a.file).cmp(&(&b.repository, &b.file)));
        Ok(found)
    }

    fn unreadable(&self, error: &io::Error) -> String {
        format!("cannot read the cache `{}`: {error}", self.0.display())
    }

    /// Removes a repository, or the files that the name selects. Returns the number of bytes freed.
    pub(crate) fn remove(&self, name: &ModelName) -> Result<u64, String> {
        let folder = self.folder(&name.repository);
        let failed = |error: io::Error| format!("cannot remove `{}`: {error}", folder.display());
        let blobs = || -> u64 {
            let all = files_in(&folder.join("blobs"));
            all.into_iter().map(|(_, bytes)| bytes).sum()
        };
        let before = blobs();
        if !folder.is_dir() {
            let (repository, cache) = (&name.repository, self.0.display());
            return Err(format!("`{repository}` is not in the cache `{cache}`"));
        }
        let Some(wanted) = &name.wanted else {
            fs::remove_dir_all(&folder).map_err(failed)?;
            return Ok(before);
        };
        let mut links = Vec::new();
        for (snapshot, mut files) in self.snapshots(&name.repository) {
            // The target is outside of the cache.
            if snapshot.is_symlink() {
                continue;
            }
            // A snapshot without the model keeps its files.
            let mut gone: Vec<String> = match (choose(&files, name), projector(&files, wanted)) {
                (Ok(choice), _) => choice.model.iter().map(|it| it.path.clone()).collect(),
                (Err(_), Some(projector)) => vec![projector.path.clone()],
                (Err(_), None) => continue,
            };
            files.retain(|file| !gone.contains(&file.path));
            if !has_model(&files) {
                // Projectors are of no use without a model.
                files.retain(is_projector);
                gone.extend(files.into_iter().map(|file| file.path));
            }
            links.extend(gone.iter().map(|path| snapshot.join(path)));
        }
        if links.is_empty() {
            return Err(format!(
                "`{name}` is not in the cache: `graphmill list` lists its contents"
            ));
        }
        let targets = links.iter().filter_map(|it| it.canonicalize().ok());
        let targets: Vec<PathBuf> = targets.collect();
        for link in &links {
            fs::remove_file(link).map_err(failed)?;
        }
        let kept = self.linked(&name.repository);
        let own = folder.join("blobs").canonicalize();
        for blob in targets {
            // The target may be a file outside of the cache, and several links may have the same
            // target.
            let is_own = blob.parent() == own.as_deref().ok();
            if is_own && !kept.contains(&blob) && blob.exists() {
                fs::remove_file(blob).map_err(failed)?;
            }
        }
        let freed = before.saturating_sub(blobs());
        let left = self.snapshots(&name.repository);
        if left.iter().all(|(_, files)| files.is_empty()) {
            fs::remove_dir_all(&folder).map_err(failed)?;
        }
        Ok(freed)
    }

    /// Returns the targets of all links in the snapshots of a repository.
    fn linked(&self, repository: &str) -> HashSet<PathBuf> {
        let snapshots = folders_in(&self.folder(repository).join("snapshots"));
        let mut targets = HashSet::new();
        for snapshot in snapshots.unwrap_or_default() {
            let files = files_in(&snapshot).into_iter();
            targets.extend(files.filter_map(|(file, _)| snapshot.join(file).canonicalize().ok()));
        }
        targets
    }
}

/// Returns the paths for a file that is downloaded into a folder of its own.
pub(super) fn place_in(folder: &Path, path: &str) -> DownloadPaths {
    // Path that Hugging Face's own programs use, too.
    let beside = folder.join(".cache/huggingface/download");
    let name = path.replace('/', "--");
    DownloadPaths {
        end: folder.join(path),
        partial: beside.join(format!("{name}.incomplete")),
        lock: beside.join(format!("{name}.lock")),
        link: None,
    }
}

fn folders_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        read => read?,
    };
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut folders = paths.collect::<io::Result<Vec<_>>>()?;
    folders.retain(|path| path.is_dir());
    Ok(folders)
}

/// Returns the files below a folder, with paths relative to it.
pub(super) fn repository_files(folder: &Path) -> Vec<RepositoryFile> {
    let file = |(path, size)| RepositoryFile {
        path,
        size,
        sum: None,
    };
    files_in(folder).into_iter().map(file).collect()
}

/// Returns the complete files below a folder: relative paths, and sizes in bytes. Unreadable ones
/// are skipped.
fn files_in(folder: &Path) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(inner) = folders.pop() {
        for entry in fs::read_dir(inner).into_iter().flatten().flatten() {
            let path = entry.path();
            // Size of a link's target. Broken links are skipped.
            let Ok(metadata) = fs::metadata(&path) else {
                continue;
            };
            if metadata.is_file() {
                let inside = path.strip_prefix(folder).ok().and_then(Path::to_str);
                found.extend(inside.map(|inside| (inside.to_owned(), metadata.len())));
            } else if !path.is_symlink() && !path.ends_with(".cache") {
                folders.push(path);
            }
        }
    }
    found.sort();
    found
}
