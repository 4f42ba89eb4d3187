//! Files that are replaced as a whole.

use std::{
    fs::{self, Permissions},
    io::{self, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::Path,
};

use tempfile::Builder;

/// Puts a file with this content in the place of another one, so that no reader sees a part of it,
/// and nothing is left of one that cannot be written. It has the permissions of the old one, or else
/// those of `mode`.
pub(crate) fn replace(file: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let folder = file.parent().filter(|it| !it.as_os_str().is_empty());
    let mut builder = Builder::new();
    let builder = builder.permissions(Permissions::from_mode(mode));
    let mut new = builder.tempfile_in(folder.unwrap_or(Path::new(".")))?;
    if let Ok(old) = fs::metadata(file) {
        new.as_file().set_permissions(old.permissions())?;
    }
    new.write_all(content)?;
    new.as_file().sync_all()?;
    new.persist(file)?;
    Ok(())
}
