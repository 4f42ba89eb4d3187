//! Atomic replacement of files, and the folders that they are in.

use std::{
    fs::{self, Permissions},
    io::{self, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::Path,
};

use tempfile::Builder;

/// Replaces a file with this content. No reader sees a part of it, and nothing remains of a failed
/// write. The file keeps its permissions; a new file gets `mode`.
pub(crate) fn replace(file: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut builder = Builder::new();
    let builder = builder.permissions(Permissions::from_mode(mode));
    let mut new = builder.tempfile_in(parent_folder(file))?;
    if let Ok(old) = fs::metadata(file) {
        new.as_file().set_permissions(old.permissions())?;
    }
    new.write_all(content)?;
    new.as_file().sync_all()?;
    new.persist(file)?;
    Ok(())
}

/// Returns the folder of a file: the current one for a bare name.
pub(crate) fn parent_folder(file: &Path) -> &Path {
    let folder = file.parent().filter(|it| !it.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}
