//! Unpacks archives into a cache of folders, named by checksum. An archive that was unpacked before
//! is not unpacked again.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, ErrorKind, Read as _, Seek as _},
    path::{Path, PathBuf},
};

use tar::{Archive, EntryType};

use super::{
    ChecksumReader, FORMAT, MANIFEST, MAX_FILES, MAX_MANIFEST_BYTES, MAX_NAME_BYTES, Manifest,
    PackedFile, is_inside,
};
use crate::{
    cli::{user_folder, variable},
    config,
    telemetry::log::shown,
};

/// Returns the folder of an archive, unpacked.
pub(in crate::cli) fn unpacked(file: &Path) -> Result<PathBuf, String> {
    unpack(file, &cache()?).map_err(|why| format!("cannot unpack `{}`: {why}", file.display()))
}

/// Returns the name of an unpacked archive that contains `file`; `None` for other files.
pub(in crate::cli) fn name_of(file: &Path) -> Option<String> {
    let inside = file.strip_prefix(cache().ok()?).ok()?;
    // Behind the folder named by the checksum.
    let name = inside.components().nth(1)?.as_os_str();
    Some(name.to_str()?.to_owned())
}

/// Refuses an archive with a path or an attribute that is too long, as the tar reader loads them
/// whole.
fn check_names(file: &mut File) -> Result<(), String> {
    let told = |error: io::Error| error.to_string();
    let mut archive = Archive::new(&mut *file);
    for entry in archive.entries_with_seek().map_err(told)?.raw(true) {
        let entry = entry.map_err(|error| damaged(&error))?;
        if entry.header().entry_type() != EntryType::Regular && entry.size() > MAX_NAME_BYTES {
            return Err(format!("it has a name of more than {MAX_NAME_BYTES} bytes"));
        }
    }
    file.rewind().map_err(told)
}

/// Explains an error of the tar reader.
fn damaged(error: &io::Error) -> String {
    let why = error.to_string();
    if error.kind() == ErrorKind::UnexpectedEof || why.contains("failed to read entire block") {
        return "it is damaged: it ends too early".to_owned();
    }
    format!("it is damaged or not an archive: {why}")
}

/// Returns the cache folder of unpacked archives.
fn cache() -> Result<PathBuf, String> {
    let of_service = variable("CACHE_DIRECTORY").map(PathBuf::from);
    let of_user = || Some(user_folder("XDG_CACHE_HOME", ".cache")?.join("graphmill"));
    let cache = of_service
        .or_else(of_user)
        .ok_or("there is no cache folder: set XDG_CACHE_HOME or HOME")?;
    Ok(cache.join("archives"))
}

fn unpack(file: &Path, cache: &Path) -> Result<PathBuf, String> {
    let told = |error: io::Error| error.to_string();
    if !fs::metadata(file).map_err(told)?.is_file() {
        return Err("it is not a file".to_owned());
    }
    let mut archive = File::open(file).map_err(told)?;
    check_names(&mut archive)?;
    let mut summed = ChecksumReader::new(&mut archive);
    io::copy(&mut summed, &mut io::sink()).map_err(told)?;
    let (_, sum) = summed.finish();
    archive.rewind().map_err(told)?;
    let mut archive = Archive::new(archive);
    let mut entries = archive.entries().map_err(told)?;
    let first = entries
        .next()
        .ok_or("it is empty")?
        .map_err(|error| damaged(&error))?;
    if first.path().map_err(told)? != Path::new(MANIFEST) || first.size() > MAX_MANIFEST_BYTES {
        return Err(format!(
            "its first entry is not `{MANIFEST}`: create archives with `graphmill pack`"
        ));
    }
    let Manifest {
        format,
        name,
        files,
    } = serde_json::from_reader(first.take(MAX_MANIFEST_BYTES))
        .map_err(|error| format!("`{MANIFEST}`: {error}"))?;
    if format != FORMAT {
        return Err(format!("its format is {format}: expected {FORMAT}"));
    }
    if config::wrong_name(&name).is_some() || !is_inside(Path::new(&name)) || name.contains('/') {
        return Err(format!("`{MANIFEST}`: `{name}` is not a folder name"));
    }
    if files.len() > MAX_FILES {
        return Err(format!("it has more than {MAX_FILES} files"));
    }
    let place = cache.join(sum);
    let folder = place.join(&name);
    if folder.is_dir() {
        return Ok(folder);
    }
    fs::create_dir_all(cache).map_err(|error| format!("`{}`: {error}", cache.display()))?;
    // The folder gets its name once it is complete.
    let beside = tempfile::tempdir_in(cache).map_err(told)?;
    let root = beside.path().join(&name);
    fs::create_dir(&root).map_err(told)?;
    let files = files.into_iter();
    let mut expected: BTreeMap<PathBuf, PackedFile> = files
        .map(|packed| (PathBuf::from(&packed.path), packed))
        .collect();
    for entry in entries {
        let mut entry = entry.map_err(|error| damaged(&error))?;
        let path = entry.path().map_err(told)?.into_owned();
        let wrong = |why: &str| format!("`{}` {why}", shown(&path.display().to_string()));
        let packed = expected.remove(&path);
        let packed = packed.ok_or_else(|| wrong("is not in the manifest, or occurs twice"))?;
        // Entries other than files may claim a wrong size, or be links to other places.
        if !is_inside(&path) || entry.header().entry_type() != EntryType::Regular {
            return Err(wrong("is not a file inside the folder"));
        }
        let to = root.join(&path);
        fs::create_dir_all(to.parent().unwrap_or(&root)).map_err(told)?;
        let mut to = File::create_new(&to).map_err(told)?;
        let mut summed = ChecksumReader::new(&mut entry);
        io::copy(&mut summed, &mut to).map_err(|error| damaged(&error))?;
        if summed.finish() != (packed.bytes, packed.sha256) {
            return Err(wrong("is damaged: its checksum differs from the manifest"));
        }
    }
    if let Some(missing) = expected.keys().next() {
        return Err(format!(
            "`{}` is missing",
            shown(&missing.display().to_string())
        ));
    }
    let beside = beside.keep();
    if let Err(error) = fs::rename(&beside, &place) {
        // A failure here loses nothing.
        fs::remove_dir_all(&beside).ok();
        if !folder.is_dir() {
            return Err(format!("`{}`: {error}", place.display()));
        }
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use tar::{Builder, Header};

    use super::*;

    const TEXT: &[u8] = b"hello";
    const SUM: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

    /// An archive with this list of files, and an entry of a name and a kind.
    fn archive(folder: &Path, listed: &str, sum: &str, path: &str, kind: EntryType) -> PathBuf {
        let file = folder.join("a.gmar");
        let mut archive = Builder::new(File::create(&file).expect("writable"));
        let manifest = format!(
            r#"{{"format": 1, "name": "a", "files": [{{"path": "{listed}", "bytes": 5, "sha256": "{sum}"}}]}}"#
        );
        let mut add = |path: &str, kind: EntryType, bytes: &[u8]| {
            let mut header = Header::new_gnu();
            let name = &mut header.as_gnu_mut().expect("of this form").name;
            name[..path.len()].copy_from_slice(path.as_bytes());
            header.set_entry_type(kind);
            header.set_size(bytes.len() as u64);
            header.set_cksum();
            archive.append(&header, bytes).expect("writable");
        };
        add(MANIFEST, EntryType::Regular, manifest.as_bytes());
        add(path, kind, TEXT);
        archive.finish().expect("writable");
        file
    }

    #[test]
    fn a_file_is_unpacked_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = archive(folder.path(), "b/c.txt", SUM, "b/c.txt", EntryType::Regular);
        let cache = folder.path().join("cache");
        let first = unpack(&file, &cache).expect("unpacked");
        assert_eq!(fs::read(first.join("b/c.txt")).expect("a file"), TEXT);
        assert_eq!(unpack(&file, &cache), Ok(first));
        assert_eq!(fs::read_dir(&cache).expect("a folder").count(), 1);
    }

    #[test]
    fn nothing_leaves_the_folder_and_nothing_unlisted_is_unpacked() {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = folder.path().join("cache");
        let zeros = "0".repeat(64);
        for (listed, sum, path, kind, said) in [
            ("../x", SUM, "../x", EntryType::Regular, "not a file inside"),
            (
                "/tmp/x",
                SUM,
                "/tmp/x",
                EntryType::Regular,
                "not a file inside",
            ),
            ("x", SUM, "x", EntryType::Symlink, "not a file inside"),
            ("x", SUM, "x", EntryType::GNUSparse, ""),
            ("x", SUM, "y\u{1b}", EntryType::Regular, "`y\\u{1b}`"),
            ("x", SUM, "y", EntryType::Regular, "not in the manifest"),
            ("x", &zeros, "x", EntryType::Regular, "damaged"),
        ] {
            let file = archive(folder.path(), listed, sum, path, kind);
            let error = unpack(&file, &cache).expect_err("refused");
            assert!(error.contains(said), "{path}: {error}");
            assert_eq!(fs::read_dir(&cache).expect("a folder").count(), 0, "{path}");
        }
        assert!(!folder.path().join("x").exists());
        let file = archive(folder.path(), "x", SUM, "x", EntryType::Regular);
        let mut name = Header::new_gnu();
        name.set_entry_type(EntryType::GNULongName);
        name.set_size(6 << 30);
        name.set_cksum();
        fs::write(&file, name.as_bytes()).expect("writable");
        let hole = File::options().append(true).open(&file).expect("writable");
        hole.set_len(7 << 30).expect("a hole");
        let error = unpack(&file, &cache).expect_err("refused");
        assert!(error.contains("a name of more than"), "{error}");
        assert!(unpack(Path::new("/dev/zero"), &cache).is_err());
        let file = folder.path().join("b.gmar");
        for text in ["", "not an archive", &"\0".repeat(4096)] {
            fs::write(&file, text).expect("writable");
            assert!(unpack(&file, &cache).is_err(), "{text}");
        }
    }
}
