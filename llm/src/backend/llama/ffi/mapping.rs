//! Pages of a model's file. llama.cpp maps the whole file and reads every page before it copies
//! most of them into a layout for the processor, or to a GPU. Computation then uses the copies.

use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::model::files::part_of;

/// The mapping of a model that is being loaded.
#[derive(Debug)]
pub(crate) struct Mapping {
    model: PathBuf,
    /// Mappings of the file that other engines made earlier.
    before: Vec<Range<usize>>,
}

impl Mapping {
    /// Prepares to release a mapping. Must be called before the model is loaded, with the resolved
    /// path of the file. Until the last release, no other thread may load the file.
    pub(crate) fn expect(model: &Path) -> Self {
        Self {
            model: model.to_owned(),
            before: mapped(model),
        }
    }

    /// Removes the pages from this process. They stay in the system's page cache, and come back one
    /// by one when they are read again. Does nothing if the system does not list mappings.
    pub(crate) fn release(&self) {
        for range in mapped(&self.model) {
            if self.before.contains(&range) {
                continue;
            }
            // SAFETY: the range is a shared, read-only mapping of a file, made by this load only.
            // So nothing unmaps it meanwhile, and later reads return the same contents from the
            // file.
            let released = unsafe { advise(&range, libc::MADV_DONTNEED) };
            if let Err(error) = released {
                tracing::debug!("the pages of the model's file stay in memory: {error}");
            }
        }
    }
}

/// Gives the system advice about memory, with `madvise`.
///
/// # Safety
/// The caller must accept what the advice does to the memory: `MADV_DONTNEED` discards its
/// contents.
pub(crate) unsafe fn advise(memory: &Range<usize>, advice: libc::c_int) -> io::Result<()> {
    let first = memory.start as *mut libc::c_void;
    // SAFETY: the caller's promise.
    if unsafe { libc::madvise(first, memory.len(), advice) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Returns the address ranges at which the files of a model are mapped. `model` is a resolved path.
pub(crate) fn mapped(model: &Path) -> Vec<Range<usize>> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    maps.lines()
        .filter_map(|line| range_of(line, model))
        .collect()
}

/// Returns the addresses in a line of `/proc/self/maps` if it is a shared, read-only mapping of
/// this file, or of another part of a split model.
fn range_of(line: &str, model: &Path) -> Option<Range<usize>> {
    let (addresses, access, path) = map_entry(line)?;
    let path = Path::new(path);
    let is_model = path.parent() == model.parent() && stem(path)? == stem(model)?;
    (access == "r--s" && is_model).then_some(addresses)
}

/// Splits a line of `/proc/self/maps` into the addresses, the access and the path, which is empty
/// for memory without a file.
pub(crate) fn map_entry(line: &str) -> Option<(Range<usize>, &str, &str)> {
    let mut words = line.splitn(6, ' ');
    let (addresses, access) = (words.next()?, words.next()?);
    // Offset, device and inode come before the path, and spaces pad it.
    let path = words.nth(3).unwrap_or_default().trim_start();
    let (start, end) = addresses.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    Some((address(start)?..address(end)?, access, path))
}

/// Returns the name of a file; for a part of a split model, the name without its number.
fn stem(file: &Path) -> Option<&str> {
    match part_of(file) {
        Some((stem, ..)) => Some(stem),
        None => file.file_name()?.to_str(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(access: &str, path: &str, model: &str) -> Option<Range<usize>> {
        let line =
            format!("7f0000001000-7f0000003000 {access} 00000000 fe:00 1234            {path}");
        range_of(&line, Path::new(model))
    }

    #[test]
    fn only_shared_mappings_of_the_model_are_found() {
        let range = Some(0x7f00_0000_1000..0x7f00_0000_3000);
        assert_eq!(found("r--s", "/m/a b.gguf", "/m/a b.gguf"), range);
        assert_eq!(
            found(
                "r--s",
                "/m/a-00002-of-00003.gguf",
                "/m/a-00001-of-00003.gguf"
            ),
            range
        );
        for (access, path) in [
            ("r--p", "/m/a.gguf"),
            ("rw-s", "/m/a.gguf"),
            ("r--s", "/m/b.gguf"),
            ("r--s", "/n/a.gguf"),
            ("r--s", "/m/a.gguf (deleted)"),
            ("r--s", ""),
        ] {
            assert_eq!(found(access, path, "/m/a.gguf"), None, "{access} {path}");
        }
        assert_eq!(range_of("", Path::new("/m/a.gguf")), None);
    }
}
