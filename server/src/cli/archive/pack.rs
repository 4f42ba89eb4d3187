//! `graphmill pack`: packs a folder into an archive.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use tar::{Builder, Header};

use super::{ChecksumReader, FORMAT, MANIFEST, MAX_FILES, Manifest, PackedFile};
use crate::{
    cli::{
        report,
        source::{ServeSource, entries},
    },
    config,
};

#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(in crate::cli) struct PackArguments {
    /// Folder with a graph, a model (`.gguf`, `.onnx`) or a config.json, and all files that they
    /// need.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// Archive to write [default: the name of the folder, with `.gmar`].
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Model name in requests [default: the name of the folder]. The graphs of a config.json keep
    /// their own names.
    #[arg(long, value_name = "NAME")]
    model_name: Option<String>,
    /// Overwrites the archive if it exists.
    #[arg(long)]
    force: bool,
}

/// Writes the archive, and prints its path and its number of files.
pub(in crate::cli) fn run(arguments: &PackArguments) -> Result<ExitCode, String> {
    let folder = &arguments.folder;
    let shown = folder.display();
    let whole = folder
        .canonicalize()
        .map_err(|error| format!("cannot find `{shown}`: {error}"))?;
    ServeSource::from_path(&whole)?;
    let of_folder = whole.file_name().unwrap_or_default().to_string_lossy();
    let name = arguments.model_name.as_deref().unwrap_or(&of_folder);
    if let Some(why) = config::wrong_name(name).or(name.contains('/').then_some("has a slash")) {
        return Err(format!(
            "the name `{name}` {why}: give another with --model_name"
        ));
    }
    let file = arguments.file.clone();
    let file = file.unwrap_or_else(|| PathBuf::from(format!("{name}.{}", super::ENDING)));
    if file.exists() && !arguments.force {
        let shown = file.display();
        return Err(format!("`{shown}` already exists: --force overwrites it"));
    }
    let mut paths = Vec::new();
    collect(&whole, &whole, &mut paths)?;
    paths.sort();
    let summed = paths.iter().map(|path| sum(&whole, path));
    let manifest = Manifest {
        format: FORMAT,
        name: name.to_owned(),
        files: summed.collect::<Result<_, _>>()?,
    };
    let unwritable = |error: io::Error| format!("cannot write `{}`: {error}", file.display());
    // The file gets its name once it is complete.
    let place = match file.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let mut beside = tempfile::NamedTempFile::new_in(place).map_err(unwritable)?;
    write(beside.as_file_mut(), &whole, &manifest).map_err(unwritable)?;
    let written = beside.persist(&file);
    written.map_err(|error| unwritable(error.error))?;
    let count = manifest.files.len();
    report::print(&format!("{}: {count} files\n", file.display()))
}

fn write(file: &mut File, folder: &Path, manifest: &Manifest) -> io::Result<()> {
    let mut archive = Builder::new(file);
    let text = serde_json::to_vec_pretty(manifest)?;
    archive.append_data(&mut header(text.len() as u64), MANIFEST, &*text)?;
    for PackedFile {
        path,
        bytes,
        sha256,
    } in &manifest.files
    {
        let mut from = ChecksumReader::new(File::open(folder.join(path))?);
        archive.append_data(&mut header(*bytes), path, &mut from)?;
        if from.finish() != (*bytes, sha256.clone()) {
            return Err(io::Error::other(format!(
                "`{path}` changed while it was read"
            )));
        }
    }
    archive.into_inner()?.sync_all()
}

/// Creates the header of an entry. It contains no user and no time, so archives are reproducible.
fn header(bytes: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_size(bytes);
    header.set_mode(0o644);
    header
}

/// Collects the files below a folder, without hidden ones, by their paths in `root`.
fn collect(root: &Path, folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), String> {
    let unreadable = |error| format!("cannot read `{}`: {error}", folder.display());
    for path in entries(folder)? {
        let name = path.file_name().unwrap_or_default();
        if name.to_string_lossy().starts_with('.') {
            continue;
        }
        let kind = fs::metadata(&path).map_err(unreadable)?;
        // Links to folders could form cycles. Links to files are followed.
        if kind.is_dir() && !path.is_symlink() {
            collect(root, &path, found)?;
        } else if kind.is_file() && found.len() < MAX_FILES {
            found.push(path.strip_prefix(root).unwrap_or(&path).to_owned());
        } else {
            let shown = path.display();
            return Err(if kind.is_file() {
                format!("the folder has more than {MAX_FILES} files")
            } else {
                format!("`{shown}` cannot be packed: expected a file or a folder")
            });
        }
    }
    Ok(())
}

fn sum(folder: &Path, path: &Path) -> Result<PackedFile, String> {
    let shown = path.display();
    let unreadable = |error| format!("cannot read `{shown}`: {error}");
    let file = File::open(folder.join(path)).map_err(unreadable)?;
    let mut summed = ChecksumReader::new(file);
    io::copy(&mut summed, &mut io::sink()).map_err(unreadable)?;
    let (bytes, sha256) = summed.finish();
    let path = path
        .to_str()
        .ok_or_else(|| format!("the path `{shown}` is not UTF-8"))?;
    Ok(PackedFile {
        path: path.to_owned(),
        bytes,
        sha256,
    })
}
